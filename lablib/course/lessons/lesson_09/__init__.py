"""Lesson 09: what it shows and asks."""
