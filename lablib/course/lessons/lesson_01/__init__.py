"""Lesson 01: what it shows and asks."""
