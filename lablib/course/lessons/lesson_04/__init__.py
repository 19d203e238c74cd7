"""Lesson 04: what it shows and asks."""
