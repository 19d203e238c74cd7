"""Exercises of lesson 00: three small functions, one for each act of the course."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import further

import numpy as np

# ------------------------------------------------------------------ 00.1 the best token


def best_token(probabilities):
    """Return the position of the largest probability; the first one if several are largest.

    probabilities: a list of at least one.
    """
    return int(np.argmax(probabilities))


def best_token_with_a_loop(probabilities):
    best = 0
    for i in range(len(probabilities)):
        if probabilities[i] > probabilities[best]:
            best = i
    return best


def last_of_equals(probabilities):
    return max(range(len(probabilities)), key=lambda i: (probabilities[i], i))


def first_peak(probabilities):
    falls = (i for i in range(len(probabilities) - 1) if probabilities[i] > probabilities[i + 1])
    return next(falls, len(probabilities) - 1)


def _probabilities(rng: np.random.Generator) -> Iterator[tuple[list[float]]]:
    yield ([0.2, 0.5, 0.3],)
    yield ([0.1, 0.4, 0.4, 0.1],)
    yield ([0.3, 0.1, 0.4, 0.2],)
    yield ([0.5, 0.2, 0.3],)  # the last rise is not the largest
    yield ([0.1, 0.3, 0.1, 0.5],)  # higher than its neighbours is not the highest
    yield ([0.2, 0.3, 0.5],)  # the last of an odd number has no partner to be compared with
    yield ([0.25, 0.252, 0.248, 0.25],)  # rounded to two digits they are the same
    yield ([0.2501, 0.2504, 0.2503, 0.2492],)  # and to three
    yield ([0.33332, 0.33336, 0.33332],)  # half precision has too few digits
    yield ([0.4999998, 0.5000002],)  # nearly the same is not the same
    yield ([0.4, 0.2, 0.4],)  # a tie with the last
    yield ([1e-05, 0.1, 0.7, 0.2],)  # as a text it is the largest
    yield ([1.0],)
    yield ([0.125] * 8,)
    yield ([0.06] * 11 + [0.34],)
    yield ([0.09] * 10 + [0.1],)  # none is above a start of 0.1
    yield ([0.01] * 98 + [0.02],)  # nor is the best among the first few
    for n in (4, 6, 9, 50):
        yield (rng.dirichlet(np.ones(n)).round(4).tolist(),)


BEST_TOKEN = Exercise(
    id="00.1",
    title="The best token",
    task=(
        "A model gives every token a probability. Return the position of the most probable one. "
        "Positions count from 0, as always in Python."
    ),
    stars=1,
    minutes=2,
    reference=best_token,
    alternatives=[best_token_with_a_loop],
    wrong={
        changed(
            best_token, "largest_value", "int(np.argmax(probabilities))", "max(probabilities)"
        ): (
            "you return the probability itself. Wanted is its position, which says which token it "
            "is."
        ),
        last_of_equals: "of several largest ones you take the last; wanted is the first.",
        changed(best_token, "counts_from_one", "int(", "1 + int("): (
            "you count from 1: the first token has position 0."
        ),
        changed(best_token, "least_likely", "argmax", "argmin"): (
            "that is the position of the smallest probability."
        ),
        first_peak: (
            "you stop where the probabilities first fall. A larger one may come later: look at all."
        ),
        changed(
            best_token_with_a_loop, "last_rise", "probabilities[best]", "probabilities[i - 1]"
        ): ("you compare neighbours, and find the last rise. Compare with the largest so far."),
    },
    cases=_probabilities,
    hints=[
        "Go through the positions, and remember at which one the largest so far stood.",
        "Or in one call: NumPy has a function for exactly this. Its name begins with arg.",
    ],
    next="Always taking the best token is called greedy. You will meet it in every lesson.",
)

# ------------------------------------------------------------------ 00.2 a vote


def winner(answers):
    """Return the answer that occurs most often; None is no answer and has no vote.

    answers: a list of strings and Nones, with at least one string. Any string is an answer.
    If several occur equally often, return the one that came first.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    return votes.most_common(1)[0][0]


def winner_by_counting(answers):
    given = [answer for answer in answers if answer is not None]
    return max(given, key=given.count)


def first_to_get_there(answers):
    votes = Counter()
    leader = None
    for answer in answers:
        if answer is not None:
            votes[answer] += 1
            if votes[answer] > votes[leader]:
                leader = answer
    return leader


def removes_while_it_walks(answers):
    for answer in answers:
        if answer is None:
            answers.remove(answer)
    return Counter(answers).most_common(1)[0][0]


def largest_answer(answers):
    return max(answer for answer in answers if answer is not None)


def first_answer(answers):
    return next(answer for answer in answers if answer is not None)


def order_of_a_set(answers):
    return max(set(answers) - {None}, key=answers.count)


def longest_run(answers):
    runs = groupby(answer for answer in answers if answer is not None)
    return max(runs, key=lambda run: len(list(run[1])))[0]


