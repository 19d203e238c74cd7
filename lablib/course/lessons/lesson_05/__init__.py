"""Lesson 05: what it shows and asks."""
