"""Hunts 15.3 and 15.4: a text with drafts, and the same text without."""

from collections.abc import Callable
from functools import cache
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import as_text
from lablib.course.lessons.lesson_15.found import STILL, as_found

import numpy as np

# ------------------------------------------------------------------ 15.3 brackets


def obey(prompt, length, ahead):
    """Return (`length` signs that go on from a prompt, as a text; the number of rounds).

    prompt: one or more of the signs ( ) a b. What was opened may be closed, two deep at most.
    ahead: drafts in a round at most. They save rounds. The text is that of one sign a round: each
        time the sign that the target likes best of those that are allowed.
    """
    signs = "()ab"
    rng = np.random.default_rng(24)
    target = rng.normal(size=(7, 4, 4))
    draft = target + 0.5 * rng.normal(size=(7, 4, 4))
    # the grammar: at each depth, the signs that are allowed, and the depth that they lead to
    grammar = [{"(": 1, "a": 0, "b": 0}, {"(": 2, ")": 0, "a": 1, "b": 1}, {")": 1, "a": 2, "b": 2}]

    def look(model, cache, new):
        # read signs into a cache; return the scores behind each of them
        scores = []
        for sign in new:
            cache.append(sign)
            scores.append(model[len(cache) % 7, signs.index(sign)])
        return scores

    def best(scores, depth):
        return max(grammar[depth], key=lambda sign: scores[signs.index(sign)])

    def step(depth, sign):
        return grammar[depth].get(sign, depth)

    text, depths = prompt, [0]
    for sign in prompt:
        depths.append(step(depths[-1], sign))
    rounds, read, guessed = 0, [], []  # the last two: what stands in the models' caches
    while len(text) < len(prompt) + length:
        rounds += 1
        room = len(prompt) + length - len(text) - 1
        drafts, unread = "", text[len(guessed) :]
        while len(drafts) < min(ahead, room):
            drafts += best(look(draft, guessed, unread)[-1], depths[-1])
            depths.append(step(depths[-1], drafts[-1]))
            unread = drafts[-1]
        scores = look(target, read, text[len(read) :] + drafts)[-1 - len(drafts) :]
        kept, start = 0, len(text)
        own = best(scores[0], depths[start])
        while kept < len(drafts) and own == drafts[kept]:
            kept += 1
            own = best(scores[kept], depths[start + kept])
        text += drafts[:kept] + own
        for state in (read, guessed):
            del state[start + kept :]
        del depths[start + kept + 1 :]
        depths.append(step(depths[-1], own))
    return text[len(prompt) :], rounds


BACK = "        del depths[start + kept + 1 :]\n"
OBEY_FOUND, OBEY_STARTER = as_found(obey, (BACK, ""))


obey_when_judged = changed(  # drafts that no grammar minds: fewer are kept, and all is well
    changed(obey, "obey_when_judged",
            "best(look(draft, guessed, unread)[-1], depths[-1])\n"
            "            depths.append(step(depths[-1], drafts[-1]))",
            "signs[np.argmax(look(draft, guessed, unread)[-1])]"),
    "obey_when_judged", "            kept += 1\n",
    "            kept += 1\n            depths.append(step(depths[-1], own))\n",
)  # fmt: skip


obey_from_the_text = changed(
    obey, "obey_from_the_text", BACK + "        depths.append(step(depths[-1], own))",
    "        depths = [0]\n        for sign in text:\n"
    "            depths.append(step(depths[-1], sign))",
)  # fmt: skip


def _obey_as(name: str, new: str) -> Any:
    return changed(obey, name, BACK, f"        {new}\n")


