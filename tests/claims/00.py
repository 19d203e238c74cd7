"""What checks the sentences of lesson 00 · Start here."""

# %% after first-story-told
texts = first.constants["texts"]
begun = tokenizer.encode(story.prompt + " She is")
claim(
    "The grey words were given, the model told the rest.",
    all("".join(text).startswith(tokenizer.decode(begun[1:])) for text in texts),
)


def meet(teller, temperature, number):
    """Return whether the frame is behind what was given, and the dark bar has its word's name."""
    drawn = teller.draw(teller.compute(temperature, number))
    (bars,), place = drawn["panels"], drawn["marked"]
    names = [name.strip("…␣") for _, name in bars["y"]["ticks"]]
    dark = [round(-mark["at"][1] - 0.2) for mark in bars["marks"] if mark.get("bold")]
    word = teller.constants["texts"][drawn["text"]][place]
    return place == len(begun) - 1 and [names[row] for row in dark] == [word.strip()]


coldest = first.draw(first.compute(0.0))
claim(
    "Each token has the colour of the chance that the model gave it.",
    len(coldest["looks"]) == len(texts[coldest["text"]]),
)
claim(
    "The bars show what could stand in the frame: what the model gave each word, what it has here, "
    "and dark the one that came.",
    all(meet(first, t, 1) for t in first.stories),
)

# %% after tokens-stream
cut = [tokenizer.decode([token]) for token in tokenizer.encode(" kite")[1:]]
told = "".join(each.prompt for each in stories.problems(1, 400))
claim(
    "Kite comes in two pieces, although it is in many of this model's stories.",
    cut == [" kit", "e"] and told.count(" kite") > 4,
)

# %% after temperature-answer
claim("Six stories are told at each temperature.", {*map(len, teller.stories.values())} == {6})
texts = {t: ["".join(one.tokens) for one in told] for t, told in teller.stories.items()}
claim("At 0 all six are the same.", len(texts[0.0]) == 6 and len({*texts[0.0]}) == 1)
claim(
    "Up to 1.25 none is wrong; from 1.75 on none is right.",
    all(n == (6 if t <= 1.25 else 0) for t, n in right.items() if t != 1.5),
)
claim(
    "Every story goes on after She is, and the dark bar is the word that came.",
    all(meet(teller, t, n) for t in texts for n in range(1, 7)),
)
halves = [i for i, word in enumerate(teller.words) if "…" in word]
pieces = [int(teller.order[i]) for i in halves]
greedy = {"temperature": 0, "max_tokens": 4, "stop_tokens": tokenizer.eos_token_ids, "seed": 0}
wholes = [
    tokenizer.decode([piece, *lablib.sample_n(model, [*begun, piece], 1, **greedy).tokens[0]])
    for piece in pieces
]
claim(
    "Two bars have only the first piece of a word: ␣… begins upset, a space alone, and s… begins "
    "sorry.",
    {teller.words[row]: whole.split()[0] for row, whole in zip(halves, wholes, strict=True)}
    == {"␣…": "upset", "s…": "sorry"},
)
best = [teller.compute(t, 1)["chances"][0] for t in (0.25, 0.5, 1.0, 1.5, 2.0)]
others = [teller.compute(t)["chances"][teller.SHOWN :].sum() for t in (1.0, 2.0)]
claim(
    "The bars say why: the best word loses, and all others, with 0.01 in the model's own eyes, "
    "have a third.",
    (np.diff(best) < 0).all() and np.allclose(others, (0.01, 0.33), atol=(0.004, 0.03)),
)
claim(
    "So in each story at 2 a token was drawn to which the model had given less than one chance in "
    "a thousand (the last row), and it had to go on from there.",
    rare[-1] == 6 and teller.values["temperature"] == 2,
)
good = story.answer
wrong = (good.replace(" She ", " He ", 1), good.replace(" a smile", " the snow"))
claim(
    "These stories follow rules that a small program can check: she must be a girl, a rainy day "
    "has no snow.",
    stories.explain(story, good) is None and all(stories.explain(story, text) for text in wrong),
)


# %% after own-answer
def expects(who, place, charms):
    text = f"One sunny morning, {who} finds a tiny elephant in the {place}."
    text += " She is happy because it is"
    p = mx.softmax(model(mx.array([tokenizer.encode(text)]))[0, -1].astype(mx.float32))
    return sum(p[tokenizer.encode(f" {charm}")[1]].item() for charm in charms)


