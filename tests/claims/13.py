"""What checks the sentences of lesson 13 · Trees and heads."""

# %% after by-hand-wrong-predict
rest = np.where(np.arange(4) == q.argmax(), 0, q) / (1 - q.max())
claim("More than twice as often here.", two > 2 * one)
claim(
    "The second guess is never the first one again, and q's favourite, fog, is a word that the "
    "target seldom says: without it the rest of q is better than q.",
    all(x != y for x, y in drawn) and q.argmax() == p.argmin() == 3 and rest @ p > q @ p,
)

# %% after by-hand-wrong-answer
first = np.minimum(p, q)
claim(
    "Where p < q, for snow and fog, the first guess alone brings all of p, and the second hands "
    "out another helping.",
    np.array_equal(first == p, [False, False, True, True]) and error[2] > 0 and error[3] > 0,
)

# %% after by-hand-right-answer
claim(
    "The wrong rule keeps more, as wrong rules like to: it accepts words that nobody had ordered.",
    shares["each_by_itself"] > shares["in_turn"] > alone,
)

# %% after most-answer
exact = [bound(some) for n in (2, 3, 4) for some in combinations(range(4), n)]
both_kept, taken = (judge(p, q, (3, 0))[0] for judge in (optimal, in_turn))
claim(
    'rule="optimal" reaches the bound, more than the wrong rule kept, and still writes p.',
    np.isclose(shares["optimal"], min(exact))
    and np.allclose(written(optimal), p)
    and shares["optimal"] > shares["each_by_itself"],
)
claim(
    "It can, because it looks at both words before it decides: of fog and sun it takes sun, which "
    "the draft says too seldom, where in_turn has often taken fog already.",
    shares["optimal"] > shares["in_turn"]
    and np.isclose(both_kept[1], 1)
    and taken[0] > 0.2
    and p[0] > q[0],
)

# %% after source
for pair in drawn:  # by hand == library
    kept, following = in_turn(p, q, pair)
    judged = tree_rules.tree_rejection(np.stack([p] * 3), np.stack([q] * 2), pair, [-1, -1])
    assert np.allclose(judged.kept[1:], kept)
    assert np.allclose(judged.following[0], following)

# %% after library-mask-answer
claim(
    "A chain would fill the triangle; a hole is a draft on another path.",
    np.array_equal(tree.ancestry([-1, 0, 1, 2]), np.tri(4) > 0) and not sees[3, 1],
)

# %% after library-forward
assert apart.max() < 0.02  # rounding

# %% after library-follow
places = tree.branch(fresh(text), parents, new=6)[0].places
claim(
    "And a token's position is its depth in the tree, not its place in memory: siblings stand "
    "at the same position.",
    places.tolist() == [len(text) - 1 + len(path) for path in paths]
    and places[0] == places[1]
    and apart.max() < 0.02,
)
claim(
    "With the mask of a chain only a is right: the others saw words that are not on their path.",
    wrong[0] < 0.02 and wrong[1:].min() > 0.1,
)

