"""Searches against enumeration: a plainer beam, the exact best for hope, votes by hand."""

import itertools
import math
from collections import Counter

from lablib.inference import AsyncMlxLM, sample_n, speculative_sample_n, tally
from lablib.inference.speculation import NGram
from lablib.inference.steering import (
    Budget,
    beam_search,
    best_first,
    edit_distance,
    edit_similarity,
    minimum_bayes_risk,
)
from lablib.models import zoo

import numpy as np
import pytest
from oracles.scripted import Recorder, random_table
from oracles.steering import STOP, TableLM, too_far

PROMPT = [2, 1]
ENDS = {"max_tokens": 5, "stop_tokens": [STOP]}
RARE = 1e-7


@pytest.fixture(scope="module")
def lm():
    return TableLM(seed=2)


def plain_beam(lm, width, power):
    """All continuations of all beams, sorted; nothing is left out beforehand."""

    def score(beam):
        return beam[1] / max(1, len(beam[0])) ** power

    beams = [((), 0.0)]
    while any(len(text) < 5 and text[-1:] != (STOP,) for text, _ in beams):
        longer = []
        for text, logp in beams:
            if len(text) == 5 or text[-1:] == (STOP,):
                longer.append((text, logp))
                continue
            probs = lm.probs([*PROMPT, *text])
            longer += [((*text, i), logp + math.log(p)) for i, p in enumerate(probs)]
        beams = sorted(longer, key=lambda beam: -score(beam))[:width]
    return [(list(beam[0]), score(beam)) for beam in beams]


