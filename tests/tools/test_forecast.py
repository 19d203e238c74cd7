"""A forecast against rounds that are known, against the engine's own rounds, and its reasons."""

import lablib
from lablib import __main__
from lablib.course import tasks
from lablib.course.replay.measure import measure_costs
from lablib.course.replay.rounds import Guesses, guesses_of_flags
from lablib.inference.decoding.rows import Verdict
from lablib.inference.speculation import EarlyExit, NGram
from lablib.inference.speculation.costs import Costs, speedup
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.models import LanguageModel, llama_config
from lablib.tools import forecast as module
from lablib.tools.forecast import PROMPTS, Forecast, expect, forecast, guesses_of_rounds

import numpy as np
import pytest

CHEAP = Costs((1.0, 1.1, 1.2, 1.3, 1.4), 0.05)


def texts_of(alpha: float, texts: int, each: int, seed: int = 0) -> list[Guesses]:
    """Return texts in which the next token is known with chance α, at each place."""
    flags = np.random.default_rng(seed).random((texts, each)) < alpha
    return [guesses_of_flags(row.tolist()) for row in flags]


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
def test_with_one_rate_it_is_the_closed_form(alpha: float) -> None:
    found = expect(texts_of(alpha, 40, 500), CHEAP, 4)
    exact = [speedup(alpha, g, CHEAP) for g in range(5)]
    np.testing.assert_allclose(found.speedups, exact, rtol=0.02)  # 20,000 tokens
    np.testing.assert_allclose(found.rates[:2], alpha, atol=0.03)  # five deviations and more
    assert found.draft_tokens == int(np.argmax(exact))
    low, high = found.interval
    assert low < found.speedup < high
    assert high - low < 0.1
    assert found.tokens == 20_000
    assert found.speedups[0] == pytest.approx(1.0)


def test_few_texts_that_differ_give_a_wide_interval() -> None:
    easy, hard = texts_of(0.95, 3, 100), texts_of(0.05, 3, 100)
    mixed = expect(easy + hard, CHEAP, 4)
    alike = expect(texts_of(0.5, 6, 100), CHEAP, 4)
    width = [found.interval[1] - found.interval[0] for found in (mixed, alike)]
    assert width[0] > 2 * width[1]
    assert expect(easy + hard, CHEAP, 4) == mixed  # the same seed


def test_rounds_without_drafts_cost_a_plain_token() -> None:
    found = expect([Guesses((0,) * 10, (0,) * 10)], CHEAP, 3)
    np.testing.assert_allclose(found.speedups, 1.0)
    assert found.draft_tokens == 0
    assert np.isnan(found.rates).all()


@pytest.mark.parametrize(
    ("alpha", "costs", "words"),
    [
        (0.99, Costs((1.0, 2.0, 3.0, 4.0), 0.0), "compute-bound"),
        (0.99, Costs((1.0, 1.1, 1.2, 1.3), 1.5), "too dear"),
        (0.05, Costs((1.0, 1.1, 1.2, 1.3), 0.1), "too few drafts are kept"),
        (0.9, Costs((1.0, 1.1, 1.2, 1.3), 0.1), "It pays: 3 drafts"),
        (0.9, Costs((1.0, 1.1, 9.0, 9.0), 0.1), "It pays: 1 draft a round gives"),
    ],
)
def test_the_reason_is_the_one_that_holds(alpha: float, costs: Costs, words: str) -> None:
    found = expect(texts_of(alpha, 10, 100), costs, 3)
    assert words in found.why
    assert (found.draft_tokens > 0) == ("It pays" in found.why)
    assert found.why in str(found)
    assert str(found).count("best") == 1


def test_what_a_round_tells_of_each_place() -> None:
    rounds = [
        Verdict((5, 6, 7), (5, 6, 9), 2, 3),  # two kept, the third refused
        Verdict((5, 6, 7), (5, 6, 7, 8), 3, 3),  # all kept, and one that nobody drafted
        Verdict((), (4,), 0, 0),  # nothing to draft from
        Verdict((5,), (3,), 0, 1),
    ]
    seen = {guesses_of_rounds(rounds, 3, seed).right for seed in range(20)}
    assert seen == {(2, 1, 0, 3, 2, 1, 0, 0, 0), (2, 1, 0, 3, 3, 2, 1, 0, 0)}
    assert guesses_of_rounds(rounds, 3).offered[:3] == (3, 2, 1)
    assert guesses_of_rounds(rounds, 3).offered[-2:] == (0, 1)


