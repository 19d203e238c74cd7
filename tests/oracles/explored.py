"""All that speculation can write: every draw of the engine's real code is explored."""

from collections.abc import Callable
from typing import Any

from lablib.course.lessons.lesson_08.enumeration import exactly
from lablib.inference.completions import speculative_batch
from lablib.inference.sampling import transforms
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import rules
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator

import mlx.core as mx
import numpy as np
from oracles.tables import Exploration

PROMPT, SIZE, N = (1, 0, 1), 3, 3


def explorer(monkeypatch: Any) -> Callable[..., np.ndarray]:
    """Return a function of rule, drafter and options: what they write, ``(V,) * N`` chances.

    ``drafter()`` makes the target and the drafter anew for each run. With ``beside`` the text is
    row 0 of a batch.
    """
    exploration, raced = Exploration(), {}

    def choose(number, weights):
        """Sequence 0 is explored; the others of a batch take what is likeliest."""
        return exploration.choose(weights) if number == 0 else int(np.argmax(weights))

    def numbers(sampler, first, n=1, size=0):
        """Instead of a random number the sequence's own, so that ``draw`` knows whose it draws."""
        return mx.array([[row] * n for row in range(len(sampler.rows))])

    def draw(weights, number):
        drawn = zip(number[:, 0].tolist(), np.array(weights), strict=True)
        return mx.array([[choose(*each)] for each in drawn], mx.int32)

    def race(sampler, weights, drafts):
        """Draw a draft under shared noise, and note from what: the target's token depends on it."""
        ahead = 0 if drafts is None else drafts.shape[1]
        if not ahead:
            raced.clear()
        raced[ahead] = dict(enumerate(np.array(weights[:, 0])))
        return draw(weights[:, 0], numbers(sampler, 0))

    def after(draft, q, p):
        """The target's token when the draft is known: what the noise is known to be."""
        kept, following = exactly(rules.coupled, [p, p], [q], [draft])
        return kept[0] * following[0] + kept[1] * np.eye(SIZE)[draft]

    best = TextSampler.draw

    def target_tokens(sampler, scores, drafts):
        if sampler.greedy:  # a drafter's at temperature 0: there is nothing to explore
            return best(sampler, scores, drafts)
        p = np.array(sampler.probabilities(scores, drafts)[0])
        written = []
        drafted = [[]] * len(p) if drafts is None else drafts.tolist()
        for number, (rows, limit) in enumerate(zip(p, drafted, strict=True)):
            tokens = []
            for place, row in enumerate(rows):
                agreed = tokens[: len(limit)] == limit[: len(tokens)]
                # After the first disagreement nothing depends on the draws any more.
                if sampler.coupled and agreed and place < len(limit):
                    looked_up = {number: np.eye(SIZE)[limit[place]]}
                    row = after(limit[place], raced.get(place, looked_up)[number], row)
                tokens.append(choose(number, row) if agreed else 0)
            written.append(tokens)
        raced.clear()  # what is looked up in the next round takes no noise
        return mx.array(written, mx.int32), mx.ones((len(p), p.shape[1]), mx.bool_)

    monkeypatch.setattr(transforms, "draw", draw)
    monkeypatch.setattr(TextSampler, "numbers", numbers)
    monkeypatch.setattr(TextSampler, "draw", target_tokens)
    monkeypatch.setattr(TextSampler, "race", race)

    def explore(rule, drafter, options, gamma=2, beside=None):
        def program():
            raced.clear()
            model, draft = drafter()
            given = {"max_tokens": N, "draft_tokens": gamma, "rule": rule, **options}
            if beside is not None:
                return tuple(speculative_batch(model, draft, [PROMPT, beside], **given).tokens[0])
            iterator = SpeculativeTokenIterator(model, draft, PROMPT, **given)
            tokens = tuple(token.id for token in iterator)
            assert iterator.cache[0].offset == len(PROMPT) + N - 1
            return tokens

        out = np.zeros((SIZE,) * N)
        for tokens, weight in exploration.run(program).items():
            out[tokens] = weight
        return out

    return explore
