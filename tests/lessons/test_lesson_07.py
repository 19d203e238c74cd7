"""The widgets of lesson 07 compute what they say."""

import itertools
import json

import lablib
from lablib.course.lessons.lesson_07 import bits, widgets
from lablib.course.lessons.lesson_07.exercises import forgotten_bonus, greedy_round
from lablib.course.lessons.lesson_07.rounds import FATES, LOOKS, YOURS, RoundByRound
from lablib.course.lessons.lesson_07.speed import LengthCurves, against_the_clock
from lablib.course.replay.rounds import agreement
from lablib.inference.decoding.rows import Verdict
from lablib.inference.speculation.costs import Costs, expected_tokens
from lablib.machine import backend

import numpy as np
import pytest
from oracles.drawn import heights, read
from oracles.refusals import refuses
from oracles.scripted import Recorder, random_table

COSTS = Costs((2.0, 2.4, 2.6, 3.0, 3.1, 3.3, 3.4, 3.8, 4.0), 0.3)
WORDS = ["<s>", " the", " cat", "\n", " sat", ""]
TRACE = [
    Verdict((1, 2), (1, 2, 4), 2, 2, p=(0.9, 0.8), q=(0.7, 0.6)),
    Verdict((1, 2), (2,), 0, 1, (np.log(0.625),), p=(0.25, 0.5), q=(0.75, 0.5)),
    Verdict((3, 5, 1), (3, 5), 2, 2, p=(1.0, 1.0, 0.1), q=(0.9, 0.9, 0.9)),
]


def some_texts(n=12, length=30, seed=1, task="sums"):
    rng = np.random.default_rng(seed)
    flags = rng.random((n, length)) < rng.uniform(0.3, 0.95, size=(n, 1))
    classes = rng.choice(["operand", "sign"], size=(n, length))
    pairs = zip(flags, classes, strict=True)
    return [text_of(tuple(map(bool, row)), tuple(kinds.tolist()), task) for row, kinds in pairs]


def text_of(agree, classes, task="sums"):
    """Return a text for which only flags and classes matter."""
    letters, half = ("x",) * len(agree), (0.5,) * len(agree)
    return widgets.GreedyText(task, letters, classes, letters, half, half, agree)


# ------------------------------------------------------------------ rounds
def test_the_strip_is_the_text_that_the_rounds_wrote() -> None:
    widget = RoundByRound({"one": ([0, 1], TRACE)}, WORDS)
    data = widget.compute(round=3, text="one")
    ids = [1, 1, 2, 4, 2, 3, 5]  # the prompt without <s>, then 1 2 +4 | +2 | 3 5
    assert data["tokens"] == [WORDS[i] for i in ids]
    assert [LOOKS[look][1] if look >= 0 else "" for look in data["looks"]] == [
        "", LOOKS[0][1], LOOKS[0][1], "bonus", "correction of a rejected draft",
        LOOKS[0][1], LOOKS[0][1],
    ]  # fmt: skip
    assert data["verdicts"] == ["accepted", "accepted", "not reached"]
    second = widget.compute(round=2, text="one")
    assert second["verdicts"] == ["rejected", "not reached"]
    assert second["own_p"] == pytest.approx(0.625)
    assert read(widget.draw(data))


