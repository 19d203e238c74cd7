"""Act 2: many completions, one answer."""
