"""What checks the sentences of lesson 16 · Capstones."""

# %% after by-hand-share-answer
orders = [list(order) for order in __import__("itertools").permutations(range(3))]
two = []
for order in orders:
    read = [np.searchsorted(np.cumsum(p[order]), x % 1) for x in (u, u + 0.5)]
    two.append([np.array(order)[each] for each in read])
claim("Two stories are equal so far.", len(p) == 3)
claim("Never.", all(not (first_ == second_).any() for first_, second_ in two))
claim(
    "No piece is longer than one half, so none holds both places; and each story, looked at alone, "
    "takes each word as often as the model does.",
    p.max() <= 0.5
    and all(np.allclose(np.bincount(each) / len(u), p) for pair in two for each in pair),
)
twelve = np.array([np.searchsorted(np.cumsum(p), (u + k / 12) % 1) for k in range(12)])
taken = np.array([(twelve == word).sum(axis=0) for word in range(3)])
claim(
    "Twelve stories read at steps of one twelfth: a word with the chance p is taken 12 p times, "
    "rounded up or down.",
    bool((abs(taken - 12 * p[:, None]) < 1).all()),
)
halves = np.array([np.bincount(each, minlength=3) / len(u) for each in (left, right)])
claim(
    "Then the story with the left half takes happy with the chance 0.6 and angry never, so that "
    "only the mean over the stories keeps the model's chances.",
    np.allclose(halves[0, [0, 2]], [0.6, 0]) and np.allclose(halves.mean(axis=0), p),
)
claim(
    "And sad, across the border, is in both parts: they agree in 0.24 of the cases, fewer than two "
    "free draws do.",
    round((left[:, None] == right).mean(), 2) == 0.24 < (p * p).sum()
    and bool((halves[:, 1] > 0).all()),
)

# %% after by-hand-price-answer
claim("One, as without drafts: nine tokens for nine calls.", paid == 1)

# %% after predict
claim(
    "Valid and different (beginnings, those of invalid stories too) are shares of all 96 stories, "
    "so that the score is not their product.",
    stories.ROWS * len(plain.values) == 96
    and abs(plain.parts["valid"] * plain.parts["different"] - plain.value) > 1e-4,
)

# %% after predict-stories-answer
claim(
    "Cold stories are valid, but they begin alike.",
    cold.parts["valid"] > plain.parts["valid"] > 0.7
    and cold.parts["different"] < plain.parts["different"],
)
cut = player("stories", "one good answer")(np.log([[0.5, 0.26, 0.24 - 0.012, 0.012]]), [[]])
claim(
    "The good answer cuts what has less than 0.05 of the best token's chance, so that stories stay "
    "valid, shares out the ruler, so that they differ, and draws at temperature 1.2.",
    np.allclose(cut[0, 1] / cut[0, 0], (0.26 / 0.5) ** (1 / 1.2))
    and good.parts["valid"] > plain.parts["valid"]
    and good.parts["different"] > without["unshared"].parts["different"],
)
kept = Difference.of(good, without["unshared"])
heat = Difference.of(good, without["not_hotter"])
claim(
    "Without sharing it loses most of its lead, without the heat next to nothing: that interval "
    "holds 0.",
    kept.low > 0 > heat.low - 1e-9
    and kept.value > (good.value - plain.value) / 2 > 2 * abs(heat.value),
)
groups = {}


def watched(logits, texts):
    groups.setdefault(len(texts[0]), []).append(len({tuple(text) for text in texts}))
    return player("stories", "one good answer")(logits, texts)


stories.play(watched, stories.world(1, 1))
early = [groups[step][0] for step in range(10)]
claim(
    "One word can still be in two parts, but hardly a whole sentence, because stories that are "
    "equal so far share the ruler anew at each word.",
    good.parts["different"] > 0.95 and len({*early}) > 3,
)

