"""Lesson 07: what it shows and asks."""
