"""Lesson 14: what it shows and asks."""
