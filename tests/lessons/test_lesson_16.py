"""The games of lesson 16 are fair, and their table keeps what was played."""

import json
from pathlib import Path

import lablib
from lablib.course.checks.checking import check
from lablib.course.lessons.lesson_16 import board, drafts, stories, sums
from lablib.course.lessons.lesson_16.exercises import ODDS, PROPOSE, VOTE
from lablib.course.lessons.lesson_16.scores import Difference, Foul, Score
from lablib.course.lessons.lesson_16.texts import by_chance, uniforms, write
from lablib.course.lessons.lesson_16.widgets import Voting, ruler, tried
from lablib.inference import SpeculativeTokenIterator

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import curves, read
from oracles.refusals import refuses


@pytest.fixture(scope="module")
def openings() -> stories.World:
    return stories.world(5, 2)


@pytest.fixture(scope="module")
def pool() -> sums.World:
    return sums.world(5, 12)


@pytest.fixture(scope="module")
def lists() -> drafts.World:
    return drafts.world(5, 6)


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(board, "_here", [])
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------------ what all games stand on
def test_a_batch_writes_what_each_text_writes_alone() -> None:
    model = lablib.LanguageModel(lablib.llama_config(24, 16, 2, 2), seed=3)
    prompts = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [4, 5, 6], [9, 2, 5]]  # one twice: it is read once

    def best(step: int, rows: list[int], logits: np.ndarray) -> np.ndarray:
        return logits.argmax(axis=1)

    together, chances = write(model, prompts, best, 12, stop=7)
    for prompt, text, logprobs in zip(prompts, together, chances, strict=True):
        assert write(model, [prompt], best, 12, stop=7)[0] == [text]
        rows = model(mx.array([[*prompt, *text]]))[0, len(prompt) - 1 : -1]
        exact = np.array(rows - mx.logsumexp(rows, axis=-1, keepdims=True))
        assert logprobs == pytest.approx(exact[np.arange(len(text)), text], abs=1e-4)
        assert len(text) == 12 or text[-1] == 7


def test_the_random_numbers_depend_on_their_key_alone() -> None:
    assert (uniforms("a", 1, size=4) == uniforms("a", 1, size=4)).all()
    assert (uniforms("a", 1, size=4)[:2] == uniforms("a", 1, size=2)).all()
    assert not (uniforms("a", 1, size=4) == uniforms("a", 2, size=4)).any()
    p = np.tile([0.0, 0.25, 0.75, 0.0], (4000, 1))
    drawn = np.bincount(by_chance(p, uniforms("b", size=4000)), minlength=4) / 4000
    assert drawn[[0, 3]].tolist() == [0, 0]
    assert abs(drawn[1] - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)
    assert by_chance(p[:2], np.array([0.0, 1 - 1e-16])).tolist() == [1, 2]


def test_a_score_says_what_it_was_made_of() -> None:
    score = Score.of("sums", [1.0, 0.0, 1.0, 1.0], tokens=1234, rate=0.5)
    assert score.value == 0.75
    assert score.low < 0.75 < score.high
    assert repr(score).startswith("sums: 0.750 (95 %: ")
    assert score.made_of == "tokens 1,234, rate 0.500"


# ------------------------------------------------------------------ stories
def test_a_story_told_twice_counts_once(openings) -> None:
    greedy = stories.play(lambda p, texts: np.eye(p.shape[1])[p.argmax(axis=1)], openings)
    assert greedy.value <= 1 / stories.ROWS
    assert greedy.parts["different"] == pytest.approx(1 / stories.ROWS)


def test_the_stories_that_are_shown_are_those_that_count(openings) -> None:
    told = [stories.tell(stories.baseline, openings, place) for place in (0, 1)]
    score = stories.play(stories.baseline, openings)
    good = [{one.first for one in each if one.valid} for each in told]
    assert score.values == tuple(len(each) / stories.ROWS for each in good)
    assert score.parts["tokens"] == sum(one.tokens for each in told for one in each)


def test_a_good_sampler_beats_the_plain_one_and_a_flat_one_gets_nothing(openings) -> None:
    plain, good = (stories.play(odds, openings) for odds in (stories.baseline, ODDS.reference))
    assert good.value > plain.value + 0.1
    assert good == stories.play(ODDS.reference, openings)  # the same numbers for everybody
    flat = stories.play(lambda p, texts: np.full(p.shape, 1 / p.shape[1]), openings)
    assert flat.value == 0


