"""Lesson 18: its authors are those of a list, its replays the library's, its widgets say so."""

import itertools
import math
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import lablib
from lablib.course.lessons.lesson_12 import facts, runs
from lablib.course.lessons.lesson_18 import chains, compared, forks, measured, real, widgets
from lablib.course.lessons.lesson_18.author import VOCABULARY, Author
from lablib.course.tasks import sums
from lablib.course.tasks.problem import Problem
from lablib.inference.steering import (
    GiveUp,
    by_confidence,
    lowest_confidence,
    mean_confidence,
    negative_entropy,
    self_certainty,
    tail_confidence,
)
from lablib.models import zoo

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import charted
from scipy import stats

PROBLEMS = sums.problems(5, 6)
RARE = 1e-6
AUTHORS = [Author(), Author(1.0, 0.0), Author(1.0, 0.1), Author(0.3, 0.2)]


@pytest.fixture(scope="module")
def target():
    return zoo.load("target", mx.float32)


# --- authors ----------------------------------------------------------------------------------
@cache
def listed(author: Author, digits: tuple[int, ...]) -> dict[str, tuple[float, int, int]]:
    """Every chain, by all orders and slips: its chance, its answer, and its doubtful steps."""
    found: dict[str, tuple[float, int, int]] = {}
    for order in itertools.permutations(digits):
        grown = [(1 / math.factorial(6), order[0], 0, "")]
        for x in order[1:]:
            longer = []
            for chance, total, doubts, text in grown:
                wrong = author.habit if (total, x) in sums.NOISY_PAIRS else author.doubt
                for slip, p in ((0, 1 - wrong), (1, wrong)):
                    result = (total + x + slip) % 10
                    if p > 0:
                        more = f"{text}{total}+{x}={result};"
                        longer.append((chance * p, result, doubts + (0 < wrong < 1), more))
            grown = longer
        for chance, total, doubts, text in grown:
            before = found.get(f"{text}#{total}", (0.0, total, doubts))
            found[f"{text}#{total}"] = (before[0] + chance, total, doubts)
    return found


@pytest.mark.parametrize("author", AUTHORS)
@pytest.mark.parametrize("digits", [(1, 2, 3, 4, 5, 6), (7, 7, 3, 9, 3, 7), (4, 4, 4, 4, 4, 4)])
@pytest.mark.parametrize("power", [1.0, 4.0])
def test_an_authors_answers_are_those_of_a_list(author, digits, power):
    problem = sums.Problem("", "", "sums", digits)
    every = listed(author, digits)
    wanted = np.zeros((10, 6))
    for chance, answer, doubts in every.values():
        wanted[answer, doubts] += chance**power
    found = author.answers(problem, power)
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=1e-12, rtol=0)
    if power == 1:
        np.testing.assert_allclose(author.answers(problem, 1, "tokens"), wanted, atol=1e-12)


def cold(author: Author, digits: tuple[int, ...], power: float) -> np.ndarray:
    """The answers of texts whose every token is sharpened, from a list of all texts."""
    every = listed(author, digits)
    after: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for text, (chance, *_) in every.items():
        for i, letter in enumerate(text):
            after[text[:i]][letter] += chance
    found = np.zeros(10)
    for text, (_, answer, _) in every.items():
        sharp = 1.0
        for i, letter in enumerate(text):
            row = np.array([*after[text[:i]].values()])
            sharp *= after[text[:i]][letter] ** power / (row**power).sum()
        found[answer] += sharp
    return found


@pytest.mark.parametrize("author", [AUTHORS[0], AUTHORS[3]])
def test_a_low_temperature_is_each_tokens_power(author):
    digits = (7, 7, 3, 9, 0, 1)
    problem = sums.Problem("", "", "sums", digits)
    wanted = cold(author, digits, 4.0)
    np.testing.assert_allclose(author.answers(problem, 4, "tokens").sum(axis=1), wanted, atol=1e-12)
    assert np.abs(author.answers(problem, 4, "texts").sum(axis=1) - wanted).max() > 0.005


