"""The widgets and exercises of each notebook: one folder a lesson."""
