"""Lesson 00: what it shows and asks."""
