"""Best-of-N, the majority vote and the adaptive vote, on a model whose every probability is known.

``CHAIN`` reads the prompt's last token (0) and answers 1, 2 or 3; answer 1 ends at once, the others
wander through 4 first. Token 5 ends a completion.
"""

import inspect
import math
import warnings

from lablib.course.replay.curves import Sampled
from lablib.course.tasks import load_tokenizer, sums
from lablib.course.theory.estimators import majority_accuracy
from lablib.inference.completions import sample_n
from lablib.inference.voting.scoring import score
from lablib.inference.voting.stopping import StopRule
from lablib.inference.voting.vote import best_of_n, majority_vote, vote_until
from lablib.inference.voting.votes import AdaptiveVotes, tally
from lablib.models.base import LanguageModel
from lablib.models.llama import llama_config
from lablib.text import on_text
from lablib.validation import BadType, BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles import voting as oracle

END = 5
PROMPT = [3, 4, 0]
TABLE = [
    [0.00, 0.40, 0.35, 0.25, 0.00, 0.00],
    [0.00, 0.00, 0.00, 0.00, 0.00, 1.00],
    [0.00, 0.00, 0.00, 0.00, 0.98, 0.02],
    [0.00, 0.00, 0.00, 0.00, 0.60, 0.40],
    [0.00, 0.00, 0.00, 0.00, 0.85, 0.15],
    [1.00, 0.00, 0.00, 0.00, 0.00, 0.00],
]
OPTIONS = {"max_tokens": 12, "temperature": 1.0, "stop_tokens": [END]}


@pytest.fixture
def chain():
    return oracle.Chain(TABLE)


@pytest.fixture(scope="module")
def tiny():
    return LanguageModel(llama_config(40, 32, 2, 2, max_positions=96), seed=0)


def first_token(tokens):
    return tokens[0]


def by_row(votes):
    """The completion of every sample, from a vote over whole completions."""
    completions = [None] * votes.drawn
    for (tokens, count), rows in zip(votes, votes.rows, strict=True):
        assert count == len(rows)
        for row in rows:
            completions[row] = tokens
    return completions


def test_votes_are_the_counts_of_what_was_sampled(chain):
    samples = sample_n(chain, PROMPT, 60, seed=1, **OPTIONS)
    votes = majority_vote(chain, PROMPT, n=60, seed=1, **OPTIONS)
    assert by_row(votes) == samples.tokens
    counts = [count for _, count in votes]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == votes.drawn == 60
    for tokens, count in votes:
        assert count == samples.tokens.count(tokens)
        assert type(count) is int
        assert type(tokens) is list
        assert {type(token) for token in tokens} == {int}
    first = [samples.tokens.index(tokens) for tokens, _ in votes]
    for i in range(len(votes) - 1):
        assert counts[i] > counts[i + 1] or first[i] < first[i + 1]
    assert votes[0][0][-1] == END
    assert votes.winner == tuple(votes[0][0])


def test_defaults_are_those_of_the_contract(chain):
    assert majority_vote(chain, PROMPT, seed=3) == majority_vote(
        chain, PROMPT, n=5, max_tokens=50, temperature=0.8, seed=3
    )
    best = best_of_n(chain, PROMPT, seed=3)
    again = best_of_n(
        chain, PROMPT, n=4, max_tokens=100, temperature=0.8, score_fn="log_prob", seed=3
    )
    assert best.tolist() == again.tolist()
    assert best.shape == (1, 103)


def test_extract_groups_by_answer(chain):
    samples = sample_n(chain, PROMPT, 80, seed=2, **OPTIONS)
    votes = majority_vote(chain, PROMPT, n=80, extract=first_token, seed=2, **OPTIONS)
    answers = [row[0] for row in samples.tokens]
    assert votes.winner == oracle.winner(answers)
    assert dict(zip(votes.answers, (count for _, count in votes), strict=True)) == {
        answer: answers.count(answer) for answer in set(answers)
    }
    for (tokens, _), answer in zip(votes, votes.answers, strict=True):
        assert tokens == samples.tokens[answers.index(answer)]


