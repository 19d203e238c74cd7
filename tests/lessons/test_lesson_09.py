"""The widgets of lesson 09 compute what they say."""

from lablib import LanguageModel, llama_config
from lablib.course.lessons.lesson_09 import rounds
from lablib.course.lessons.lesson_09 import widgets as lab
from lablib.course.lessons.lesson_09.exercises import estimate, lookup
from lablib.course.replay.rounds import Guesses, guesses_of_model, guesses_of_ngram, replay
from lablib.inference import DraftModel
from lablib.inference.speculation import EarlyExit, NGram, first_layers, speculative_decode
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength, FixedLength

import numpy as np
import pytest
from oracles.drawn import read
from oracles.refusals import refuses

COSTS = Costs((1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8), 0.1)
FREE = Costs(COSTS.target, 0.0)


def tiny():
    return LanguageModel(llama_config(5, 16, 1, 1), seed=3)


def random_guesses(rng, n, alpha):
    """A text whose places are guessed rightly with chance ``alpha`` each."""
    agree = rng.random(n) < alpha
    wrong = [[i for i, a in enumerate(agree[k : k + 8]) if not a] for k in range(n)]
    right = [next(iter(each), min(8, n - k)) for k, each in enumerate(wrong)]
    return Guesses((8,) * n, tuple(right))


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


def test_a_run_without_guesses_is_plain_decoding() -> None:
    nothing = Guesses((0, 0), (0, 0))
    assert lab.run([nothing], FixedLength(4), COSTS).cost == pytest.approx(2.0)


def test_sources(guesses) -> None:
    texts = {task: ([0, 1, 2], [k % 5 for k in range(60)]) for task in guesses}
    seconds = {
        task: {"plain": [2.0, 4.0], "model": [1.0, 2.0], "gram": [4.0, 4.0]} for task in texts
    }
    widget = lab.Sources(texts, guesses, seconds, ["", *"abcd"])
    data = widget.compute("easy")
    rounds_of = [replay(text, FixedLength(rounds.GAMMA)) for text in guesses["easy"]["model"]]
    tokens, calls = 6 * 60, sum(map(len, rounds_of))
    middle, low, high = data["yields"]["model"]
    assert low <= middle <= high
    assert middle == pytest.approx(tokens / calls)
    assert data["speeds"] == {"model": 2.0, "gram": 0.75}
    assert data["calls"]["model"] == len(rounds_of[0])
    assert data["first"] == {"plain": 2.0, "model": 1.0, "gram": 4.0}
    assert read(widget.draw(data))
    ticks = [name for _, name in widget.constants["panels"][0]["y"]["ticks"]]
    assert ticks[0].split() == ["model:", str(len(rounds_of[0])), "calls,", "1000", "ms"]
    assert widget.set(task="hard").endswith("On hard the fastest by the clock was model, ×2.00.")
    for fewer in ({}, {"easy": seconds["easy"]}):
        refuses(ValueError, "same tasks", lab.Sources, texts, guesses, fewer, [])


def test_the_cells_of_a_strip_are_what_became_of_the_tokens() -> None:
    text = Guesses((4, 4, 4, 4, 4, 4, 0, 2, 2, 2, 4), (4, 3, 2, 1, 0, 0, 0, 2, 1, 0, 1))
    found, calls = lab.fates(text)
    assert found == [*["kept"] * 4, "bonus", "refused", "nothing", "kept", "kept", "bonus", "kept"]
    assert calls == 5


def test_adapting_follows_the_text(guesses) -> None:
    widget = lab.Adapting(guesses, {"model": COSTS, "gram": FREE})
    data = widget.compute(memory=32, drafter="model")
    found, border = data["run"], data["ends"][0]
    assert data["ends"] == [360, 720]
    assert len({view["side"] for view in widget.chart(data).panels}) == 1  # tasks end at one x
    assert found.tokens == 720
    early = found.length[(found.place > 180) & (found.place < border)]
    late = found.length[found.place > 540]
    assert early.mean() > 3
    assert late.mean() < 1
    assert 720 / data["speedup"] == pytest.approx(found.cost)
    texts = [*guesses["easy"]["model"], *guesses["hard"]["model"]]
    cost = sum(step.cost(COSTS) for text in texts for step in replay(text, FixedLength(2)))
    assert data["fixed"][1] == pytest.approx(720 / cost)
    assert data["speedup"] > 0.9 * max(data["fixed"])
    assert widget.set(memory=8, drafter="model").endswith(f", ×{max(data['fixed']):.2f}.")
    assert read(widget.draw(data))
    refuses(ValueError, "every task's", lab.Adapting, guesses, {"unknown": COSTS})