# %% after predict-trees-answer
(sure, *_), (wide, *_) = shown["sums: an operand", "match"], shown["a story", "match"]
bushy, *_ = shown["a story", "rejection"]
guessed_q, _ = trees.trees("a story", 1.0, None, True).drafted(bushy)
q, worth = trees.trees("sums: an operand", 1.0, None, False).drafted(sure)
behind = [n for n, parent in enumerate(sure.parents) if parent >= 0]
claim(
    "Once a digit is chosen, =, a result and ; follow for sure, and by q a node deep on a likely "
    "branch is worth more than a first node on an unlikely one.",
    roots["sums: an operand", "match"] < 5
    and {"=", ";"} < {pieces[sure.drafts[n]].strip() for n in behind}
    and min(sure.p[sure.parents[n] + 1][sure.drafts[n]] for n in behind) > 0.99
    and min(worth[behind]) > 1.05 * sorted(q)[-3],  # of the third digit
)
at_rest = {key: trees.compute(*key, 8, lab.ALL, 1.0, toss=4) for key in shown}
asked = at_rest["a story", "rejection"]
claim(
    "In a story, after finds a, most nodes are first words, for each is unlikely.",
    roots["a story", "match"] > 4 and wide.p[0][wide.drafts].max() < 0.5,
)
drawn = np.array(
    [
        [each.expected for each in trees.compare(name, "rejection", 8, lab.ALL, 1.0, toss)]
        for name, toss in product(texts, range(10))
    ]
)
of_story = drawn[10:]  # of each toss what the tree yields, and the chain
lead = of_story[:, 1] - of_story[:, 0]
claim(
    "In a story the chain yields more on average than the tree, which spends nodes on siblings "
    "that are seldom asked, or never.",
    lead.mean() > 2 * lead.std() / len(lead) ** 0.5
    and asked["parents"].count(-1) > 1
    and np.isclose(asked["reach"][0], 1),  # the first stays for sure
)
chance, says = (row[bushy.drafts[0]] for row in (bushy.p[0], guessed_q))
claim(
    "Under rejection the first draft stays with min(1, p/q), far more often than its p says: one "
    "guess is nearly enough here.",
    np.isclose(bushy.reach[0], min(1, chance / says), atol=0.01)
    and bushy.reach[0] > max(0.9, 2 * chance),
)

# %% after head-answer
later = reach["head"][5] / reach["head"][0]
claim(
    "At the first one, where the head starts from the target's state and the draft model has to"
    " work everything out again.",
    lead[0] > 1.2 and later > 0.7,
)
claim(
    "Behind it both hold on for a while.",
    all(each[5] > 0.7 * each[0] for each in reach.values()),
)

# %% after theory-run
one = ways["tree of 8"][0]
paths = [tree_rules.path_to(node, one.parents) for node in range(8)]
said = [np.prod([one.p[one.parents[k] + 1][one.drafts[k]] for k in path]) for path in paths]
assert np.isclose(1 + sum(said), one.expected)  # the sum over the nodes

# %% after theory-answer
order = [
    yields[name].mean() for name in ("tree of 8", "chain of 8 best words", "chain of 8, drawn")
]
off = {name: engine[name] - yields[name] for name in engine}
claim(
    "The tree yields most, the chain of the best words stands between, and the lead by shape "
    "alone is clear of 0.",
    order == sorted(order, reverse=True) and shape[1] > 0,
)
claim(
    "The engine agrees, as far as so few rounds can tell.",
    all(abs(o.mean()) < 5 * o.std() / len(o) ** 0.5 + 0.1 for o in off.values()),
)

# %% after gap
claim(
    "By hand it was a lot, because p and q were far apart.",
    shares["optimal"] - shares["in_turn"] > 0.1 and np.minimum(p, q).sum() < 0.7,
)

# %% after gap-answer
wins = {task: middle for task, (_, (middle, *_)) in gaps.items()}
claim(
    "It is small.",
    all(-1e-9 < most - turn < 0.03 for (_, turn, most), _ in gaps.values()),
)
claim(
    "The best rule can win only rounds in which the first guess is refused although one of the two "
    "was wanted, and these are rare where one guess nearly always stays.",
    all(most - turn < 1 - one for (one, turn, most), _ in gaps.values()),
)
claim(
    "On sums it wins most, because there the next digit is in doubt.",
    max(wins, key=wins.get) == "sums" and gaps["sums"][1][1] > 0,
)
claim(
    "On edits more first guesses are refused, and still there is next to nothing to win: what both "
    "guesses miss, no rule keeps.",
    gaps["edits"][0][0] < gaps["sums"][0][0] and wins["edits"] < 0.002,
)
claim(
    "So the rule is right to have, costs a sort, and changes little for this pair; the farther a "
    "draft is from its target, the more it may bring.",
    shares["optimal"] - shares["in_turn"] > 10 * max(wins.values()),
)
