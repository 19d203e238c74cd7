"""Stories: the grammar against an independent enumeration, and every rule by name."""

import random
import re

from lablib.course.tasks import grammar, stories
from lablib.course.tasks.problem import Problem

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import tasks as oracle

QUICK = settings(max_examples=100, derandomize=True)
PROBLEMS = stories.problems(0, 2_000)


def opening(prompt, names, who, weather, kind, noun):
    facts = {"names": names, "who": who, "weather": weather, "kind": kind, "noun": noun}
    return Problem(prompt, "", "stories", tuple(facts.items()))


ALONE = "On a rainy day, Tom finds a red kite in the park."
TOM = opening(ALONE, "Tom", "he", "rainy", "thing", "kite")
TWO = "One windy morning, Mia and Ben see an old pony by the river."
PAIR = opening(TWO, "Mia and Ben", "they", "windy", "animal", "pony")
HELPED = " He is sad because it is broken. So he shows it to his aunt Kate, who mends it at once."
BROKEN, WHOLE = " He is sad because it is broken.", " Now it is whole, and he smiles again."
LIKED = HELPED.replace("sad", "glad").replace("broken", "shiny").replace("mends", "likes")
AUNT = " They are glad because it is tame. Soon they meet their aunt Kate, and he pets it at once."
HELPED_PAIR = " They are glad because it is tame. Their uncle Paul comes by and pets it at once."


def disagreements(problem, tries, seed=0):
    """Change stories at random; return those the checker and the enumeration judge differently."""
    rng = random.Random(seed)
    right = oracle.continuations(problem.prompt)
    short, long = [], []
    for text in sorted(right):
        (short if text.count(".") == 2 else long).append(text)
    pool = rng.sample(short, 100) + rng.sample(long, 200)
    lexicon = sorted(grammar.WORD_CLASS)
    rivals = dict.fromkeys(lexicon, lexicon)
    rivals |= {word: slot.words for slot in grammar.SLOTS.values() for word in slot.words}
    differ = [text for text in pool if not stories.check(problem, text)]
    for _ in range(tries):
        pieces = re.split(r"(\w+)", rng.choice(pool))
        at = rng.randrange(1, len(pieces), 2)
        action = rng.random()
        if action < 0.6:
            pieces[at] = rng.choice(rivals[pieces[at]])
        elif action < 0.7:
            pieces[at] = rng.choice(lexicon)
        elif action < 0.8:
            del pieces[at : at + 2]
        else:  # the end of another story
            other = re.split(r"(?<=\.)", rng.choice(pool))
            mine = re.split(r"(?<=\.)", "".join(pieces))
            cut = rng.randrange(len(mine))
            pieces = mine[:cut] + other[rng.randrange(len(other)) :]
        text = "".join(pieces)
        if stories.check(problem, text) != (text in right or f" {text}" in right):
            differ.append(text)
    return differ


@pytest.mark.parametrize("problem", [TOM, PAIR, *PROBLEMS[:3]], ids=lambda p: p.prompt[:30])
def test_the_checker_accepts_exactly_what_the_grammar_can_write(problem):
    assert disagreements(problem, tries=3_000) == []


@pytest.mark.parametrize("slot", sorted(grammar.SLOTS.keys() - {"relation", "manner"}))
def test_the_comparison_notices_a_checker_that_forgets_a_rule(monkeypatch, slot):
    careless = grammar.SLOTS[slot]
    careless = grammar.Slot(careless.words, lambda facts: careless.words, careless.reason)
    monkeypatch.setitem(grammar.SLOTS, slot, careless)
    assert disagreements(TOM, tries=4_000) or disagreements(PAIR, tries=4_000)


def test_written_stories_are_among_the_enumerated_ones():
    for problem in PROBLEMS[:6]:
        assert problem.answer in oracle.continuations(problem.prompt)


def test_there_are_very_many_right_continuations():
    assert len(oracle.continuations(TOM.prompt)) > 100_000
    assert len({problem.answer for problem in PROBLEMS}) > 1_500


def test_every_answer_passes_and_so_does_every_training_document():
    for problem in PROBLEMS:
        assert stories.explain(problem, problem.answer) is None
        assert stories.check(problem, problem.answer[1:])  # as a streaming detokenizer writes it
    for text in stories.documents(2, 500):
        prompt, answer = re.fullmatch(r"(.*?\.)(.*)", text).groups()
        weather, first, second, noun = oracle.OPENING.fullmatch(prompt).groups()
        who = "they" if second else grammar.FINDERS[first]
        kind = "animal" if noun in oracle.PETS else "thing"
        names = f"{first} and {second}" if second else first
        assert stories.check(opening(prompt, names, who, weather, kind, noun), answer)


