"""Lesson 16: three open problems, and how they are scored."""