OBEDIENCE = {
    OBEY_FOUND: STILL,
    _obey_as("back_to_the_round", "del depths[start + 1 :]"): (
        "you go back to where the round began: what the kept drafts opened is forgotten."
    ),
    _obey_as("one_too_far", "del depths[start + kept :]"): (
        "you go too far back: a depth that the text still has is gone."
    ),
    _obey_as("one_left", "del depths[start + kept + 2 :]"): (
        "one refused draft still counts: go back to behind the last kept one."
    ),
    _obey_as("as_many_as_refused", "del depths[-(len(drafts) - kept) :]"): (
        "when no draft was refused that is depths[-0:], which is all of them. (The same error "
        "comes where you go two places too far back.)"
    ),
    _obey_as("from_the_beginning", "depths = [0] * (start + kept + 1)"): (
        "you begin at depth 0 after each round: what was opened before is forgotten."
    ),
    changed(obey, "drafts_do_not_count", BACK + "        depths.append(step(depths[-1], own))",
            "        del depths[start + 1 :]\n"
            "        depths += [depths[-1]] * kept + [step(depths[-1], own)]"): (
        "kept drafts lead on as well: only the refused ones must not."
    ),
    changed(obey, "target_guesses", "look(draft, guessed", "look(target, guessed"): (
        "the target drafts for itself: nothing is refused, so nothing need be taken back, and it "
        "must be asked for every draft. They come from `draft`."
    ),
    changed(obey, "one_a_round", "min(ahead, room)", "0"): (
        "as many rounds as signs: nothing is drafted any more, or what you count is no round."
    ),
}  # fmt: skip


OBEYED: list[tuple[str, int, int]] = [
    *((prompt, 8, ahead) for ahead in (2, 1, 4) for prompt in ("a", "b(", "a((b", "()")),
    ("a", 1, 3), ("a(", 30, 3), ("b", 30, 3), ("(a)", 30, 3), ("a", 5, 0), ("((", 40, 7),
    (")", 8, 2), ("(((", 8, 2),  # a prompt obeys no grammar: its depth is not a count of brackets
]  # fmt: skip


def _answers(function: Callable[..., Any]) -> list[Any]:
    """Return a function's answer to each case: (text, rounds), or what it raised."""
    found: list[Any] = []
    for case in OBEYED:
        try:
            text, rounds = function(*case)
            found.append((text, int(rounds)))
        except Wrong as wrong:
            found.append(wrong)
        except IndexError as error:  # one of ours
            found.append(Wrong("", error=type(error)))
        except (TypeError, ValueError):
            found.append(Wrong("it must return (text, rounds)"))
    return found


def _check_obey(function: Callable[..., Any]) -> None:
    got = _answers(function)
    plain = {case: obey(*case[:2], 0)[0] for case in OBEYED}
    for case, answer in zip(OBEYED, got, strict=True):
        if isinstance(answer, Wrong):
            fault = answer.message
        elif answer[0] != plain[case]:
            fault = f"expected {plain[case]!r}, as with ahead=0\ngot      {as_text(answer[0])}"
        elif _miscounted(case, answer[1]):
            fault = f"the text is right, and takes {answer[1]} rounds for {case[1]} signs"
        else:
            continue
        same = (each.__name__ for each in OBEDIENCE if _alike(_answers(each), got))
        raise Wrong(f"obey{case}\n{fault}", like=next(same, None))


