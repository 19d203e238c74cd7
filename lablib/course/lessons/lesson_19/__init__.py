"""Lesson 19: what it shows and asks."""
