"""What checks the sentences of lesson 01 · From logits to text."""

# %% after by-hand-draw-answer
p = dict(zip(words, probabilities, strict=True))
claim("For cat after the that is 16 of 32.", np.isclose(p["cat"], 16 / 32))
claim("Cat owns half of the line.", np.isclose(p["cat"], 0.5))
below = p["the"] + p["cat"]
claim(
    "The next quarter is dog, and 0.60 falls there.",
    np.isclose(p["dog"], 0.25) and below < 0.6 < below + 0.25 and hit == "dog",
)
low, middle, high = (dart.compute(0.6, t)["probabilities"] for t in (0.1, 1.0, 3.0))
claim(
    "A low temperature gives nearly all of the line to cat; a high one makes the pieces more "
    "alike.",
    low[words.index("cat")] > 0.99 and np.ptp(high) < np.ptp(middle),
)
orders = {tuple(np.argsort(each, kind="stable").tolist()) for each in (low, middle, high)}
claim("The longer of two stays the longer.", len(orders) == 1)

# %% after by-hand-chain-answer
ran, sat = (
    surprises([words.index(word) for word in text.split()])
    for text in ("the dog ran .", "the dog sat .")
)
claim("The dog ran . has the steps 8/32, 16/32 and 16/32.", np.allclose(ran, [2, 1, 1]))
claim(
    "A product of a thousand such numbers is too small for a computer, which is why one adds "
    "logarithms.",
    np.prod([2.0**-bit for bit in ran * 334]) == 0,
)
claim("One half is 1 bit, one quarter 2 bits, certainty 0 bits.", np.allclose(ran[:2], [2, 1]))
claim(
    "One other word, and the text is eight times less probable: sat is rarer after dog, and the "
    "full stop after sat.",
    sat[1] > ran[1] and sat[2] > ran[2] and np.isclose(2 ** (sum(sat) - sum(ran)), 8),
)

# %% after library-logprob
claim(
    "One such call is a forward.",
    logits.shape == (1, len(ids), len(tokenizer.get_vocab())),
)
claim(
    "With the same random numbers our loop and the library's must write the same texts.",
    [0, *library] == write(0, uniforms(49, 20)),
)
claim("It belongs to .tokens, not to the text.", story.tokens[-1] in stop and "</s>" not in story)
(cold,) = lablib.TokenIterator(model, ids, stop_tokens=stop, temperature=0, max_tokens=1)
row = np.array(model(mx.array([ids]))[0, -1], dtype=float)
claim(
    "It is the model's own, before any temperature.",
    abs(cold.logprob - np.log(softmax(row).max())) < 1e-3,
)


# %% after predict-next-token-answer
def best(name, place):
    """Return the chance of the model's best token, one for each place that may be given."""
    return float(next_token.compute(place, 1.0, name)["chances"][0])


told = {name: [pieces[token] for token in ids_] for name, ids_ in texts.items()}
after = told["a story"].index(" because") + 1
claim(
    "It is sure inside a word, after because, at the end of a sentence; unsure where something new "
    "enters: a name, a place, a feeling.",
    best("a story", after) > 0.99
    and best("a story", len(told["a story"]) - 2) > 0.99
    and all(best("a story", i) > 0.99 for i in (11, 12, 21, 22, 23))  # b|row|n and  |up|se|t
    and all(best("a story", i) < 0.6 for i in (7, 16, 20)),
)
digits = [best("a sum", place) for place in range(3, 14, 2)]
claim(
    "Each of the six digits to be added is one of ten nearly equal chances.",
    0.1 <= max(digits) < 0.13 and len(digits) == 6,
)
second = [i for i, piece in enumerate(told["an edit"]) if piece == ":"][1]
rest = [best("an edit", i) for i in range(second + 1, len(told["an edit"]))]
claim(
    "In the edit it is sure of what comes after the second colon, which is copied.",
    min(rest) > 0.9 and {*told["an edit"][second + 1 : -1]} < {*told["an edit"][:second]},
)