def test_a_vote_in_which_nobody_agrees_says_so(chain):
    with pytest.warns(UserWarning, match="no two of 8 completions agree.*extract="):
        majority_vote(chain, [0], n=8, max_tokens=40, temperature=5.0, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        majority_vote(chain, [0], n=8, max_tokens=40, temperature=5.0, seed=1, extract=tuple)
        majority_vote(chain, [0], n=8, max_tokens=1, temperature=0.0)
        majority_vote(chain, [0], n=1, max_tokens=40)


def test_completions_without_an_answer_are_reported_and_not_counted(chain):
    def only_two_and_three(tokens):
        return tokens[0] if tokens[0] != 1 else None

    votes = majority_vote(chain, PROMPT, n=80, extract=only_two_and_three, seed=2, **OPTIONS)
    samples = sample_n(chain, PROMPT, 80, seed=2, **OPTIONS)
    assert votes.missing == [i for i, row in enumerate(samples.tokens) if row[0] == 1]
    assert 0 < len(votes.missing) == 80 - sum(count for _, count in votes)
    assert 1 not in votes.answers
    nobody = majority_vote(chain, PROMPT, n=3, extract=lambda tokens: None, seed=2, **OPTIONS)
    assert (nobody, nobody.winner, nobody.missing, nobody.drawn) == ([], None, [0, 1, 2], 3)


def test_accuracy_is_the_closed_form(chain):
    """2,000 votes of 5; Hoeffding: off by more than 0.0603 with probability below 1e-6."""
    limit = math.sqrt(math.log(2e6) / (2 * 2000))
    samples = sample_n(chain, PROMPT, 10_000, seed=9, max_tokens=1)
    answers = [None if row[0] == 3 else row[0] for row in samples.tokens]

    def accuracy(elect):
        return np.mean([elect(answers[i : i + 5]) == 1 for i in range(0, 10_000, 5)])

    theory = majority_accuracy([0.40, 0.35], 5)
    assert abs(accuracy(lambda a: tally([[0]] * 5, a).winner) - theory) < limit
    # Planted bugs: "no answer" stands for election; ties go to the larger answer.
    assert abs(accuracy(lambda a: max([None, 1, 2], key=a.count)) - theory) > limit
    assert abs(accuracy(lambda a: max([2, 1], key=a.count)) - theory) > limit


@pytest.mark.parametrize("max_batch", [1, 5, 64])
def test_a_larger_vote_extends_a_smaller_one(chain, tiny, max_batch):
    for model, prompt, stop in ((chain, PROMPT, [END]), (tiny, [7, 8, 9, 10], [1, 2, 3])):
        options = {"max_tokens": 8, "temperature": 1.0, "stop_tokens": stop, "seed": 7}
        small = by_row(majority_vote(model, prompt, n=16, **options))
        large = by_row(majority_vote(model, prompt, n=64, max_batch=max_batch, **options))
        assert large[:16] == small
        assert len({tuple(row) for row in large}) > 3


def test_the_prompt_is_read_once_and_nothing_is_forwarded_for_nobody(chain):
    prompt = [3, 4] * 20 + [0]
    for call in (
        lambda: majority_vote(chain, prompt, n=40, seed=1, max_batch=16, **OPTIONS),
        lambda: best_of_n(chain, prompt, n=40, seed=1, max_batch=16, **OPTIONS),
        lambda: vote_until(chain, prompt, n=40, seed=1, batch=16, **OPTIONS),
    ):
        samples = sample_n(chain, prompt, 40, seed=1, **OPTIONS)
        chain.calls.clear()
        result = call()
        drawn = getattr(result, "drawn", 40)
        forwarded = sum(rows * tokens for rows, tokens in chain.calls)
        assert forwarded == len(prompt) + sum(n - 1 for n in samples.lengths[:drawn])
        assert max(rows for rows, _ in chain.calls) <= 16


def test_global_random_state_is_left_alone(chain):
    before = mx.random.state[0].tolist()
    np_before = np.random.get_state()[1].tolist()
    majority_vote(chain, PROMPT, n=4, seed=1, **OPTIONS)
    best_of_n(chain, PROMPT, n=4, seed=1, **OPTIONS)
    vote_until(chain, PROMPT, n=4, seed=1, **OPTIONS)
    assert mx.random.state[0].tolist() == before
    assert np.random.get_state()[1].tolist() == np_before


def test_progress_bar(chain, capsys):
    majority_vote(chain, PROMPT, n=4, seed=1, progress=True, **OPTIONS)
    assert "token" in capsys.readouterr().err
    majority_vote(chain, PROMPT, n=4, seed=1, **OPTIONS)
    assert capsys.readouterr().err == ""


def expected_best(samples, value):
    scores = [value(row) for row in samples.tokens]
    return [*PROMPT, *samples.tokens[scores.index(max(scores))]]


@pytest.mark.parametrize("seed", range(6))
def test_best_of_n_by_name(chain, seed):
    samples = sample_n(chain, PROMPT, 12, seed=seed, **OPTIONS)

    def log_prob(row):
        return round(chain.log_prob(0, row), 4)

    total = best_of_n(chain, PROMPT, n=12, seed=seed, **OPTIONS)
    assert total.tolist() == [expected_best(samples, log_prob)]
    mean = best_of_n(chain, PROMPT, n=12, score_fn="length_normalized", seed=seed, **OPTIONS)
    assert mean.tolist() == [expected_best(samples, lambda row: log_prob(row) / len(row))]
    assert total.dtype == mx.int32


def test_the_two_named_scores_disagree(chain):
    """The sum prefers the short answer 1, the mean a long one."""
    total = best_of_n(chain, PROMPT, n=40, seed=0, **OPTIONS)
    mean = best_of_n(chain, PROMPT, n=40, score_fn="length_normalized", seed=0, **OPTIONS)
    assert total.tolist() == [[*PROMPT, 1, END]]
    assert mean.shape[1] > total.shape[1]


def test_scores_are_of_the_model_and_not_of_the_sampler(chain):
    """Temperature, top-k and penalties change what is drawn, never how it is scored."""
    options = OPTIONS | {"temperature": 0.5, "top_k": 2, "presence_penalty": 0.5}
    for candidate in best_of_n(chain, PROMPT, n=8, return_all=True, seed=4, **options):
        completion = candidate.tokens.tolist()[0][len(PROMPT) :]
        assert candidate.score == pytest.approx(chain.log_prob(0, completion), abs=1e-4)


def test_return_all(chain):
    samples = sample_n(chain, PROMPT, 6, seed=2, **OPTIONS)
    everyone = best_of_n(chain, PROMPT, n=6, return_all=True, seed=2, **OPTIONS)
    assert [c.tokens.tolist()[0][3:] for c in everyone] == samples.tokens
    best = max(everyone, key=lambda candidate: candidate.score)
    assert best.tokens.tolist() == best_of_n(chain, PROMPT, n=6, seed=2, **OPTIONS).tolist()
    tokens, value = everyone[0]
    assert tokens.shape == (1, 3 + samples.lengths[0])
    assert type(value) is float


def test_a_callable_sees_padded_sequences_and_their_lengths(chain):
    seen = {}

    def fewest_tokens(sequences, lengths, *, prompt_length):
        seen.update(sequences=sequences, lengths=lengths, prompt_length=prompt_length)
        return -lengths

    best = best_of_n(chain, PROMPT, n=9, score_fn=fewest_tokens, seed=2, **OPTIONS)
    samples = sample_n(chain, PROMPT, 9, seed=2, **OPTIONS)
    assert seen["prompt_length"] == 3
    assert seen["lengths"].tolist() == [3 + n for n in samples.lengths]
    assert seen["sequences"].shape == (9, 3 + max(samples.lengths))
    for row, completion in zip(seen["sequences"].tolist(), samples.tokens, strict=True):
        assert row == [*PROMPT, *completion] + [END] * (len(row) - 3 - len(completion))
    assert best.shape[1] == 3 + min(samples.lengths)


FORMS = {
    "column": lambda s: mx.arange(s.shape[0])[:, None] == 3,
    "numpy": lambda s: np.eye(s.shape[0])[3],
    "list": lambda s: [0, 0, 0, 1, 0, 0],
    "bfloat16": lambda s: (mx.arange(s.shape[0]) == 3).astype(mx.bfloat16),
    "infinite": lambda s: mx.where(mx.arange(s.shape[0]) == 3, 0.0, -mx.inf),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_scores(chain, form):
    samples = sample_n(chain, PROMPT, 6, seed=2, **OPTIONS)
    best = best_of_n(chain, PROMPT, n=6, score_fn=FORMS[form], seed=2, **OPTIONS)
    assert best.tolist() == [[*PROMPT, *samples.tokens[3]]]


class Sealed:
    """A callable without a signature, as some built-in functions are in some Pythons."""

    __signature__ = "none"

    def __call__(self, sequences):
        return mx.sum(sequences, axis=1)


def test_a_callable_without_a_signature_and_one_with_any_keyword(chain):
    best = best_of_n(chain, PROMPT, n=3, score_fn=lambda s, **more: more["lengths"], seed=2)
    assert best.shape == (1, 103)
    token_sum = Sealed()
    with pytest.raises((TypeError, ValueError), match="signature"):
        inspect.signature(token_sum)
    candidates = best_of_n(
        chain, PROMPT, n=4, score_fn=token_sum, return_all=True, max_tokens=7, seed=2
    )
    assert [c.score for c in candidates] == [float(mx.sum(c.tokens)) for c in candidates]


BAD_SCORES = [
    (lambda s: None, BadType, "score_fn must return 4 numbers, got None"),
    (lambda s: mx.zeros(3), BadValue, r"must return shape \(4,\) or \(4, 1\), got \(3,\)"),
    (lambda s: mx.zeros((4, 2)), BadValue, r"got \(4, 2\)"),
    (lambda s: mx.zeros((1, 4)), BadValue, r"got \(1, 4\)"),
    (lambda s: 1.0, BadValue, r"got \(\)"),
    (lambda s: mx.array([0.0, 1.0, mx.nan, 2.0]), BadValue, "NaN, got it for completion 2"),
    (lambda s: ["a", "b", "c", "d"], BadType, "must return 4 numbers"),
    (lambda s: [[1], [1, 2], [], []], BadType, "must return 4 numbers"),
]


@pytest.mark.parametrize(("score_fn", "error", "message"), BAD_SCORES)
def test_bad_scores_are_refused(chain, score_fn, error, message):
    with pytest.raises(error, match=message):
        best_of_n(chain, PROMPT, n=4, score_fn=score_fn, seed=1, **OPTIONS)
    with pytest.raises(error, match=message.replace("score_fn", "weight")):
        majority_vote(chain, PROMPT, n=4, weight=score_fn, seed=1, **OPTIONS)


def test_an_error_inside_a_scorer_is_the_callers_own(chain):
    def broken(sequences):
        raise KeyError("my own bug")

    with pytest.raises(KeyError, match="my own bug") as raised:
        best_of_n(chain, PROMPT, n=2, score_fn=broken, seed=1, **OPTIONS)
    assert "score_fn on 2 sequences of token ids" in raised.value.__notes__[0]


BAD_CALLS = [
    ({"n": 0}, BadValue, "n must be at least 1, got 0"),
    ({"n": -3}, BadValue, "n must be at least 1, got -3"),
    ({"n": 2.0}, BadType, r"n must be an int, got 2\.0"),
    ({"n": True}, BadType, "n must be an int, got True"),
    ({"max_tokens": 0}, BadValue, "max_tokens must be at least 1"),
    ({"temperature": -0.1}, BadValue, "temperature"),
    ({"temperature": math.nan}, BadValue, "temperature"),
    ({"stop_tokens": [77]}, BadValue, "stop_tokens"),
    ({"max_batch": 0}, (BadValue, BadType), "max_batch"),
    ({"nonsense": 1}, (BadValue, BadType), "nonsense"),
    ({"prompt": []}, BadValue, "prompt must hold at least one token"),
    ({"prompt": [6]}, BadValue, r"prompt\[0\] must be between 0 and 5, got 6"),
    ({"prompt": "sum"}, BadType, "encode it, or give tokenizer="),
    ({"n": 2**63}, BadValue, "n must be at most 1000000, got 9223372036854775808"),
    ({"n": 1_000_001}, BadValue, "n must be at most 1000000, got 1000001"),
]


@pytest.mark.parametrize("function", [best_of_n, majority_vote, vote_until])
@pytest.mark.parametrize(("change", "error", "message"), BAD_CALLS)
def test_bad_arguments_are_refused_before_any_work(chain, function, change, error, message):
    with pytest.raises(error, match=message):
        function(chain, **({"prompt": PROMPT, "seed": 1} | OPTIONS | change))
    assert chain.calls == []


class Score:
    """A scorer's class, which somebody forgot to make an object of."""

    def __call__(self, sequences):
        return [0.0] * len(sequences)


OWN_BAD_CALLS = [
    (best_of_n, {"score_fn": "logprob"}, BadValue, "score_fn must be one of 'log_prob', 'length"),
    (best_of_n, {"score_fn": None}, BadType, "score_fn must be one of .* or a callable"),
    (best_of_n, {"score_fn": Score}, BadType, "score_fn must be one of .* or a callable, got <cla"),
    (majority_vote, {"weight": Score}, BadType, "weight must be one of .* or a callable, got <cla"),
    (vote_until, {"stop_rule": np.array(["beta"])}, BadValue, "stop_rule must be one of 'over"),
    (majority_vote, {"weight": np.array(["log_prob"])}, BadType, "weight must be one of"),
    (majority_vote, {"extract": "#"}, BadType, "extract must be callable, got '#'"),
    (majority_vote, {"weight": "votes"}, BadValue, "weight must be one of 'log_prob'"),
    (vote_until, {"extract": 3}, BadType, "extract must be callable, got 3"),
    (vote_until, {"batch": 0}, BadValue, "batch must be at least 1, got 0"),
    (vote_until, {"confidence": 1.0}, BadValue, "confidence must lie between"),
    (vote_until, {"stop_rule": "luck"}, BadValue, "stop_rule must be one of"),
    (vote_until, {"max_batch": 2}, BadType, "its batch bounds memory"),
    (vote_until, {"weight": "log_prob"}, BadType, "weight"),
]


@pytest.mark.parametrize(("function", "change", "error", "message"), OWN_BAD_CALLS)
def test_own_bad_arguments_are_refused_before_any_work(chain, function, change, error, message):
    with pytest.raises(error, match=message):
        function(chain, PROMPT, seed=1, **(OPTIONS | change))
    assert chain.calls == []


BAD_EXTRACTS = [
    (lambda tokens: tokens[99], BadValue, "raised IndexError on completion 0"),
    (lambda tokens: tokens, BadType, "plain value that equals itself .* for completion 0"),
    (lambda tokens: math.nan, BadType, "plain value that equals itself"),
    (lambda tokens: mx.array(tokens[0]), BadType, "plain value that equals itself"),
    (lambda tokens: np.array(tokens), BadType, "plain value that equals itself"),
]


@pytest.mark.parametrize(("extract", "error", "message"), BAD_EXTRACTS)
def test_bad_extracts_are_refused(chain, extract, error, message):
    for function in (majority_vote, vote_until):
        with pytest.raises(error, match=message):
            function(chain, PROMPT, n=3, extract=extract, seed=1, **OPTIONS)


def test_a_late_failure_of_extract_names_the_right_completion(chain):
    seen = []

    def fails_on_the_seventh(tokens):
        seen.append(tokens)
        if len(seen) == 7:
            raise KeyError("#")
        return len(seen)  # another answer each time, so that nobody leads safely

    with pytest.raises(BadValue, match="raised KeyError on completion 6: '#'"):
        vote_until(chain, PROMPT, n=9, batch=2, extract=fails_on_the_seventh, seed=1, **OPTIONS)


def test_numpy_answers_are_values(chain):
    votes = majority_vote(
        chain, PROMPT, n=20, extract=lambda tokens: np.int64(tokens[0]), seed=1, **OPTIONS
    )
    assert votes.winner in (1, 2, 3)


def test_weights_decide_votes(chain):
    """Each vote weighs what the scorer says, as a logarithm."""
    samples = sample_n(chain, PROMPT, 30, seed=5, **OPTIONS)
    votes = majority_vote(
        chain, PROMPT, n=30, extract=first_token, weight="log_prob", seed=5, **OPTIONS
    )
    weights = {}
    for row in samples.tokens:
        weights[row[0]] = weights.get(row[0], 0) + math.exp(chain.log_prob(0, row))
    total = sum(weights.values())
    for answer, (_, share) in zip(votes.answers, votes, strict=True):
        assert share == pytest.approx(weights[answer] / total, rel=1e-4)
    assert sum(share for _, share in votes) == pytest.approx(1)

    def only_threes(sequences, prompt_length):
        return mx.where(sequences[:, prompt_length] == 3, 0.0, -mx.inf)

    votes = majority_vote(
        chain, PROMPT, n=30, extract=first_token, weight=only_threes, seed=5, **OPTIONS
    )
    assert votes.winner == 3
    assert [share for _, share in votes] == [1.0] + [0.0] * (len(votes) - 1)


def test_weights_far_outside_the_range_of_floats():
    completions = [[1], [2], [2], [3]]
    for shift in (-1e6, -800.0, 0.0, 800.0, 1e6):
        logs = np.array([0.5, 0.0, 0.0, -1.0]) + shift
        votes = tally(completions, [1, 2, 2, 3], logs)
        assert votes.answers == [2, 1, 3]
        total = math.exp(0.5) + 2 + math.exp(-1)
        shares = [share for _, share in votes]
        assert shares == pytest.approx([2 / total, math.exp(0.5) / total, math.exp(-1) / total])


def test_equal_weights_tie_exactly():
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 in floating point; the first to appear still wins."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        logs = rng.normal(size=7)
        answers = ["a"] * 7 + ["b"] * 7
        order = [0, *rng.permutation(np.arange(1, 14))]
        both = np.concatenate([logs, rng.permutation(logs)])
        votes = tally([[i] for i in order], [answers[i] for i in order], both[order])
        assert votes.winner == "a"


def test_tally_refuses_what_it_cannot_count():
    with pytest.raises(BadValue, match="answers must have one entry for each of 2"):
        tally([[1], [2]], ["a"])
    with pytest.raises(BadValue, match=r"log_weights must have shape \(2,\), got \(1,\)"):
        tally([[1], [2]], None, [0.0])
    for bad in (math.nan, math.inf):
        with pytest.raises(BadValue, match="log_weights must be finite or minus infinity"):
            tally([[1], [2]], None, [0.0, bad])
    with pytest.raises(BadValue, match="log_weights must leave some vote a weight"):
        tally([[1], [2]], None, [-math.inf, -math.inf])
    assert tally([]) == []
    assert tally([[1]], [None], [-math.inf]).winner is None


def test_the_certain_vote_elects_whom_the_full_vote_elects(chain):
    saved = 0
    for seed in range(25):
        full = majority_vote(chain, PROMPT, n=16, extract=first_token, seed=seed, **OPTIONS)
        chain.calls.clear()
        early = vote_until(chain, PROMPT, n=16, extract=first_token, seed=seed, **OPTIONS)
        assert isinstance(early, AdaptiveVotes)
        assert early.winner == full.winner
        assert early.drawn + early.saved == 16
        assert early.reason == ("certain" if early.saved else "exhausted")
        assert early.drawn % 4 == 0
        assert sum(1 for _, tokens in chain.calls if tokens > 1) == 1
        saved += early.saved
    assert saved > 0


def test_the_votes_of_an_early_stop_are_the_first_votes(chain):
    samples = sample_n(chain, PROMPT, 64, seed=3, **OPTIONS)
    answers = [row[0] for row in samples.tokens]
    stop = StopRule(0.9, "beta", at_least=6)
    for batch in (1, 3, 5):
        votes = vote_until(
            chain, PROMPT, n=64, batch=batch, confidence=0.9, stop_rule="beta", at_least=6,
            extract=first_token, seed=3, **OPTIONS,
        )  # fmt: skip
        looks = [*range(batch, 64, batch), 64]
        ends = next(
            k for k in looks if k == 64 or stop.reason(oracle.tally_counts(answers[:k]), k, 64)
        )
        assert votes.drawn == ends
        assert votes.winner == oracle.winner(answers[:ends])
        assert sorted(row for rows in votes.rows for row in rows) == list(range(ends))


def test_a_confident_vote_stops_sooner(chain):
    options = OPTIONS | {"extract": first_token, "n": 200, "seed": 1}
    certain = vote_until(chain, PROMPT, **options)
    confident = vote_until(chain, PROMPT, confidence=0.95, **options)
    assert confident.reason == "confident"
    assert certain.drawn > 100
    assert 13 <= confident.drawn < certain.drawn


def test_an_adaptive_vote_that_nobody_answers(chain):
    votes = vote_until(
        chain, PROMPT, n=6, extract=lambda tokens: None, confidence=0.9, seed=1, **OPTIONS
    )
    assert (votes, votes.winner, votes.drawn, votes.saved) == ([], None, 6, 0)
    assert votes.reason == "exhausted"


def test_text_answers_and_a_scorer_on_stored_samples(chain):
    tokenizer = load_tokenizer()
    extract = on_text(tokenizer, sums.extract)
    text = "2+1=3;3+8=1;1+2=3;3+8=1;1+3=4;#4"
    assert extract([*tokenizer.encode(text, add_special_tokens=False).ids, 2]) == "4"
    assert extract(tokenizer.encode("2+1=3;", add_special_tokens=False).ids) is None
    samples = sample_n(chain, PROMPT, 5, seed=1, **OPTIONS)
    totals = score("log_prob", PROMPT, samples)
    assert totals == pytest.approx([sum(row) for row in samples.logprobs])
    stored = Sampled(1, [row[0] for row in samples.tokens], {"log_prob": totals})
    assert len(stored.scores["log_prob"]) == 5