def test_the_exercise_estimates_alpha_as_the_library_does() -> None:
    rng = np.random.default_rng(9)
    for memory in (2, 8, 64):
        drafted = rng.integers(0, 9, size=40)
        rounds = [(int(d), int(rng.integers(0, d + 1))) for d in drafted]
        length = AdaptiveLength(8, COSTS, memory=memory, alpha=0.6)
        for count, accepted in rounds:
            length.observe(min(accepted + 1, count), accepted)
        assert estimate(rounds, 0.6, memory) == pytest.approx(length.alpha, rel=1e-12)


def test_texts_are_written_once_and_raced() -> None:
    target, prompts = tiny(), {"some": [[0, 1], [0, 1, 2]]}
    options = {"max_tokens": 6, "stop_tokens": ()}
    drafters = {"model": DraftModel(tiny()), "gram": NGram(), "first": EarlyExit(1)}
    target = LanguageModel(llama_config(5, 16, 1, 2), seed=3)
    texts, guesses = rounds.written(target, prompts, drafters, **options)
    prompt, tokens = texts["some"]
    assert prompt == [0, 1]
    assert len(tokens) == 6
    shorter = guesses_of_model(first_layers(target, 1), prompt, tokens)
    assert guesses["some"]["first"][0] == shorter
    assert guesses["some"]["model"][0] == guesses_of_model(tiny(), prompt, tokens)
    assert guesses["some"]["gram"][0] == guesses_of_ngram(NGram(), prompt, tokens)
    assert {len(each) for each in guesses["some"].values()} == {2}
    seconds = rounds.race(target, prompts, drafters, {**options, "temperature": 0.0})
    assert [*seconds["some"]] == ["plain", *drafters]
    assert all(0 < time < 60 for took in seconds["some"].values() for time in took)


def test_ways_that_take_turns_are_counted() -> None:
    options = {"max_tokens": 6, "stop_tokens": (), "temperature": 0.0}
    drafters = {"model": tiny(), "look-up": NGram()}
    found = rounds.in_turn(tiny(), [[0, 1], [1, 0]], drafters, **options)
    assert [*found] == ["plain", "model", "look-up"]
    assert {each.tokens for each in found.values()} == {12}
    plain, model = found["plain"], found["model"]
    assert [plain.drafts, found["look-up"].drafts] == [0, 0]
    assert model.calls < plain.calls
    assert model.drafts > 0
    assert model.per_call == 12 / model.calls
    assert all(0 < each.pace < 1e9 for each in found.values())


def test_rows_written_together_are_counted() -> None:
    found = rounds.together(tiny(), tiny(), [0, 1], 3, max_tokens=11, seed=1, stop_tokens=())
    assert found.rows == 3
    assert 3 <= found.calls <= found.plain_calls <= 12
    assert 0 <= found.alpha <= 1
    assert found.measured > 0


def test_a_look_up_of_ones_own_is_a_drafter() -> None:
    own, texts = rounds.Own(lookup), [[0, 1, 2, 0, 1], [3, 1, 4]]
    for text in texts:
        ngram = NGram().begin(None, None, 1)
        for end in range(1, len(text) + 1):
            assert own.begin(None, None, 1).lookup(text[:end], 4) == ngram.lookup(text[:end], 4)
    options = {"max_tokens": 12, "temperature": 0.0}
    plain, _ = speculative_decode(tiny(), NGram(), [0, 1, 0], **options)
    ours, stats = speculative_decode(tiny(), own, [0, 1, 0], **options)
    assert ours.tolist() == plain.tolist()
    assert stats["total_drafted"] > 0
