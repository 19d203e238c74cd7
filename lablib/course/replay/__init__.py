"""Replays: other settings tried on texts that were drawn once, and their costs."""