def test_the_sums_have_the_first_author():
    for problem in PROBLEMS:
        wanted = sums.answer_distribution(problem)
        np.testing.assert_allclose(Author().answers(problem).sum(axis=1), wanted, atol=1e-12)
    with pytest.raises(ValueError, match="habit must be"):
        Author(1.5)
    with pytest.raises(ValueError, match="of must be one of"):
        Author().answers(PROBLEMS[0], 1, "words")


@pytest.mark.parametrize("author", AUTHORS)
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_chains_are_drawn_from_the_author(author, temperature):
    problem, n = PROBLEMS[0], 20_000
    drawn = author.write(problem, n, 3, temperature)
    expected = author.answers(problem, 1 / temperature, "tokens").sum(axis=1)
    counts = np.bincount([int(answer) for answer in drawn.answers], minlength=10)
    likely = expected > 1e-12
    assert not counts[~likely].any()
    if likely.sum() > 1:
        assert stats.chisquare(counts[likely], n * expected[likely]).pvalue > RARE
    for text, answer, right in zip(drawn.texts[:200], drawn.answers, drawn.right, strict=False):
        assert sums.extract(text) == answer
        assert sums.check(problem, text) == right
        assert len(widgets.steps(text)) == 5


def test_an_author_knows_the_chance_of_what_he_writes():
    author, problem = Author(0.6, 0.1), PROBLEMS[1]
    every = listed(author, problem.data)
    drawn = author.write(problem, 50, 1)
    for text, logs, written in zip(drawn.texts, drawn.logs, drawn.written, strict=True):
        assert logs.shape == (33, VOCABULARY)
        assert (np.diff(logs, axis=1) <= 0).all()
        assert np.exp(logs).sum(axis=1) == pytest.approx(1)
        assert written.sum() == pytest.approx(math.log(every[text][0]), abs=0.1)  # but for dust