def by_heart(problems) -> stories.Odds:
    """Bring along the answers of these problems; plain for others."""
    model, tokenizer = lablib.load("target")
    known = []
    for problem in problems:
        start = len(tokenizer.encode(problem.prompt))
        ids = [*tokenizer.encode(problem.prompt + problem.answer), tokenizer.eos_token_id]
        logits = np.array(model(mx.array([ids[:start]]))[0, -1])
        known.append((logits, ids[start:]))

    def odds(logits, texts):
        probs = stories.baseline(logits, texts)
        if not texts[0]:
            alike = (ids for row, ids in known if np.allclose(row, logits[0], atol=1e-2))
            odds.ids = next(alike, None)
        if odds.ids:
            step = len(texts[0])
            probs = np.eye(logits.shape[1])[[odds.ids[min(step, len(odds.ids) - 1)]] * len(logits)]
        return probs

    return odds


def test_stories_learnt_by_heart_gain_nothing(openings) -> None:
    """On what was seen one story comes twelve times; on hidden seeds there is nothing to recall."""
    cheat = by_heart(openings.problems)
    assert stories.play(cheat, openings).value <= 1 / stories.ROWS
    hidden = stories.world(6, 1)
    assert stories.play(cheat, hidden) == stories.play(stories.baseline, hidden)


def test_a_token_that_the_model_would_not_write_spoils_a_story(openings, monkeypatch) -> None:
    monkeypatch.setattr(stories, "LEAST", 0.9)
    assert stories.play(ODDS.reference, openings).value < 0.1


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([[1.0]], "the shape of its logits"),
        ("abc", "must return numbers"),
        ([10**400], "must return numbers"),
        (np.full((12, 512), 0.5), "sum to 1, got a sum of 256"),
        (np.full((12, 512), np.nan), "sum to 1"),
        (np.eye(512)[[0] * 12] * 2 - np.eye(512)[[1] * 12], "from 0 on"),
    ],
)
def test_odds_that_are_none_are_a_foul(openings, found, complaint) -> None:
    refuses(Foul, complaint, stories.play, lambda logits, texts: found, openings)


# ------------------------------------------------------------------ sums
def toy(right: list[int], pool: int = 16, cost: int = 10, each: int = 5) -> sums.World:
    """Make problems whose first ``right[i]`` samples of each pool are right; each costs 10."""
    rows = [[("7" if i < n else "3", [-0.1] * cost) for i in range(pool)] for n in right]
    return sums.World(rows, ["7"] * len(right), each * cost * len(right))


def test_the_budget_is_one_for_all() -> None:
    asked: list[tuple[int, int, int]] = []

    def vote(votes, left, problems):
        asked.append((len(votes), left, problems))
        return sums.baseline(votes, left, problems)

    score = sums.play(vote, toy([16, 16, 0]))
    assert score.value == pytest.approx(2 / 3)
    assert (score.parts["tokens"], score.parts["budget"], score.parts["samples"]) == (150, 150, 5)
    assert asked[0] == (0, 150, 3)
    assert asked[5] == (5, 100, 3)
    assert asked[-1] == (5, 0, 1)  # nothing is left, and it is told so


def test_who_spends_more_than_there_is_has_none_for_the_later_problems() -> None:
    def spender(votes, left, problems):
        return "more" if left else votes[-1][0] if votes else "0"

    score = sums.play(spender, toy([16] * 4))
    assert score.parts["tokens"] == 200
    assert score.value == pytest.approx(2 / 4)  # 16 and 4 samples, and then none
    assert sums.play(sums.baseline, toy([16] * 4)).value == 1


def test_more_is_no_answer_when_nothing_is_left() -> None:
    assert sums.play(lambda *_: "more", toy([16, 16])).value == 0


def test_what_was_asked_can_not_be_changed() -> None:
    def vote(votes, left, problems):
        for _, chances in votes:
            chances.clear()
        votes.append(("7", [0.0]))
        return "more" if left and len(votes) < 5 else "7"

    world = toy([0, 0])
    assert sums.play(vote, world).parts["tokens"] <= world.budget
    assert all(len(chances) == 10 for pool in world.samples for _, chances in pool)


def test_an_answer_is_a_text() -> None:
    refuses(Foul, "must return a text, got int", sums.play, lambda *_: 7, toy([1]))