@pytest.mark.parametrize("width", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("power", [0.0, 0.7, 1.0])
def test_the_beam_is_a_plain_one(lm, width, power):
    found = beam_search(lm, PROMPT, width, length_power=power, **ENDS)
    wanted = plain_beam(lm, width, power)
    assert [each.tokens for each in found] == [tokens for tokens, _ in wanted]
    np.testing.assert_allclose([each.score for each in found], [s for _, s in wanted], atol=1e-5)


def test_a_beam_that_is_wide_enough_finds_the_likeliest_texts(lm):
    texts = lm.texts(PROMPT)
    found = beam_search(lm, PROMPT, 1000, **ENDS)
    assert len(found) == len(texts)
    best = sorted(texts, key=lambda text: -texts[text])[:20]
    assert [tuple(each.tokens) for each in found[:20]] == best
    narrow = [beam_search(TableLM(seed=s), PROMPT, 1, **ENDS)[0].score for s in range(20)]
    wide = [beam_search(TableLM(seed=s), PROMPT, 100, **ENDS)[0].score for s in range(20)]
    assert all(a <= b + 1e-9 for a, b in zip(narrow, wide, strict=True))
    assert any(
        a < b - 0.1 for a, b in zip(narrow, wide, strict=True)
    )  # greedy is not the likeliest


def test_a_beam_of_one_is_greedy_decoding():
    model, tokenizer = zoo.load("draft")
    prompt = tokenizer.encode("sum 7 3 9 0 4 8:")
    (found,) = beam_search(AsyncMlxLM(model, tokenizer), prompt, 1, max_tokens=12)
    greedy = sample_n(model, prompt, 1, max_tokens=12, temperature=0.0)
    assert found.tokens == greedy.tokens[0]
    assert found.score == pytest.approx(sum(greedy.logprobs[0]), abs=1e-3)


# --- best first -------------------------------------------------------------------------------


def worth(text):
    """How good a whole text is."""
    return 3.0 * text.count(1) - text.count(2) - 0.1 * len(text)


def hope(lm):
    """The best that a beginning may come to: a verifier that knows."""
    texts = lm.texts(PROMPT)

    def verifier(tokens):
        n = len(tokens)
        return max(worth(text) for text in texts if list(text[:n]) == tokens)

    return verifier


def test_with_a_verifier_that_knows_the_best_text_is_found_straight(lm):
    best = max(map(worth, lm.texts(PROMPT)))
    found = best_first(lm, PROMPT, hope(lm), branch=60, seed=1, **ENDS)
    assert found[0].score == pytest.approx(best)
    assert worth(found[0].tokens) == pytest.approx(best)
    assert found == sorted(found, key=lambda each: -each.score)
    straight = best_first(lm, PROMPT, hope(lm), branch=60, max_steps=5, seed=1, **ENDS)
    assert straight[0] == found[0]  # five steps for five tokens


def test_a_search_turns_back_where_hope_was_false(lm):
    """The verifier praises what begins with 3, and finds its ends worthless."""

    def fooled(tokens):
        ended = len(tokens) == 5 or tokens[-1] == STOP
        return (
            worth(tokens) if ended and tokens[0] != 3 else -9.0 if ended else 5.0 * (tokens[0] == 3)
        )

    found = best_first(lm, PROMPT, fooled, branch=8, max_steps=400, seed=2, **ENDS)
    assert found[0].tokens[0] != 3
    assert found[-1].score == -9.0


def test_one_branch_and_no_opinion_is_plain_sampling(lm):
    drawn = [
        best_first(lm, PROMPT, lambda tokens: 0.0, branch=1, max_steps=5, seed=s, **ENDS)[0].tokens
        for s in range(2000)
    ]
    assert too_far(drawn, lm.texts(PROMPT)) > RARE


def test_steps_end_where_they_are_told(lm):
    seen = []

    def watch(tokens):
        seen.append(tuple(tokens))
        return 0.0

    best_first(lm, PROMPT, watch, branch=6, step_tokens=[1], max_steps=6, seed=3, **ENDS)
    assert any(len(text) > 1 for text in seen)
    assert all(text[-1] in (1, STOP) or len(text) == 5 for text in seen)
    assert len({*seen}) == len(seen)
    again = []
    best_first(lm, PROMPT, lambda t: again.append(tuple(t)) or 0.0, branch=6, step_tokens=[1],
               max_steps=6, seed=3, **ENDS)  # fmt: skip
    assert again == seen


# --- minimum Bayes risk -----------------------------------------------------------------------


def test_with_no_utility_it_is_the_majority_vote(lm):
    rng = np.random.default_rng(5)
    for _ in range(50):
        answers = rng.integers(0, 5, size=11).tolist()
        logs = rng.normal(size=11)
        votes = tally([[]] * 11, answers)
        found = minimum_bayes_risk(answers)
        assert [each.tokens for each in found] == votes.answers
        assert [each.score for each in found] == pytest.approx([n / 11 for _, n in votes])
        votes = tally([[]] * 11, answers, logs)
        found = minimum_bayes_risk(answers, log_weights=logs)
        assert [each.tokens for each in found] == votes.answers
        assert [each.score for each in found] == pytest.approx([share for _, share in votes])


def test_what_is_no_sequence_and_no_number_is_refused_by_its_name(lm):
    for given in (None, 3, "text", object()):
        with pytest.raises(TypeError, match="completions must be a sequence of token ids or answ"):
            minimum_bayes_risk(given)
    for logs in ("x", ["a", "b"], {}, object(), [10**400] * 2):
        with pytest.raises(TypeError, match="log_weights must be numbers, got"):
            minimum_bayes_risk([[1], [2]], log_weights=logs)
    for ends in (None, 3, 1.5, object()):
        with pytest.raises(TypeError, match="step_tokens must be token ids, got"):
            best_first(lm, PROMPT, lambda tokens: 0.0, step_tokens=ends)


def test_it_elects_what_all_resemble_though_nobody_repeats_it():
    texts = [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 6, 4], [7, 2, 3, 4], [9, 9], [9, 9]]
    found = minimum_bayes_risk(texts, edit_similarity)
    assert found[0].tokens == [1, 2, 3, 4]
    assert minimum_bayes_risk(texts)[0].tokens == [9, 9]
    by_hand = sum(edit_similarity([1, 2, 3, 4], other) for other in texts) / 6
    assert found[0].score == pytest.approx(by_hand)
    assert [each.tokens for each in found] == [
        list(text)
        for text in sorted(
            dict.fromkeys(map(tuple, texts)),
            key=lambda one: -math.fsum(edit_similarity(one, other) for other in texts),
        )
    ]


