"""What a model remembers between calls: making caches, fanning them out, cutting them back."""
