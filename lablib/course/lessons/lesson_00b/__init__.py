"""Lesson 00b: what it shows and asks."""