def counts_digits(answers):
    text = "".join(answer for answer in answers if answer is not None)
    return max((answer for answer in answers if answer is not None), key=text.count)


def _answers(rng: np.random.Generator) -> Iterator[tuple[list[str | None]]]:
    yield (["7", "8", "7"],)
    yield (["8", "7", "7"],)  # a majority that does not come first
    yield (["3", "1", "3", "1"],)
    yield (["3", "1", "1", "3"],)  # a late tie: who came first is not who had two votes first
    yield (["3", "1", "1", None, "3"],)  # and not whose votes came early
    yield ([None, "4", None, None, "2", "2"],)
    yield ([None, "4"],)
    yield (["6", None, "5"],)  # None takes no vote away
    yield ([None, None, "4"],)  # the second None moves up while the first is removed
    yield (["7", "7", "3", "1", "3", "2", "3"],)
    yield (["1", "11", "12", "11", "1", "2", "11"],)
    yield (["11", "2", "2", "1", "10"],)
    yield (["21", "12", "3", "3"],)  # the same digits make another answer
    yield (["4"] * 9 + ["7"] * 10,)  # ten are more than nine, though "10" is not
    yield ([*map(str, range(120)), "119"],)  # many kinds, and the last one decides
    yield ([str(number) for number in (10, 12, 11, 12)],)  # equal, and not one object
    for n in (9, 15, 300):
        options = [None, "0", "5", "6", "7"]
        yield ([options[i] for i in rng.integers(0, 5, size=n)] + ["5"],)
    for decade in range(9):  # a set puts the first of ten first, nine times, with chance 1e-9
        yield ([str(10 * decade + digit) for digit in rng.permutation(10)],)


def _any_string(_: np.random.Generator) -> list[tuple[list[str | None]]]:
    """Return answers that are no numbers, and strings that somebody might take for none."""
    cases = [
        ["no", "yes", "no"],
        ["nan", "4", "nan"],  # no number equals itself less
        ["4", "None", "None"],
        ["4", "", ""],
        [None, None, "", "4", "4"],  # None is not the empty string
        [None, None, "0", "4", "4"],
        ["4", "0", "0"],  # zero is an answer, too
        ["07", "7", "7", "07"],  # as numbers they are the same
        ["8", "7", "07"],  # and would win together
        ["8", "No", "no"],  # a capital letter makes another string
        ["4", " 4", " 4"],
    ]
    return [(case,) for case in cases]  # a name is given only where it fits the others, too


WINNER = Exercise(
    id="00.2",
    title="A vote",
    task=(
        "Many samples, many answers. Return the one that occurs most often. Some samples have no "
        "answer; there the list holds `None`, and `None` must never win."
    ),
    stars=1,
    minutes=4,
    reference=winner,
    alternatives=[winner_by_counting],
    wrong={
        changed(winner, "counts_the_silent", "if answer is not None", ""): (
            "None won: a sample without an answer has no vote."
        ),
        removes_while_it_walks: (
            "you take Nones out of the list that you walk through: what comes behind moves up, "
            "and the walk steps over it. Make a new list."
        ),
        changed(winner_by_counting, "last_of_the_leaders", "max(given", "max(reversed(given)"): (
            "of several leaders you take the last; wanted is the first to appear."
        ),
        first_to_get_there: (
            "of several leaders you take the one that had its votes first; wanted is the one that "
            "appeared first. Count to the end, then choose."
        ),
        changed(winner, "answer_and_votes", "[0][0]", "[0]"): (
            "you return the answer together with its votes; wanted is the answer."
        ),
        largest_answer: "that is the largest answer; wanted is the most frequent one.",
        first_answer: "that is the first answer; nobody has counted.",
        order_of_a_set: (
            "a set has no order, so among several leaders chance decides, anew each time Python "
            "starts. Go through the list itself: `max` keeps the first of the best."
        ),
        changed(order_of_a_set, "set_with_nobody", " - {None}", ""): (
            "None has no vote and must never win. And a set has no order, so among several leaders "
            "chance decides, anew each time Python starts: leave the Nones out, and go through the "
            "list itself."
        ),
        changed(winner, "drops_the_empty", "if answer is not None", "if answer"): (
            "`if answer` leaves out the empty string, too, and that is an answer. Only None has no "
            "vote: `if answer is not None`."
        ),
        changed(winner_by_counting, "first_in_the_alphabet", "max(given", "max(sorted(given)"): (
            "of several leaders you take the smallest; wanted is the one that came first."
        ),
        longest_run: "you count neighbours only: the same answer may come again later.",
        counts_digits: ("you find '1' inside '11', too, and count it: compare whole answers."),
    },
    cases=_answers,
    checker=further(_any_string),
    hints=[
        "Leave the Nones out first. Then count.",
        "collections.Counter counts, and Counter(...).most_common(1) is a list of one pair.",
    ],
    next="A model also says how sure it was of each sample. How would you let that count?",
)

# ------------------------------------------------------------------ 00.3 how many guesses count


