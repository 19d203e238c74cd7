"""Lesson 08: what it shows and asks."""