def test_samples_are_those_of_the_model(pool) -> None:
    assert sums.world(5, 12) is pool
    assert len(pool.samples) == 12
    answered = [answer for each in pool.samples for answer, _ in each]
    assert {len(each) for each in pool.samples} == {sums.POOL}
    assert sum(answer is None for answer in answered) < 0.05 * len(answered)
    pairs = zip(pool.samples, pool.truths, strict=True)
    right = np.mean([answer == truth for each, truth in pairs for answer, _ in each])
    assert 0.3 < right < 0.8
    assert right < sums.ceiling(pool) <= 1
    assert sums.ceiling(toy([0, 1, 16])) == pytest.approx(2 / 3)


def test_the_oracle_is_a_ceiling(openings, pool, lists) -> None:
    """Nobody gets more: neither ours, nor who knows the texts, nor who draws the right ones."""
    for game, world, example in (
        (stories, openings, ODDS), (sums, pool, VOTE), (drafts, lists, PROPOSE)
    ):  # fmt: skip
        top = game.oracle(world)
        for each in (game.baseline, example.reference):
            assert game.play(each, world).value <= top.value + 1e-9
        assert board.CAPSTONES[game.NAME].oracle is game.oracle
    known = {tuple(p): t for p, t in zip(lists.prompts, lists.texts, strict=True)}

    def by_heart(prompt, written, limit):
        return known[tuple(prompt)][len(written) : len(written) + limit]

    assert drafts.play(by_heart, lists, call=1e9).values == drafts.oracle(lists).values
    late = toy([0, 16, 16])
    late.samples[1][:] = [("3", [-0.1] * 10)] * 9 + [("7", [-0.1] * 10)] * 7  # the tenth is right
    assert sums.oracle(late).values == (0.0, 1.0, 1.0)
    assert sums.oracle(late).parts["tokens"] == 110
    poor = sums.World(late.samples, late.truths, 100)  # too little for the dear one
    assert sums.oracle(poor).values == (0.0, 0.0, 1.0)
    assert sums.ceiling(late) >= sums.oracle(late).value


def by_turns(world: sums.World, beta: float) -> np.ndarray:
    """Return, vote by vote, how often each problem's first 1, 2, ... samples elect the truth."""
    won = []
    for pool, truth in zip(world.samples, world.truths, strict=True):
        right = np.zeros((len(pool), len(pool)))
        for turn in range(len(pool)):
            weights: dict[str, float] = {}
            for n, (answer, chances) in enumerate([*pool[turn:], *pool[:turn]]):
                if answer:
                    weights[answer] = weights.get(answer, 0.0) + np.exp(beta * sum(chances))
                right[turn, n] = max(weights, key=weights.get, default=None) == truth
        won.append(right.mean(axis=0))
    return np.array(won)


def test_a_good_vote_beats_the_majority_and_the_widget_sees_why(pool) -> None:
    widget = Voting(pool)
    for beta in (0.0, 1.0):
        assert widget.won(beta) == pytest.approx(by_turns(pool, beta))
    data = widget.compute(5, 1.0)
    assert data["weighted"][4] > data["counted"][4]
    votes, _, apart = read(widget.draw(data))
    assert [*curves(votes)] == ["weighted, β = 1", "counted"]  # levels have an axis of their own
    assert curves(apart)["difference"] == pytest.approx(data["gain"][0], abs=1e-4)
    assert "With 1 sample a problem weighting gains +0.00 on counting" in widget.set(samples=1)
    assert data["whole"].sum() == pytest.approx(1)
    assert np.all(np.diff(data["whole"]) <= 0)  # the surest first
    even = widget.compute(5, 0.0)
    assert even["right"].sum() == pytest.approx(even["counted"][0])  # of one sample
    assert widget.right[:, 0].mean() > widget.right[:, -1].mean()
    single = [a == t for each, t in zip(pool.samples, pool.truths, strict=True) for a, _ in each]
    assert widget.won(0.7)[:, 0].mean() == pytest.approx(np.mean(single))
    assert Voting(toy([16, 9, 7, 0])).won(0.0)[:, -1].mean() == pytest.approx(2 / 4)
    assert Voting(pool, pool).won(2.0) == pytest.approx(np.tile(widget.won(2.0), (2, 1)))
    silent = sums.World([[(None, [-0.1])] * 2], ["0"], 10)
    assert Voting(silent).won(0.0).tolist() == [[0, 0]]  # who says nothing elects nobody
    assert sums.play(VOTE.reference, pool).parts["tokens"] <= pool.budget


