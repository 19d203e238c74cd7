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

# %% after by-hand-write
low, middle, high = (dart.compute(0.6, t)["probabilities"] for t in (0.1, 1.0, 3.0))
claim(
    "A low temperature gives cat more of the line, and a high one makes the pieces more alike.",
    low[words.index("cat")] > middle[words.index("cat")] and np.ptp(high) < np.ptp(middle),
)
orders = {tuple(np.argsort(each, kind="stable").tolist()) for each in (low, middle, high)}
claim("Of two pieces the longer one stays the longer.", len(orders) == 1)

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
four = [2.0, 2.0]
claim(
    "A text of perplexity 4 was as hard to guess as if each step had four equally probable words.",
    2 ** np.mean(four) == 4 == 2 ** -np.log2(1 / 4),
)
claim("One half is 1 bit, one quarter 2 bits, certainty 0 bits.", np.allclose(ran[:2], [2, 1]))
claim(
    "One other word, and the text is eight times less probable: sat is rarer after dog, and the "
    "full stop after sat.",
    sat[1] > ran[1] and sat[2] > ran[2] and np.isclose(2 ** (sum(sat) - sum(ran)), 8),
)

# %% after by-hand-greedy-answer
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
    "No: its 1/32 is half of the 1/16 of the dog ran .",
    round(2 ** greedy[0]) == 32 and round(2 ** min(found)[0]) == 16,
)
claim(
    "At first dog costs one bit more than cat.",
    np.isclose(dog[0] - cat[0], 1),
)
claim(
    "Then it saves two: one after cat, where the model hesitates, and one at the full stop.",
    np.allclose(np.subtract(cat[1:], dog[1:]), 1),
)
most = max(softmax(row).max() for row in table[:-1])  # after a full stop nothing comes
claim(
    "A longer text can't win, because no step up to the full stop has more than one half: five "
    "steps have at most 1/32, and four can only tie.",
    np.allclose([most, most**4], [0.5, 2 ** -min(found)[0]]),
)

# %% after library-logprob
claim(
    "As in 00b it takes tokens and returns logits, for several texts at once: shapes (B, T) and "
    "(B, T, V), for B texts of T tokens and a vocabulary of V.",
    logits.shape == (1, len(ids), len(tokenizer.get_vocab()))
    and model(mx.array([ids, ids])).shape == (2, *logits.shape[1:]),
)
claim(
    "A step's logprob is the natural logarithm of its probability, in nats; divided by −ln 2 it is "
    "the surprise in bits: −0.99 nats are 1.43 bits.",
    round(steps[2].logprob, 2) == -0.99 and round(-steps[2].logprob / np.log(2), 2) == 1.43,
)
claim(
    "Given the same ones, both must write the same stories.",
    story.tokens == write_with(model, ids, uniforms),
)


# %% after predict-next-token-answer
def best(name, place):
    """Return the chance of the model's best token, one for each place that may be given."""
    return float(next_token.compute(place, 1.0, name)["chances"][0])


told = {name: [pieces[token] for token in ids_] for name, ids_ in texts.items()}
after = told["a story"].index(" because") + 1
claim(
    "It is sure inside a word, after because, at the end of a sentence; unsure how a sentence "
    "begins, and where something new enters: a name, a place, a feeling.",
    best("a story", after) > 0.99
    and best("a story", len(told["a story"]) - 2) > 0.99
    and all(best("a story", i) > 0.99 for i in (11, 12, 21, 22, 23))  # b|row|n and  |up|se|t
    and all(best("a story", i) < 0.6 for i in (7, 16, 20))
    and all(best("a story", i) < 0.8 for i in (18, 29, 44)),  # He, Soon, Now
)
there = next_token.compute(**next_token.values)
claim(
    "A low probability need not be a mistake: where several things can come, as in the frame, they "
    "share it.",
    there["came_with"] < 0.2 and np.sort(there["chances"])[-4:].min() > 0.09,
)

# %% after predict-entropy-answer
claim(
    "It rises at all three places, towards log₂ 512 = 9 bits.",
    (steps > 0).all() and len(curves) == 3 and 8 < min(c[-1] for c in curves.values()) < 9,
)
claim("Near 0 only the best token is left.", max(c[0] for c in curves.values()) < 0.1)
claim(
    "At 5 most of the probability, as printed, has gone to some 500 tokens that had less than one "
    "chance in a thousand: a little to each, and there are so many.",
    all(each.sum() > 0.5 and len(each) > 500 and each.max() < 0.02 for each in gained.values()),
)

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
    "True stories and the model's own at temperature 1 are close together, as theory has it.",
    abs(own[0] - real[0]) < 0.1,
)
claim(
    "A model that knew nothing would have a perplexity of 512, as many as there are tokens.",
    len(pieces) == 512,
)
draws = np.random.default_rng(0).binomial(1000, 0.86, 2000)
ends = [1.96 * (d / 1000 * (1 - d / 1000) / 1000) ** 0.5 for d in draws]
claim(
    "(A 95 % interval contains the true value in about 95 of 100 such measurements.)",
    abs(np.mean([abs(d / 1000 - 0.86) < e for d, e in zip(draws, ends, strict=True)]) - 0.95)
    < 0.03,
)
claim(
    "Shuffled tokens have far more, because being sure and wrong costs more than knowing nothing.",
    rows["shuffled"][0] > 100 * len(pieces),
)

# %% after on-smollm2-answer
kept = lablib.course.lessons.smollm2.stored("01")
claim(
    "It gives Paris 0.77, and no other word a tenth of that.",
    kept[0].startswith("The capital of France is … ' Paris' 0.77, ' the' 0.06"),
)
claim(
    "After two plus two is much may come on a web page, and the space before a digit is only the "
    "likeliest.",
    kept[1].startswith("Two plus two is … ' ' 0.1"),
)
