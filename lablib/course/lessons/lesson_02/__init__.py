"""Lesson 02: what it shows and asks."""