def test_the_two_votes_are_compared_problem_by_problem(pool) -> None:
    """Their samples are the same, so the interval of the difference is that of one number each."""
    weighted, counted = by_turns(pool, 1.0)[:, 2:], by_turns(pool, 0.0)[:, 2:]
    gain, low, high = Voting(pool).gain(1.0)[:, 2:]
    assert gain == pytest.approx((weighted - counted).mean(axis=0))
    half = 1.96 * (weighted - counted).std(axis=0) / np.sqrt(len(pool.truths))
    assert (high - low) / 2 == pytest.approx(half, rel=0.15)
    apart = 1.96 * np.sqrt((weighted.var(axis=0) + counted.var(axis=0)) / len(pool.truths))
    assert ((high - low) / 2 < 0.8 * apart).all()  # as if each had problems of its own


# ------------------------------------------------------------------ drafts
@pytest.mark.parametrize("propose", [drafts.baseline, PROPOSE.reference, lambda *_: []])
def test_the_calls_that_are_counted_are_the_engine_s(lists, propose) -> None:
    model, tokenizer = lablib.load("target")
    rounds = 0
    for prompt, text in zip(lists.prompts, lists.texts, strict=True):
        with SpeculativeTokenIterator(
            model, drafts.Written(propose, prompt), prompt, max_tokens=drafts.LONGEST,
            draft_tokens=drafts.LIMIT, temperature=0.0, stop_tokens=[tokenizer.eos_token_id],
        ) as iterator:  # fmt: skip
            assert [token.id for token in iterator] == text
        rounds += iterator.stats["rounds"]
    assert drafts.play(propose, lists).parts["calls"] == rounds


def test_a_good_drafter_beats_look_up(lists) -> None:
    base, good = (drafts.play(each, lists) for each in (drafts.baseline, PROPOSE.reference))
    assert 1 < base.value < good.value <= drafts.LIMIT + 1
    assert good.parts["acceptance_rate"] > base.parts["acceptance_rate"]


def test_texts_learnt_by_heart_gain_nothing_on_hidden_seeds(lists) -> None:
    known = {tuple(p): t for p, t in zip(lists.prompts, lists.texts, strict=True)}

    def cheat(prompt, written, limit):
        return known.get(tuple(prompt), [])[len(written) : len(written) + limit]

    assert drafts.play(cheat, lists).value > drafts.play(drafts.baseline, lists).value
    assert drafts.play(cheat, drafts.world(6, 3)).value == 1


def asks_the_target(prompt, written, limit):
    model, _ = lablib.load("target")
    ids = [*prompt, *written]
    for _ in range(limit):
        ids.append(int(mx.argmax(model(mx.array([ids]))[0, -1])))
    return ids[len(prompt) + len(written) :]


@pytest.mark.slow
def test_who_asks_the_target_pays_for_it(lists) -> None:
    """All its drafts stay, and each round costs as many calls as it has asked, at least."""
    found = drafts.play(asks_the_target, lists)
    assert found.parts["acceptance_rate"] > 0.9
    assert found.parts["price"] > drafts.LIMIT / 2
    free = drafts.play(asks_the_target, lists, call=np.inf)
    assert free.parts["price"] == 1
    assert free.value == pytest.approx(found.value * found.parts["price"])
    assert found.value < drafts.play(PROPOSE.reference, lists).value < free.value


def test_work_below_a_quarter_of_a_call_is_free_and_more_is_paid_in_quarters(lists) -> None:
    class Elsewhere:
        """A drafter that says itself how long it has worked."""

        spent = 5.0

        def __init__(self, each: float) -> None:
            self.each = each

        def worked(self) -> float:
            return self.spent

        def __call__(self, *case) -> list[int]:
            self.spent += self.each
            return []

    prices = [drafts.play(Elsewhere(each), lists, call=1).parts["price"] for each in (0.2, 0.3, 2)]
    assert prices == [1, 1.25, 3]


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (["the"], "a list of ids, got texts"),
        (list(range(9)), "at most 8 ids, got 9"),
        (7, "a list of ids, got int"),
        (["1"], "a list of ids, got texts"),
        ([[1]], "a list of ids, got list that begins with a list"),
        ([1.5], r"whole numbers from 0, got \[1.5\]"),
        ([-1], "whole numbers"),
        (["x"], "a list of ids"),
        ([float("inf")], r"whole numbers from 0, got \[inf\]"),
        ([(3, 0.9)], "a list of ids"),  # a claim about its chance
    ],
)
def test_what_is_no_draft_is_a_foul(lists, found, complaint) -> None:
    refuses(Foul, complaint, drafts.play, lambda *_: found, lists)


