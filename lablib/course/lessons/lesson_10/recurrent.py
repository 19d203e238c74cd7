"""The smallest layer that cannot be trimmed; lesson 10 shows it, and its exercises lend it."""

import numpy as np


class Recurrent:
    """A layer whose memory is one number: each token halves it and is added to it, in place."""

    def __init__(self):
        self.state = np.zeros(1)
        self.log = []  # every token it has read, replays included

    def read(self, tokens):
        """Read tokens (a list of numbers)."""
        for token in tokens:
            self.state *= 0.5
            self.state += token
            self.log.append(token)
