"""What could have been: other settings tried on what was drawn once, and at what they cost."""