def test_rounds_count_from_one_and_the_correction_has_a_bar() -> None:
    widget = RoundByRound({"one": ([0, 1], TRACE)}, WORDS)
    player = widget.controls["round"]
    assert (player.value, player.min, player.max) == (1, 1, 3)
    assert (player.play.value, player.play.min, player.play.max) == (1, 1, 3)
    refuses(ValueError, "round must be", widget.set, round=0)
    said = [name for _, name, *_ in widget.constants["keys"]]
    assert said == ["draft's q", "bars: target's p (grey: not reached)"]
    drawn = widget.draw(widget.compute(round=2, text="one"))
    assert drawn["panels"][0]["title"] == "round 2 of 3: probability"
    (own,) = [mark for mark in read(drawn)[0] if "the target's own" in mark.get("note", "")]
    assert own["bar"] == pytest.approx([1.75, 2.25, 0, 0.625])  # after both drafts
    filled = [
        mark["fill"] for mark in read(drawn)[0] if mark.get("fill") and not mark.get("hollow")
    ]
    assert filled == [LOOKS[1][0], FATES["not reached"], own["fill"]]  # the text's own colours
    assert own["fill"] == LOOKS[1][0] == FATES["rejected"]
    assert FATES["accepted"] == LOOKS[0][0]
    unknown = read(widget.draw(widget.compute(round=1, text="one")))  # no probability, no bar
    assert len(heights(unknown[0])) == 4


def test_a_real_trace_knows_the_probability_of_the_correction() -> None:
    table = random_table(seed=4)
    target, draft = Recorder(table), Recorder(random_table(seed=5))
    options = {"max_tokens": 20, "draft_tokens": 3, "temperature": 0.0, "trace": True}
    iterator = lablib.SpeculativeTokenIterator(target, draft, [1, 2], **options)
    assert [token.id for token in iterator]
    widget = RoundByRound({"one": ([1, 2], iterator.rounds)}, [str(i) for i in range(64)])
    kinds = set()
    for number, this in enumerate(iterator.rounds, start=1):
        data = widget.compute(round=number, text="one")
        assert 0 < data["own_p"] <= 1
        kinds.add(this.kind)
        if this.kind == "correction":  # greedy: the best token, so above the rejected draft
            assert data["own_p"] >= this.p[this.accepted]
    assert "correction" in kinds


def test_the_rounds_caption_says_what_happened() -> None:
    widget = RoundByRound({"one": ([0, 1], TRACE), "short": ([0], TRACE[:1])}, WORDS)
    bonus = widget.view.caption
    assert bonus.startswith("Round 1 of 3: 2 of 2 drafts accepted, and '␣sat' as a bonus. 3 new")
    correction = widget.set(round=2)
    assert "0 of 2 drafts accepted; '␣the' (q = 0.75, p = 0.25) is corrected" in correction
    assert "to '␣cat' (p = 0.62). 1 new token for" in correction
    assert "2 of 3 drafts accepted; the text ends" in widget.set(round=3)
    assert "Round 1 of 1" in widget.set(text="short")  # beyond its end: its last round
    plain = Verdict((), (4,), 0, 0)
    assert "nothing was drafted" in RoundByRound({"x": ([0], [plain])}, WORDS).view.caption
    refuses(ValueError, "at least one text", RoundByRound, {"one": ([0], [])}, WORDS)


def test_what_is_typed_is_drafted_and_verified_step_by_step() -> None:
    table, begun = random_table(seed=4), []

    def begin(prompt):
        ids = [1, *(ord(letter) % 9 + 1 for letter in prompt)]
        if len(ids) < 2:
            raise ValueError("type something")
        models = Recorder(table), Recorder(table + 0.5 * random_table(seed=5))
        options = {"max_tokens": 30, "draft_tokens": 3, "temperature": 0.0, "trace": True}
        begun.append(lablib.SpeculativeTokenIterator(*models, ids, **options))
        return ids, begun[-1]

    words = [f" {i}" for i in range(11)]
    widget = RoundByRound({"one": ([0, 1], TRACE)}, words, begin, prompt="ab")
    assert begun == []  # nothing runs before somebody asks
    widget.controls["prompt"].value = "xyz"
    assert widget.values["text"] == YOURS
    assert widget.view.caption.startswith("Round 1: ")
    assert len(begun[-1].rounds) == 2  # what is looked at was run, and one more
    widget.set(round=3)
    assert (len(begun), len(begun[-1].rounds)) == (1, 4)
    player = widget.controls["round"]
    assert player.max == player.play.max == 24  # nobody knows yet how many there are
    last = widget.compute(round=24, text=YOURS, prompt="xyz")
    alone = lablib.TokenIterator(Recorder(table), begin("xyz")[0], max_tokens=30, temperature=0.0)
    assert last["tokens"][3:] == [words[token.id] for token in alone]
    assert last["of"] == f" of {last['number']}"
    widget.set(round=last["number"])
    assert player.value == player.max == player.play.max == last["number"] < 24
    widget.set(text="one")
    assert player.value == player.max == player.play.max == 3
    widget.set(text=YOURS, round=1)
    assert player.max == last["number"]
    before = len(begun)
    widget.controls["prompt"].value = "other"
    assert len(begun) == before + 1
    assert widget.values["round"] == 1
    with pytest.raises(ValueError, match="type something"):
        widget.controls["prompt"].value = ""
    assert "type something" in widget._words.value
    widget.controls["prompt"].value = "again"
    assert widget.set(**widget._start).startswith("Round 1 of 3")  # Reset brings the text back, too
    assert widget.values == widget._start == {"round": 1, "text": "one", "prompt": "ab"}
    widget.set(prompt="again")
    assert widget.set(text="one").startswith("Round 1 of 3")


