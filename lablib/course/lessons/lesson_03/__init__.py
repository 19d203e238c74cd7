"""Lesson 03: what it shows and asks."""
