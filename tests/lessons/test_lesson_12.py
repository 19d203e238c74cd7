"""The widgets of lesson 12 compute what they say; without the model there is one sentence."""

from types import SimpleNamespace

import lablib
from lablib.cache import kv
from lablib.course.lessons.lesson_12 import exercises, real
from lablib.course.lessons.lesson_12 import widgets as lab
from lablib.inference import SamplerOptions
from lablib.inference.sampling import transforms
from lablib.inference.speculation.costs import Costs, speedup
from lablib.models import zoo

import mlx.core as mx
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from oracles.drawn import charted, read


@pytest.fixture(scope="module")
def small():
    """A small model and what the widget needs of a tokenizer: a letter is a token."""
    model = lablib.LanguageModel(lablib.llama_config(27, d_model=16, n_heads=2, n_layers=1), seed=1)
    letters = "abcdefghijklmnopqrstuvwxyz$"
    return model, SimpleNamespace(
        encode=lambda text: [letters.index(letter) for letter in text],
        decode=lambda ids: "".join(letters[i] for i in ids),
        convert_tokens_to_ids=lambda token: 3,
    )


# ------------------------------------------------------------------ without the model
def test_without_the_model_a_notebook_shows_one_sentence(monkeypatch, capsys) -> None:
    monkeypatch.setattr(zoo, "fetched", lambda name: None)
    with pytest.raises(real.NotFetched, match=r"python -m lablib fetch"):
        real.load_real()
    shell = InteractiveShell()
    shell.run_cell("from lablib.course.lessons.lesson_12 import real\nreal.load_real()")
    shown = capsys.readouterr()
    assert (shown.out + shown.err).strip() == str(real.NotFetched())


# ------------------------------------------------------------------ next tokens
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_next_tokens_are_those_of_the_model(small, temperature: float) -> None:
    model, tokenizer = small
    data = lab.NextTokens(model, tokenizer, "abc").compute("dog", temperature)
    p = np.array(mx.softmax(model(mx.array([[3, 14, 6]]))[0, -1] / temperature))
    assert data["p"] == pytest.approx(np.sort(p)[::-1][:10], rel=1e-4)
    assert data["tokens"][0] == tokenizer.decode([int(p.argmax())])
    assert data["bits"] == pytest.approx(-(p * np.log2(p)).sum(), rel=1e-4)


def test_next_tokens_follow_what_is_typed(small) -> None:
    widget = lab.NextTokens(*small, "abc")
    assert widget.view.caption.startswith("After “abc” at temperature 1.0 the likel")
    assert "After “zebra”" in widget.set(text="zebra")
    assert "temperature 0.5" in widget.set(temperature=0.5)
    (panel,) = widget.draw(widget.compute("$", 1.0))["panels"]
    whole = sum(mark["bar"][1] for mark in panel["marks"] if "bar" in mark)
    assert whole == pytest.approx(1)
    assert [name for _, name in panel["y"]["ticks"]][-1] == "all others"
    assert "After “”" in widget.set(text="")  # nothing typed: what a text begins with
    assert "After “…" in widget.set(text="ab" * 100)  # longer than what is read


def test_next_tokens_ask_the_model_once_for_a_text(small) -> None:
    model, tokenizer = small
    calls = []

    def counting(tokens, cache=None):
        calls.append(tokens.shape)
        return model(tokens, cache=cache)

    widget = lab.NextTokens(counting, tokenizer, "abc")
    for temperature in (0.2, 0.9, 2.0):
        widget.set(temperature=temperature)
    assert calls == [(1, 3)]


# ------------------------------------------------------------------ cuts
@pytest.fixture
def log_p() -> np.ndarray:
    logits = np.random.default_rng(0).normal(size=(7, 50)) * 3
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_cuts_count_what_the_sampler_keeps(log_p) -> None:
    widget = lab.Cuts(list("abcdefg"), log_p)
    for top_p, min_p in ((0.9, 0.1), (0.5, 0.3), (0.05, 0.5)):
        counted = list(widget.compute(top_p, min_p).values())
        for options, kept in zip(({"top_p": top_p}, {"min_p": min_p}), counted, strict=True):
            scores = transforms.apply(mx.array(log_p, mx.float32), SamplerOptions(**options))
            assert np.array((scores > -mx.inf).sum(axis=-1)).tolist() == kept.tolist()
    assert "min-p 0.50 keeps 1 to" in widget.set(min_p=0.5)


