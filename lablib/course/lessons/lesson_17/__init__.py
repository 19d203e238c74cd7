"""Lesson 17: what it shows and asks."""
