"""Lesson 18: what it shows and asks."""
