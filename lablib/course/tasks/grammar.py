"""The grammar of the stories: words, slots that know what may stand in them, and the plot.

A template is a sentence with slots in braces. A slot's options depend on the facts of the story so
far: the finder's gender and number settle pronouns and verb forms, a feeling goes with its cause,
a helper does what the trouble asks for, and the weather of the first sentence comes back in the
last. Finders and helpers have different names, so nobody helps himself. Options are listed from the
most to the least frequent.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from lablib.course.tasks.problem import words

Facts = dict[str, str]

HE = words("Tom Ben Sam Max Leo Jack Finn Hugo")
SHE = words("Mia Ann Lily Zoe Eva Rose Nora Ruth")
FINDERS = {**dict.fromkeys(HE, "he"), **dict.fromkeys(SHE, "she")}
HELPERS = {
    **dict.fromkeys(words("Paul Otto Ned Jim"), "he"),
    **dict.fromkeys(words("Kate Emma Lucy Mary"), "she"),
}
PRONOUN = FINDERS | HELPERS
POSSESSIVE = {"he": "his", "she": "her", "they": "their"}
RELATIONS = {"friend": "he she", "sister": "she", "brother": "he", "aunt": "she", "uncle": "he"}

WEATHER = {"sunny": "sun", "rainy": "rain", "windy": "wind", "snowy": "snow"}
OPENERS = ("On a {} day", "One {} morning", "Late on a {} afternoon")
FINDS = {"finds": "find", "sees": "see", "spots": "spot"}
PLACES = {
    "park": "in", "garden": "in", "forest": "in", "river": "by", "lake": "by", "barn": "behind",
    "school": "behind", "hill": "on", "beach": "on", "market": "at", "farm": "at",
    "bridge": "under",
}  # fmt: skip
THINGS = words("kite drum boat map lamp book ball clock bell coat hat doll")
ANIMALS = words("kitten puppy rabbit pony lamb goose")
THING_LOOKS = words("red blue green yellow orange old tiny big")
ANIMAL_LOOKS = words("white black brown grey old tiny big")

# A trouble, the deeds that mend it, and how the thing is afterwards.
THING_TROUBLES = {
    "broken": ("mends fixes", "whole"),
    "dirty": ("washes cleans", "clean"),
    "wet": ("dries", "dry"),
}
ANIMAL_TROUBLES = {
    "hungry": ("feeds", "full"),
    "scared": ("calms soothes", "calm"),
    "cold": ("warms", "warm"),
}
NEEDS_WEATHER = {"wet": ("rainy", "snowy"), "cold": ("windy", "snowy")}
THING_CHARMS = ("pretty", "shiny", "lovely")
ANIMAL_CHARMS = ("tame", "soft", "funny")
THING_JOYS = ("admires", "praises", "likes")
ANIMAL_JOYS = ("hugs", "pets", "strokes")
GOOD_FEELINGS = ("happy", "glad", "excited", "cheerful")
BAD_FEELINGS = ("sad", "worried", "upset", "sorry")
MANNERS = ("with care", "at once", "very gently", "before dinner")
TROUBLES = THING_TROUBLES | ANIMAL_TROUBLES
CHARMS = THING_CHARMS + ANIMAL_CHARMS
DEEDS = {deed: trouble for trouble, (deeds, _) in TROUBLES.items() for deed in deeds.split()}
RESULTS = {trouble: result for trouble, (_, result) in TROUBLES.items()}
PLURAL = {
    "is": "are", "feels": "feel", "shows": "show", "meets": "meet",
    "smiles": "smile", "walks": "walk", **FINDS,
}  # fmt: skip


def article(word: str) -> str:
    """Return "a" or "an" as ``word`` asks for."""
    return "an" if word[0] in "aeiou" else "a"


def opening(rng: Random) -> tuple[Facts, str]:
    """Draw a first sentence; return what it says and the sentence itself."""

    def pick(options: Sequence[str]) -> str:
        return options[int(rng.random() * len(options))]

    weather, opener = pick(tuple(WEATHER)), pick(OPENERS)
    first = pick(HE + SHE)
    names = first
    if rng.random() < 1 / 3:
        second = pick(HE + SHE)
        while second == first:
            second = pick(HE + SHE)
        names = f"{first} and {second}"
    kind = "thing" if rng.random() < 2 / 3 else "animal"
    noun = pick(THINGS if kind == "thing" else ANIMALS)
    look = pick(THING_LOOKS if kind == "thing" else ANIMAL_LOOKS)
    verb, place = pick(tuple(FINDS)), pick(tuple(PLACES))
    who = "they" if " and " in names else FINDERS[first]
    facts = {"names": names, "who": who, "weather": weather, "kind": kind, "noun": noun}
    text = (
        f"{opener.format(weather)}, {names} {FINDS[verb] if who == 'they' else verb} "
        f"{article(look)} {look} {noun} {PLACES[place]} the {place}."
    )
    return facts, text


@dataclass(frozen=True)
class Slot:
    """A gap in a sentence.

    Attributes:
        words: everything that ever stands in it, for the reader.
        options: what may stand in it, given the facts of the story so far.
        reason: why a word may not, in one sentence.
    """

    words: tuple[str, ...]
    options: Callable[[Facts], tuple[str, ...]]
    reason: Callable[[str, Facts], str]


def _pronoun_slot(table: dict[str, str], role: Callable[[Facts], str] = lambda f: f["who"]) -> Slot:
    def reason(word: str, facts: Facts) -> str:
        return f"'{word}' refers to {_whom(facts, role)}: it must be '{table[role(facts)]}'"

    return Slot(tuple(table.values()), lambda f: (table[role(f)],), reason)


def _whom(facts: Facts, role: Callable[[Facts], str]) -> str:
    if role is _friend_pronoun:
        return f"{facts['friend']}, who is a {PRONOUN[facts['friend']]}"
    if facts["who"] == "they":
        return f"{facts['names']}, who are two"
    return f"{facts['names']}, who is a {facts['who']}"


def _friend_pronoun(facts: Facts) -> str:
    return PRONOUN[facts["friend"]]


def _verb(singular: str) -> Slot:
    plural = PLURAL[singular]

    def options(facts: Facts) -> tuple[str, ...]:
        return (plural,) if facts["who"] == "they" else (singular,)

    def reason(word: str, facts: Facts) -> str:
        number = "plural" if facts["who"] == "they" else "singular"
        return f"the verb after '{facts['who']}' must be {number}: '{options(facts)[0]}'"

    return Slot((singular, plural), options, reason)


def _free(options: tuple[str, ...]) -> Slot:
    """Return a slot that takes any of its words at any time."""
    return Slot(options, lambda f: options, lambda word, f: f"'{word}' does not fit here")


def _feelings(facts: Facts) -> tuple[str, ...]:
    if "state" not in facts:
        return GOOD_FEELINGS + BAD_FEELINGS
    return BAD_FEELINGS if facts["state"] in TROUBLES else GOOD_FEELINGS


def _states(facts: Facts) -> tuple[str, ...]:
    thing = facts["kind"] == "thing"
    troubles = tuple(
        trouble
        for trouble in (THING_TROUBLES if thing else ANIMAL_TROUBLES)
        if facts["weather"] in NEEDS_WEATHER.get(trouble, WEATHER)
    )
    charms = THING_CHARMS if thing else ANIMAL_CHARMS
    if "feeling" not in facts:
        return troubles + charms
    return troubles if facts["feeling"] in BAD_FEELINGS else charms


def _why_not_feeling(word: str, facts: Facts) -> str:
    return f"nobody is {word} because something is {facts['state']}"


def _why_not_state(word: str, facts: Facts) -> str:
    own = THING_TROUBLES if facts["kind"] == "thing" else ANIMAL_TROUBLES
    charms = THING_CHARMS if facts["kind"] == "thing" else ANIMAL_CHARMS
    if word not in own and word not in charms:
        return f"a {facts['noun']} cannot be {word}"
    if facts["weather"] not in NEEDS_WEATHER.get(word, WEATHER):
        return f"nothing gets {word} on a {facts['weather']} day"
    return f"nobody is {facts['feeling']} because something is {word}"


def _friends(facts: Facts) -> tuple[str, ...]:
    pronouns = RELATIONS[facts["relation"]].split()
    return tuple(name for name, pronoun in HELPERS.items() if pronoun in pronouns)


def _why_not_friend(word: str, facts: Facts) -> str:
    if word in FINDERS:
        return f"{word} is a name of those who find things, not of those who help"
    return f"{word} is a {HELPERS[word]} and cannot be the {facts['relation']}"


def _deeds(facts: Facts) -> tuple[str, ...]:
    if facts["state"] in TROUBLES:
        return tuple(TROUBLES[facts["state"]][0].split())
    return THING_JOYS if facts["kind"] == "thing" else ANIMAL_JOYS


def _why_not_deed(word: str, facts: Facts) -> str:
    if word in DEEDS:
        return (
            f"'{word}' needs something {DEEDS[word]}, but the {facts['noun']} is {facts['state']}"
        )
    if facts["state"] in TROUBLES:
        return f"'{word}' does nothing for a {facts['noun']} that is {facts['state']}"
    return f"one does not say '{word}' of a {facts['noun']}"


def _crowd(facts: Facts) -> tuple[str, ...]:
    return ("all three",) if facts["who"] == "they" else ("both",)


def _mood(facts: Facts) -> tuple[str, ...]:
    cheerful = "friend" in facts or facts["state"] not in TROUBLES
    return ("a smile", "a song") if cheerful else ("a sigh", "a frown")


def _capital(table: dict[str, str]) -> dict[str, str]:
    return {key: value.capitalize() for key, value in table.items()}


_SUBJECT = {"he": "he", "she": "she", "they": "they"}
_ALL_DEEDS = (*DEEDS, *THING_JOYS, *ANIMAL_JOYS)
SLOTS: dict[str, Slot] = {
    "He": _pronoun_slot(_capital(_SUBJECT)),
    "he": _pronoun_slot(_SUBJECT),
    "His": _pronoun_slot(_capital(POSSESSIVE)),
    "his": _pronoun_slot(POSSESSIVE),
    "she": _pronoun_slot({"he": "he", "she": "she"}, _friend_pronoun),
    **{verb: _verb(verb) for verb in PLURAL if verb not in FINDS},
    "feeling": Slot(GOOD_FEELINGS + BAD_FEELINGS, _feelings, _why_not_feeling),
    "state": Slot((*TROUBLES, *CHARMS), _states, _why_not_state),
    "noun": Slot(
        THINGS + ANIMALS,
        lambda f: (f["noun"],),
        lambda word, f: f"the find was '{f['noun']}', not '{word}'",
    ),
    "relation": _free(tuple(RELATIONS)),
    "friend": Slot(tuple(PRONOUN), _friends, _why_not_friend),
    "deed": Slot(_ALL_DEEDS, _deeds, _why_not_deed),
    "manner": _free(MANNERS),
    "result": Slot(
        tuple(RESULTS.values()),
        lambda f: (RESULTS[f["state"]],),
        lambda word, f: f"what was {f['state']} becomes {RESULTS[f['state']]}, not {word}",
    ),
    "crowd": Slot(
        ("both", "all three"),
        _crowd,
        lambda word, f: f"{f['names']} and {f['friend']} are not '{word}' but '{_crowd(f)[0]}'",
    ),
    "sun": Slot(
        tuple(WEATHER.values()),
        lambda f: (WEATHER[f["weather"]],),
        lambda word, f: f"on a {f['weather']} day one does not walk in the {word}",
    ),
    "mood": Slot(
        ("a smile", "a song", "a sigh", "a frown"),
        _mood,
        lambda word, f: f"'{word}' does not fit how the story went",
    ),
}


def _always(facts: Facts) -> str | None:
    return None


def _after_help(facts: Facts) -> str | None:
    return None if "friend" in facts else "nobody else has come into the story yet"


def _after_repair(facts: Facts) -> str | None:
    if "friend" not in facts:
        return "nobody has done anything for it, so it cannot have changed"
    return None if facts["state"] in TROUBLES else "nothing was wrong with it, so nothing changed"


@dataclass(frozen=True)
class Template:
    """A sentence with slots in braces, the part of the plot that follows, and its condition."""

    text: str
    then: str
    when: Callable[[Facts], str | None] = field(default=_always)

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The sentence cut at its slots: literals and slot names in turn, no empty ones."""
        return tuple(piece for piece in re.split(r"[{}]", self.text) if piece)

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The slots' names in order."""
        return tuple(re.findall(r"{(\w+)}", self.text))

    @cached_property
    def pattern(self) -> re.Pattern:
        """A pattern with one group for each slot, that takes any word the slot ever holds."""
        return re.compile(
            "".join(
                "(" + "|".join(map(re.escape, SLOTS[piece].words)) + ")"
                if piece in SLOTS
                else re.escape(piece)
                for piece in self.pieces
            )
        )