def test_an_accepted_stop_token_ends_a_text_and_is_followed_by_nothing() -> None:
    found = guesses_of_rounds([Verdict((5, 6, 7), (5, 6), 2, 2)], 3)
    assert found == Guesses((3, 2), (2, 1))


def test_what_is_known_of_a_place_that_nobody_drafted_counts() -> None:
    rounds = [Verdict((5, 6), (5, 6, 7), 2, 2), Verdict((5, 6), (5, 6, 7), 2, 2)]
    assert guesses_of_rounds(rounds, 2, chances={2: 0.0, 5: 1.0}).right == (2, 1, 0, 2, 2, 1)


def test_plain_decoding_asks_for_one_token_too_many_where_a_text_stops() -> None:
    texts = texts_of(0.5, 3, 10)
    some, none = (expect(texts, CHEAP, 2, stopped=each) for each in ([True] * 3, [False] * 3))
    np.testing.assert_allclose(some.speedups[1:], np.array(none.speedups[1:]) * 11 / 10)
    assert some.speedups[0] == none.speedups[0] == pytest.approx(1.0)


@pytest.mark.grid(lambda drafter, rule: drafter != "early exit")
@pytest.mark.parametrize(
    ("drafter", "rule"),
    [
        ("draft", "rejection"),
        ("draft", "match"),
        ("n-gram", "rejection"),  # a guess is certain: both rules keep it with its p
        ("early exit", "rejection"),
        pytest.param("n-gram", "match", marks=pytest.mark.slow),
        pytest.param("early exit", "match", marks=pytest.mark.slow),
    ],
)
def test_tokens_a_round_are_the_engines_when_it_samples(drafter, rule, monkeypatch):
    """On drawn texts they agree but for chance: five deviations of some 150 rounds."""
    costs = Costs(tuple(1 + 0.1 * k for k in range(9)), 0.1)  # any: tokens a round know no time
    monkeypatch.setattr(module.measure, "measure_costs", lambda *_, **__: costs)
    target, tokenizer = lablib.load("target")
    drafters = {"draft": lablib.load("draft")[0], "n-gram": NGram(), "early exit": EarlyExit(2)}
    draft = drafters[drafter]
    texts = [tokenizer.encode(problem.prompt) for problem in tasks.sums.problems(5, 6)]
    options = {"max_tokens": 33, "temperature": 1.0, "rule": rule}
    found = forecast(target, draft, prompts=texts, repeats=1, **options)
    rounds = []
    for seed, text in enumerate(texts):
        given = {"draft_tokens": 3, "trace": True, "seed": seed + 50, **options}
        iterator = SpeculativeTokenIterator(target, draft, text, **given)
        list(iterator)
        rounds += [len(each.tokens) for each in iterator.rounds]
    near = 5 * 2**0.5 * np.std(rounds) / len(rounds) ** 0.5
    assert found.tokens_per_round[3] == pytest.approx(np.mean(rounds), abs=near)


@pytest.mark.parametrize(("prompt", "context"), [(3, 9), (90, 96), (180, 152)])
def test_prices_are_measured_in_the_middle_of_the_texts(prompt, context, monkeypatch):
    """A long text costs more a token; near the model's last position there must be room to time."""
    asked = []

    def watch(*models: object, **options: object) -> Costs:
        asked.append(options["context"])
        return measure_costs(*models, **options | {"repeats": 1})

    monkeypatch.setattr(module.measure, "measure_costs", watch)
    model = LanguageModel(llama_config(24, 16, 1, 1, 1, 32, max_positions=200), seed=0)
    forecast(model, model, prompts=[[1] * prompt] * 2, most=3, max_tokens=12)
    assert asked == [context]


