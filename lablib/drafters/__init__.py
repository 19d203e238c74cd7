"""Drafters: where guesses come from. The engine runs any of them, and any of yours.

    NGram        whatever followed the last few tokens when they last occurred (prompt lookup)
    EarlyExit    the target without its last layers (Zhang et al. 2023, 2309.08168)
    Head         a trained block on the target's hidden states
    Tree         any of these that has a model, with several guesses at a place

What a drafter has to have, and the one that runs a smaller model, is in
``inference/speculation/drafters.py``; it says how to write one.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.drafters.early_exit": "EarlyExit first_layers",
        "lablib.drafters.head": "Head",
        "lablib.drafters.ngram": "NGram",
        "lablib.drafters.tree": "Tree",
    },
)
