"""The acceptance dashboard computes what it says: exact where it can be, tossed where it must."""

import itertools

from lablib import models
from lablib.course.lessons.lesson_08.dashboard import PLAYED, WORDS, Dashboard, _fate
from lablib.course.replay.recording import DRAFT, DRAFTERS, GAMMA, HEAD, LOOKUP, stored_acceptance
from lablib.course.replay.rounds import LONGEST, guesses_of_model, replay
from lablib.course.replay.sampled import RULES, refused, toss
from lablib.inference.speculation import NGram, rules
from lablib.inference.speculation.draft_length import FixedLength
from lablib.models.head import load_head

import mlx.core as mx
import numpy as np
import pytest


@pytest.fixture(scope="module")
def parts():
    target, tokenizer = models.load("target", dtype=mx.float32)
    draft, _ = models.load("draft", dtype=mx.float32)
    words = [tokenizer.decode([i], skip_special_tokens=True) for i in range(target.vocab_size)]
    return stored_acceptance(), target, draft, load_head("target-head", target), words


@pytest.fixture(scope="module")
def board(parts):
    return Dashboard(*parts, task="sums")


def seen(board, task, drafter, rule, draft_tokens, temperature):
    """Return the data for these values."""
    values = task, drafter, rule, draft_tokens, temperature
    return board.compute(**dict(zip(board.controls, values, strict=True)))


@pytest.mark.parametrize("row", [0, 5])
def test_overlaps_are_the_rules_own(row, board, parts):
    recording, target, draft, *_ = parts
    prompt, tokens = recording.texts("stories", 1.0)[row]  # of several lengths: some are padded
    p, q = (
        mx.softmax(model(mx.array([[*prompt, *tokens]]))[0, len(prompt) - 1 : -1], axis=-1)
        for model in (target, draft)
    )
    wanted = np.array(rules.overlap(p, q)[0])
    assert np.allclose(board.overlaps("stories", DRAFT, 1.0)[row], wanted, atol=1e-5)
    data = seen(board, "stories", DRAFT, "rejection", 4, 1.0)
    assert np.abs(np.array(data["overlaps"][row]) - 100 * wanted).max() < 0.51
    p, q = np.array(p), np.array(q)
    for token, likely, of_p, of_q in zip(tokens, data["best"][row], p, q, strict=True):
        ids = [i for i, *_ in likely]
        assert len({*ids}) == WORDS
        assert ids[0] == of_p.argmax()
        must = {token, int(of_p.argmax()), int(of_q.argmax())}
        assert must <= {*ids}
        # all that stand there by their weight have more of it than any word that doesn't
        weight = of_p + of_q
        others = np.delete(weight, ids).max()
        assert all(weight[i] > others - 1e-6 for i in {*ids} - must)
        for i, some_p, some_q in likely:
            assert abs(some_p - 1000 * of_p[i]) < 0.51
            assert abs(some_q - 1000 * of_q[i]) < 0.51


def test_the_heads_rows_are_those_of_the_text_alone(board, parts):
    recording, target, _, head, _ = parts
    for row, (prompt, tokens) in enumerate(recording.texts("stories", 1.5)[: board.ROWS]):
        ids = mx.array([[*prompt, *tokens]])
        said = head.logits(head(target.hidden(ids)[:, :-1], ids[:, 1:])[0])[len(prompt) - 2 : -1]
        _, q = board.rows("stories", HEAD, 1.5)[row]
        assert np.allclose(q, np.array(said), atol=1e-3)


@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_greedy_rounds_are_those_of_the_replay(gamma, board, parts):
    recording, _, draft, *_ = parts
    data = seen(board, "edits", DRAFT, "block", gamma, 0.0)
    counts, size = np.zeros(gamma + 1), recording.of(0.0)
    first = recording.tasks.index("edits") * len(recording.temperatures) * recording.problems
    for row, (prompt, tokens) in enumerate(recording.tokens[first : first + size.stop]):
        steps = replay(guesses_of_model(draft, prompt, tokens), FixedLength(gamma))
        for step in steps:
            counts[step.kept] += step.start + gamma < len(tokens)
        if row < board.ROWS:  # greed leaves nothing to a coin
            assert [kept for _, kept in data["rounds"][row]] == [step.kept for step in steps]
    assert np.allclose(data["shares"], counts / counts.sum(), atol=1e-4)
    kept = counts @ np.arange(gamma + 1) / counts.sum()
    assert data["tokens_per_round"] == pytest.approx(1 + kept)


def test_rules_stand_in_the_order_that_theory_says(board, parts):
    recording = parts[0]
    for task, drafter in itertools.product(recording.tasks, DRAFTERS):
        data = seen(board, task, drafter, "match", GAMMA, 1.0)
        lines = {name: np.array(line) for name, line in data["lines"].items()}
        assert (lines["match"] <= lines["rejection"] + 0.01).all()  # float16, and few texts
        assert (lines["coupled"] <= lines["rejection"] + 0.01).all()
        assert (lines["block"] >= lines["rejection"] - 0.02).all()
        greedy = [line[0] for line in lines.values()]
        assert max(greedy) == pytest.approx(min(greedy), abs=1e-9)
        assert data["coins"][-1] == pytest.approx(data["alpha"] ** GAMMA)
        assert sum(data["coins"]) == pytest.approx(1)


