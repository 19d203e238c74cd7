"""The widgets of lesson 09 compute what they say."""

from lablib.inference.draft_length import AdaptiveLength, FixedLength
from lablib.inference.drafters import DraftModel, EarlyExit, NGram, first_layers
from lablib.inference.speculative import SpeculativeTokenIterator
from lablib.inference.theory import Costs, best_draft_tokens, expected_tokens
from lablib.viz import drafts as lab

import numpy as np
import pytest
from matplotlib.figure import Figure
from oracles.speculation import greedy, near, target

COSTS = Costs((1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8), 0.1)
FREE = Costs(COSTS.target, 0.0)


def random_guesses(rng, n, alpha):
    """A text whose places are guessed rightly with chance ``alpha`` each."""
    agree = rng.random(n) < alpha
    right = [
        next((i for i, a in enumerate(agree[k : k + 8]) if not a), min(8, n - k)) for k in range(n)
    ]
    return lab.Guesses((8,) * n, tuple(right))


@pytest.fixture(scope="module")
def guesses():
    rng = np.random.default_rng(4)
    chances = {"easy": (0.95, 0.2), "hard": (0.1, 0.9)}
    return {
        task: {
            name: [random_guesses(rng, 60, alpha) for _ in range(6)]
            for name, alpha in zip(("model", "gram"), pair, strict=True)
        }
        for task, pair in chances.items()
    }


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("kind", ["model", "exit", "gram"])
def test_the_replay_is_the_engine_round_by_round(kind, gamma) -> None:
    model, prompt = target(), [3, 1, 4, 1, 5, 9, 3, 1]
    tokens = greedy(model, prompt, 40)
    small = near(model, 0.1)
    drafter, found = {
        "model": lambda: (DraftModel(small), lab.guesses_of_model(small, prompt, tokens)),
        "exit": lambda: (
            EarlyExit(1),
            lab.guesses_of_model(first_layers(model, 1), prompt, tokens),
        ),
        "gram": lambda: (NGram(), lab.guesses_of_ngram(NGram(), prompt, tokens)),
    }[kind]()
    iterator = SpeculativeTokenIterator(
        model, drafter, prompt, max_tokens=60, draft_tokens=gamma, temperature=0.0, trace=True
    )
    list(iterator)
    steps = lab.replay(found, FixedLength(gamma))
    whole = [step for step in steps if step.start + gamma < len(tokens)]
    assert len(whole) > 3
    assert sum(step.tokens for step in steps) == len(tokens)
    for step, seen in zip(whole, iterator.rounds, strict=False):
        assert (step.drafted, step.kept) == (len(seen.drafted), seen.accepted)


def test_an_adaptive_replay_is_the_engine_too() -> None:
    model, prompt = target(), [3, 1, 4, 1, 5]
    tokens = greedy(model, prompt, 60)
    small = near(model, 0.3)
    length, engine = AdaptiveLength(6, COSTS, memory=8), AdaptiveLength(6, COSTS, memory=8)
    steps = lab.replay(lab.guesses_of_model(small, prompt, tokens), length)
    iterator = SpeculativeTokenIterator(
        model, small, prompt, max_tokens=90, draft_tokens=engine, temperature=0.0, trace=True
    )
    list(iterator)
    expected = [r.drafted for r in iterator.rounds if r.kind != "plain"]
    drafted = [step.drafted for step in steps if step.drafted and step.start + 7 < len(tokens)]
    assert len(drafted) > 3
    assert drafted == [len(each) for each in expected[: len(drafted)]]


def test_by_hand() -> None:
    text = lab.Guesses(offered=(8, 8, 8, 8, 8, 8, 2), right=(2, 1, 0, 0, 2, 1, 0))
    steps = lab.replay(text, FixedLength(2))
    assert [(s.start, s.drafted, s.kept, s.tokens) for s in steps] == [
        (0, 2, 2, 3),
        (3, 2, 0, 1),
        (4, 2, 2, 3),
    ]
    assert steps[0].cost(COSTS) == pytest.approx(1.2 + 2 * 0.1)
    assert lab.tokens_per_call([text], 2) == pytest.approx((7 / 3,) * 3)
    nothing = lab.Guesses((0, 0), (0, 0))
    assert lab.run([nothing], FixedLength(4), COSTS).cost == pytest.approx(2.0)


