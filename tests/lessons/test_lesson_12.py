"""The widgets of lesson 12 compute what they say; without the model there is one sentence."""

from types import SimpleNamespace

import lablib
from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.course.lessons.lesson_12 import (
    borders,
    exercises,
    facts,
    jobs,
    measured,
    pictures,
    places,
    real,
    runs,
    table,
    window,
)
from lablib.course.lessons.lesson_12 import widgets as lab
from lablib.course.replay.curves import vote_curves
from lablib.inference import SamplerOptions
from lablib.inference.decoding.rows import Samples
from lablib.inference.sampling import transforms
from lablib.inference.speculation import rules
from lablib.models import zoo

import mlx.core as mx
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from mlx_lm.models.cache import KVCache
from oracles import architectures
from oracles.drawn import charted, read
from scipy import stats


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


# ------------------------------------------------------------------ estimates and verdicts
def test_an_estimate_is_a_mean_with_its_standard_error() -> None:
    found = runs.mean_of([0, 1, 0, 0, 0, 0, 1, 0])
    assert found.value == 0.25
    assert found.n == 8
    assert found.error == pytest.approx(np.sqrt(0.25 * 0.75 * 8 / 7 / 8))
    low, high = stats.ttest_1samp([0, 1, 0, 0, 0, 0, 1, 0], 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high))
    many = found._replace(freedom=np.inf)
    assert (many.half, many.visible) == pytest.approx((1.96 * found.error, 2.8 * found.error), 1e-3)
    ones, others = np.array([1.0, 3.0, 4.0]), np.array([0.5, 0.0, 0.5, 1.0])
    apart = runs.between(ones, others)
    welch = stats.ttest_ind(ones, others, equal_var=False).confidence_interval()
    assert (apart.low, apart.high) == pytest.approx((welch.low, welch.high))


@pytest.mark.parametrize(
    ("value", "error", "larger", "same"),
    [
        (0.3, 0.1, runs.HELD, runs.REFUTED),
        (0.1, 0.1, runs.OPEN, runs.OPEN),  # 0 lies inside, but so does 0.29
        (0.01, 0.01, runs.OPEN, runs.NEAR),
        (-0.01, 0.04, runs.OPEN, runs.NEAR),
        (-0.06, 0.04, runs.OPEN, runs.OPEN),
        (-0.01, 0.001, runs.REFUTED, runs.REFUTED),
    ],
)
def test_a_verdict_is_what_the_interval_leaves(value, error, larger, same) -> None:
    found = runs.Estimate(value, error, 9)
    assert runs.above(found) == larger
    assert runs.unchanged(found.low, found.high) == same
    assert runs.above(found, claimed=value - 1) == runs.HELD


def test_four_times_in_five_an_interval_shows_what_is_called_visible() -> None:
    rng = np.random.default_rng(0)
    seen, n = 0, 4000
    for _ in range(n):
        gains = rng.normal(2.8 / np.sqrt(50), 1, size=50)
        seen += runs.above(runs.mean_of(gains)) == runs.HELD
    assert abs(seen / n - 0.8) < 5 * np.sqrt(0.8 * 0.2 / n)


def test_texts_that_part_refute_unless_rounding_has_parted_them() -> None:
    assert table.texts(0, 40)["verdict"] == runs.NEAR
    assert table.texts(0, 5)["verdict"] == runs.OPEN  # half of all texts might part
    assert table.texts(0, 40)["within"] * (1 - 0.2 ** (1 / 40)) == pytest.approx(runs.WITHIN)
    assert table.texts(1, 40)["verdict"] == runs.ROUNDED
    assert table.texts(1, 40, exactly=1)["verdict"] == runs.REFUTED
    seen = float(table.texts(0, 40)["visible"].split()[0]) / 100
    assert 1 - (1 - seen) ** 40 == pytest.approx(0.8, abs=0.01)  # what visible means in every row
    share, low, high = table.texts(0, 40)["size"]
    assert (share, low) == (0, 0)
    assert (1 - high * (1 - 0.2 ** (1 / 40))) ** 40 == pytest.approx(0.025)