def test_shared_noise_keeps_what_it_promises_in_every_cell(board, parts):
    """At each token, of every task, drafter and temperature: its bound, and what match keeps."""
    recording, places = parts[0], 0
    for cell in itertools.product(recording.tasks, DRAFTERS, recording.temperatures.tolist()):
        p, q = map(np.concatenate, zip(*board.both(*cell), strict=True))
        guessed = q.sum(axis=-1) > 0  # a look-up may know nothing
        pairs = (mx.array(each[guessed].astype(np.float32)) for each in (p, q))
        most, match, coupled = map(np.array, rules.overlap(*pairs))
        assert (coupled >= most / (2 - most) - 1e-5).all(), cell  # (1 - TV) / (1 + TV)
        assert (coupled >= match - 1e-5).all(), cell
        assert (coupled <= most + 1e-5).all(), cell
        places += len(most)
    assert places > 8000


@pytest.mark.parametrize("task", ["sums", "stories"])
def test_columns_are_means_over_all_texts_that_have_a_draft_there(task, board, parts):
    recording, target, draft, *_ = parts
    texts, chances = recording.texts(task, 1.0), {"match": [], "rejection": []}
    for prompt, tokens in texts:
        own, ids = slice(len(prompt) - 1, -1), mx.array([[*prompt, *tokens]])
        p, q = (
            np.take_along_axis(np.array(mx.softmax(model(ids)[0, own], axis=-1)), at, axis=-1)[:, 0]
            for at in [np.array(tokens)[:, None]]
            for model in (target, draft)
        )
        chances["match"].append(q)
        chances["rejection"].append(np.minimum(1, q / p))
    for rule in chances:
        columns = seen(board, task, DRAFT, rule, 4, 1.0)["columns"]
        assert len(columns) == max(len(tokens) for _, tokens in texts)
        for place, (kept, most, count) in enumerate(columns):
            for share, of in ((kept, rule), (most, "rejection")):
                wanted = [each[place] for each in chances[of] if len(each) > place]
                assert count == len(wanted)
                assert share == pytest.approx(100 * np.mean(wanted), abs=0.6)


def test_a_lookups_columns_leave_out_texts_without_a_guess(board):
    data = seen(board, "stories", LOOKUP, "rejection", 4, 1.0)
    texts, _ = board._chances("stories", LOOKUP)
    offered = texts.offered[board.recording.of(1.0)]
    counts = [count for *_, count in data["columns"]]
    assert counts == (offered > 0).sum(axis=0)[: len(counts)].tolist()
    assert min(counts) < max(counts) < board.recording.problems
    assert all(share == 0 for share, _, count in data["columns"] if not count)


def test_a_lookup_is_certain_or_silent(board):
    data = seen(board, "stories", LOOKUP, "rejection", 4, 1.0)
    every = [word for row in data["best"] for place in row for word in place]
    assert {q for *_, q in every} == {0, 1000}
    greedy = board.overlaps("stories", HEAD, 0.0)
    assert {*np.concatenate(greedy).tolist()} <= {0.0, 1.0}
    first = seen(board, "stories", HEAD, "rejection", 4, 0.0)["best"][0]
    assert any(0 < p < 1000 for place in first for _, p, _ in place)  # before the choice


def test_a_toss_goes_through_the_text_as_rounds_do(board):
    every = ("stories", "edits"), DRAFTERS, ("block", *PLAYED), (1, 4, 8), (0.0, 1.5)
    for task, drafter, rule, gamma, hot in itertools.product(*every):
        data = seen(board, task, drafter, rule, gamma, hot)
        texts, chances = board._chances(task, drafter)
        first, k = board.recording.of(hot).start, RULES.index(rule)
        for row, (rounds, tokens) in enumerate(zip(data["rounds"], data["tokens"], strict=True)):
            written = sum(kept + 1 for _, kept in rounds)
            assert len(tokens) <= written <= len(tokens) + 1  # the end may be a kept draft
            start = 0
            assert len(data["judged"][row]) == (len(rounds) if rule in PLAYED else 0)
            for (drafted, kept), fates in itertools.zip_longest(rounds, data["judged"][row]):
                assert 0 <= kept <= drafted <= gamma
                for i in range(min(kept + 1, drafted)):
                    stays = board._coins[row, start + i] < chances[k][first + row, start, i]
                    assert stays == (i < kept)
                assert fates is None or len(fates) == min(kept + 1, drafted)
                for i, (keep, coin, *other) in enumerate(filter(None, fates or ())):
                    assert (coin <= keep) if i < kept else (coin >= keep)
                    assert len(other) == (0 if i < kept else 3)
                    assert other[:1] != tokens[start + i : start + i + 1]
                start += kept + 1
        assert texts.lengths[first] == len(data["tokens"][0])


