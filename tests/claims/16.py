"""What checks the sentences of lesson 16 · Capstones."""

# %% after by-hand-share-answer
claim("Two stories are equal so far.", len(p) == 3)
orders = [list(order) for order in __import__("itertools").permutations(range(3))]
two = [(words(u, order), words(u + 0.5, order)) for order in orders]
claim("Never.", all(not (one_ == other_).any() for one_, other_ in two))
claim(
    "No piece is longer than one half, so none holds both places; and each story for itself takes "
    "each word as often as before.",
    p.max() <= 0.5
    and all(np.allclose(np.bincount(each) / len(u), p) for pair in two for each in pair),
)
twelve = np.array([words(u + k / 12, [0, 1, 2]) for k in range(12)])
taken = np.array([(twelve == word).sum(axis=0) for word in range(3)])
claim(
    "Twelve stories read at steps of one twelfth: of a word with the chance p, at most one story "
    "more or less than 12 p takes it, so that a likely word is shared by as few as possible.",
    bool((abs(taken - 12 * p[:, None]) < 1).all()),
)
claim(
    "A function can only give each its piece of the ruler, and then a word that lies across a "
    "border is in both: with happy first they agree in some cases, but in fewer than two free "
    "draws do.",
    order == [1, 0, 2] and 0 < agree(left[:, None], right) < (p * p).sum(),
)

# %% after by-hand-weights-answer
claim(
    "Counted, 7 wins; weighted, 4 does.",
    (max(counts, key=counts.get), max(weights, key=weights.get)) == ("7", "4"),
)

# %% after by-hand-price-answer
claim("One, as without drafts: nine tokens for nine calls.", paid == 1)

# %% after predict-stories-answer
claim(
    "Cold stories are valid, but they begin alike.",
    cold.parts["valid"] > plain.parts["valid"] > 0.7
    and cold.parts["different"] < plain.parts["different"],
)
claim(
    "The good answer cuts what is improbable, so that stories stay valid, and shares out the "
    "ruler, so that they differ.",
    good.parts["valid"] > plain.parts["valid"] and good.parts["different"] > 0.95,
)

# %% after predict-sums-answer
claim(
    "Not each time: one seed need not rank them.",
    not all(apart.value > 0 for apart in on_seed) and not all(apart.sure for apart in on_seed),
)
claim(
    "But over three seeds the interval of the difference lies above 0, though those of the two "
    "scores overlap.",
    over_all.low > 0 and best.low < base.high,
)

# %% after predict-drafts-answer
looked, good_draft = found["baseline", 1], found["one good answer", 1]
claim(
    "Few of its many drafts stay, and by kind, look-up has gained on edits alone: stories and sums "
    "come at about one token a call.",
    looked.parts["acceptance_rate"] < 0.1
    and max(kinds["baseline"][:2]) < 1.2
    and kinds["baseline"][2] > 3,
)
asked = found[asks_the_target, 1]
inside = sum(min(drafts.LIMIT, len(t) - at) for t in world.texts for at in range(0, len(t), 9))
claim(
    "At temperature 0 the target's drafts all stay as long as there is text: those not kept were "
    "asked for behind a text's end.",
    round(asked.parts["acceptance_rate"] * asked.parts["drafted"]) == inside,
)
claim(
    "But this drafter reads the whole text anew for each draft, without a cache, and its price "
    "has it end behind the baseline.",
    asked.parts["price"] > drafts.LIMIT / 2 and asked.value < looked.value,
)
claim(
    "What was learnt by heart is worth one token a call on another seed.",
    found[knows_by_heart, 1].value > 5 and found[knows_by_heart, 2].value == 1,
)
claim(
    "The good answer does so and gets there all that the oracle gets, but next to nothing on the "
    "others.",
    kinds["one good answer"][2] == kinds["the oracle"][2]
    and max(kinds["one good answer"][:2]) < 1.2,
)
claim(
    "Yet an edit is short, and each text counts the same: all tokens over all calls hardly differ "
    "from the baseline's.",
    max(map(len, world.texts[16:])) < min(map(len, world.texts[:16]))
    and looked.parts["calls"] / good_draft.parts["calls"] < 1.05,
)

# %% after theory-answer
claim(
    "Counting rises as theory says, a little below it: the model is not quite the author.",
    (gap > 0).all() and gap.max() < 0.15 and (np.diff(voted) > -0.02).all(),
)
claim(
    "With one sample the interval of the gap lies above 0, with sixteen it holds 0: 48 problems "
    "are few.",
    least[0] > 0 > least[-1] and len(exact) == 48,
)
claim(
    "From two samples on weighting lies above both.",
    bool((weighted.mean(axis=0)[1:] > np.maximum(theory, voted)[1:]).all()),
)

claim(
    "In the game the baseline, five counted, was elsewhere, because the game hands out each pool "
    "from its first sample on, and the pictures let each sample be the first in its turn.",
    turns["baseline"][0, 0] == played["baseline"][0].value
    and abs(turns["baseline"][0, 0] - plain_vote[0]) > 0.01,
)
claim(
    "Over all turns the baseline gets what the picture says, and the good answer more than plain "
    "weighting of five: on seed 1 the game's own order was unlucky for both.",
    abs(turns["baseline"][0].mean() - plain_vote[0]) < 0.01
    and turns["one good answer"][0].mean() > plain_vote[1]
    and all(each[0, 0] < each[0].mean() for each in turns.values()),
)

# %% after ceilings-answer
claim(
    "Drafts: the good answer has all that is there in edits, and in stories and sums next to "
    "nothing of it.",
    kinds["one good answer"][2] == kinds["the oracle"][2]
    and max(kinds["one good answer"][:2]) < 1.2,
)
claim(
    "Stories are nearly done, because twelve different valid stories are there for each opening, "
    "and the good answer finds almost all of them.",
    set(tops["stories"].values) == {1.0} and got["stories"] > 0.95,
)
claim(
    "The ceiling of sums is 1, as each problem has a right sample among its 16, and the first "
    "right ones cost less than half the budget.",
    all(each.value == 1 for each in oracles)
    and all(sums.ceiling(sums.world(seed)) == 1 for seed in (1, 2, 3))
    and all(each.parts["tokens"] < each.parts["budget"] / 2 for each in oracles),
)
claim(
    "But no vote need reach it, since it knows no answers: weighting all 16 samples of each "
    "problem, three times the budget, stays below it.",
    voting.won(1.0)[:, -1].mean() < 0.97 and round(16 / sums.EACH) == 3,
)
claim(
    "In stories he writes three times as many and keeps the different valid ones.",
    stories.MORE == 3,
)
claim(
    "In drafts he knows the target's text, and pays nothing for it.",
    tops["drafts"].values == found[knows_by_heart, 1].values,
)

# %% after theory-board
attempts = leaderboard().rows
assert len(attempts) == 20

# %% after theory-board-note
places = {row[5]: row[1] for row in attempts if row[4] == "knows_by_heart"}
claim(
    "A place counts within one seed, because another seed has other problems; the oracle has none.",
    all((row[1] == "–") == (row[4] == "the oracle") for row in attempts),
)
claim(
    "Look for who knew seed 1 by heart: first there, last on seed 2.",
    places == {"1": "1", "2": "2"},
)