def kept(guesses, choices):
    """Return how many of the draft's guesses can be kept: those before the first wrong one.

    guesses: a list of the tokens that the draft wrote; it may be empty.
    choices: a list of what the target would have written at each of these places; as many.
    """
    for i in range(len(guesses)):
        if guesses[i] != choices[i]:
            return i
    return len(guesses)


def kept_by_slices(guesses, choices):
    return max(n for n in range(len(guesses) + 1) if guesses[:n] == choices[:n])


def all_matches(guesses, choices):
    return sum(guess == choice for guess, choice in zip(guesses, choices, strict=True))


def place_of_the_word(guesses, choices):
    wrong = [g for g, c in zip(guesses, choices, strict=True) if g != c]
    return guesses.index(wrong[0]) if wrong else len(guesses)


def longest_match(guesses, choices):
    same = (g == c for g, c in zip(guesses, choices, strict=True))
    return max((len(list(run)) for match, run in groupby(same) if match), default=0)


def _guesses(rng: np.random.Generator) -> Iterator[tuple[list, list]]:
    yield ["He", "is", "happy"], ["He", "is", "glad"]
    yield ["She", "is"], ["He", "is"]
    yield ["sun", ".", "She"], ["sun", ".", "She"]  # a full stop ends no story
    yield ["a", "b", "c", "d"], ["a", "x", "c", "d"]
    yield ["the", "he"], ["he", "the"]
    yield ["so", "he", "so", "it"], ["so", "he", "he", "it"]
    yield ["he", "so", "he", "it"], ["he", "it", "he", "is"]  # a longer match elsewhere hides it
    yield ["yes"], ["yes"]
    yield ["yes"], ["no"]
    yield [500, 512], [int("500"), int("512")]  # equal, and not one object
    yield ["so"] * 71 + ["it"], ["so"] * 72  # and more than any draft is long
    for n in (5, 7, 60):
        choices = [str(word) for word in rng.choice(["so", "he", "it"], size=n)]
        guesses = [w if rng.random() < 0.7 else "now" for w in choices]
        yield guesses, choices


def _like_tokens(_: np.random.Generator) -> list[tuple[list, list]]:
    """Return tokens that are nearly the same, ids, the id 0, and no guesses."""
    return [
        (["the", "then"], ["the", "they"]),
        (["he"], ["hen"]),
        (["hen"], ["he"]),
        ([" ", " is"], [" ", "is"]),
        ([" kit", "e"], [" ki", "te"]),  # the same text, of other tokens
        (["the"], ["The"]),
        (["was"], ["saw"]),
        ([7], [2567]),
        ([0, 7, 7], [0, 7, 8]),
        ([1, -1], [1, 1]),
        ([], []),
    ]


KEPT = Exercise(
    id="00.3",
    title="How many guesses can be kept?",
    task=(
        "The draft has written a few tokens, and the target has said what it would have written "
        "at each of these places. A guess after a wrong one is worthless: it continues a text that "
        "the target does not want. Count the guesses that can be kept. There may be none to count: "
        "then it is 0."
    ),
    stars=1,
    minutes=4,
    reference=kept,
    alternatives=[kept_by_slices],
    wrong={
        all_matches: (
            "you count every match. What comes after the first wrong guess continues another text: "
            "stop there."
        ),
        changed(kept, "counts_the_correction", "return i\n", "return i + 1\n"): (
            "you count one too many: the first wrong guess is replaced, not kept."
        ),
        changed(kept, "all_or_nothing", "return i\n", "return 0\n"): (
            "one wrong guess does not spoil those before it: they can be kept."
        ),
        changed(
            kept,
            "returns_the_tokens",
            "return i\n    return len(guesses)",
            "return guesses[:i]\n    return guesses",
        ): ("you return the tokens that are kept; wanted is how many they are."),
        changed(kept, "no_end", "    return len(guesses)", ""): (
            "when every guess is right your loop ends and nothing is returned: what is left to say "
            "after the loop?"
        ),
        changed(kept, "zero_at_the_end", "return len(guesses)", "return 0"): (
            "when every guess is right you return 0: argmax and argmin of equal values are 0. All "
            "of them can be kept."
        ),
        changed(kept, "same_object", "guesses[i] != choices[i]", "guesses[i] is not choices[i]"): (
            "`is` asks whether two tokens are one object in memory; equal ones need not be. Use "
            "== or !=."
        ),
        place_of_the_word: (
            "you look a word up, and the same word may stand at two places, right at one and wrong "
            "at the other: count positions, not words."
        ),
        longest_match: (
            "that is the longest row of matches anywhere. Only those from the very beginning count."
        ),
    },
    cases=_guesses,
    checker=further(_like_tokens),
    hints=[
        "Go from left to right and stop at the first difference.",
        "How many guesses stand to the left of position i? And what if there is no difference?",
    ],
    next="If each guess is right with probability 0.8, how many of 4 are kept on average?",
)