def test_a_lookup_goes_on_from_where_its_round_began(board):
    data = seen(board, "sums", LOOKUP, "rejection", 8, 1.5)
    later = 0
    texts = board.recording.texts("sums", 1.5)
    played = zip(texts, data["rounds"], data["judged"], strict=False)
    for (prompt, tokens), rounds, judged in played:
        start = 0
        for (drafted, kept), fates in zip(rounds, judged, strict=True):
            if kept < drafted:
                guess = NGram().begin(None, None, 1).lookup([*prompt, *tokens[:start]], drafted)
                assert fates[-1][2] == guess[kept] != tokens[start + kept]
                assert fates[-1][4] == 1000
                later += kept > 0
            start += kept + 1
    assert later > 0


@pytest.mark.parametrize("rule", PLAYED)
def test_one_coin_tells_what_was_drafted_and_how_it_was_judged(rule):
    """Coins that lie close, all over [0, 1): each draft gets its share, and its coins are even."""
    p, q = np.random.default_rng(4).dirichlet(np.ones(6), size=2)
    token, many = int((p - q).argmax()), 20_000
    chance = q[token] if rule == "match" else min(1, q[token] / p[token])
    found = [_fate(rule, p, q, token, chance, (i + 0.5) / many) for i in range(many)]
    assert sum(len(each) == 2 for each in found) / many == pytest.approx(chance, abs=2 / many)
    weights = refused(rule, p, q, token)
    for draft, share in enumerate((1 - chance) * weights / weights.sum()):
        own = np.array([each[:2] for each in found if each[2:3] == [draft]])
        assert len(own) / many == pytest.approx(share, abs=2 / many)
        if len(own) > 100:
            keep = p[draft] if rule == "match" else min(1, p[draft] / q[draft])
            assert set(own[:, 0]) == {round(100 * keep)}
            assert own[:, 1].mean() == pytest.approx(50 + 50 * keep, abs=1)


def test_what_can_not_have_been_refused_is_not_named():
    p = np.array([0.5, 0.5])
    assert _fate("rejection", p, p, 0, 0.5, 0.75) == []


def test_tosses_come_to_what_is_expected(board):
    """Mean tokens of a round over many coins; the bound fails once in a million seeds."""
    texts, chances = board._chances("stories", DRAFT)
    first, tosses, rng = board.recording.of(1.5).start, 4000, np.random.default_rng(1)
    length, offered = int(texts.lengths[first]), texts.offered[first]
    for k in range(4):
        found = board.expected("stories", DRAFT, GAMMA)[-1][k]
        given = chances[k][first], offered[:length]
        whole = [len(toss(*given, rng.random(length), GAMMA)) for _ in range(tosses)]
        error = abs(np.mean(whole) - found.kept[0].sum())
        assert error < 5 * np.std(whole) / np.sqrt(tosses)
    flipped = [len(toss(1 - chances[0][first], offered[:length], rng.random(length), GAMMA))]
    assert abs(flipped[0] - board.expected("stories", DRAFT, GAMMA)[-1][0].kept[0].sum()) > 1


def test_a_toss_by_hand():
    chances = np.zeros((4, LONGEST))
    chances[0, :2] = 0.9, 0.5
    chances[2, :2] = 0.4, 1.0
    offered, coins = np.array([3, 3, 2, 1]), np.array([0.8, 0.7, 0.3, 0.2])
    assert toss(chances, offered, coins, 2) == [(2, 1), (2, 2)]
    assert toss(chances, offered, coins, 1) == [(1, 1), (1, 1)]
    assert toss(chances, offered, coins + 0.19, 8) == [(3, 0), (3, 0), (2, 0), (1, 0)]
    assert toss(chances, 0 * offered, coins, 8) == 4 * [(0, 0)]


def test_parts_make_the_whole(board):
    start = {**board.values, "task": "edits", "drafter": HEAD, "draft_tokens": 2}
    data = board.compute(**start)
    merged = {}
    for name, wanted in board.parts.items():
        merged |= getattr(board, name)(*(start[each] for each in wanted))
    assert merged == {name: data[name] for name in merged}
    assert {*data} - {*merged} == {*board.controls}


def test_other_drafters_are_drawn_as_they_are_when_chosen(board):
    for task, gamma in itertools.product(board.recording.tasks, (1, 4, 8)):
        heat = {name: board.heat(task, name, gamma) for name in DRAFTERS}
        for name, mine in heat.items():
            rest = {other: heat[other]["lines"]["rejection"] for other in DRAFTERS if other != name}
            assert mine["others"] == rest


def test_the_caption_tells_the_engines_count_where_there_is_one(board):
    board.set(**board._start)
    assert "The engine kept" in board.view.caption
    assert "The engine" not in board.set(draft_tokens=5)
    assert "(a round without a guess keeps none)" in board.set(drafter=LOOKUP)
    board.set(**board._start)