# ------------------------------------------------------------------ the same problems
def test_two_scores_are_compared_problem_by_problem() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 5, 40)  # problems differ by more than the two functions do
    one, other = (Score.of("sums", hard + shift + rng.normal(0, 0.1, 40)) for shift in (0.3, 0))
    assert one.low < other.value < one.high
    apart = Difference.of(one, other)
    assert apart.sure
    assert apart.low < 0.3 < apart.high
    assert not Difference.of(one, one).sure
    assert repr(Difference(0.125, -0.5, 1)) == "+0.125 (95 %: -0.500 to +1.000)"
    refuses(ValueError, "the same problems", Difference.of, one, Score.of("sums", hard[1:]))


def test_scores_of_several_seeds_are_one_score() -> None:
    scores = [Score.of("sums", values, tokens=n, rate=0.5) for values, n in (([1, 0], 3), ([1], 5))]
    together = Score.together(scores)
    assert together.value == pytest.approx(2 / 3)
    assert together.values == (1, 0, 1)
    assert together.parts == {"tokens": 4, "rate": 0.5}


def test_compare_plays_both_on_every_seed(monkeypatch, lists) -> None:
    asked = []
    monkeypatch.setattr(drafts, "world", lambda seed: asked.append(seed) or lists)
    apart = board.compare("drafts", "one good answer", seeds=(4, 7))
    assert asked == [4, 7, 4, 7]
    good, base = (drafts.play(each, lists).value for each in (PROPOSE.reference, drafts.baseline))
    assert apart.value == pytest.approx(good - base)
    assert board._here == []
    refuses(ValueError, "seeds must hold", board.compare, "drafts", "baseline", seeds=())


def test_a_picture_shows_the_tries_that_it_gets_on_one_axis() -> None:
    score = Score.of("drafts", [1.0] * 8 + [2.0] * 8 + [6.0] * 8)
    tries = ["no drafts", "look-up", "the oracle"]
    first, last = tried({"look-up": score}), tried(dict.fromkeys(tries, score))
    for chart, names in ((first, ["look-up"]), (last, tries)):
        ticks = [(-i, f"{name} 3.00") for i, name in enumerate(names)]
        assert chart.panels[0]["y"]["ticks"] == ticks
        marks = read({"panels": [{"marks": chart.marks[0]}]})[0]
        assert len([mark for mark in marks if "bar" in mark]) == len(names)
        assert len([mark for mark in marks if "dot" in mark]) == 3 * len(names)
    assert first.panels[0]["x"] == last.panels[0]["x"]
    (bar,) = (mark["bar"] for mark in first.marks[0] if "bar" in mark)
    assert bar[:2] == [0, 3.0]
    assert (bar[2] + bar[3]) / 2 == 0
    assert [mark["dot"][0] for mark in first.marks[0] if "dot" in mark] == [1, 2, 6]


def test_the_halves_of_a_ruler_are_stretched_and_their_mean_is_the_whole() -> None:
    marks = ruler(["happy", "sad", "angry"], np.array([0.3, 0.5, 0.2])).marks[0]
    bars = [mark["bar"] for mark in marks if "bar" in mark]
    rows = [[bar[1] - bar[0] for bar in bars if bar[2] < -row < bar[3]] for row in range(3)]
    for row, wide in zip(rows, ([0.3, 0.5, 0.2], [0.6, 0.4], [0.6, 0.4]), strict=True):
        assert row == pytest.approx(wide)
    named = [mark["text"] for mark in marks if "text" in mark]
    assert named[3:] == ["happy 0.6", "sad 0.4", "sad 0.6", "angry 0.4"]


# ------------------------------------------------------------------ the table
def play_small(monkeypatch) -> None:
    monkeypatch.setattr(drafts, "world", lambda seed: drafts.World([[1] * 24], [[3, 4, 5, 2]]))


