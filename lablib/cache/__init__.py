"""Remember between a model's calls: make caches, fan them out, cut them back, share prefixes."""
