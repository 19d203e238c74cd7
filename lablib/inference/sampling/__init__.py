"""Act 1: from a row of logits to a token."""