# ------------------------------------------------------------------ acceptance
def flags(*agree):
    return text_of(agree, ("c",) * len(agree))


@pytest.mark.parametrize("gamma", [1, 3, 5])
def test_replayed_rounds_are_those_of_the_engine(gamma) -> None:
    table = random_table(seed=4)
    noise = random_table(seed=5)
    target, draft = Recorder(table), Recorder(table + 0.5 * noise)
    options = {"max_tokens": 80, "draft_tokens": gamma, "temperature": 0.0, "trace": True}
    iterator = lablib.SpeculativeTokenIterator(target, draft, [1, 2], **options)
    tokens = [token.id for token in iterator]
    found = widgets.replayed(flags(*agreement(draft, [1, 2], tokens)), gamma)
    kept = [each.accepted for each in iterator.rounds]
    whole = [k for start, k in found if start + gamma < len(tokens)]
    assert whole == kept[: len(whole)]
    assert len(kept) - len(whole) <= gamma  # only what meets the end is missing
    assert 0 < sum(kept) < gamma * len(kept)


def test_rounds_follow_one_another_to_the_end_of_the_text() -> None:
    for text, gamma in itertools.product(some_texts(), (1, 2, 4, 8)):
        found = widgets.replayed(text, gamma)
        starts = [0, *np.cumsum([kept + 1 for _, kept in found])]
        assert [start for start, _ in found] == starts[:-1]
        assert starts[-1] >= len(text.agree)


def test_a_round_is_whole_if_its_bonus_still_belongs_to_the_text() -> None:
    """The others are drawn, and not counted."""
    for text, drafts, rounds, counted in (
        (flags(True, True, True), 3, [(0, 3)], 0),
        (flags(True, True, True, False), 3, [(0, 3)], 1),
        (flags(False, True, True), 2, [(0, 0), (1, 2)], 1),  # decided before anything is drafted
    ):
        assert widgets.replayed(text, drafts) == rounds
        assert widgets.count_rounds([text], drafts).rounds.tolist() == [counted]


def test_played_rounds_are_the_replayed_ones_if_the_function_is_right() -> None:
    """Of a text that was cut, and of one that a stop token ends; a wrong function has others."""
    table = random_table(seed=4)
    models = Recorder(table), Recorder(table + 0.5 * random_table(seed=5))
    options, pieces = {"max_tokens": 40, "temperature": 0.0}, [str(i) for i in range(11)]
    ids = [token.id for token in lablib.TokenIterator(models[0], [1, 2], **options)]
    ended = ids[: ids.index(ids[20]) + 1]
    for tokens, stop in ((ids, 99), (ended, ended[-1])):
        text = widgets.greedy_text("sums", models, [1, 2], tokens, pieces, "c" * len(tokens))
        right, wrong = (
            widgets.played(function, models, [(text, [1, 2], tokens)], stop)
            for function in (greedy_round, forgotten_bonus)
        )
        assert [right(text, gamma) for gamma in range(1, 9)] == [
            widgets.replayed(text, gamma) for gamma in range(1, 9)
        ]
        assert wrong(text, 1) != right(text, 1)
        assert widgets.Acceptance([text], right).frame() == widgets.Acceptance([text]).frame()