def test_sources(guesses) -> None:
    texts = {task: ([0, 1, 2], [k % 5 for k in range(60)]) for task in guesses}
    widget = lab.Sources(texts, guesses, {"model": COSTS, "gram": FREE}, ["", *"abcd"])
    data = widget.compute(3, "easy", "model")
    rounds = [lab.replay(text, FixedLength(3)) for text in guesses["easy"]["model"]]
    tokens, calls = 6 * 60, sum(map(len, rounds))
    middle, low, high = data["yields"]["model"]
    assert low <= middle <= high
    assert middle == pytest.approx(tokens / calls)
    assert data["speedups"]["model"] == pytest.approx(tokens / (calls * (1.3 + 0.3)))
    assert data["looks"].count(lab.COPIED) == sum(step.kept for step in rounds[0])
    assert len(data["tokens"]) == len(data["looks"]) == 62
    assert isinstance(widget.draw(data), Figure)
    assert widget.set(task="hard", drafter="gram").startswith("hard, gram, γ = 4: this text of 60")
    with pytest.raises(ValueError, match="same tasks"):
        lab.Sources({}, guesses, {"model": COSTS}, [])


def test_best_length_is_the_theory() -> None:
    widget = lab.BestLength()
    for alpha, drafting, reading in ((0.8, 0.1, 0.1), (0.5, 0.3, 0.3), (1.0, 0.0, 0.05)):
        data = widget.compute(alpha, drafting, reading)
        costs = Costs(tuple(1 + reading * k for k in range(13)), drafting)
        assert data["best"] == best_draft_tokens(alpha, costs, 12)
        assert data["speedup"][3] == pytest.approx(
            expected_tokens(alpha, 3) / (1 + 3 * (drafting + reading))
        )
        row, column = round(alpha * 40), round(drafting * 40)
        assert data["map"][row, column] == data["best"]
    assert "no drafts at all" in widget.set(alpha=0.1, drafting=0.5, reading=0.5)
    assert isinstance(widget.draw(widget.compute(0.9, 0.0, 0.0)), Figure)


def test_adapting_follows_the_text(guesses) -> None:
    widget = lab.Adapting(guesses, {"model": COSTS, "gram": FREE})
    data = widget.compute(memory=32, drafter="model")
    found, border = data["run"], data["ends"][0]
    assert data["ends"] == [360, 720]
    assert found.tokens == 720
    early = found.length[(found.place > 180) & (found.place < border)]
    late = found.length[found.place > 540]
    assert early.mean() > 3
    assert late.mean() < 1
    assert 720 / data["speedup"] == pytest.approx(found.cost)
    texts = [*guesses["easy"]["model"], *guesses["hard"]["model"]]
    cost = sum(step.cost(COSTS) for text in texts for step in lab.replay(text, FixedLength(2)))
    assert data["fixed"][1] == pytest.approx(720 / cost)
    assert data["speedup"] > 0.9 * max(data["fixed"])
    assert widget.set(memory=8, drafter="gram").startswith("gram, memory 8: adaptive")
    assert isinstance(widget.draw(data), Figure)
    with pytest.raises(ValueError, match="every task's"):
        lab.Adapting(guesses, {"unknown": COSTS})


def test_clock_figure_and_bad_input() -> None:
    fig = lab.promised_and_measured(["a"], {"x": [1.5]}, {"x": [(1.4, 1.2, 1.6)]})
    assert isinstance(fig, Figure)
    with pytest.raises(ValueError, match="at least one text"):
        lab.tokens_per_call([], 2)