def _miscounted(case: tuple[str, int, int], rounds: int) -> bool:
    """Tell whether a mend can't take so many rounds: not one a sign without drafts, or too many.

    With more than one draft allowed, some round of many keeps more than one, and some not all.
    """
    _, length, ahead = case
    if ahead == 0:
        return rounds != length
    if length < 30 or ahead == 1:
        return rounds >= length > 1
    least = -(-length // (ahead + 1))  # where all drafts are kept
    return not least < rounds < length / 2


def _alike(ours: list[Any], theirs: list[Any]) -> bool:
    return all(
        a.error == b.error and a.error is not None
        if isinstance(a, Wrong) and isinstance(b, Wrong)
        else a == b
        for a, b in zip(ours, theirs, strict=True)
    )


OBEY = Exercise(
    id="15.3",
    title="Closed twice",
    task=(
        "*Report.* “We force answers into a grammar. Without drafts all of them obey. With drafts "
        "some close a bracket that nobody opened, and some never close one. It is worst with a "
        "bad drafter.”\n\nCompare `ahead=0` with `ahead=3`. Find the line, and mend it."
    ),
    stars=2,
    minutes=9,
    reference=obey,
    starter=OBEY_STARTER,
    alternatives=[obey_from_the_text, obey_when_judged],
    wrong=OBEDIENCE,
    checker=_check_obey,
    hints=[
        "Print drafts, kept and depths after each round, up to the first sign that differs. Which "
        "of them is not what the text says?",
        "A refused draft was read by two models, and by whom else? Two of the three forget it.",
    ],
    next="A grammar without a list of its states: what would you keep, so as to go back?",
)

# ------------------------------------------------------------------ 15.4 all of them alike


def speak(texts, length, ahead, temperature, seed):
    """Return (texts of `length` tokens each, the share of the drafts that were kept).

    ahead: drafts in a round at most. They change the number of rounds, and nothing else: each text
        is as likely as without drafts.
    temperature: of both models; 0 takes the best token.
    """
    rng = np.random.default_rng(seed)
    target = np.log([[0.3, 0.5, 0.2], [0.4, 0.2, 0.4], [0.3, 0.3, 0.4]])  # [last token] -> next
    draft = np.log([[0.2, 0.6, 0.2], [0.6, 0.2, 0.2], [0.25, 0.15, 0.6]])

    def chances(scores):
        if temperature == 0:
            return np.eye(3)[scores.argmax()]
        weights = np.exp((scores - scores.max()) / temperature)
        return weights / weights.sum()

    def pick(p):
        return int(np.searchsorted(np.cumsum(p / p.sum()), rng.random(), "right").clip(0, 2))

    def propose(last, count):
        drafts, q = [], []
        for _ in range(count):
            q.append(chances(draft[last]))
            last = pick(q[-1])
            drafts.append(last)
        return drafts, q

    def judge(last, drafts, q):
        # the tokens that this round writes: the drafts that stay, and one of the target's own
        written = []
        for i, token in enumerate(drafts):
            p = chances(target[last])
            if rng.random() * q[i][token] >= p[token]:
                return [*written, pick(np.maximum(p - q[i], 0))]
            written.append(token)
            last = token
        return [*written, pick(chances(target[last]))]

    found, drafted, kept = [], 0, 0
    for _ in range(texts):
        text = [0]
        while len(text) <= length:
            count = min(ahead, length - len(text))
            drafts, q = propose(text[-1], count)
            written = judge(text[-1], drafts, q)
            drafted, kept = drafted + count, kept + len(written) - 1
            text += written
        found.append(text[1:])
    return found, kept / max(1, drafted)


PICK = "last = pick(q[-1])"
SPEAK_FOUND, SPEAK_STARTER = as_found(speak, (PICK, "last = int(q[-1].argmax())"))
CHANCES = "q.append(chances(draft[last]))"
FROM_ONE = """q.append(np.eye(3)[draft[last].argmax()])"""
speak_of_one_best = changed(speak, "speak_of_one_best", CHANCES, FROM_ONE)
JUDGED = """            if rng.random() * q[i][token] >= p[token]:
                return [*written, pick(np.maximum(p - q[i], 0))]
"""
speak_when_both_draw_it = changed(
    changed(speak, "speak_when_both_draw_it", PICK, "last = int(q[-1].argmax())"),
    "speak_when_both_draw_it", JUDGED,
    "            own = pick(p)\n"
    "            if own != token:\n                return [*written, own]\n",
)  # fmt: skip


def _judged(name: str, new: str) -> Any:
    return changed(SPEAK_FOUND, name, JUDGED, new)


SPEAKERS = {
    SPEAK_FOUND: STILL,
    changed(SPEAK_FOUND, "rest_of_p", "np.maximum(p - q[i], 0)", "p"): (
        "after a refusal you draw from p. Part of p was written by the kept drafts already."
    ),
    changed(SPEAK_FOUND, "rest_without_the_draft", "np.maximum(p - q[i], 0)",
            "p * (np.arange(3) != token)"): (
        "the second draw leaves the refused token out, as it should for a draft that was certain. "
        "But it was kept with min(1, p/q), as if it had been drawn: the two must fit."
    ),
    changed(SPEAK_FOUND, "kept_as_certain", "rng.random() * q[i][token] >= p[token]",
            "rng.random() >= p[token]"): (
        "the draft is kept as one that was certain, and the second draw is made as if it had been "
        "drawn from q: the two must fit."
    ),
    changed(SPEAK_FOUND, "kept_if_best", "rng.random() * q[i][token] >= p[token]",
            "token != p.argmax()"): (
        "a draft stays when it is the target's best token: the text is greedy wherever one is "
        "drafted."
    ),
    changed(speak, "drawn_and_certain", JUDGED, JUDGED.replace(" * q[i][token]", "")): (
        "the draft was drawn from q, and is judged as if it had been certain."
    ),
    changed(speak, "target_drafts", CHANCES, "q.append(chances(target[last]))"): (
        "the target drafts for itself: all is kept, and it must be asked for every draft. They "
        "come from `draft`."
    ),
    changed(speak, "no_drafts", "count = min(ahead, length - len(text))", "count = 0"): (
        "the texts are right because nothing is drafted any more: that was what drafts were for."
    ),
}  # fmt: skip

CALLS = [(1500, 3, 2, temperature, 11) for temperature in (1, 0.6, 2)]
TOO_FAR = 6.5  # standard errors
LONG = (100, 60, 2, 0.5, 12)  # here what a refusal leaves has two tokens, and much of the chance
_TARGET = np.array([[0.3, 0.5, 0.2], [0.4, 0.2, 0.4], [0.3, 0.3, 0.4]])


def _steps(temperature: float) -> np.ndarray:
    """Return the chance of each token after each, (3, 3)."""
    p = _TARGET ** (1 / temperature)
    return p / p.sum(axis=1, keepdims=True)


def _law(temperature: float) -> np.ndarray:
    """Return the chance of each text of three tokens, (3, 3, 3)."""
    p = _steps(temperature)
    return p[0][:, None, None] * p[:, :, None] * p[None]


def _spoken(function: Callable[..., Any], call: tuple[Any, ...]) -> tuple[np.ndarray, float]:
    """Return a function's texts (N, length), and the share of drafts kept, or refuse them."""
    answer = function(*call)
    try:
        texts, kept = answer
        texts, kept = np.array([[*map(int, text)] for text in texts]), float(kept)
    except (TypeError, ValueError):
        raise Wrong(f"speak{call}: it must return (texts, share), got {as_text(answer)}") from None
    if texts.shape != call[:2] or texts.min() < 0 or texts.max() > 2:
        what = f"{call[0]} texts of {call[1]} tokens, 0 to 2"
        raise Wrong(f"speak{call}: it must return {what}, got {as_text(texts)}")
    return texts, kept


@cache
def _shares(call: tuple[Any, ...]) -> tuple[float, float]:
    """Return the least and the largest share of this draft model's words that a mend can keep.

    Half of the poorer mend's, and what refuses half as often as the better one.
    """
    drawn, of_one_best = speak(*call)[1], speak_of_one_best(*call)[1]
    return 0.5 * min(drawn, of_one_best), 0.5 * (1 + drawn)


def _uneven(texts: np.ndarray, temperature: float) -> str:
    """Return which two tokens begin or end texts (N, 3) too often or too seldom, or nothing."""
    law = _law(temperature)
    for places, chances in (("begin", law.sum(axis=2)), ("end", law.sum(axis=0))):
        pairs = texts[:, :2] if places == "begin" else texts[:, 1:]
        seen = np.bincount(pairs @ [3, 1], minlength=9).reshape(3, 3) / len(texts)
        off = np.abs(seen - chances) / np.sqrt(chances * (1 - chances) / len(texts))
        a, b = np.unravel_index(off.argmax(), off.shape)
        if off.max() > TOO_FAR:
            return (
                f"{seen[a, b]:.1%} of the texts {places} with {a}, {b}; without drafts "
                f"{chances[a, b]:.1%} do"
            )
    return ""


def _amiss(function: Callable[..., Any]) -> str:
    """Return what is wrong with what a function writes, or nothing.

    A right answer is refused by chance less than once in 10⁶ times.
    """
    for call in CALLS:
        texts, kept = _spoken(function, call)
        uneven = _uneven(texts, call[3])
        if uneven:
            return f"speak{call}: {uneven}"
        least, most = _shares(call)
        if not least <= kept <= most:
            return f"speak{call}: the texts are right, but a share {kept:.3f} of the drafts is kept"
    for ahead in (1, 2):  # one text of each seed: the same numbers must not draft and judge
        alone = [_spoken(function, (1, 3, ahead, 1, seed))[0] for seed in range(600)]
        uneven = _uneven(np.concatenate(alone), 1)
        if uneven:
            return f"speak(1, 3, {ahead}, 1, seed) for the seeds 0 to 599: {uneven}"
    texts, chances = _spoken(function, LONG)[0], _steps(LONG[3])
    seen = np.bincount((texts[:, :-1] * 3 + texts[:, 1:]).ravel(), minlength=9).reshape(3, 3)
    times = seen.sum(axis=1, keepdims=True)
    seen = seen / np.maximum(times, 1)
    off = np.abs(seen - chances) / np.sqrt(chances * (1 - chances) / np.maximum(times, 1))
    a, b = np.unravel_index(off.argmax(), off.shape)
    if off.max() > TOO_FAR:
        return (
            f"speak{LONG}: after {a} the next token is {b} in {seen[a, b]:.1%} of the cases; "
            f"without drafts in {chances[a, b]:.1%}"
        )
    for ahead in (0, 2):
        texts, kept = _spoken(function, (4, 5, ahead, 0, 1))
        if texts.tolist() != [[1, 0, 1, 0, 1]] * 4:
            return f"speak(4, 5, {ahead}, 0, 1): at temperature 0 the best token is written"
        if ahead and kept != 1:
            return (
                f"speak(4, 5, {ahead}, 0, 1): both models like the same tokens best, so all drafts "
                f"are kept. Your share is {kept:.3f}"
            )
    first, again, other = (_spoken(function, (4, 9, 2, 1, seed))[0].tolist() for seed in (1, 1, 2))
    if first != again:
        return "speak(4, 9, 2, 1, 1) writes other texts when it is called again"
    if first == other:
        return "speak(4, 9, 2, 1, 1) and speak(4, 9, 2, 1, 2) write the same: what is the seed for?"
    return ""


@cache
def _mistakes() -> dict[str, Any]:
    return {wrong.__name__: speak_once(wrong) for wrong in SPEAKERS}


def _check_speak(function: Callable[..., Any]) -> None:
    if fault := _amiss(function):
        theirs = speak_once(function)
        like = (name for name, ours in _mistakes().items() if ours == theirs)
        raise Wrong(fault, like=next(like, None))


def speak_once(function: Callable[..., Any]) -> Any:
    """Return what tells two functions apart: what they write from the same random numbers."""
    texts, kept = _spoken(function, (300, 6, 3, 1, 5))
    return texts.tolist(), round(kept, 9)


SPEAK = Exercise(
    id="15.4",
    title="All of them alike",
    task=(
        "*Report.* “We tell many stories at temperature 1. With drafts they are more alike than "
        "without. At temperature 0 both are equal, and at 1 most drafts are kept.”"
        "\n\nCompare how often texts come with `ahead=0` and with `ahead=2`. Find the line, and "
        "mend it."
    ),
    stars=3,
    seconds=30,  # thousands of texts: a busy machine took 11
    minutes=10,
    reference=speak,
    starter=SPEAK_STARTER,
    alternatives=[speak_of_one_best, speak_when_both_draw_it],
    wrong=SPEAKERS,
    checker=_check_speak,
    hints=[
        "Count the first tokens of speak(5000, 3, 0, 1, 1) and of speak(5000, 3, 2, 1, 1). Which "
        "one comes too often?",
        "A draft stays with the chance min(1, p/q). What must q be the chances of?",
    ],
    next="There are two mends, in two places. Which one keeps more drafts?",
)