# %% after predict-entropy-answer
claim(
    "It rises at all three places, towards log₂ 512 = 9 bits.",
    (steps > 0).all() and len(curves) == 3 and 8 < min(c[-1] for c in curves.values()) < 9,
)
claim("Near 0 only the best token is left.", max(c[0] for c in curves.values()) < 0.1)
at_five = []
for beginning in places.values():
    row = np.array(model(mx.array([tokenizer.encode(prompt + beginning)]))[0, -1], dtype=float)
    usual, flat = softmax(row - row.max()), softmax((row - row.max()) / 5)
    at_five.append((flat[usual < 0.001].sum(), (usual < 0.001).sum()))
claim(
    "At 5 most of the probability has gone to hundreds of tokens that had less than one chance in "
    "a thousand: a little to each, and there are so many.",
    all(share > 0.5 and count > 200 for share, count in at_five),
)

# %% after predict-best-answer
draws = np.random.default_rng(0).binomial(n, 0.86, 2000)
claim(
    "A measured share is a matter of chance, too; its 95 % interval contains the true one in about "
    "95 of 100 such measurements.",
    abs(np.mean([a < 0.86 < b for a, b in (wilson_interval(int(d), n) for d in draws)]) - 0.95)
    < 0.03,
)
claim(
    "Often, not always: if the best token came at each place, each opening would have one story.",
    0.5 < hits / n < 1,
)
claim("What the model expected lies within.", low < believed / n < high)

# %% after predict-greedy-answer
chain = ["the", "cat", "sat", "."]
claim(
    "After the the best word is cat, after cat it is sat, after sat the full stop.",
    all(words[int(table[words.index(a)].argmax())] == b for a, b in pairwise(chain)),
)
dog, cat = (
    surprises([words.index(word) for word in text.split()])
    for text in ("the dog ran .", "the cat sat .")
)
claim(
    "Dog costs one bit more than cat and saves two.",
    np.isclose(dog[0] - cat[0], 1) and np.isclose(sum(cat[1:]) - sum(dog[1:]), 2),
)
claim(
    "We found the best text by looking at all 3,906; with hundreds of tokens and dozens of steps "
    "that can't be done.",
    len(found) == 3906 and min(found)[0] < 7,  # a longer one has seven steps of a bit or more
)

# %% after theory-draws
claim(
    "The frequency of each token should tend to its probability.",
    (np.abs(np.array(measured)[:, 0] - p[best_eight]) < 5.5 * (p[best_eight] / n) ** 0.5).all(),
)
claim("We draw the next word 2,000 times.", len(drawn) == 2000)

# %% after theory-perplexity-answer
cold_row, own, real = (
    rows[name] for name in ("its own, T = 0.5", "its own, T = 1", "true stories")
)
claim(
    "We look at 64 stories of each kind: true ones that it has never seen, its own at temperature "
    "1, its own at 0.5, and the true ones with their tokens shuffled.",
    {len(each) for each in kinds.values()} == {64} and len(kinds) == 4,
)
claim(
    "The cold samples have the lowest perplexity, lower than the truth: perplexity measures how "
    "expected a text is, not how good.",
    cold_row[0] < min(own[0], real[0]) and cold_row[2] < real[1],
)
claim(
    "True stories and the model's own at temperature 1 are close together; to the model they are "
    "much the same kind of text, which is what training was for.",
    abs(own[0] - real[0]) < 0.1,
)
claim(
    "A model that knew nothing would have a perplexity of 512, as many as there are tokens.",
    len(pieces) == 512,
)
claim("Being sure and wrong costs more than knowing nothing.", shuffled > len(pieces))

# %% after on-smollm2-answer
kept = lablib.course.lessons.smollm2.stored("01")
claim(
    "It is sure of Paris.",
    kept[0].startswith("The capital of France is … ' Paris' 0.7"),
)
claim(
    "Behind two plus two is much may come on a web page, and the space before a digit is only the "
    "likeliest.",
    kept[1].startswith("Two plus two is … ' ' 0.1"),
)