def test_a_cut_goes_through_lines_that_say_how_many_tokens_stay(log_p) -> None:
    widget, p = lab.Cuts(list("abcdefg"), log_p), -np.sort(-np.exp(log_p))
    curves = (0, p.cumsum(axis=-1)), (1, p[:, 1:] / p[:, :1])
    for view, (begin, heights) in zip(widget.constants["panels"], curves, strict=True):
        drawn = [mark["line"] for mark in view["behind"]]
        assert len(drawn) == 7
        assert {tuple(line[0]) for line in drawn} == {(1, begin)}
        found = sorted(line[1][1] for line in drawn)  # of one token
        assert found == pytest.approx(sorted(heights[:, 0]), abs=6e-4)
        ends = sorted(line[-1][1] for line in drawn)
        assert ends == pytest.approx(sorted(heights[:, 48]), abs=6e-4)
    data = widget.compute(0.5, 0.3)
    kept = widget.compute(0.9, 0.1)["top-p 0.90"]
    least, most = int(np.argmin(kept)), int(np.argmax(kept))
    for cut, marks, counts in zip((0.5, 0.3), read(widget.draw(data)), data.values(), strict=True):
        assert [mark["rule"]["y"] for mark in marks if "rule" in mark] == [cut]
        dots = [mark["dot"] for mark in marks if "dot" in mark]
        assert sorted(dots) == sorted([int(count), cut] for count in counts)
        assert dots[-2:] == [[counts[i], cut] for i in (most, least)]
        sizes = [mark["r"] for mark in marks if "dot" in mark]
        assert sizes[-2] > sizes[-1] > max(sizes[:-2])  # each is seen, where both lie as well
        words = [mark["text"] for mark in marks if "at" in mark]
        assert {*words} == {str(counts[i]) for i in (least, most)}


# ------------------------------------------------------------------ batches and votes
def test_batch_gain_is_the_closed_form() -> None:
    costs = {1: Costs((1.0, 1.1, 1.2), 0.0), 8: Costs((2.0, 3.5, 5.0), 0.0)}
    widget = lab.BatchGain(costs)
    data = widget.compute(0.8)
    for batch, cost in costs.items():
        assert data["gain"][batch] == pytest.approx([speedup(0.8, g, cost) for g in range(1, 9)])
    assert data["gain"][8].max() < data["gain"][1].max()
    assert "×1.00 without a draft for 8 texts" in widget.set(alpha=0.0)
    assert read(widget.draw(data))


def test_a_vote_wins_with_the_most_frequent_answer_and_a_tie_is_shared() -> None:
    won = lab.Asked("sum", "1 + 1", "2", ("2", "3", "2", "4", "5"))
    tied = lab.Asked("sum", "2 + 2", "4", ("5", "4"))
    lost = lab.Asked("fact", "capital", "Canberra", ("Sydney",) * 4)
    beside = lab.Asked("sum", "2 + 3", "5", ("5", "4", "4", "6", "6"))
    assert (won.single, won.leaders, won.vote) == (0.4, ("2",), 1)
    assert (tied.leaders, tied.vote) == (("5", "4"), 0.5)
    assert (lost.vote, beside.vote) == (0, 0)
    found = lab.single_and_vote([won, tied, lost])
    assert found["one"][0] == pytest.approx((0.4 + 0.5 + 0.0) / 3)
    assert found["vote"][0] == pytest.approx(1.5 / 3)
    assert all(0 <= low <= middle <= high <= 1 for middle, low, high in found.values())
    long = lab.Asked("fact", "animal", "cat", ("hippopotamuses",))
    three = lab.Asked("fact", "sides", "6", ("6", "10", "12"))
    chart = lab.vote_bars([won, tied, lost, beside, long, three])
    sums, facts = charted(chart)
    assert [mark["bar"][1] for mark in sums if "bar" in mark] == [0.4, 0.5, 0.2]
    ends = [mark["text"] for mark in sums + facts if "text" in mark]
    head = "one → vote (winner)"
    assert ends[:4] == ["40% → 100%", "50% → 50%", "20% → 0% (4/6)", head]
    assert ends[4:] == ["0% → 0% (Sydney)", "0% → 0% (hippopotam…)", "33% → 33%", head]
    for marks, kind in (sums, [won, tied, beside]), (facts, [lost, long, three]):
        votes = [mark["dot"][0] for mark in marks if mark.get("shape") == "diamond"]
        assert votes == [each.vote for each in kind]
        bars = [mark["bar"] for mark in marks if "bar" in mark]
        bare = [-(low + high) / 2 for _, share, low, high in bars if share == 0]
        spots = [-mark["dot"][1] for mark in marks if "dot" in mark and "shape" not in mark]
        assert spots == pytest.approx(bare)  # what has no bar has its colour there
        means = [np.mean([each.single for each in kind]), np.mean([each.vote for each in kind])]
        assert [mark["rule"]["x"] for mark in marks if "rule" in mark] == pytest.approx(means)
    assert chart.panels[0]["title"] == "3 sums: one answer 37% → the vote 50%"


