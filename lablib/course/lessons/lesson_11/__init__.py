"""Lesson 11: what it shows and asks."""
