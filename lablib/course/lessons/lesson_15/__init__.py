"""Lesson 15: what it shows and asks."""