# ------------------------------------------------------------------ measuring
def test_times_are_as_measured_and_between_them_a_straight_line(small, monkeypatch) -> None:
    # It begins twice to warm up; k = 1 takes 5 and 7 then, k = 3 takes 4 and 6: the shortest count.
    reads = iter([0, 0, 0, 5, 0, 4, 0, 7, 0, 6])
    with monkeypatch.context() as patch:
        patch.setattr(real, "clock", lambda: next(reads))
        costs = real.batch_costs(small[0], 2, widths=(1, 3), repeats=2)
    assert costs.target == (5, 4.5, 4)
    assert costs.draft == 0
    assert real.bandwidth(megabytes=8, repeats=1) > 0
    assert real.clock() <= real.clock()


def test_the_other_process_has_no_few_rows_and_the_same_blas(monkeypatch) -> None:
    asked = {}

    def run(command, **options):
        asked.update(options, command=command)
        return SimpleNamespace(stdout="loading\n[1.0, 2.0]\n")

    monkeypatch.setattr(real.subprocess, "run", run)
    assert real.costs_without_few_rows().target == (1.0, 2.0)
    assert asked["command"][-2:] == ["-m", "lablib.course.lessons.lesson_12.real"]
    assert asked["env"]["LABLIB_FEW_ROWS"] == "off"
    assert real.few_rows().startswith(("in use", "not in use ("))


# ------------------------------------------------------------------ the exercises and the model
@pytest.mark.skipif(zoo.fetched(real.NAME) is None, reason="smollm2 is not on this machine")
def test_the_first_exercise_is_the_models_own_template() -> None:
    from mlx_lm.utils import load_tokenizer

    tokenizer = load_tokenizer(zoo.fetched(real.NAME))
    for messages, _, ask in exercises._chats(np.random.default_rng(0)):
        if messages:
            how = {"add_generation_prompt": ask, "tokenize": False}
            text = tokenizer.apply_chat_template(messages, **how)
            assert exercises.render(messages, exercises.DEFAULT, ask) == text


@pytest.mark.parametrize("rounding", [{}, {"bits": 8, "group_size": 64}])
def test_the_second_exercise_is_what_a_cache_takes(rounding) -> None:
    shape = lablib.llama_config(16, d_model=128, n_heads=2, n_layers=3, n_kv_heads=1)
    model = lablib.LanguageModel(shape, seed=0)
    cache = kv.make(model, **rounding)
    mx.eval(model(mx.array([[1, 2, 3]]), cache=cache))
    room = (cache[0].keys[0] if rounding else cache[0].keys).shape[2]
    config = {"num_hidden_layers": 3, "hidden_size": 128}
    config |= {"num_attention_heads": 2, "num_key_value_heads": 1}
    each = exercises.bytes_per_token(config, rounding.get("bits", 32), rounding.get("group_size"))
    assert kv.nbytes(cache) == room * each