@pytest.mark.thorough
def test_it_agrees_with_the_engine_at_every_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forecast from rounds of eight; the engine then runs each length, at the same prices."""
    costs = Costs(tuple(1 + 0.1 * k for k in range(9)), 0.1)
    monkeypatch.setattr(module.measure, "measure_costs", lambda *_, **__: costs)
    target, tokenizer = lablib.load("target")
    draft, _ = lablib.load("draft")
    texts = [problem.prompt for task in tasks.TASKS.values() for problem in task.problems(3, 3)]
    runs_on = {"max_tokens": 48, "stop_tokens": ()}  # a text that ends has a round cut short
    found = forecast(target, draft, tokenizer, texts, **runs_on)
    for gamma in (1, 2, 4, 8):
        tokens = spent = 0
        for text in texts:
            iterator = SpeculativeTokenIterator(
                target, draft, tokenizer.encode(text), draft_tokens=gamma, temperature=0.0,
                trace=True, **runs_on,
            )  # fmt: skip
            list(iterator)
            for each in iterator.rounds:
                tokens += each.accepted + 1
                spent += costs.of_round(len(each.drafted))
        assert found.speedups[gamma] == pytest.approx(tokens / spent, rel=0.01)


def test_the_command_line_forecasts_and_checks(capsys, monkeypatch):
    all_texts = module._texts
    monkeypatch.setattr(module, "_texts", lambda *given: all_texts(*given)[::4])
    assert __main__.main(["forecast", "draft", "--most", "2", "--check"]) == 0
    shown = capsys.readouterr().out
    assert "tokens a round" in shown
    assert "pay" in shown
    assert __main__.main(["forecast", "no-such-model"]) == 2


def test_a_check_measures_the_length_it_recommends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.measure, "measure_costs", lambda *_, **__: CHEAP)
    asked = []
    honest = SpeculativeTokenIterator

    def spy(*arguments, **options):
        asked.append(options["draft_tokens"])
        return honest(*arguments, **options)

    monkeypatch.setattr(module, "SpeculativeTokenIterator", spy)
    model = LanguageModel(llama_config(24, 32, 1, 2), seed=0)
    found = forecast(model, model, prompts=[[1, 2, 3]], most=3, max_tokens=12, check=True)
    assert found.draft_tokens == 3  # its own draft: everything is kept
    assert set(asked) == {3}
    assert found.measured > 0
    assert forecast(model, model, prompts=[[1, 2]], most=3, max_tokens=12).measured is None


def test_bad_arguments_are_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module.measure, "measure_costs", lambda *_, **__: pytest.fail("it went to work")
    )
    model = LanguageModel(llama_config(24, 32, 1, 2), seed=0)
    for change, error, words in (
        ({"most": 0}, ValueError, "most must be"),
        ({"max_tokens": 1}, ValueError, "max_tokens must be"),
        ({"check": 1}, TypeError, "check must be True or False"),
        ({"prompts": ["text"]}, TypeError, r"prompts\[0\] is text: give its tokenizer"),
        ({"prompts": None}, ValueError, "tokenizer must be given"),
        ({"prompts": []}, ValueError, "prompts must hold at least one text"),
        ({"prompts": [[99]]}, ValueError, r"prompts\[0\]\[0\] must be between 0 and 23"),
        ({"rule": "luck"}, ValueError, "rule must be one of"),
        ({"warmth": 1}, TypeError, "unknown option 'warmth'"),
        ({"draft_model": 3}, TypeError, "draft_model must be a model or a drafter"),
    ):
        with pytest.raises(error, match=words):
            forecast(model, **({"prompts": [[1, 2]]} | change))


def test_other_models_get_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.measure, "measure_costs", lambda *_, **__: CHEAP)
    model = LanguageModel(llama_config(300, 32, 1, 2), seed=0)

    class Bytes:
        def get_vocab(self) -> dict[str, int]:
            return {}

        def encode(self, text: str) -> list[int]:
            return list(text.encode())

        def convert_tokens_to_ids(self, token: str) -> None:
            return None

    found = forecast(model, NGram(), Bytes(), most=2, max_tokens=4)
    assert isinstance(found, Forecast)
    assert found.tokens == 4 * len(PROMPTS)
