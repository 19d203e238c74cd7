"""Sharpen a model over whole texts: draw from p^α, by Metropolis and Hastings.

A low temperature sharpens each token on its own: it prefers what is likely *now*. p^α over whole
texts also asks what can follow: a token after which one continuation is good beats one after which
many are bad, and low temperature cannot know. No verifier is needed (Karan and Du 2025,
2510.14901). A chain proposes to write the end of its text anew, from a random place on, and accepts
in the proportion that leaves p^α as it is (Hastings 1970). In the paper the text grows block by
block; here the first text is whole. Particles do it, too: ``smc(lm, prompts, n, power=alpha)``.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any

from lablib.inference import arguments
from lablib.inference.decoding.rows import Samples
from lablib.inference.sampling import random_numbers
from lablib.inference.sampling.row import Row
from lablib.inference.steering import requests
from lablib.unknown_options import checks_options
from lablib.validation import integer, number

import numpy as np


@checks_options
def power_sample(
    lm: Any,
    prompts: Sequence[Sequence[int]],
    n: int,
    alpha: float,
    *,
    steps: int = 10,
    proposal: float | None = None,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    seed: int | None = None,
) -> list[Samples]:
    """Run ``n`` chains for each prompt, whose texts come to be distributed as p^alpha.

    Args:
        lm: as in ``smc``.
        prompts: token ids, a list for each prompt.
        n: how many chains. Each is a sample of its own; all take their steps together.
        alpha: the power, up to 1e30; 1 is the model itself.
        steps: proposals for each chain. 0 leaves the start: every token drawn from its own
            p^proposal, a low temperature.
        proposal: the power at which proposals are drawn, token by token; None: alpha.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end one and belong to it; None: the model's own.
        seed: the same seed gives the same chains; None draws afresh.

    Returns:
        The samples of each prompt. Their ``stats`` have the ``acceptance_rate``, the share of
        proposals that were accepted; and the ``trace (steps + 1, n)``, log p of each chain's text
        after each step, the start included.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work.

    Example:
        >>> lm = lablib.AsyncMlxLM(model, tokenizer)
        >>> how = {"steps": 3, "max_tokens": 4, "seed": 0}
        >>> (sharp,) = lablib.inference.power_sample(lm, [prompt], 2, alpha=4.0, **how)
        >>> len(sharp), len(sharp.stats["trace"])
        (2, 4)
    """
    request = requests.read_request(lm, prompts, max_tokens, stop_tokens, seed)
    n, steps = arguments.check_n(n), integer("steps", steps, 0)
    alpha = number("alpha", alpha, 0.0, 1e30)
    proposal = alpha if proposal is None else number("proposal", proposal, 0.0, 1e30)
    texts = [text for own in request.begin(n) for text in own]
    keys = [text.key for text in texts]
    request.finish(texts, proposal)
    trace, accepted = [[sum(text.logprobs) for text in texts]], np.zeros(len(texts))
    uses = request.max_tokens + np.array([[0, 1]])  # of the place and the acceptance
    for step in range(1, steps + 1):
        fresh = [random_numbers.key(key, step) for key in keys]
        lots = random_numbers.uniforms(np.array(fresh, np.uint64)[:, None], uses)
        places = [int(u * len(text.tokens)) for u, text in zip(lots[:, 0], texts, strict=True)]
        begun = zip(texts, places, fresh, strict=True)
        proposed = [text.copy(key, place) for text, place, key in begun]
        request.finish(proposed, proposal)
        for i, place in enumerate(places):
            ratio = log_accept(texts[i], proposed[i], place, alpha)
            if lots[i, 1] < math.exp(min(0.0, ratio)):
                texts[i] = proposed[i]
                accepted[i] += 1
        trace.append([sum(text.logprobs) for text in texts])
    return [
        Samples(
            *requests.columns(texts[own]),
            {
                "acceptance_rate": float(accepted[own].mean() / max(1, steps)),
                "trace": [row[own] for row in trace],
            },
            prompts=[row.prompt for row in texts[own]],
            stop_tokens=request.stops,
        )
        for own in (slice(first, first + n) for first in range(0, len(texts), n))
    ]


def log_accept(old: Row, new: Row, place: int, alpha: float) -> float:
    """Return the logarithm of the ratio that decides: accept with the chance min(1, ratio).

    It is p(new)^α · q(old | new) over p(old)^α · q(new | old). Both texts have the same ``place``
    tokens at their start; a place is chosen among a text's own tokens, so a longer text chooses
    each of them more seldom.
    """
    gain = alpha * (sum(new.logprobs[place:]) - sum(old.logprobs[place:]))
    there = sum(new.log_q[place:]) - math.log(len(old.tokens))
    back = sum(old.log_q[place:]) - math.log(len(new.tokens))
    return gain + back - there
