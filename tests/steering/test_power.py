"""p^α over whole texts: the chain's own transition is enumerated, and then drawn from."""

import math

from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.row import Row
from lablib.inference.steering import power, power_sample, smc

import numpy as np
import pytest
from oracles.steering import STOP, TableLM, conditioned, off_by, too_far

PROMPT = [2, 1]
ALPHA = 3.0
RARE = 1e-7


@pytest.fixture(scope="module")
def lm():
    return TableLM(seed=2)


def ends(longest):
    return {"max_tokens": longest, "stop_tokens": [STOP]}


def drafts(lm, longest, proposal):
    """Every text, with log p and log q of its tokens."""
    found = []
    for text in lm.texts(PROMPT, longest):
        log_p, log_q = [], []
        for i, token in enumerate(text):
            p = lm.probs([*PROMPT, *text[:i]])
            log_p.append(math.log(p[token]))
            log_q.append(math.log(p[token] ** proposal / (p**proposal).sum()))
        found.append(
            Row(PROMPT, SamplerOptions(), 0, tokens=list(text), logprobs=log_p, log_q=log_q)
        )
    return found


def transition(texts, alpha, accept):
    """The chance to go from each text to each other in one step: (texts, texts)."""
    chances = np.zeros((len(texts), len(texts)))
    for i, old in enumerate(texts):
        for place in range(len(old.tokens)):
            for j, new in enumerate(texts):
                if new.tokens[:place] != old.tokens[:place] or len(new.tokens) <= place:
                    continue
                chance = math.exp(sum(new.log_q[place:])) / len(old.tokens)
                chances[i, j] += chance * math.exp(min(0.0, accept(old, new, place, alpha)))
        chances[i, i] += 1 - chances[i].sum()
    return chances


def powered(texts, alpha):
    masses = np.array([math.exp(alpha * sum(text.logprobs)) for text in texts])
    return masses / masses.sum()


def no_lengths(old, new, place, alpha):
    """The planted bug: the place is as likely on the way back."""
    gap = math.log(len(new.tokens)) - math.log(len(old.tokens))
    return power.log_accept(old, new, place, alpha) + gap


def no_proposal(old, new, place, alpha):
    return alpha * (sum(new.logprobs) - sum(old.logprobs))


@pytest.mark.parametrize("proposal", [1.0, ALPHA])
def test_the_power_of_the_model_is_left_as_it_is(lm, proposal):
    texts = drafts(lm, 4, proposal)
    exact = powered(texts, ALPHA)
    after = exact @ transition(texts, ALPHA, power.log_accept)
    assert np.abs(after - exact).max() < 1e-12
    for bug in (no_lengths, no_proposal):
        assert np.abs(exact @ transition(texts, ALPHA, bug) - exact).max() > 1e-3


@pytest.mark.parametrize("proposal", [1.0, ALPHA])
def test_many_steps_lead_to_the_power(lm, proposal):
    texts = drafts(lm, 4, proposal)
    exact = powered(texts, ALPHA)
    start = np.array([math.exp(sum(text.log_q)) for text in texts])
    chances = transition(texts, ALPHA, power.log_accept)
    gaps = [
        np.abs(start @ np.linalg.matrix_power(chances, 10**k) - exact).sum() / 2 for k in range(6)
    ]
    assert np.abs(start - exact).sum() / 2 > gaps[0] > gaps[1] > gaps[2]
    assert gaps[-1] < 1e-6


@pytest.mark.slow
@pytest.mark.grid(lambda proposal: proposal == 1.0, rest="slow")
@pytest.mark.thorough
@pytest.mark.parametrize("proposal", [1.0, ALPHA])
def test_the_draws_are_those_of_the_transition(lm, proposal):
    """After one step and after two, exactly: the start, the places, the acceptance, the numbers."""
    texts = drafts(lm, 3, proposal)
    names = [tuple(text.tokens) for text in texts]
    one = transition(texts, ALPHA, power.log_accept)
    start = np.array([math.exp(sum(text.log_q)) for text in texts])
    for steps, n in ((0, 10_000), (1, 100_000), (4, 10_000)):
        how = {"steps": steps, "proposal": proposal, "seed": steps, **ends(3)}
        (chains,) = power_sample(lm, [PROMPT], n, ALPHA, **how)
        exact = dict(zip(names, start @ np.linalg.matrix_power(one, steps), strict=True))
        assert too_far(chains.tokens, exact) > RARE
        if steps == 1:
            moved = start @ (1 - np.diag(one))  # a proposal may also be the same text again
            assert chains.stats["acceptance_rate"] > moved
            assert too_far(chains.tokens, dict(zip(names, start, strict=True))) < RARE
        assert len(chains.stats["trace"]) == steps + 1
        np.testing.assert_allclose(chains.stats["trace"][-1], [sum(row) for row in chains.logprobs])


def test_low_temperature_is_not_power(lm):
    """The planted bug of the issue, α on tokens, is told apart at once."""
    (cold,) = power_sample(lm, [PROMPT], 3000, ALPHA, steps=0, seed=1, **ends(5))
    texts = lm.texts(PROMPT)
    exact, _ = conditioned(texts, lambda text: texts[text] ** (ALPHA - 1))
    assert too_far(cold.tokens, exact) < RARE
    (plain,) = power_sample(lm, [PROMPT], 5000, 1.0, steps=0, seed=1, **ends(5))
    assert too_far(plain.tokens, lm.texts(PROMPT)) > RARE


def test_by_particles_it_is_unbiased(lm):
    texts = lm.texts(PROMPT)
    exact, evidence = conditioned(texts, lambda text: texts[text] ** (ALPHA - 1))
    clouds = smc(lm, [PROMPT] * 1000, 5, power=ALPHA, seed=3, **ends(5))
    found = [math.exp(cloud.log_evidence) for cloud in clouds]
    assert off_by(found, evidence) < 5.5
    likeliest = max(exact, key=exact.get)
    share = [
        z * c.mean(lambda t: tuple(t) == likeliest) for z, c in zip(found, clouds, strict=True)
    ]
    assert off_by(share, evidence * exact[likeliest]) < 5.5
    unweighted = smc(lm, [PROMPT] * 1000, 5, power=ALPHA, ess=0.0, seed=3, **ends(5))
    cold = [np.mean([tuple(t) == likeliest for t in cloud.tokens]) for cloud in unweighted]
    assert off_by(cold, exact[likeliest]) > 11  # α on tokens


def test_chains_do_not_depend_on_those_after_them(lm):
    alone = power_sample(lm, [PROMPT], 5, ALPHA, seed=4, **ends(5))[0]
    beside = power_sample(lm, [PROMPT, [3]], 5, ALPHA, seed=4, **ends(5))
    assert beside[0] == alone
    assert len(beside[1].tokens) == 5
    assert all(
        row[-1] == STOP for row, end in zip(alone.tokens, alone.finished, strict=True) if end
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n": 0}, "n must be"),
        ({"alpha": -1.0}, "alpha must be"),
        ({"alpha": math.inf}, "alpha must be"),
        ({"alpha": 1e308}, "alpha must be"),
        ({"steps": -1}, "steps must be"),
        ({"proposal": math.nan}, "proposal must be"),
        ({"proposal": 1e308}, "proposal must be"),
        ({"prompts": []}, "prompts must hold"),
    ],
)
def test_bad_arguments_are_refused(lm, change, told):
    given = {"lm": lm, "prompts": [PROMPT], "n": 2, "alpha": 2.0, "seed": 1, **ends(5)} | change
    with pytest.raises(ValueError, match=told):
        power_sample(**given)
