"""Judges exercises: what a student wrote, beside what the task asks for."""