OF_TOM = [
    (" She is sad because", "the sentence 'She is sad because' is not finished"),
    (" She is sad because it is wet.", "'She' refers to Tom, who is a he: it must be 'He'"),
    (" He are sad because it is wet.", "the verb after 'he' must be singular: 'is'"),
    (" He feels sad, for the drum is wet.", "the find was 'kite', not 'drum'"),
    (" He is happy because it is wet.", "nobody is happy because something is wet"),
    (" It is pretty, so he feels sad.", "nobody is sad because something is pretty"),
    (" He is sad because it is hungry.", "a kite cannot be hungry"),
    (HELPED.replace("aunt", "uncle"), "Kate is a she and cannot be the uncle"),
    (HELPED.replace("aunt Kate", "friend Tom"), "Tom is a name of those who find things"),
    (HELPED.replace("his", "her"), "'her' refers to Tom, who is a he: it must be 'his'"),
    (HELPED.replace("mends", "dries"), "'dries' needs something wet, but the kite is brok"),
    (HELPED.replace("mends", "likes"), "'likes' does nothing for a kite that is broken"),
    (HELPED.replace("broken", "wet").replace("mends", "hugs"), "'hugs' does nothing for"),
    (HELPED, "the story stops before its ending"),
    (HELPED + " Now it is dry, and he smiles again.", "what was broken becomes whole, not"),
    (HELPED + " Then both walk home in the snow.", "on a rainy day one does not walk in"),
    (HELPED + " Then all three walk home in the rain.", "Tom and Kate are not 'all three'"),
    (HELPED + " At last he walks home with a sigh.", "'a sigh' does not fit how"),
    (HELPED + " Then both walk home in the rain. He", "text after the ending: ' He'"),
    (HELPED + " Then both walk home in the rain", "the sentence 'Then both walk home in"),
    (HELPED + " It is wet, so he feels sad.", "comes at the wrong place in the story"),
    (HELPED + " Then both home.", "'Then both home.' is not built like any sentence"),
    (" He is sad because it is flat.", "'flat' is not a word of these stories"),
    (BROKEN + WHOLE, "nobody has done anything for it, so it cannot have changed"),
    (BROKEN + " Then both walk home in the rain.", "nobody else has come into the story yet"),
    (LIKED + WHOLE, "nothing was wrong with it, so nothing changed"),
    (" He is sad because it is wet.He", "a sentence must follow after one space"),
    ("  He is sad because it is wet.", "is not built like any sentence"),
    ("", "the story stops before its ending"),
    (" ", "the story stops before its ending"),
]
OF_PAIR = [
    (" He is sad because it is cold.", "'He' refers to Mia and Ben, who are two"),
    (" They feels sad, for the pony is cold.", "must be plural: 'feel'"),
    (" They are sad because it is wet.", "a pony cannot be wet"),
    (HELPED_PAIR + " At last they walks home with a song.", "must be plural: 'walk'"),
    (AUNT, "'he' refers to Kate, who is a she: it must be 'she'"),
]
SPOILT = [(TOM, *row) for row in OF_TOM] + [(PAIR, *row) for row in OF_PAIR]


@pytest.mark.parametrize(("problem", "text", "reason"), SPOILT)
def test_corruptions_fail_with_their_rule(problem, text, reason):
    assert reason in stories.explain(problem, text)
    assert not stories.check(problem, text)


def test_it_cannot_be_wet_on_a_sunny_day():
    facts = dict(TOM.data) | {"weather": "sunny"}
    sunny = Problem(TOM.prompt.replace("rainy", "sunny"), "", "stories", tuple(facts.items()))
    reason = stories.explain(sunny, " He is sad because it is wet.")
    assert reason == "nothing gets wet on a sunny day"


@given(st.integers(0, 1_999), st.integers(1, 400))
@QUICK
def test_no_beginning_of_a_story_is_a_story(index, cut):
    problem = PROBLEMS[index]
    if cut < len(problem.answer):
        assert not stories.check(problem, problem.answer[:-cut])


def test_every_sentence_follows_one_template_only():
    for part in grammar.PLOT.values():
        for template in part:
            sample = template.text
            for name in template.slots:
                sample = sample.replace("{" + name + "}", grammar.SLOTS[name].words[0], 1)
            matching = [t for t in part if t.pattern.fullmatch(sample)]
            assert matching == [template]


def test_token_classes_of_a_story():
    text = HELPED + " Then both walk home in the rain."
    whole = TOM.prompt + text
    named = {whole[s:e].strip(): name for s, e, name in stories.token_classes(TOM, text)}
    assert named["Tom"] == named["Kate"] == "name"
    assert named["kite"] == named["aunt"] == named["rain"] == "noun"
    assert named["finds"] == named["mends"] == named["is"] == "verb"
    assert named["red"] == named["broken"] == "adjective"
    assert named["He"] == named["because"] == named["the"] == "function"
    assert named["."] == named[","] == "punctuation"
    assert "other" not in named.values()


def test_training_and_evaluation_do_not_meet():
    trained = {text.partition(".")[0] + "." for text in stories.documents(1, 20_000)}
    assert not trained & {problem.prompt for problem in PROBLEMS}
