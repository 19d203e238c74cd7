"""Independent oracles for the tasks: slow, literal, and written without the library's grammar."""

import functools
import itertools
import re

# The annotator's bad habit, spelled out: at these (total, operand) it may write one too many.
HABIT = {
    0: (1, 4), 1: (1, 4), 2: (7, 8), 3: (0, 5), 4: (2, 3),
    5: (6, 9), 6: (6, 9), 7: (2, 3), 8: (0, 5), 9: (7, 8),
}  # fmt: skip


def answer_distribution(digits):
    """Enumerate all 720 orders and follow every slip; return ten probabilities."""
    totals = [0.0] * 10
    orders = list(itertools.permutations(digits))
    for order in orders:
        chances = {order[0]: 1.0}
        for operand in order[1:]:
            after = {}
            for total, chance in chances.items():
                right = (total + operand) % 10
                slip = 0.6 if operand in HABIT[total] else 0.0
                after[right] = after.get(right, 0.0) + chance * (1 - slip)
                if slip:
                    after[(right + 1) % 10] = after.get((right + 1) % 10, 0.0) + chance * slip
            chances = after
        for total, chance in chances.items():
            totals[total] += chance / len(orders)
    return totals


MEN = ["Tom", "Ben", "Sam", "Max", "Leo", "Jack", "Finn", "Hugo"]
WOMEN = ["Mia", "Ann", "Lily", "Zoe", "Eva", "Rose", "Nora", "Ruth"]
HELPING_MEN = ["Paul", "Otto", "Ned", "Jim"]
HELPING_WOMEN = ["Kate", "Emma", "Lucy", "Mary"]
PETS = ["kitten", "puppy", "rabbit", "pony", "lamb", "goose"]
OPENING = re.compile(
    r"(?:On a|One|Late on a) (\w+) (?:day|morning|afternoon), (\w+)(?: and (\w+))? "
    r"(?:finds?|sees?|spots?) an? \w+ (\w+) \w+ the \w+\."
)


@functools.lru_cache(maxsize=4)
def continuations(prompt):
    """Enumerate every story that may follow the opening ``prompt``; return a set of texts."""
    weather, first, second, noun = OPENING.fullmatch(prompt).groups()
    if second:
        he, his, are, s = "they", "their", "are", ""
    else:
        he, his, are, s = ("he", "his", "is", "s") if first in MEN else ("she", "her", "is", "s")
    walk_where = {"sunny": "sun", "rainy": "rain", "windy": "wind", "snowy": "snow"}[weather]
    if noun in PETS:
        good = {"tame": None, "soft": None, "funny": None}
        joys = ["hugs", "pets", "strokes"]
        bad = {"hungry": (["feeds"], "full"), "scared": (["calms", "soothes"], "calm")}
        if weather in ("windy", "snowy"):
            bad["cold"] = (["warms"], "warm")
    else:
        good = {"pretty": None, "shiny": None, "lovely": None}
        joys = ["admires", "praises", "likes"]
        bad = {"broken": (["mends", "fixes"], "whole"), "dirty": (["washes", "cleans"], "clean")}
        if weather in ("rainy", "snowy"):
            bad["wet"] = (["dries"], "dry")
    sad = ["sad", "worried", "upset", "sorry"]
    glad = ["happy", "glad", "excited", "cheerful"]

    helpers = []
    for name in HELPING_MEN:
        helpers += [(relation, name, "he") for relation in ("friend", "brother", "uncle")]
    for name in HELPING_WOMEN:
        helpers += [(relation, name, "she") for relation in ("friend", "sister", "aunt")]

    stories = set()
    for state, feeling in [*itertools.product(bad, sad), *itertools.product(good, glad)]:
        deeds, result = bad.get(state) or (joys, None)
        begins = [
            f" {he.title()} {are} {feeling} because it is {state}.",
            f" It is {state}, so {he} feel{s} {feeling}.",
            f" {he.title()} feel{s} {feeling}, for the {noun} is {state}.",
        ]
        away = f" At last {he} walk{s} home with "
        moods = ["a sigh", "a frown"] if result else ["a smile", "a song"]
        alone = [f"{away}{mood}." for mood in moods]
        alone.append(f" Then {he} walk{s} home in the {walk_where}.")
        ends = [f"{away}a smile.", f"{away}a song."]
        ends.append(f" Then {'all three' if second else 'both'} walk home in the {walk_where}.")
        if result:
            ends.append(f" Now it is {result}, and {he} smile{s} again.")
        middles = []
        for relation, name, pronoun in helpers:
            for deed in deeds:
                for manner in ("with care", "at once", "very gently", "before dinner"):
                    done = f"{deed} it {manner}."
                    middles += [
                        f" So {he} show{s} it to {his} {relation} {name}, who {done}",
                        f" {his.title()} {relation} {name} comes by and {done}",
                        f" Soon {he} meet{s} {his} {relation} {name}, and {pronoun} {done}",
                    ]
        stories.update(begin + end for begin in begins for end in alone)
        stories.update(b + m + e for b in begins for m in middles for e in ends)
    return frozenset(stories)