def test_a_tally_counts_what_is_accepted_and_reached() -> None:
    text = text_of((True, True, False, True, False, True, True, True, True), tuple("aabbabaab"))
    counted = widgets.count_rounds([text], 3)
    # rounds: places 0 1 2 (kept 2), 3 4 - (kept 1), 5 6 7 (kept 3, bonus at 8)
    assert widgets.replayed(text, 3) == [(0, 2), (3, 1), (5, 3)]
    assert counted.accepted.tolist() == [3, 2, 1]
    assert counted.reached.tolist() == [3, 3, 2]
    assert counted.classes == {"a": (4, 5), "b": (2, 3)}
    assert counted.alpha == 6 / 8
    assert counted.tokens_per_round == 9 / 3


@pytest.mark.parametrize("gamma", range(1, 9))
def test_chances_by_place_give_the_yield_exactly(gamma) -> None:
    counted = widgets.count_rounds(some_texts(), gamma)
    found = expected_tokens(counted.by_position, gamma)
    assert found == pytest.approx(counted.tokens_per_round, abs=1e-12)
    assert sum(a for a, _ in counted.classes.values()) == counted.accepted.sum()
    assert sum(r for _, r in counted.classes.values()) == counted.reached.sum()


def test_the_interval_covers_the_truth() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(60):  # coins of 0.7: a round of four drafts yields 2.7731 tokens
        flags = rng.random((24, 60)) < 0.7
        texts = [text_of(tuple(map(bool, row)), ("c",) * 60) for row in flags]
        low, high = widgets.count_rounds(texts, 4).interval()
        covered += low <= sum(0.7**i for i in range(5)) <= high
    # the chance of fewer than 44 of 60 is below 1e-6 even if the interval covers only 93 %
    assert covered >= 44
    one = widgets.count_rounds(texts[:1], 4)
    assert one.interval() == (one.tokens_per_round,) * 2


def test_the_carpet_has_what_was_counted() -> None:
    """Of all texts, with γ and with γ + 1 drafts; five of them have a row."""
    texts = [*some_texts(), *some_texts(seed=2, task="edits")]
    widget = widgets.Acceptance(texts)
    data = widget.compute(draft_tokens=3, task="edits")
    counted = [widgets.count_rounds(texts[12:], gamma) for gamma in (3, 4)]
    assert data["alpha"] == [each.alpha for each in counted]
    assert data["tokens"] == [each.tokens_per_round for each in counted]
    rows = [[widgets.replayed(text, gamma) for text in texts[12:17]] for gamma in (3, 4)]
    assert data["rounds"] == rows
    assert [len(each) for each in widget.constants["tasks"].values()] == [5, 5]
    json.dumps([widget.told, data])  # what the page gets
    caption = widget.set(draft_tokens=3, task="edits")
    three, four = (f"a round writes {each.tokens_per_round:.2f} tokens" for each in counted)
    assert caption.startswith(f"On edits: with γ = 3 {three}, and ")
    assert f"; with γ = 4 {four}, and {1 - counted[1].alpha:.0%} of the reached" in caption
    assert widget.controls["draft_tokens"].max == 7  # beside it stands one more