# ------------------------------------------------------------------ the questions
def test_questions_are_different_and_each_has_one_answer() -> None:
    known = facts.facts()
    assert len({fact.prompt for fact in known}) == len(known) > 1000
    assert known == facts.facts()
    kinds = dict.fromkeys(fact.kind for fact in known)
    assert [*kinds] == [*facts.KINDS]
    for fact in known:
        assert facts.answer(f" {fact.truth}\nand so on") == fact.truth
        examples = facts.KINDS[fact.kind].splitlines()
        assert fact.asked not in [line[: len(fact.asked)] for line in examples]
    sums = [fact for fact in known if fact.kind == "sums"]
    assert all(sum(map(int, f.asked.rstrip("= ").split("+"))) == int(f.truth) for f in sums)
    sequences = [fact for fact in known if fact.kind == "sequences"]
    for fact in sequences:
        row = [int(part) for part in fact.asked.removesuffix(", then").split(", ")]
        assert {*np.diff([*row, int(fact.truth)])} == {row[1] - row[0]}


def test_jobs_are_of_five_kinds_in_turn() -> None:
    kinds = [kind for kind, _ in jobs.jobs(2)]
    assert kinds == [*dict.fromkeys(kinds)] * 2
    assert len({question for _, question in jobs.jobs()}) == 8 * 5


# ------------------------------------------------------------------ what is stored
def test_what_is_stored_is_small_and_says_how_it_was_made() -> None:
    assert sum(path.stat().st_size for path in runs.STORED.iterdir()) <= 300_000
    for path in runs.STORED.glob("*.json"):
        assert runs.command(path.stem).startswith(measured.COMMAND)
        assert path.stem.partition("-")[0] in measured.PARTS


def test_samples_are_kept_as_they_were_drawn() -> None:
    words = {1: " 12", 2: " 13", 3: "\n"}
    tokenizer = SimpleNamespace(decode=lambda ids, **_: "".join(words[i] for i in ids))
    drawn = Samples([[1, 3], [2, 3], [1, 3]], [[-0.5, -0.25], [-1, -1], [-0.5, -0.25]], [True] * 3)
    kept = measured.record(tokenizer, drawn)
    assert kept == {"texts": [[" 12\n", -0.75, 2], [" 13\n", -2, 2]], "of": "aba"}
    problem = runs.sampled(kept, "12")
    assert problem.answers == ["12", "13", "12"]
    assert problem.scores["likeliest"] == [-0.75, -2, -0.75]
    assert problem.scores["likeliest, by the mean"] == [-0.375, -1, -0.375]


def test_a_promise_is_the_sum_over_the_places_that_were_judged() -> None:
    rounds = [
        SimpleNamespace(min_pq=[0.5, 0.25], dot_pq=[0.2, 0.1], reached=1, accepted=0),
        SimpleNamespace(min_pq=[1.0, 0.75], dot_pq=[0.9, 0.5], reached=2, accepted=2),
    ]
    found = measured.promised(rounds)
    assert found == {"kept": 2, "judged": 3, "min": 2.25, "variance": 0.438, "dot": 1.6}
    kept, promised, off = runs.kept_and_promised([found, found])
    assert (kept, promised) == (pytest.approx(2 / 3), 0.75)
    assert off.n == 6
    assert off.error == pytest.approx(np.sqrt(2 * 0.438) / 6)


def test_the_table_has_eleven_rows_by_kind_that_name_their_runs() -> None:
    rows = table.rows()
    kinds = [row.kind for row in rows]
    assert kinds == [table.PROVED] * 4 + [table.MODEL] * 6 + [table.MACHINE]
    for row in rows:
        assert row.verdict in pictures.LOOKS
        assert (row.within is not None) == (row.kind == table.PROVED)
        assert row.part in measured.PARTS
        assert any(digit in row.here for digit in "0123456789")
        value, low, high = row.size
        assert low <= value <= high
    assert len(table.printed(rows).splitlines()) == 2 * 11
    told = table.claimed(rows)
    assert all(row.claim in told for row in rows)
    assert not any(word in told for word in (runs.HELD, runs.REFUTED, "visible"))


def test_a_size_is_held_against_lesson_06s_with_the_errors_of_both() -> None:
    for claim, there, here, off, verdict in table.sizes():
        far = abs(here.value - there.value) > 1.96 * np.hypot(here.error, there.error)
        assert off.value == pytest.approx(here.value - there.value)
        assert far == (verdict == runs.REFUTED), claim
        assert there.n == 200


