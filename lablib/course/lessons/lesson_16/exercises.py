"""Exercises of lesson 16: a first step into each capstone, on a toy that is played at once."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.lessons.lesson_16 import drafts, stories, sums
from lablib.course.lessons.lesson_16.scores import Foul, Score
from lablib.course.lessons.lesson_16.texts import by_chance, uniforms
from lablib.course.tasks import TASKS, load_tokenizer

import numpy as np

Outcome = tuple[float, str]  # how good, and what else there is to tell two attempts apart

# ------------------------------------------------------------------ 16.1 a sampler


def odds(logits, texts):
    """Return the chances of the next token of each story, (B, V); each row sums to 1.

    logits: (B, V), the target's, for B stories of one opening that are not finished yet.
    texts: B lists of ids: what each of them has written so far.
    """
    scores = np.exp((logits - logits.max(axis=1, keepdims=True)) / 1.2)
    probs = np.where(scores < 0.05, 0, scores)  # far less likely than the best: cut
    probs = probs / probs.sum(axis=1, keepdims=True)
    groups = {}
    for row, text in enumerate(texts):
        groups.setdefault(tuple(text), []).append(row)
    for rows in groups.values():  # equal so far: each draws from a part of its own
        ends = np.cumsum(probs[rows[0]])
        starts = np.append(0, ends[:-1])
        for i, row in enumerate(rows):
            low, high = i / len(rows), (i + 1) / len(rows)
            part = np.maximum(np.minimum(ends, high) - np.maximum(starts, low), 0)
            probs[row] = part / part.sum()
    return probs


def odds_by_min_p(logits, texts):
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs[probs < 0.1] = 0
    return probs / probs.sum(axis=1, keepdims=True)


def as_the_model_says(logits, texts):
    return stories.baseline(logits, texts)


def the_best_only(logits, texts):
    return np.eye(logits.shape[1])[logits.argmax(axis=1)]


def everything_alike(logits, texts):
    return np.full(logits.shape, 1 / logits.shape[1])


def too_cold(logits, texts):
    return stories.baseline(logits * 4, texts)


def too_hot(logits, texts):
    return stories.baseline(logits / 3, texts)


def a_little_colder(logits, texts):
    return stories.baseline(logits / 0.7, texts)


def cut_and_not_scaled(logits, texts):
    probs = stories.baseline(logits, texts)
    return np.where(probs < 0.05 * probs.max(axis=1, keepdims=True), 0, probs)


TOY_ROWS, TOY_STEPS, TOY_WORLDS = 6, 5, 80


def _toy_stories(function: Callable[..., Any], turn: int) -> Outcome:
    """Return the share of different valid texts: five steps, of twelve tokens five are junk.

    Once a text has a junk token it is not valid, as a story with one wrong word is not. As in
    stories, texts may part at one place only, and are sure of themselves at the others. What helps
    here helps there: no temperature does, a cut does, and sharing out does most. Junk has other ids
    at each step and behind each text: who does not look at a row's own scores does not miss it. Nor
    does who takes a row's best score for 0, or for that of another row.
    """
    alone = np.linspace(3, -2, 12)[None]  # the others have ended
    stories.as_chances(function(alone.copy(), [[]]), alone)
    good, written = 0, []
    for world in range(TOY_WORLDS):
        rng = np.random.default_rng([16, world])
        texts: list[list[int]] = [[] for _ in range(TOY_ROWS)]
        spoilt: set[int] = set()
        for step in range(TOY_STEPS):
            others = -rng.uniform(0.5, 2.2, 6) if step == 0 else np.full(6, -9.0)
            junk = rng.normal(-4 if step == 0 else -5, 0.3, 5)
            scores = np.hstack([rng.permutation(np.append(0, others)), junk])
            seeds = [[19, world, step, *text] for text in texts]
            own = [np.random.default_rng(seed) for seed in seeds]
            places = [each.permutation(scores.size) for each in own]
            logits = scores[np.array(places)] + [[each.normal(0, 9)] for each in own]
            probs = stories.as_chances(function(logits.copy(), [list(t) for t in texts]), logits)
            drawn = by_chance(probs, uniforms("toy", world, step, size=TOY_ROWS))
            spoilt |= {row for row, token in enumerate(drawn) if places[row][token] >= 7}
            for text, token in zip(texts, drawn.tolist(), strict=True):
                text.append(token)
        good += len({tuple(text) for row, text in enumerate(texts) if row not in spoilt})
        written.append(texts)
    return good / (TOY_ROWS * TOY_WORLDS), str(written)


SAMPLERS = {
    as_the_model_says: (
        "those are the model's own chances: the baseline. A small chance of a wrong word, taken "
        "at each of many steps, spoils many texts. Cut what is far below the best."
    ),
    the_best_only: "each row takes the best token: six times the same text, and it counts once.",
    everything_alike: "every token is alike to you, junk too: hardly a text is valid.",
    too_cold: "that is a low temperature: valid, and the same again and again.",
    too_hot: "that is a high temperature: the junk comes up with the rest.",
    a_little_colder: (
        "a lower temperature has less junk, and texts that are more alike: one takes what the "
        "other gives. Cut, and leave what is probable as it is."
    ),
    cut_and_not_scaled: "after a cut the rest must be scaled to sum to 1.",
}

# ------------------------------------------------------------------ 16.2 a vote


def vote(votes, left, problems):
    """Return the answer, a text, or "more" to see one more sample of this problem.

    votes: the samples so far, a list of (answer, logprobs), empty at first: a digit as a text, or
        None where the model gave none; and the log-probability of each of its tokens.
    left: tokens left for this problem and all later ones; 0 when no sample can be had.
    problems: how many problems those are, this one included.
    """
    weights = {}
    for answer, logprobs in votes:
        if answer is not None:  # chains of which the model is surer as a whole had cleaner steps
            weights[answer] = weights.get(answer, 0) + np.exp(2 * sum(logprobs))
    if left and votes:
        cost = np.mean([len(logprobs) for _, logprobs in votes])
        most = max(2, 1.5 * left / cost / problems)  # samples, if all problems had the same
        ranked = [*sorted(weights.values(), reverse=True), 0, 0]
        clear = len(votes) > 2 and ranked[0] > 8 * ranked[1]
        if not clear and len(votes) < most:
            return "more"
    if left and not votes:
        return "more"
    return max(weights, key=weights.get, default="0")


def vote_by_confidence(votes, left, problems):
    if left and len(votes) < 5:
        return "more"
    weights = dict.fromkeys("0123456789", 0.0)
    for answer, logprobs in votes:
        if answer in weights:
            weights[answer] += float(np.exp(np.sum(logprobs)))
    return max(weights, key=lambda answer: weights[answer])


def most_frequent(votes, left, problems):
    return sums.baseline(votes, left, problems)


def the_first(votes, left, problems):
    return "more" if left and not votes else votes[0][0] or "0"


def never_an_answer(votes, left, problems):
    return "more"


def all_for_the_first(votes, left, problems):
    return vote_by_confidence(votes, 0, problems) if not left or len(votes) == 16 else "more"


def least_likely(votes, left, problems):
    turned = [(answer, [-x for x in logprobs]) for answer, logprobs in votes]
    return vote_by_confidence(turned, left, problems)


def a_number(votes, left, problems):
    answer = vote_by_confidence(votes, left, problems)
    return answer if answer == "more" else int(answer)


@lru_cache(maxsize=1)
def _toy_sums() -> sums.World:
    """Return 120 problems; the model was unsure in most of the wrong chains, as in real ones.

    Of this seed no single sample, the fifth say, is right as often as the majority of five.
    """
    rng = np.random.default_rng(1656)
    samples, truths = [], []
    for _ in range(120):
        truth, habit = rng.choice(10, 2, replace=False)
        pool = []
        for _ in range(16):
            wrong = rng.random() < 0.55
            answer = int(habit if rng.random() < 0.8 else rng.integers(10)) if wrong else int(truth)
            doubts = rng.integers(1, 4) if wrong else rng.integers(0, 3)
            pool.append((str(answer), [-0.25] * 30 + [-0.7] * int(doubts)))
        samples.append(pool)
        truths.append(str(truth))
    return sums.World(samples, truths, 120 * 5 * 32)


VOTES = {
    most_frequent: (
        "that is the majority of five: the baseline. A chain of which the model was unsure counts "
        "as much as one of which it was sure. Weigh them: np.exp(sum(logprobs))."
    ),
    the_first: "one sample is not a vote: the budget pays for about five a problem.",
    never_an_answer: 'when `left` is 0 no sample can be had, and "more" is no answer.',
    all_for_the_first: (
        "the first problems get all samples, the later ones none. The budget is one for all: "
        "left / problems is what this one may take."
    ),
    least_likely: "the weights are upside down: the chains that the model doubts count most.",
    a_number: "an answer is a text, as in `votes`: '7', not 7.",
}

# ------------------------------------------------------------------ 16.3 a drafter


def propose(prompt, written, limit):
    """Return at most `limit` ids: a guess of how the target goes on. It may be empty.

    prompt: ids of a story's opening, of a sum, or of an edit, `edit: sixteen words | old -> new:`.
        An edit has 24 ids: one that begins the text, then one for each word and each sign.
    written: ids that the target has written so far.   limit: 0 or more.
    """
    if len(prompt) == 24:
        old, new = prompt[-4], prompt[-2]
        answer = [new if word == old else word for word in prompt[-21:-5]]
        return answer[len(written) : len(written) + limit]
    text = [*prompt, *written]
    for start in reversed(range(len(text) - 2)):  # what followed the last two ids before?
        if text[start : start + 2] == text[-2:]:
            return text[start + 2 :][:limit]
    return []


def propose_by_last_word(prompt, written, limit):
    if len(prompt) < 24:
        return []
    *_, old, _, new, _ = prompt
    listed = list(prompt[3:-5])
    last = old if written and written[-1] == new else written[-1] if written else None
    after = listed[listed.index(last) + 1 :] if last in listed else listed
    return [new if word == old else word for word in after][:limit]


def nothing(prompt, written, limit):
    return []


def looked_up(prompt, written, limit):
    return drafts.baseline(prompt, written, limit)


def from_the_beginning(prompt, written, limit):
    return propose(prompt, [], limit)


def one_only(prompt, written, limit):
    return propose(prompt, written, min(limit, 1))


def more_than_asked(prompt, written, limit):
    return propose(prompt, written, 16)


def one_behind(prompt, written, limit):
    return propose(prompt, written[:-1], limit)


@lru_cache(maxsize=8)
def _toy_drafts(turn: int) -> drafts.World:
    """Return problems whose texts are the right answers: no model is asked.

    Args:
        turn: other ones each time: whoever is asked again has seen the first ones' texts.
    """
    tokenizer = load_tokenizer()
    asked = [
        problem
        for name, count in (("edits", 30), ("sums", 5), ("stories", 5))
        for problem in TASKS[name].problems(162 + turn, count)
    ]
    prompts = [tokenizer.encode(problem.prompt).ids for problem in asked]
    wholes = [tokenizer.encode(problem.prompt + problem.answer).ids for problem in asked]
    stop = tokenizer.token_to_id("</s>")
    texts = [[*w[len(p) :], stop] for p, w in zip(prompts, wholes, strict=True)]
    return drafts.World(prompts, texts)


DRAFTERS = {
    nothing: "nothing is drafted: each call writes one token.",
    looked_up: (
        "that is look-up, the baseline. It has nothing to look up before the first word, and the "
        "replaced word leads it astray. You know more: what the task is."
    ),
    from_the_beginning: "you always draft the first words; go on after what is written.",
    one_only: "one draft a call: up to `limit` are free.",
    more_than_asked: "at most `limit` ids: more is against the rules.",
    one_behind: "your drafts begin with the word that was written last.",
}

# ------------------------------------------------------------------ how they are checked


def _of(score: Score) -> Outcome:
    return score.value, f"{score.value} {score.made_of}"


def _of_votes(function: Callable[..., Any], turn: int) -> Outcome:
    """Return what a vote gets; it has to be legal where the model gave no answer, too.

    The game goes on where "more" is said and none can be had. Here that is against the rules.
    """
    held = []  # what the last call got

    def minded(votes: list[Any], left: int, problems: int) -> Any:
        held[:] = votes
        answer = function(votes, left, problems)
        if not left and isinstance(answer, str) and answer == "more":
            raise Foul('no sample can be had, `left` is 0, and it returned "more"')
        return answer

    unsure, none = ("7", [-0.7] * 30), (None, [-0.1] * 30)
    found = _of(sums.play(minded, _toy_sums()))
    try:
        sums.play(minded, sums.World([[none] * 5, [none, unsure, none]], ["0", "7"], 5 * 30))
    except Wrong as wrong:
        what = "the model gave no answer, and votes hold a None" if held else "votes are empty"
        text = f"where {what}, {wrong.message}"
        raise Wrong(text, error=wrong.error) from None
    return found


def _of_drafts(function: Callable[..., Any], turn: int) -> Outcome:
    """Return what a drafter gets; two are told apart by what they draft for the edits alone."""
    toy = _toy_drafts(turn)
    drafts.as_ids(function(list(toy.prompts[0]), [], 0), 0)
    value = drafts.play(function, toy, call=np.inf).value  # before it could know a text by heart
    edits = drafts.World(toy.prompts[:30], toy.texts[:30])
    drafted = []

    def noted(prompt: list[int], written: list[int], limit: int) -> list[int]:
        drafted.append(drafts.as_ids(function(prompt, written, limit), limit))
        return drafted[-1]

    drafts.play(noted, edits, call=np.inf)
    return value, str(drafted)


def _beat(
    play: Callable[[Callable[..., Any], int], Outcome],
    wrong: dict[Callable[..., Any], str],
    baseline: Callable[..., Any],
    margin: float,
    unit: str,
) -> Callable[[Callable[..., Any]], None]:
    """Return a checker: legal, and better than the baseline by a margin.

    ``play(function, turn)`` plays with a function that is checked for the ``turn``-th time.
    """

    def outcome(function: Callable[..., Any], turn: int) -> Outcome:
        try:
            return play(function, turn)
        except Foul as foul:
            return -1.0, str(foul)

    known = lru_cache(maxsize=64)(outcome)  # a right answer is played against the baseline alone

    def checker(function: Callable[..., Any]) -> None:
        turn = function.turn
        found, least = outcome(function, turn), known(baseline, turn)[0] + margin
        if found[0] >= least:
            return
        like = next((each.__name__ for each in wrong if known(each, turn)[1] == found[1]), None)
        if found[0] < 0:
            raise Wrong(found[1], like=like)
        text = f"{found[0]:.3f} {unit}; the baseline and a little more is {least:.3f}"
        raise Wrong(text, like=like)

    return checker


ODDS = Exercise(
    id="16.1",
    title="A sampler: the first step",
    task=(
        "Write `odds` so that it is legal, and on a toy of twelve tokens better than the model's "
        "own chances. Five of the twelve are junk, and one of them spoils a text. Then play."
    ),
    stars=2,
    minutes=12,
    reference=odds,
    alternatives=[odds_by_min_p],
    wrong=SAMPLERS,
    checker=_beat(_toy_stories, SAMPLERS, as_the_model_says, 0.015, "different valid texts a row"),
    hints=[
        "Softmax, set to 0 what is far less likely than the best, scale the rest.",
        "Rows that have written the same so far could share out the tokens: see `texts`.",
    ],
    next='score("stories", odds). Then watch `valid` and `different`: which one holds you back?',
)

VOTE = Exercise(
    id="16.2",
    title="A vote: the first step",
    task=(
        "Write `vote` so that it is legal, and on 120 toy problems better than the majority of "
        "five. The model is less sure of chains that go wrong. Then play."
    ),
    stars=2,
    minutes=12,
    reference=vote,
    alternatives=[vote_by_confidence],
    wrong=VOTES,
    checker=_beat(
        _of_votes, VOTES, most_frequent, 0.02, "of the answers are right",
    ),
    hints=[
        "Sum a weight for each answer instead of counting: np.exp(sum(logprobs)).",
        'Return "more" while `left` allows it and fewer than five samples are there.',
    ],
    next='score("sums", vote). Then stop early where one answer leads, and spend it elsewhere.',
)  # fmt: skip

PROPOSE = Exercise(
    id="16.3",
    title="A drafter: the first step",
    task=(
        "Write `propose` so that the target needs fewer calls than with look-up. Begin with the "
        "edits: 30 of the 40 toy texts are edits. Then play."
    ),
    stars=1,
    minutes=8,
    reference=propose,
    alternatives=[propose_by_last_word],
    wrong=DRAFTERS,
    checker=_beat(_of_drafts, DRAFTERS, looked_up, 0.3, "tokens a call"),
    hints=[
        "An edit has 24 ids. Its answer's word k is the list's word k, unless that is the old one.",
        "prompt[-21:-5] are the words, prompt[-4] is the old one and prompt[-2] the new one. What "
        "follows what you have written?",
    ],
    next='score("drafts", propose). Then sums: after `=` comes what you can compute.',
)  # fmt: skip

EXAMPLES = {"stories": odds, "sums": vote, "drafts": propose}