PLOT: dict[str, tuple[Template, ...]] = {
    "start": (
        Template("{He} {is} {feeling} because it is {state}.", "middle"),
        Template("It is {state}, so {he} {feels} {feeling}.", "middle"),
        Template("{He} {feels} {feeling}, for the {noun} is {state}.", "middle"),
    ),
    "middle": (
        Template(
            "So {he} {shows} it to {his} {relation} {friend}, who {deed} it {manner}.", "last"
        ),
        Template("{His} {relation} {friend} comes by and {deed} it {manner}.", "last"),
        Template("At last {he} {walks} home with {mood}.", "end"),
        Template(
            "Soon {he} {meets} {his} {relation} {friend}, and {she} {deed} it {manner}.", "last"
        ),
        Template("Then {he} {walks} home in the {sun}.", "end"),
    ),
    "last": (
        Template("Then {crowd} walk home in the {sun}.", "end", _after_help),
        Template("Now it is {result}, and {he} {smiles} again.", "end", _after_repair),
        Template("At last {he} {walks} home with {mood}.", "end"),
    ),
}


def _word_classes() -> dict[str, str]:
    nouns = (*THINGS, *ANIMALS, *PLACES, *RELATIONS, *WEATHER.values())
    nouns += words("day morning afternoon care dinner home smile song sigh frown")
    verbs = (*PLURAL, *PLURAL.values(), *_ALL_DEEDS, "comes", "walk")
    looks = (*THING_LOOKS, *ANIMAL_LOOKS, *WEATHER, *TROUBLES, *CHARMS, *RESULTS.values())
    table = dict.fromkeys((*looks, *GOOD_FEELINGS, *BAD_FEELINGS), "adjective")
    table |= dict.fromkeys(nouns, "noun") | dict.fromkeys(verbs, "verb")
    table |= dict.fromkeys(PRONOUN, "name")
    templates = [t.text for part in PLOT.values() for t in part]
    slots = [word for slot in SLOTS.values() for word in slot.words]
    for text in (*OPENERS, *PLACES.values(), *MANNERS, *slots, *templates, "a an and the"):
        for word in re.findall(r"[A-Za-z]+", re.sub(r"{\w*}", "", text)):
            table.setdefault(word, "function")
    return table


WORD_CLASS = _word_classes()