# --- measures and votes -----------------------------------------------------------------------
def test_the_model_is_read_as_the_library_gathers_it(target):
    model, tokenizer = target
    drawn = chains.draw(model, tokenizer, PROBLEMS[0], 8, seed=2)
    prompt = tokenizer.encode(PROBLEMS[0].prompt)
    how = {"max_tokens": chains.LONGEST, "seed": 2}
    samples = lablib.sample_n(model, prompt, 8, top_logprobs=512, **how)
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in samples.tokens]
    assert drawn.texts == texts
    for name, measure in (("mean of the best 5", mean_confidence), ("self-certainty", None)):
        values = chains.values_of(drawn, name)
        for value, best in zip(values, samples.top_logprobs, strict=True):
            cut = [row[:5] for row in best] if measure else best
            assert value == pytest.approx((measure or self_certainty)(cut), abs=1e-3)
    for ours, theirs in zip(drawn.written, samples.logprobs, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_the_surest_are_those_of_the_library():
    rng = np.random.default_rng(4)
    values = rng.integers(1, 6, 30) / 2.0
    samples = lablib.inference.decoding.rows.Samples([[1]] * 30, [[0.0]] * 30, [True] * 30)
    samples.top_logprobs[:] = [[[(0, -value)]] for value in values]
    for keep in (0.1, 0.34, 1.0):
        theirs = by_confidence(mean_confidence, keep, weigh="equal")(None, samples)
        np.testing.assert_array_equal(chains.surest(values, keep), theirs)


def test_votes_and_pairs_by_hand():
    values, right = np.array([3.0, 1.0, 2.0, 2.0]), np.array([True, False, True, False])
    assert chains.ordered(values, right) == pytest.approx((1 + 1 + 1 + 0.5) / 4)
    assert math.isnan(chains.ordered(values, right | True))
    assert chains.elected(["4", "7", "7", None]) == "7"
    assert chains.elected(["4", "7", None], chains.surest(np.array([1.0, 2.0, 3.0]), 0.1)) is None


def test_a_vote_by_lot_is_the_mean_over_all_lots():
    answers = ["3"] * 4 + ["1"] * 3 + [None, "2", "2"]
    every = [chains.elected(lot) == "1" for lot in itertools.permutations(answers, 3)]
    assert measured.by_lot(answers, "1", 0.3, 200_000) == pytest.approx(np.mean(every), abs=0.006)
    assert measured.by_lot(answers, "7", 0.3) == 0
    assert measured.by_lot(answers, "3", 1.0) == 1


# --- what is kept -----------------------------------------------------------------------------
def test_what_is_kept_is_of_twelve_seeds():
    kept = measured.stored()
    assert {*kept} == {"votes", "stopping", "thinking", "power"}
    for part in kept.values():
        for values in part.values():
            assert values.shape == (12,)
            assert ((values >= 0) & (values <= 1)).all()
            assert np.ptp(values) > 0


def test_a_walk_writes_a_chain_and_then_ends():
    assert measured.walked(0) == 1
    assert measured.walked(2, 4) == pytest.approx(1 + 2 * (1 + 0.75 + 0.5 + 0.25) / 4)
    assert abs(measured.walked(20) - measured.ELEVEN) < 0.5
    power = measured.stored()["power"]
    _, *rows, last = measured.table(dict.fromkeys(power, 0.125), {"p⁴": 0.5}).splitlines()
    assert [row[:10].strip() for row in rows] == [*power]
    assert [row.endswith(")  0.50") for row in rows] == [name == measured.WALKS for name in power]
    gained = measured.ends(power[measured.WALKS] - power[measured.VOTED])
    assert last.endswith("{:+.2f} (95 %: {:+.2f} to {:+.2f})".format(*gained))


def test_intervals_are_students():
    values = np.array([1.0, 2.0, 4.0])
    mean, half = measured.interval(values)
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert measured.ends(values) == pytest.approx((mean, low, high))


def test_a_replay_gives_up_where_the_engine_does(target):
    model, tokenizer = target
    problem, n = PROBLEMS[2], 24
    drawn = chains.draw(model, tokenizer, problem, n, seed=5)
    worst = [lowest_confidence(chains.pairs(logs, 5)) for logs in drawn.logs]
    floor = float(np.median(worst))
    stop = GiveUp(floor, tokenizer.eos_token_id)
    how = {"max_tokens": chains.LONGEST, "seed": 5, "logits_processors": [stop]}
    rows = lablib.sample_n(model, tokenizer.encode(problem.prompt), n, **how).tokens
    agree = 0
    for logs, low, row in zip(drawn.logs, worst, rows, strict=True):
        wanted = measured.given_up_at(logs, floor) + 1 if low < floor else len(logs)
        agree += wanted == len(row)
    assert agree >= n - 1  # a floor is one text's own worst window: it may fall to either side


def test_powers_by_weights_are_those_of_the_author():
    """Weighed chains of the author against his p^4, over many seeds."""
    author, problem = Author(0.6, 0.1), PROBLEMS[3]
    exact = author.answers(problem, 2.0).sum(axis=1)[sum(problem.data) % 10]
    drawn = author.write(problem, 40_000, 7)
    found = measured.powered(drawn, 2.0) @ drawn.right
    assert found == pytest.approx(exact, abs=0.03)
    plain = author.answers(problem).sum(axis=1)[sum(problem.data) % 10]
    assert abs(exact - plain) > 0.1


# --- widgets ----------------------------------------------------------------------------------
def test_along_shows_a_chain_and_its_doubtful_steps():
    drawn = Author().write(PROBLEMS[4], 40, 2)
    widget = widgets.Along(drawn)
    means = chains.values_of(drawn, "mean of the best 5")
    shown = [widget.compute(chain) for chain in range(1, 41)]
    assert [data["confidence"].mean() for data in shown] == pytest.approx(-np.sort(-means))
    for data in shown:
        text = "".join(data["tokens"][:-1])
        met = [tuple(map(int, pair)) for pair in re.findall(r"(\d)\+(\d)=", text)]
        assert len(data["doubtful"]) == sum(pair in sums.NOISY_PAIRS for pair in met)
        assert data["kinds"].count(widgets.FREE) in (4, 5)  # the last digit is no choice
        assert data["kinds"].count(widgets.RIGHT) + data["kinds"].count(widgets.WRONG) == 5
        above, below = widget.draw(data)["panels"]
        assert above == widget.draw(shown[0])["panels"][1]  # the surest one stays
        assert len(below["marks"]) == 34 + len(data["doubtful"])
        assert below["title"].startswith(f"number {data['chain']} of 40")
        for place, kind in enumerate(data["kinds"]):
            if kind == widgets.WRONG:  # this author errs on his pairs alone
                assert place in data["doubtful"]
    assert "surest" not in widget.set(chain=4)
    assert widget.view.caption.startswith("Number 1 of 40 by confidence")
    assert " Number 4 of 40 by confidence" in widget.view.caption
    assert widget.constants["panels"][1]["title"].startswith("number 40 of 40")  # no pair is asked
    pair = widgets.pairs_of("".join(shown[20]["tokens"]))[2]
    with_it = [
        i for i, data in enumerate(shown, 1) if pair in widgets.pairs_of("".join(data["tokens"]))
    ]
    assert widgets.Along(drawn, pair).values["chain"] == with_it[-1]


def test_the_same_digits_are_no_choice():
    text = "4+4=8;8+1=9;9+4=3;3+4=7;7+4=1;#1"  # behind the 1 only fours are left
    found = [place for place, kind in enumerate(widgets.kinds(text)) if kind == widgets.FREE]
    assert found == [0, 2, 8]
    assert {*widgets.kinds("#")} == {"no choice"}


@pytest.mark.parametrize("author", [AUTHORS[0], AUTHORS[3]])
@pytest.mark.parametrize(("power", "of"), [(1.0, "texts"), (4.0, "tokens"), (4.0, "texts")])
def test_the_orders_of_a_fork_are_all_that_an_author_writes(author, power, of):
    digits = (4, 4, 4, 1, 2, 9)
    found, texts = np.zeros(10), {}
    for order in {*itertools.permutations(digits)}:
        texts |= forks.texts(author, order, power, of)
    for text, mass in texts.items():
        found[text[-1][1]] += mass
    expected = author.answers(Problem("", "", "sums", digits), power, of).sum(axis=1)
    np.testing.assert_allclose(found / found.sum(), expected, atol=1e-12)
    orders = {tuple(x for x, _ in text) for text in texts}
    plain = [sum(forks.texts(author, order, 1.0, "texts").values()) for order in orders]
    assert plain == pytest.approx([1 / len(orders)] * len(orders))  # no order is likelier


def test_a_fork_is_as_wide_as_its_chance():
    orders = [(1, 9, 8, 4, 2, 0), (1, 9, 8, 2, 4, 0)]  # 0 + 4 is a pair of the habit
    chart = forks.fork(Author(), orders, ["T = 1", "T = 1/4", "p⁴"])
    cold = 0.6**4 / (0.6**4 + 0.4**4)
    every = [1, 0.4, 0.6], [1, 1 - cold, cold], [1, 0.4**4, 0.6**4]
    for marks, weights in zip(charted(chart), every, strict=True):
        parts = [weight / sum(weights) for weight in weights]
        ends = [mark["text"] for mark in marks if mark.get("text", "").startswith("0.")]
        assert ends == [f"{part:.2f}" for part in parts]
        wide = [m["wide"] for m in marks if m.get("colour") == forks.HABIT and "line" in m]
        wanted = [max(0.8, forks.WIDEST * part) for part in parts[1:]]
        assert wide == pytest.approx(wanted, abs=0.051)
    with pytest.raises(ValueError, match="readings"):
        forks.fork(Author(), orders, ["T = 2"])


def test_a_slip_of_an_author_is_a_ring_and_is_not_followed():
    orders = [(1, 9, 8, 4, 2, 0), (1, 9, 8, 2, 4, 0)]
    named = {name: widgets.AUTHORS[name] for name in widgets.AUTHORS}
    chart = forks.authors(named, orders)
    wanted = {
        "hesitates where he errs": (["0.50", "0.20", "0.30"], 0, 2),
        "errs without hesitating": (["0.50", "0.50"], 0, 0),
        # a step of two results has one line, but for 0 + 4, which has two if both may come
        "errs there, hesitates elsewhere": ([f"{0.5 * 0.9**k:.2f}" for k in (5, 4)], 7, 7),
        "hesitates everywhere": (
            [f"{x:.2f}" for x in (0.5 * 0.9**5, 0.2 * 0.9**4, 0.3 * 0.9**4)],
            8,
            10,
        ),
    }
    assert [view["title"] for view in chart.panels] == [*wanted]
    for marks, (ends, slips, brown) in zip(charted(chart), wanted.values(), strict=True):
        assert [m["text"] for m in marks if m.get("text", "").startswith("0.")] == ends
        assert sum("dot" in mark for mark in marks) == slips
        whole = [m for m in marks if m.get("colour") == forks.HABIT and len(m.get("line", ())) == 4]
        assert len(whole) == brown


def test_how_sure_it_is_of_what_it_writes_is_a_mean_by_kind():
    drawn = [Author().write(problem, 30, 4) for problem in PROBLEMS[:2]]
    found = widgets.sureness(drawn)
    assert [*found] == [*widgets.RESULTS.values(), widgets.FREE]
    met = [
        -logs[place, :5].mean()
        for each in drawn
        for text, logs in zip(each.texts, each.logs, strict=True)
        for place, t, x, n in widgets.steps(text)
        if (t, x) in sums.NOISY_PAIRS and n != (t + x) % 10
    ]
    assert found["a result, one of the 20, wrong"][0] == pytest.approx(np.mean(met))
    assert found["a result, another pair, right"][0] > found["a result, one of the 20, right"][0]


def test_an_author_is_right_as_his_answers_are():
    author = Author(0.6, 0.1)
    for power, of in ((1.0, "texts"), (4.0, "tokens")):
        shares = [author.answers(p, power, of)[sum(p.data) % 10].sum() for p in PROBLEMS]
        assert author.right(PROBLEMS, power, of) == pytest.approx(np.mean(shares))
    assert len(measured.problems()) == len(measured.SEEDS) * measured.PROBLEMS


def test_a_second_rule_stands_at_the_lots_gain():
    found = {"by lot": (-0.2, -0.3, -0.1), "surest": (0.1, 0.0, 0.2)}
    (marks,) = charted(widgets.against_all(found, "by lot"))
    assert [mark["rule"]["x"] for mark in marks if "rule" in mark] == [0, -0.2]


def test_surest_counts_tenths_and_votes():
    widget = widgets.Surest(PROBLEMS[:3], n=20)
    for name in widgets.AUTHORS:
        data = widget.compute(name, "mean of the best 5", 1.0)
        assert data["tenths"].mean() == pytest.approx(data["votes"][0])
        assert len(widget.draw(data)["panels"][0]["marks"]) == 21
    author = widgets.AUTHORS["hesitates where he errs"]
    drawn = [author.write(problem, 20, 18) for problem in PROBLEMS[:3]]
    values = [chains.values_of(each, "log-probability") for each in drawn]
    pairs = [*zip(drawn, values, strict=True)]
    top = [each.right[np.argsort(-value, kind="stable")[:2]] for each, value in pairs]
    least = [each.right[np.argsort(value, kind="stable")[:2]] for each, value in pairs]
    top_first = [each.right[np.argsort(-value, kind="stable")] for each, value in pairs]
    data = widget.compute("hesitates where he errs", "log-probability", 1.0)
    order = [chains.ordered(value, each.right) for each, value in pairs]
    assert data["spread"] == pytest.approx((min(order), max(order)))
    assert data["tenths"][0] == pytest.approx(np.mean(top))
    low, high = data["apart"]
    leads = np.mean(top, axis=1) - np.mean(least, axis=1)
    assert data["tenths"][0] - data["tenths"][-1] == pytest.approx(leads.mean())
    # of 27 draws of three problems one is thrice the least, more than 2.5 % of them
    assert (low, high) == pytest.approx((leads.min(), leads.max()))
    leads = [each[:2].mean() - each.mean() for each in top_first]
    assert data["lead"] == pytest.approx((min(leads), max(leads)))
    assert "hesitates where he errs" in widget.set(measure="log-probability")
    told = widget.line("hesitates where he errs", "log-probability")
    assert (
        f"surest tenth {np.mean(top):.2f} ({min(leads):+.2f} to {max(leads):+.2f} on all)" in told
    )


def test_a_table_says_what_surest_counts():
    widget = widgets.Surest(PROBLEMS[:3], n=20)
    names, measures = ["hesitates where he errs", "hesitates everywhere"], ["log-probability"]
    head, *rows, met = widget.table(names, measures).splitlines()
    assert head.split("  ")[-1] == "surest tenth: log-probability"
    for name, row in zip(names, rows, strict=True):
        data = widget.compute(name, *measures, 1.0)
        wanted = [*data["votes"][:2], data["tenths"][0]]
        assert row.removeprefix(name).split() == [f"{share:.2f}" for share in wanted]
        value, low, high = widget.leads(names, measures)["log-probability"][name]
        assert value == pytest.approx(data["tenths"][0] - data["votes"][0])
        assert (low, high) == data["lead"]
    author = widgets.AUTHORS[names[-1]]
    added = []
    for drawn in [author.write(problem, 20, 18) for problem in PROBLEMS[:3]]:
        order = np.argsort(-chains.values_of(drawn, *measures), kind="stable")
        counts = [
            sum(pair in sums.NOISY_PAIRS for pair in widgets.pairs_of(text)) for text in drawn.texts
        ]
        added.append((np.mean([counts[i] for i in order[:2]]), np.mean(counts)))
    assert met.endswith("add {:.2f} a chain, all {:.2f}".format(*np.mean(added, axis=0)))


def test_it_flips_with_the_author():
    widget = widgets.Surest(sums.problems(6, 20))
    given = "mean of the best 5", 1.0
    slopes = {name: widget.compute(name, *given)["ordered"] for name in widgets.AUTHORS}
    assert slopes["hesitates where he errs"] > 0.65
    assert 0.4 < slopes["errs without hesitating"] < 0.6
    assert slopes["errs there, hesitates elsewhere"] < 0.4


@pytest.mark.thorough
def test_the_command_measures_what_is_kept(target, monkeypatch, tmp_path):
    """In small: one seed of two problems; it writes what ``stored`` reads, all of it."""
    small = {"PROBLEMS": 2, "CHAINS": 4, "WARM": 2, "SEEDS": range(1), "BUDGETS": (6, 30)}
    names = {part: {*found} for part, found in measured.stored().items()}
    for name, value in {**small, "FILE": tmp_path / "measured.json"}.items():
        monkeypatch.setattr(measured, name, value)
    assert [*measured.write()] == [0]
    again = {part: {*found} for part, found in measured.stored().items()}
    names["thinking"] = {name for name in names["thinking"] if name.split(",")[0] in ("6", "30")}
    assert again == names


# --- real models ------------------------------------------------------------------------------
def test_a_text_read_again_has_the_measures_of_the_library(target):
    model, tokenizer = target
    prompt = tokenizer.encode(PROBLEMS[1].prompt)
    how = {"max_tokens": 12, "seed": 4, "top_logprobs": 512}
    samples = lablib.sample_n(model, prompt, 3, **how)
    read = real.Read(model)
    for again in (
        prompt,
        tokenizer.encode(PROBLEMS[2].prompt),
        prompt,
    ):  # only what differs is read
        rows = real.thought(read, again, samples.tokens)
    for row, best, logs in zip(rows, samples.top_logprobs, samples.logprobs, strict=True):
        np.testing.assert_allclose(row[:, 0], logs, atol=1e-3)
        kept = dict(zip(real.KEPT, real.said(row), strict=True))
        five = [each[:5] for each in best]
        assert kept["best 5"] == pytest.approx(mean_confidence(five), abs=2e-3)
        assert kept["tail"] == pytest.approx(tail_confidence(five, real.TAIL), abs=2e-3)
        assert kept["lowest"] == pytest.approx(lowest_confidence(five, 1), abs=2e-3)
        assert kept["all"] == pytest.approx(self_certainty(best) + math.log(512), abs=2e-3)
        assert kept["entropy"] == pytest.approx(negative_entropy(best), abs=2e-3)
    warm = lablib.sample_n(model, prompt, 1, temperature=real.HEAT, max_tokens=12, seed=1)
    row = real.thought(read, prompt, warm.tokens)[0]
    logits = model(mx.array([[*prompt, *warm.tokens[0]]]))[0, len(prompt) - 1 : -1] / real.HEAT
    logs = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
    found = logs[np.arange(len(row)), warm.tokens[0]]
    np.testing.assert_allclose(row[:, 1], found, atol=1e-3)


def asked_twice():
    """One question of which the vote is wrong, and the surest half and the likeliest are right."""
    sure = {"sum": np.array([-0.1, -0.1, -0.2, -0.3, -4, -4, -4, -4.0])}
    sure |= {"mean": sure["sum"] / 4}
    wrong = compared.Question(0, "sums", "1", ["1"] * 3 + ["2"] * 5, sure)
    silent = compared.Question(1, "sums", "1", [None] * 8, sure)
    return [wrong, silent]


def test_the_surest_half_outvotes_the_many(monkeypatch):
    monkeypatch.setattr(compared, "questions", lambda model: asked_twice())
    compared.right.cache_clear()
    monkeypatch.setattr(compared.real, "STORED", Path("nowhere"))
    won = compared.right("none")
    compared.right.cache_clear()
    assert won["majority"].tolist() == [0, 0]
    assert won[compared.LIKELY].tolist() == [1, 0]
    assert won["the likeliest"].tolist() == [1, 0]
    assert won["surest half: log-probability"].tolist() == [1, 0]
    assert won["one sample"].tolist() == [3 / 8, 0]


def test_powers_are_weighed_against_how_texts_were_drawn():
    """Two texts as likely, one of which was drawn more often: p⁴ takes that out again."""
    sure = {name: np.zeros(8) for name in ("sum", "mean", *real.KEPT)}
    sure["best 5"] += 1.0
    sure["sum"] = np.log([0.3] * 5 + [0.31] * 3)
    sure["warm"] = np.log([0.5] * 5 + [0.3] * 3)
    each = compared.Question(0, "sums", "2", ["1"] * 5 + ["2"] * 3, sure)
    weights = np.exp(compared.weights_of(each)[compared.POWERED])
    assert weights == pytest.approx([0.3**4 / 0.5] * 5 + [0.31**4 / 0.3] * 3)
    assert weights[:5].sum() < weights[5:].sum()
    assert {*compared.weights_of(each)} == {
        *compared.HALVES, compared.LIKELY, compared.CONFIDENT, compared.POWERED
    }  # fmt: skip


def test_a_chance_is_the_sum_over_different_texts():
    logs = np.log([0.3, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1])
    answers = ["1", "1", "1", "2", "2", "3", "4", "5"]
    each = compared.Question(0, "sums", "1", answers, {"sum": logs})
    assert compared.elected(each) == (pytest.approx(0.5), True)  # 0.3 once, though it came twice
    assert compared.elected(each._replace(truth="2"))[1] is False


def test_what_is_stored_of_real_models_is_lesson_12_s():
    greedy = compared.right()[compared.GREEDY]
    asked = runs.asked("facts")
    cold = asked.greedy()
    for each, text, found in zip(compared.questions(), cold, greedy, strict=True):
        assert np.isnan(found) if text is None else found == (text == each.truth)
    assert compared.GREEDY not in compared.right("gemma3")
    assert compared.gain(compared.GREEDY).n == 508
    for model, n in (("smollm2", 1012), ("gemma3", 85)):
        assert len(compared.questions(model)) >= n
        bins = compared.calibration(model)
        assert sum(each["n"] for each in bins) == len(compared.questions(model))
        assert 0 < compared.off(bins) < 0.5
    assert compared.verdict(runs.mean_of([0.19, 0.2, 0.21])) == compared.BETTER
    assert compared.verdict(runs.mean_of([-0.19, -0.2, -0.21])) == compared.WORSE
    assert compared.verdict(runs.mean_of([-0.1, 0.2, 0.3])) == compared.OPEN


def test_votes_are_drawn_with_their_verdicts():
    found = {"up": runs.mean_of([0.19, 0.2, 0.21]), "even": runs.mean_of([-0.1, 0.2, 0.3])}
    chart = widgets.against_the_vote(found)
    (marks,) = charted(chart)
    dots = [mark for mark in marks if "dot" in mark]
    assert [mark["dot"][0] for mark in dots] == pytest.approx([20, 40 / 3])
    assert dots[0]["colour"] == widgets.VERDICTS[compared.BETTER] != dots[1]["colour"]
    assert {text for _, text in chart.panels[0]["x"]["ticks"]} >= {"0", "10", "20", ""}
    assert [what for _, what in chart.keys] == [compared.BETTER, compared.OPEN]  # those with a dot
    assert compared.points(runs.mean_of([0.19, 0.2, 0.21])).startswith("20.0 points (95 %: ")
    bins = [{"said": 0.1, "right": (0.15, 0.0, 0.3)}, {"said": 0.3, "right": (0.4, 0.2, 0.5)}]
    (marks,) = charted(widgets.said_and_right(bins))
    assert [mark["dot"] for mark in marks if "dot" in mark] == [[0.1, 0.15], [0.3, 0.4]]
    assert next(mark["line"] for mark in marks if "line" in mark) == [[0, 0], [1, 1]]


@pytest.mark.thorough
@pytest.mark.skipif(zoo.fetched("gemma3") is None, reason="python -m lablib fetch gemma3")
def test_gemma_answers_as_it_did():
    known = [each for each in runs.stored("facts-gemma3") if each["number"] % 60 == 0][:2]
    every = facts.facts()
    model, tokenizer = lablib.load("gemma3", dtype=mx.float32)
    asked = [(each["number"], every[each["number"]]) for each in known]
    options = [lablib.SamplerOptions(temperature=real.HEAT, seed=n) for n, _ in asked]
    longest = [len(tokenizer.encode(" " + fact.truth)) + 3 for _, fact in asked]
    how = {"max_tokens": longest, "stop": "\n", "tokenizer": tokenizer}
    again = lablib.sample_many(model, [fact.prompt for _, fact in asked], options, 8, **how)
    for samples, record in zip(again, known, strict=True):
        texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in samples.tokens]
        pairs = zip(texts, runs.chosen(record), strict=True)
        assert sum(text != stored for text, (stored, *_) in pairs) <= 1  # near ties may part


@pytest.mark.thorough
@pytest.mark.skipif(zoo.fetched("smollm2") is None, reason="python -m lablib fetch")
def test_smollm2_s_texts_are_read_with_their_log_probabilities():
    model, tokenizer = lablib.load("smollm2", dtype=mx.float32)
    known = runs.stored("facts")[::253]
    found = [*real.sure(model, tokenizer, known)]
    assert [each["number"] for each in found] == [each["number"] for each in known]
