"""Lesson 12: a real model, and what of the lessons before holds for it."""