told = [lablib.generate(model, tokenizer, o, temperature=0.5, seed=1) for o in openings[:2]]
claim(
    "To this model Zelda's elephant in the kitchen is a thing, and pretty; Mia's in the park is an "
    "animal, and tame.",
    expects("Zelda", "kitchen", grammar.THING_CHARMS) > 0.8
    and expects("Mia", "park", grammar.ANIMAL_CHARMS) > 0.5
    and [word in text for word, text in zip(("tame", "pretty"), told, strict=True)] == [True] * 2,
)
kitchen = " finds a tiny kite in the kitchen."
begins = [tokenizer.encode(f"One sunny morning, {who}{kitchen}") for who in ("Zelda", "Mia")]
he, she = (tokenizer.encode(word)[1] for word in (" He", " She"))
odds = [np.array(model(mx.array([text]))[0, -1].astype(mx.float32))[[he, she]] for text in begins]
claim(
    "And Zelda becomes a he, because the pieces of an unknown name tell the model nothing of a "
    "girl.",
    told[1].startswith(" He") and odds[0][0] > odds[0][1] and odds[1][0] < odds[1][1] - 5,
)
claim(
    "Elephant is cut into pieces, some of them single letters.",
    sum(len(tokenizer.decode([token]).strip()) == 1 for token in tokenizer.encode(" elephant")) > 1,
)

# %% after vote-answer
leaders = [race.compute(n, this)["leader"] for n in range(1, 65)]
claim(
    "The first votes jump about; soon the right answer is ahead, and stays there.",
    len({*leaders[:8]}) > 1 and end["since"] < 32 and leaders[-1] == truth,
)
settled, wrongly = (race.compute(64, each)["settled"] for each in asked)
claim(
    "From the upright line on it can't lose: even all the votes that are left could not lift the "
    "second over it.",
    end["since"] < settled < 64
    and all(race.compute(n, this)["leader"] == truth for n in range(settled, 65)),
)
_, other = asked
found = race.compute(64, other)
claim(
    "In the other problem a wrong answer wins, the one that is one too high.",
    int(found["leader"]) == (int(found["truth"]) + 1) % 10 and wrongly > 0,
)
claim(
    "The right answer's share, 29 of 64 and 19 of 64 here, is how often a single sample is right.",
    [sum(a == each.truth for a in each.answers) for each in asked.values()] == [29, 19],
)


def rights(shares, n):
    """Return how often the first answer has the most of n votes, of 4,000 elections."""
    votes = np.random.default_rng(0).multinomial(n, shares, 4000)
    return float((votes[:, 0] > votes[:, 1:].max(axis=1)).mean())


ahead, behind = (0.4, 0.3, 0.3), (0.3, 0.4, 0.3)
claim(
    "A vote of many is right when that share is merely the highest.",
    rights(ahead, 801) > 0.97 and ahead[0] < 0.5,
)
claim(
    "That is its limit, too: where a wrong answer has the highest share, more votes make us surer "
    "of a mistake.",
    rights(behind, 801) < rights(behind, 101) < rights(behind, 11),
)

# %% after guess-answer
sure = guesses.p.max(axis=1) > 0.9
claim(
    "Most tokens are easy: the rest of a phrase, the end of a word, a full stop.",
    sure.mean() > 0.5,
)
claim("There the draft is right.", guesses.agree[sure].all())
there = guesses.compute(guesses.controls["token"].value)
(draft_words, draft_p), (target_words, target_p) = (
    zip(*there[name][:3], strict=True) for name in ("draft", "target")
)
claim(
    "It is wrong where several words fit, as at the frame: both models expect the same words with "
    "much the same chances, and the draw took another one than the best (dark).",
    (guesses.p.max(axis=1)[~guesses.agree] < 0.8).all()
    and not guesses.agree[guesses.controls["token"].value - 1]
    and draft_words == target_words
    and np.allclose(draft_p, target_p, atol=0.05)
    and there["written"] != target_words[0],
)


def written_alike(place):
    """Return how many tokens of the text the draft, at temperature 0, writes from a place on."""
    ahead = lablib.TokenIterator(draft, text[:place], temperature=0, max_tokens=len(text) - place)
    alike = [token.id == came for token, came in zip(ahead, text[place:], strict=False)]
    return [*alike, False].index(False)


claim(
    "The guesses up to the next orange one are those that the target would keep, because up to "
    "there the draft would have written the same text.",
    all(
        written_alike(len(start) + n) == [*guesses.agree[n:], False].index(False)
        for n in range(0, len(guesses.agree), 4)
    ),
)
