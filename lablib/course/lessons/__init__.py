"""What each notebook shows and asks: one folder a lesson, its widgets beside its exercises."""
