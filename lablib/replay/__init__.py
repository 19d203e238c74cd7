"""What could have been: other settings tried on what was drawn once, without a model."""
