"""What checks the sentences of lesson 00b · What a model is."""

# %% after by-hand-pairs-answer
claim("Here is a corpus of eight words.", len(words) == 8)
spelled = Counter(corpus.split())
claim(
    "It is a and t, because cat, sat and hat share them, though no word occurs as often as the.",
    first == ("a", "t")
    and all("at" in word for word in ("cat", "sat", "hat"))
    and spelled.most_common(1)[0][0] == "the",
)

# %% after by-hand-merge-answer
claim("After three merges the has two pieces where it had four.", len(words[0]) == 2)
claim(
    "The third merge needs the piece that the second one made, so merges are done in the order in "
    "which they were learned.",
    pair[0] == "␣t" and merge(list("␣the"), pair) == list("␣the"),
)

# %% after by-hand-causal-answer
claim(
    "Here is a model of four words with vectors of two numbers, and a block that adds to each "
    "token the mean of the vectors up to it.",
    table.shape == (4, 2) and np.allclose(look_back(table)[2], table[:3].mean(axis=0)),
)
claim(
    "It gives a row for every place, because every vector goes the same way.",
    len(scores) == 3 and np.allclose(forward([0, 1])[-1], scores[1]),
)
claim("Only the last row changes, because the block looks back and never ahead.", rows == [2])

# %% after library-tokens-answer
told = [tokenizer.decode([token]) for token in ids]
claim("Its tokenizer has done more merges, and its table is larger.", len(merges) > 3)
claim(
    "Common words of the stories are one token each, and clock has four: c, l, o, ck.",
    {" finds", " tiny", " garden"} <= {*told} and told[10:14] == [" c", "l", "o", "ck"],
)
claim(
    "The token <s> begins every text.", told[0] == tokenizer.decode(tokenizer.encode("")) == "<s>"
)

# %% after library-stream-answer
claim("There are 512 scores for each of the 18 places.", logits.shape[1:] == (18, 512))
claim(
    "The first axis counts texts, because a model reads several at once; here it is one.",
    model(mx.concatenate([tokens, tokens])).shape == (2, *logits.shape[1:]),
)
claim(
    "A vector has 192 numbers, and eight blocks add to it.",
    vectors.shape[-1] == 192 and len(model.layers) == 8,
)
claim(
    "Nothing is lost or replaced on the way: the vector at the end is the token's own plus eight "
    "additions.",
    np.allclose(end, stream(8), atol=1e-2) and np.allclose(stream(0), vectors) and len(added) == 8,
)

# %% after predict-stream-answer
named = {name: [pieces[i] for i in guesses.compute(name, 8)["guesses"]] for name in places}
clock, place = named["… a tiny clo"], named["… in the"]
claim(
    "At the start the vector knows only its own token, so it fits that best: o would follow o.",
    clock[0] == "o" and place[0] == " the",
)
strokes = [tokenizer.decode([token]) for token in tokenizer.encode(" strokes")[1:]]
claim(
    "The first block expects kes, because strokes has a token o as well: s·t·r·o·kes.",
    clock[1] == "kes" and "·".join(strokes).strip() == "s·t·r·o·kes",
)
claim(
    "Only later blocks have collected enough from the tokens before it to see a clock.",
    clock[1:6] == ["kes"] * 5 and clock[6:] == ["ck"] * 3,
)
doubt = guesses.compute("… in the", 8)
claim(
    "Choose … in the as well: the guess goes from sun to garden, and stays doubtful, because "
    "several words fit.",
    place[1] == " sun" and place[8] == " garden" and doubt["last_chance"] < 0.5,
)

# %% after theory-rows-answer
claim("By hand, an earlier row never changed when a later token did.", rows == [2])
claim(
    "In other words, one forward over a text answers as many questions as the text has places.",
    len(whole) == len(ids) and np.abs(whole - short).max() < 1e-2,
)

# %% after summary
claim("A forward gives a row of scores for every place.", len(whole) == len(ids))
claim(
    "Every place is answered at once, as if the text ended there.",
    np.abs(whole - short).max() < 1e-2,
)
