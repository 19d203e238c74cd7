"""Lesson 13: what it shows and asks."""