# %% after predict-sums-answer
claim(
    "Not on each: one seed need not rank them.",
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
    "But this drafter reads the whole text anew for each draft, without a cache, and pays for "
    "that: it ends behind the baseline.",
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


def of_two(first, second):
    """What the good vote makes of two samples of 7 with a chance, and one of 4 with another."""
    both = [("7", [np.log(first)]), ("7", [np.log(first)]), ("4", [np.log(second)])]
    return player("sums", "one good answer")(both, 0, 1)


claim(
    "A weighted vote adds up, for each answer, the chances of its chains of tokens to the power β: "
    "β = 0 counts, and the good answer takes β = 2.",
    of_two(0.3, 0.5) == "4"  # with β = 1 it were 7
    and of_two(0.39, 0.5) == "7",  # with β = 3 it were 4
)
claim(
    "Counting rises as theory says, a little below it: the model is not quite the author.",
    (gap > 0).all() and gap.max() < 0.15 and (np.diff(voted) > -0.02).all(),
)
claim(
    "It does not rise from one sample to two, because of two that differ the first is taken.",
    abs(voted[1] - voted[0]) < 1e-9 and abs(theory[1] - theory[0]) < 1e-9,
)
whole = ((counted < 0.1) | (counted > 0.9)).mean(axis=0)
claim(
    "The gap hardly grows, but its interval does and holds 0 at sixteen samples, because the more "
    "samples vote, the more a problem is won or lost as a whole.",
    least[0] > 0 > least[-1]
    and most[-1] - least[-1] > 2 * (most[0] - least[0])
    and abs(gap[-1] - gap[0]) < 0.05
    and whole[-1] > 0.8 > 0.1 > whole[0]
    and bool((np.diff(whole) >= 0).all()),
)
claim(
    "Weighted with β = 1, the vote of five lies above both.",
    five[1.0][0] > max(theory[4], voted[4]),
)
claim(
    "On seed 1 the baseline got 0.521 as played, and 0.595 in the picture, which lets each sample "
    "of a pool be the first in its turn.",
    turns["baseline"][0, 0] == played["baseline"][0].value
    and abs(turns["baseline"][0].mean() - voted[4]) < 0.01
    and abs(voted[4] - 0.595) < 0.02
    and abs(turns["baseline"][0, 0] - 0.521) < 0.03,
)
claim(
    "The game has one order, and over three seeds it hid a third of the good answer's lead.",
    0.25 < 1 - over_all.value / by_turns < 0.4,
)
claim(
    "From the weight alone: always five samples with β = 2 are as good.",
    abs(five[2.0].mean() - turns["one good answer"].mean()) < 0.01
    and five[2.0].mean() > five[0.0].mean() + 0.1,
)

# %% after ceilings-answer
claim(
    "Room begins where one does nothing: the model's own chances, a single sample, no drafts.",
    set(no_drafts.values) == {1.0} and ours["stories"][0].values == plain.values,
)
claim(
    "Drafts leave the most: the good answer has all that is there in edits, and in stories and "
    "sums next to nothing of it.",
    kinds["one good answer"][2] == kinds["the oracle"][2]
    and max(kinds["one good answer"][:2]) < 1.2
    and got["drafts"][1] == min(high for _, high in got.values()),
)
claim(
    "Stories are nearly done, because twelve different valid stories are there for each opening, "
    "and the good answer finds almost all of them.",
    set(tops["stories"].values) == {1.0} and good.value > 0.95,
)
claim(
    "The ceiling of sums is 1, as each problem has a right sample among its 16, and the first "
    "right ones cost less than half the budget.",
    all(each.value == 1 for each in oracles)
    and all(sums.ceiling(sums.world(seed)) == 1 for seed in (1, 2, 3))
    and all(each.parts["tokens"] < each.parts["budget"] / 2 for each in oracles),
)
claim(
    "It may be that no vote can reach it, since none knows the answers: weighting all 16 samples "
    "of each problem, three times the budget, stays below it.",
    voting.won(1.0)[:, -1].mean() < 0.97 and round(16 / sums.EACH) == 3,
)
claim(
    "The good vote left tokens of its budget unspent on each seed: can you use them?",
    all(x.parts["tokens"] < x.parts["budget"] for x in played["one good answer"]),
)
assert stories.MORE == 3  # the table: he writes three times as many
assert tops["drafts"].values == found[knows_by_heart, 1].values  # and pays nothing for it

# %% after theory-board-note
shown = leaderboard(seed=1).rows
assert {row[5] for row in shown} == {"1"}
attempts = leaderboard().rows
places = {row[5]: row[1] for row in attempts if row[4] == "knows_by_heart"}
claim(
    "Places count within a seed, because another seed has other problems; the oracle gets none.",
    all((row[1] == "–") == (row[4] == "the oracle") for row in attempts),
)
claim(
    "Look for who knew seed 1 by heart: first here, last on seed 2.",
    places == {"1": "1", "2": "2"},
)