def test_attempts_are_noted_and_ordered(monkeypatch) -> None:
    play_small(monkeypatch)
    assert repr(board.leaderboard()) == "no attempts yet"
    for name, ids in (("none", []), ("all", [3, 4, 5]), ("as good", [3, 4, 5, 9])):
        board.score("drafts", lambda *_, ids=ids: ids, name=name)
    rows = board.leaderboard().rows
    assert [(row[1], row[4]) for row in rows] == [("1", "all"), ("1", "as good"), ("3", "none")]
    assert "<caption>Attempts</caption>" in board.leaderboard()._repr_html_()
    assert not list(Path.cwd().iterdir())  # nothing is kept unless one is asked to


def test_places_count_within_a_seed_and_the_oracle_has_none(monkeypatch) -> None:
    play_small(monkeypatch)
    for name, ids, seed in (("all", [3, 4, 5], 1), ("none", [], 2), ("half", [3], 2)):
        board.score("drafts", lambda *_, ids=ids: ids, name=name, seed=seed)
    board.score("drafts", "the oracle")
    places = {row[4]: row[1] for row in board.leaderboard().rows}
    assert places == {"all": "1", "the oracle": "–", "half": "1", "none": "2"}
    assert [row[4] for row in board.leaderboard(seed=2).rows] == ["half", "none"]


def test_ours_are_played_by_name(monkeypatch, lists) -> None:
    monkeypatch.setattr(drafts, "world", lambda seed: lists)
    assert board.score("drafts", "baseline") == drafts.play(drafts.baseline, lists)
    assert board.score("drafts", "one good answer") == drafts.play(PROPOSE.reference, lists)
    assert board.score("drafts", "the oracle") == drafts.oracle(lists)
    rows = board.leaderboard().rows
    assert [row[4] for row in rows] == ["the oracle", "one good answer", "baseline"]


def test_the_table_outlasts_the_kernel_where_marks_are_kept(monkeypatch, tmp_path) -> None:
    play_small(monkeypatch)
    (tmp_path / "progress.json").write_text("{}")
    board.score("drafts", lambda *_: [3], name="first")
    board._here.clear()  # another kernel
    board.score("drafts", lambda *_: [], name="second")
    assert [row[4] for row in board.leaderboard().rows] == ["first", "second"]
    assert {path.name for path in tmp_path.iterdir()} == {"progress.json", board.FILE}
    assert len(json.loads((tmp_path / board.FILE).read_text())) == 2


def test_keep_begins_a_file_but_not_in_the_course(monkeypatch, tmp_path) -> None:
    play_small(monkeypatch)
    board.score("drafts", lambda *_: [3], name="before")
    board.leaderboard(keep=True)
    assert (tmp_path / board.FILE).exists()
    assert len(board.leaderboard().rows) == 1
    course = Path(board.__file__).parents[4] / "notebooks"
    monkeypatch.chdir(course)
    refuses(ValueError, "course's own", board.leaderboard, keep=True)
    board._keep(Path(board.FILE), board._here)
    assert not (course / board.FILE).exists()


def test_a_file_of_something_else_is_left_alone(monkeypatch, tmp_path, capsys) -> None:
    play_small(monkeypatch)
    for text in ("{", "[1]", '[{"value": 1}]'):
        (tmp_path / board.FILE).write_text(text)
        refuses(ValueError, "must hold attempts", board.leaderboard)
        assert board.score("drafts", lambda *_: [3]).value == pytest.approx(4 / 3)
        assert "ends with this kernel" in capsys.readouterr().out
        assert (tmp_path / board.FILE).read_text() == text


def test_bad_input_is_refused_in_a_line(monkeypatch) -> None:
    play_small(monkeypatch)

    def starter(*_):
        raise NotImplementedError

    refuses(ValueError, "function must be one of", board.score, "drafts", "the best")
    refuses(ValueError, "capstone must be one of", board.score, "poems", starter)
    refuses(TypeError, "function must be propose itself", board.score, "drafts", [1])
    refuses(ValueError, "write propose first", board.score, "drafts", starter)
    refuses(ValueError, "seed must be", board.score, "drafts", starter, seed=-1)
    refuses(ValueError, "seed must be", board.leaderboard, seed=-1)
    assert board._here == []


def test_a_drafter_is_named_by_its_drafts():
    def begins_and_stops(prompt, written, limit):  # as many kept in as many calls as one a call has
        return PROPOSE.reference(prompt, written, limit) if not written else []

    found = check("16.3", begins_and_stops)
    assert found.mark == "✗"
    assert found.misconception is None