def test_a_greedy_text_knows_both_models() -> None:
    target, draft = Recorder(random_table(seed=5)), Recorder(random_table(seed=6))
    pieces = [f" {i}" for i in range(11)]
    prompt, ids = [1, 2], [3, int(draft.logits([1, 2, 3]).argmax()), 7]
    text = widgets.greedy_text("sums", (target, draft), prompt, ids, pieces, "abc")
    for place in range(3):
        p, q = (np.exp(model.log_probs([*prompt, *ids[:place]])) for model in (target, draft))
        best = int(q.argmax())
        assert text.guess[place] == f"␣{best}"
        assert (text.p[place], text.q[place]) == pytest.approx((p[best], q[best]), abs=1e-5)
    assert text.agree == agreement(draft, prompt, ids)
    assert text.agree[1]


def test_bad_input_is_refused() -> None:
    refuses(ValueError, "texts must hold", widgets.Acceptance, [])
    refuses(ValueError, "texts must hold", widgets.count_rounds, [], 2)
    for gamma in (0, 9):
        refuses(ValueError, "draft_tokens must be", widgets.count_rounds, some_texts(2), gamma)


# ------------------------------------------------------------------ speed
def test_promised_and_measured_have_their_names_and_never_one_colour() -> None:
    """Theory is a line and the clock has dots; what is promised elsewhere looks the same."""
    chart = against_the_clock(
        {1: 1.5, 4: 2.1, 8: 2.2}, {1: 1.4, 4: 2.0, 8: 2.5}, {1: 1.3, 4: 2.2, 8: 1.9}
    )
    rule, one_alpha, promised, measured = chart.marks[0]
    named = [each["label"] for each in (one_alpha, promised, measured)]
    assert named == ["one α", "counted tokens", "measured"]
    assert len({each["colour"] for each in (one_alpha, promised, measured)}) == 3
    assert promised.get("wide", 1) > measured["wide"] == 0
    assert [point[:2] for point in measured["line"]] == [[1, 1.3], [4, 2.2], [8, 1.9]]
    assert rule["rule"] == {"y": 1}
    (view,) = chart.panels
    assert view["y"]["ends"][0] == 0
    assert view["y"]["ends"][1] > 2.5
    widget = LengthCurves(COSTS)
    curve = widget.chart(widget.compute(0.5)).marks[1][1]
    assert (curve["label"], curve["colour"]) == ("promised", one_alpha["colour"])


def test_the_best_length_is_where_the_quotient_peaks() -> None:
    widget, cost = LengthCurves(COSTS), [COSTS.of_round(gamma) / 2.0 for gamma in range(9)]
    for alpha in (0.0, 0.3, 0.7, 1.0):
        data = widget.compute(alpha)
        assert data["cost"] == cost
        quotient = np.array(data["tokens"]) / np.array(cost)
        assert data["speedup"] == pytest.approx(quotient.tolist())
        assert data["best"] == int(np.argmax(quotient))
        assert read(widget.draw(data))
    assert cost[0] == 1
    assert widget.set(alpha=0.0).startswith("With α = 0.00 the best draft length is 0 (×1.00)")


@pytest.mark.skipif(backend.blas().few_rows is None, reason="few_rows.c is not in use")
def test_same_bits_is_a_switch_where_few_rows_are(capsys):
    assert [*bits.switches()] == ["as it is", "same_bits"]
    half, rows = bits.in_half("draft"), np.arange(3, 63).reshape(2, 30)
    with bits.switches()["same_bits"]():
        read = [bits.read(half, rows, size) for size in (1, 7, 30)]
    assert all(np.array_equal(read[0], each) for each in read)
    plain = bits.read(lablib.load("draft")[0], rows, 30)
    assert 0 < np.abs(plain - read[0]).max() < 0.1 * np.ptp(plain)
    assert capsys.readouterr().out == ""


def test_where_there_is_no_switch_the_lesson_says_why(capsys, monkeypatch):
    monkeypatch.setattr("lablib.machine.one_order.obstacle", lambda: "a GPU")
    assert [*bits.switches()] == ["as it is"]
    assert "can't be promised here: a GPU" in capsys.readouterr().out
