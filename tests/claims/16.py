"""What checks the sentences of lesson 16 · Capstones."""

# %% after by-hand-share-answer
claim("Two stories are equal so far.", len(p) == 3)
claim(
    "Never, because no word has more than one half.",
    np.allclose(first * second, 0) and p.max() <= 0.5,
)
more = np.array([0.7, 0.3])  # with more than a half two must agree
left = 2 * np.diff(np.minimum(np.cumsum([0, *more]), 0.5))
assert (left * (2 * more - left)).sum() > 0.3
claim("On average each word comes as often as before.", np.allclose((first + second) / 2, p))

# %% after by-hand-weights-answer
claim(
    "Counted, 7 wins; weighted, 4 does.",
    (max(counts, key=counts.get), max(weights, key=weights.get)) == ("7", "4"),
)

# %% after by-hand-price-answer
claim("One, as without drafts.", paid == 1)

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
asked = found[asks_the_target, 1]
claim(
    "Nearly all of the target's drafts stay, and the drafter pays for each, reading the whole text "
    "anew: it ends behind the baseline.",
    asked.parts["acceptance_rate"] > 0.9
    and asked.parts["price"] > drafts.LIMIT / 2
    and asked.value < found["baseline", 1].value,
)
claim(
    "What was learnt by heart is worth one token a call on another seed.",
    found[knows_by_heart, 1].value > 5 and found[knows_by_heart, 2].value == 1,
)
ours = found["one good answer", 1]
claim(
    "And the good answer only knows edits: sums and stories are open.",
    np.mean(ours.values[16:]) > 8 and np.mean(ours.values[:16]) < 2,
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

# %% after ceilings-answer
best = shares["one good answer"]
claim("Drafts: less than half of what is there is had.", best["drafts"][0] < 0.5)
claim(
    "Stories are nearly done, because twelve different valid stories are there for each opening, "
    "and the good answer finds almost all of them.",
    set(tops["stories"].values) == {1.0} and best["stories"][0] > 0.95,
)
claim(
    "The ceiling of sums is 1, as nearly every problem has a right sample among its 16, and the "
    "cheap ones come early.",
    tops["sums"].value == 1 and sums.ceiling(pool) > 0.95,
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
assert len(leaderboard().rows) == 17
