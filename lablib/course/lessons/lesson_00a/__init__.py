"""Lesson 00a: what it shows and asks."""
