"""Act 3: a cheap guess of several tokens, verified by the target in one forward."""