def test_a_drafted_call_has_a_price_and_a_text_gains_its_tokens_over_it() -> None:
    drafted = {"seconds": 0.3, "rounds": 4, "per_call": 2.25}
    records = [{"kind": "code", "seconds": 0.8, "tokens": 9, "head": drafted}]
    assert runs.prices(records, "head") == pytest.approx([0.1 / 0.1])  # a call, without the first
    records[0]["head"] = drafted | {"seconds": 0.45}
    assert runs.speedups(records, "head") == pytest.approx([2.25 / 1.5])


# ------------------------------------------------------------------ borders and a ring
def test_a_random_number_falls_between_borders_as_often_as_they_move() -> None:
    p, other = np.array([0.2, 0.3, 0.5]), np.array([0.25, 0.25, 0.5])
    assert borders.between(p, other) == pytest.approx(0.05)
    assert borders.between(p, p) == pytest.approx(0, abs=1e-15)
    rng = np.random.default_rng(0)
    many = rng.dirichlet(np.ones(50), size=2)
    u = rng.uniform(size=400_000)
    drawn = [np.searchsorted(np.cumsum(each), u) for each in many]
    share = np.mean(drawn[0] != drawn[1])
    assert borders.between(*many) == pytest.approx(share, abs=5 * 0.5 / np.sqrt(len(u)))


def test_a_word_is_drawn_whose_piece_holds_the_random_number() -> None:
    (drawn,) = (each for each in runs.stored("pieces") if each["number"] == 29)
    for way, place in (("plain", 0), ("look-up", 1)):
        holds = [begin <= 0 < end for begin, end in drawn[way]]
        assert holds == [place == 0, place == 1]
    (marks,) = charted(pictures.pieces(drawn))
    bars = [mark for mark in marks if "bar" in mark]
    assert [mark["text"] for mark in bars] == ["NAL", "twe"] * 2
    assert [mark["fill"] == "#FFFFFF" for mark in bars] == [False, True, True, False]


def test_a_full_ring_takes_nothing_back() -> None:
    rows, taken = window.small_ring()
    before, read, after, ours = rows.values()
    assert sorted(before) == [3, 4, 5, 6, 7, 8]
    assert (after, taken) == (read, 0)
    assert ours == before
    assert window.small_ring(window=20)[1] == 3


def test_a_places_bias_is_none_under_rejection_and_shows_when_planted(monkeypatch) -> None:
    rng = np.random.default_rng(2)
    p, q = (mx.array(each, dtype=mx.float32) for each in rng.dirichlet([0.1] * 5000, size=2))
    bias, kept = places.bias_at(p, q, mx.argmax(q))
    assert bias < 1e-6
    assert kept == pytest.approx(np.minimum(np.array(p), np.array(q)).sum(), abs=1e-6)
    right = rules.rejection

    def leans(p, q, drafts):  # by a thousandth towards q
        outcome = right(p, q, drafts)
        return rules.Outcome(outcome.kept, 0.999 * outcome.following + 0.001 * rules.padded(q))

    monkeypatch.setattr(rules, "rejection", leans)
    assert places.bias_at(p, q, mx.argmax(q))[0] > 1e-4


def test_what_was_refused_behind_a_window_moves_nothing_that_comes(monkeypatch) -> None:
    model = architectures.build("gemma3_text")  # with windows of 16
    ids = np.random.default_rng(3).integers(0, 40, 60).tolist()
    assert places.moved_by_refusal(model, ids, 50) < 1e-4
    monkeypatch.setattr(Rewinder, "rewind", lambda self, n: None)
    assert places.moved_by_refusal(model, ids, 50) > 1e-2


# ------------------------------------------------------------------ choosing
def test_choosing_is_what_vote_curves_counts() -> None:
    asked, curves = some_questions()
    widget = lab.Choosing(asked, curves)
    data = widget.compute("the likeliest against a vote", 8)
    assert data["right"] == {"the likeliest": 1.0, "a vote": 0.5, "one sample": 0.5}
    assert data["gains"]["sums"].value == pytest.approx(1 / 2)
    assert data["gains"][runs.ALL].n == 4
    said = widget.set(pair="a vote against one sample", samples=2)
    assert "Of 4 questions, 2 samples each" in said
    assert read(widget.draw(widget.compute("a vote against one sample", 2)))


