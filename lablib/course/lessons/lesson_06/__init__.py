"""Lesson 06: what it shows and asks."""
