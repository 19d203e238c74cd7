"""Lesson 10: what it shows and asks."""