def test_intervals_are_drawn_about_a_line_at_0() -> None:
    seen, unseen = runs.Estimate(0.05, 0.01, 9), runs.Estimate(-0.01, 0.02, 9)
    chart = pictures.intervals([("one", seen), ("two", unseen)], "gains", (-10, 10), 100)
    (marks,) = charted(chart)
    assert [mark["dot"] for mark in marks if "dot" in mark] == [[5, 0], [-1, -1]]
    lines = [x for mark in marks if "line" in mark for x, _ in mark["line"]]
    assert lines == pytest.approx([3.04, 6.96, -4.92, 2.92], abs=1e-3)
    looks = [mark["colour"] for mark in marks if "dot" in mark]
    assert looks[0] != looks[1] == pictures.LOOKS[runs.OPEN]


def test_the_whole_table_is_drawn_a_panel_for_each_kind() -> None:
    rows = table.rows()
    chart = pictures.whole(rows)
    assert [view["title"] for view in chart.panels] == [*dict.fromkeys(row.kind for row in rows)]
    drawn = charted(chart)
    dots = [mark for marks in drawn for mark in marks if "dot" in mark]
    assert [mark["dot"][0] for mark in dots] == pytest.approx([row.size[0] for row in rows])
    assert [mark["colour"] for mark in dots] == [pictures.LOOKS[row.verdict] for row in rows]
    bars = [mark["line"][0][0] for mark in drawn[0] if mark.get("wide") == 3 and "note" not in mark]
    assert {row.within for row in rows if row.within} <= {abs(x) for x in bars}
    shown = {name for _, name, *_ in chart.keys} - {"10 points from 0"}
    assert shown == {row.verdict for row in rows}  # no verdict that no row has


def test_sizes_are_drawn_there_and_here_with_the_change_in_words() -> None:
    found = table.sizes()
    chart = pictures.sizes(found)
    (marks,) = charted(chart)
    dots = [mark["dot"][0] for mark in marks if "dot" in mark]
    assert dots == pytest.approx(
        [100 * x.value for _, there, here, *_ in found for x in (there, here)]
    )
    words = [name for _, name in chart.panels[0]["y"]["ticks"]]
    assert words[::2] == [claim for claim, *_ in found]
    assert all(
        said.endswith(verdict) for said, (*_, verdict) in zip(words[1::2], found, strict=True)
    )


def test_each_texts_tokens_a_call_are_a_dot() -> None:
    values = {"head": [np.array([2.0, 3.0])], "look-up": [np.array([1.0])]}
    (marks,) = charted(pictures.drafters(["code"], {"tokens a call": values}))
    assert [mark["dot"][0] for mark in marks if "dot" in mark] == [2, 3, 1]
    bars = [mark["line"][0][0] for mark in marks if "line" in mark]
    assert bars == [2.5, 1.0]
    ones = pictures.stacked(np.array([1.0, 2.0, 1.0, 1.01, 2.03]))
    assert [x for x, _ in ones] == [1, 1, 1.01, 2, 2.03]
    assert len({*ones}) == 5  # no dot hides another


def some_questions():
    """Two sums and two capitals: the vote finds one sum, the likeliest finds both."""
    texts = [["1", -1.0, 1], ["2", -2.0, 1]]
    records = [
        {"texts": texts, "of": "a" * 5 + "b" * 3},
        {"texts": texts, "of": "a" * 3 + "b" * 5},
    ] * 2
    kinds, truths = ["sums", "sums", "capitals", "capitals"], ["1"] * 4
    problems = [runs.sampled(*pair) for pair in zip(records, truths, strict=True)]
    asked = runs.Asked(records, np.array(kinds), truths, problems)
    voted, best = asked.favourites.values()
    assert (voted.tolist(), best.tolist()) == (["1", "2"] * 2, ["1"] * 4)
    assert asked.right(["1", "2", None, "1"]).tolist() == [1, 0, 0, 1]
    assert asked.leads.tolist() == [2] * 4
    return asked, vote_curves(problems, runs.COUNTS, confidence=None, orders=2)


def test_a_prompter_says_every_third_token_wrong_and_can_be_taken_back() -> None:
    text = [5, 3, 8, 1, 9, 2, 7]
    draft, cache = window.Prompter(text, 10), [KVCache()]

    def guess(tokens: list[int]) -> list[int]:
        return draft(mx.array([tokens]), cache)[0].argmax(axis=-1).tolist()

    assert guess(text[:4]) == [4, 8, 1, 0]  # behind places 0 and 3 another one
    cache[0].trim(2)
    assert guess(text[2:4]) == [1, 0]
    assert window.parted([1, 2, 3], [1, 2, 3]) is None
    assert window.parted([1, 2, 3], [1, 5, 3]) == 1


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