def test_the_edit_distance_is_the_shortest_way():
    """All edits of a short word, by breadth: the first time a word is met is its distance."""
    letters, start = "ab", "aab"
    distance, front = {start: 0}, [start]
    for d in (1, 2, 3):
        reached = set()
        for word in front:
            for i in range(len(word) + 1):
                reached |= {word[:i] + c + word[i:] for c in letters}
                reached |= {word[:i] + word[i + 1 :]}
                reached |= {word[:i] + c + word[i + 1 :] for c in letters if i < len(word)}
        front = [word for word in reached if word not in distance]
        distance |= dict.fromkeys(front, d)
    assert len(distance) > 40
    for word, d in distance.items():
        assert edit_distance(start, word) == edit_distance(word, start) == d
    assert edit_similarity("", "") == 1.0
    assert edit_similarity("ab", "") == 0.0


# --- a budget ---------------------------------------------------------------------------------

V = 7
HOW = {"max_tokens": 8, "stop_tokens": [0], "seed": 4, "temperature": 1.0}


@pytest.fixture(scope="module")
def model():
    return Recorder(random_table(vocab_size=V, spread=1.0))


@pytest.mark.parametrize("answer", [[5], [5, 6]])
@pytest.mark.parametrize("most", [0, 3])
def test_the_answer_is_forced_when_the_budget_is_spent(model, answer, most):
    n = 40
    free = sample_n(model, [3, 1], n, **HOW).tokens
    processors = {"logits_processors": [Budget(most, answer)]}
    rows = sample_n(model, [3, 1], n, **HOW, **processors).tokens
    kinds = Counter()
    for plain, row in zip(free, rows, strict=True):
        pairs = (
            [*itertools.pairwise(plain[:most])]
            if len(answer) == 2
            else [(t,) for t in plain[:most]]
        )
        if len(plain) <= most and plain[-1] == 0:
            kinds["ended"] += 1
            assert row == plain
        elif tuple(answer) in pairs:
            kinds["answered"] += 1
            assert row == plain
        else:
            kinds["forced"] += 1
            assert row[: most + len(answer)] == plain[:most] + answer
    assert kinds["forced"] > 5
    if most and len(answer) == 1:
        assert min(kinds["ended"], kinds["answered"]) > 0
    draft = Recorder(random_table(vocab_size=V, spread=1.0, seed=9))
    for drafter in (draft, NGram()):
        drafted = speculative_sample_n(model, drafter, [3, 1], n, rule="match", **HOW, **processors)
        assert drafted.tokens == rows
    for rule in ("rejection", "block", "coupled"):
        drafted = speculative_sample_n(model, draft, [3, 1], n, rule=rule, **HOW, **processors)
        for row in drafted.tokens:
            early = row[:most]
            done = 0 in early or any(early[i : i + len(answer)] == answer for i in range(most))
            assert done or row[most : most + len(answer)] == answer


def test_bad_arguments_are_refused(lm):
    for call, told in (
        (lambda: beam_search(lm, PROMPT, 0, **ENDS), "width must be"),
        (lambda: beam_search(lm, PROMPT, 10**9, **ENDS), "width must be"),
        (lambda: beam_search(lm, PROMPT, 1, length_power=-1, **ENDS), "length_power must be"),
        (lambda: beam_search(lm, PROMPT, 1, length_power=1e9, **ENDS), "length_power must be"),
        (lambda: beam_search(lm, [], 1, **ENDS), r"prompts\[0\] must hold"),
        (lambda: best_first(lm, PROMPT, 3, **ENDS), "verifier must be callable"),
        (lambda: best_first(lm, PROMPT, worth, branch=0, **ENDS), "branch must be"),
        (lambda: best_first(lm, PROMPT, worth, branch=10**9, **ENDS), "branch must be"),
        (lambda: best_first(lm, PROMPT, worth, max_steps=0, **ENDS), "max_steps must be"),
        (lambda: best_first(lm, PROMPT, worth, step_tokens=[-1], **ENDS), "step_tokens"),
        (lambda: best_first(lm, PROMPT, lambda t: None, **ENDS), "verifier must return a number"),
        (
            lambda: best_first(lm, PROMPT, lambda t: math.nan, **ENDS),
            "verifier must return no NaN",
        ),
        (lambda: minimum_bayes_risk([]), "completions must hold at least one"),
        (lambda: minimum_bayes_risk([1], 3), "utility must be callable"),
        (lambda: minimum_bayes_risk([1], lambda a, b: "x"), "utility must return a number"),
        (lambda: Budget(-1, [1]), "most must be"),
        (lambda: Budget(1, []), "answer must hold"),
    ):
        with pytest.raises((ValueError, TypeError), match=told):
            call()
