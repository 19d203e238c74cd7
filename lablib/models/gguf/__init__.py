"""Opens GGUF files, in which one file holds a model's shape, its weights and its tokenizer.

``reading`` puts a file together: ``header`` tells what is in it, ``families`` translates keys and
names into those of mlx-lm's models, ``weights`` turns stored blocks into float32, ``tokenizer``
makes lists of tokens one that reads. What is not known is refused by its name: left out, it would
be another model.
"""
