"""What checks the sentences of lesson 19 · Blocks."""

# %% after by-hand-forwards
claim(
    "From there the target's output layer goes on as always, but for all places at once:",
    scores.shape == (2, 4) and np.allclose(scores[1], (state + marks[1]) @ output.T),
)

# %% after by-hand-question
claim(
    "Each of our two places says exactly what stands there.",
    np.allclose(q, [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]),
)

# %% after by-hand-pairs-answer
crossed = q[0, 0] * q[1, 3] + q[0, 1] * q[1, 2]
claim("One and a half.", np.isclose(independent, 1.5))
claim(
    "Half of the blocks are of problem or no course, which nobody says, so that their second word "
    "is always refused.",
    np.isclose(crossed, 0.5) and p2[0, 1] == p2[1, 0] == 0,
)
claim(
    "And yet no place is wrong: in half of the answers the second word is course.",
    np.allclose(p1 @ p2, q[1, 2:]) and np.allclose(p1, q[0, :2]),
)
rows = [np.array([share, 1 - share]) for share in np.linspace(0, 1, 21)]
claim(
    "A place that isn't told its neighbour can only say what stands there on average, and whatever "
    "it says instead, half of the second words are still refused: if it says course with chance "
    "c, one half of the first words wants it and the other doesn't, and ½ · c + ½ · (1 − c) is ½.",
    all(np.isclose((p1[:, None] * np.minimum(p2, row)).sum(), 0.5) for row in rows),
)
claim(
    "More training won't mend this, because there is nothing left to learn.",
    np.allclose(p1 @ p2, q[1, 2:]),
)

# %% after by-hand-markov
assert np.isclose(markov, 2)
claim(
    "So keep a table that says how much likelier each word becomes behind another, log p(y after "
    "x) − log p(y), and add the row of the word just drawn to the scores of the next place.",
    np.allclose(behind, p2) and np.isclose(table[0, 0], np.log(p2[0, 0]) - np.log(average[0])),
)

# %% after by-hand-square-answer
square = lab.Agreement(["of", "no"], ["course", "problem"])
shares = np.linspace(0, 1, 11)
strict = [square.compute(share=share, sure=0.95) for share in shares]
drawn_wrong = [(each["q"][0, 1] + each["q"][1, 0]) / 2 for each in strict]
orange = [1 - each["kept"][1] for each in strict]
claim(
    "Here the target isn't quite as strict, and says the word that belongs in 95 of 100 answers.",
    np.isclose(strict[0]["p"][0, 0], 0.95),
)
claim("Without the head nearly half of the square is orange.", 0.4 < orange[0] < 0.5)
claim(
    "The more of the table is added, the less is drawn of the pairs that don't agree, until the "
    "square is the target's own.",
    (np.diff(drawn_wrong) < 0).all() and np.allclose(strict[-1]["q"], strict[-1]["p"]),
)
loose = [square.compute(share=share, sure=0.5) for share in shares]
claim(
    "Where the right word has ½ there is nothing to agree on, and the head has nothing to do.",
    all(np.allclose(each["q"], 0.5) and np.isclose(sum(each["kept"]), 2) for each in loose),
)

# %% after by-hand-three-answer
claim(
    "Two and a half, as if there were no head.",
    stay_of_three(1) == stay_of_three(0) == 2.5,
)
claim(
    "The neighbour of the third place is lost in both texts, and lost doesn't know who lost it.",
    after(("lost",), 2) == {"her": 0.5, "his": 0.5} and after(("she", "lost"), 2) == {"her": 1.0},
)
claim(
    "What has to agree stands two words apart here, and a Markov head sees one.",
    stay_of_three(2) == 3,
)

# %% after by-hand-lengths-answer
speeds = tokens / prices
claim(
    "Three are best: a draft raises the rate as long as it brings more for its price than the "
    "round has without it, as the third does (1.71 against 1.603) and the fourth doesn't (1.54 "
    "against 1.616), although its own confidence is 0.9.",
    speeds.argmax() == 2
    and speeds[2] > 1 / 1.25
    and (survival[2:] / 0.25).round(2).tolist() == [1.71, 1.54]
    and speeds[1:3].round(3).tolist() == [1.603, 1.616]
    and speeds[3] < speeds[2]
    and confidence[3] == 0.9
    and (tokens[2] + survival[2] * 0.9) / prices[3] < speeds[2] < (tokens[2] + 0.9) / prices[3],
)
rng = np.random.default_rng(19)
for _ in range(300):  # once it falls, it falls on
    of_block = 1 + np.cumsum(np.cumprod(rng.random(8)))
    walk = np.concatenate([[1.0], of_block]) / (1.25 + rng.random() * np.arange(9))
    falls = np.flatnonzero(np.diff(walk) < 0)
    assert not len(falls) or (np.diff(walk)[falls[0] :] < 1e-12).all()
claim(
    "One may stop at the first that doesn't pay, because the steps never rise along a block, and "
    "no draft takes the rate below what it brings itself.",
    (np.diff(survival) <= 0).all() and survival[3] / 0.25 < speeds[3] < speeds[2],
)
claim(
    "It would tell more: min(1, p/q) depends on the word, and a word that will be refused need not "
    "be read at all.",
    min(1, 0.5 / 0.7) < min(1, 0.5 / 0.3),
)
claim(
    "The target says yes and no with ½ each, the draft yes with 0.7, so that a no always stays and "
    "a yes may be refused.",
    min(1, 0.5 / 0.3) == 1 and min(1, 0.5 / 0.7) < 1,
)

# %% after by-hand-looks-answer
claim("In 35 of 100 texts.", np.isclose(yes, 0.35))
claim(
    "Each no that the draft draws stays, while a yes is thrown away and the target draws anew, "
    "which makes half of them no.",
    np.isclose(written(ways["a no alone"])[1], q[1] + q[0] / 2),
)
claim(
    "And a mixture of p and p is p, however the two are mixed.",
    all(np.allclose(written(np.full(2, share)), p) for share in np.linspace(0, 1, 11)),
)
claim(
    "One that offers none writes p as well, for then the target draws.",
    np.allclose(written(np.zeros(2)), p),
)
offered = lab.Offered()
at_rest = offered.compute(**{name: each.value for name, each in offered.controls.items()})
assert np.isclose(at_rest["written"][0], 0.35)
before = [offered.compute(lab.BEFORE, 0.7, bound) for bound in np.linspace(0, 1, 21)]
claim(
    "Choose before the draw, and move least confidence: all or none is offered, and the bars stay "
    "where they are.",
    all(np.allclose(each["written"], 0.5) for each in before)
    and {round(each["shares"][2], 9) for each in before} == {0.0, 1.0},
)
claim(
    "It never does, because the first place that doesn't pay ends the block, whatever stands "
    "behind it.",
    speeds.argmax() + 1 == np.flatnonzero(np.diff(speeds) < 0)[0] + 1,  # and on 300 others, above
)

# %% after library-equal
claim(
    "The engine judges a block with the rule of rejection that it has for all drafts, and on "
    "average over the four pairs it must keep what we kept:",
    np.isclose(of_the_rule(*halves), 1.5) and np.isclose(of_the_rule(halves[0], behind), 2),
)

# %% after library-own-run
assert plain[-1] == tokenizer.eos_token_id  # a draft: no token of the target's own stands behind it
assert stats["total_accepted"] + stats["rounds"] == len(plain) + 1
friend = pieces.index(" friend")
embedded = target.model.embed_tokens(mx.array([friend]))
claim(
    "Its Markov head needs no table of all pairs, since it is made of the target's embeddings, "
    "with one small matrix couple between the word before and the words behind.",
    block.couple.weight.shape == (target.config.hidden_size,) * 2
    and np.allclose(
        np.array(block.couple(embedded) @ target.model.embed_tokens.weight.T),
        np.array(block.coupling(mx.array([friend]))),
        atol=1e-4,
    ),
)
claim(
    "Block drafts blocks for a model of ours. target-block comes with the package: it has eight "
    "places, and was trained on texts of the target's own.",
    block.size == 8 and stats["draft_calls"] == stats["rounds"] > 2,
)

# %% after predict-blocks-answer
story, adding, listed = (ways[name] for name in ("a story", "a sum", "a list"))
shown = lab.Blocks(two, pieces, dict.fromkeys(two, 0.0)).compute(1)
crossed = {
    (drawn[k][0], drawn[k + 1][0])
    for drawn in shown["a story", 0]
    for k in range(3)
    if drawn[k + 1][1] == "refused"
}
average = [place[()] for place in story.says[0]]
claim(
    "The target's next four tokens are a tree, and we walk through all of it, except for what is "
    "rarer than 3 in 10,000.",
    all(len(each.places) == 4 and each.left_out < 0.03 for each in ways.values())
    and story.places[3].mass.min() > 3e-4,
)
claim("In the story alone.", gains == [True, False])
claim(
    "Places that are told nothing draw sister Otto, and friend M, where half of a name is missing: "
    "collisions, though each token is right at its place.",
    {("␣sister", "␣Otto"), ("␣M", ",")} <= crossed
    and all(
        average[place][pieces.index(word)] > 0.01
        for place, word in ((0, " sister"), (1, " Otto"), (1, " M"), (2, ","))
    ),
)
sister = story.p_after((pieces.index(" sister"),))
claim(
    "Told their neighbour, they keep 3.96, as much as the target's own words do, because sister "
    "wants a girl's name, and half a name wants its other half.",
    abs(story.kept(1).sum() - story.kept(3).sum()) < 0.01
    and sister[pieces.index(" Kate")] > 0.1
    and sister[pieces.index(" Otto")] < 0.01,
)
digit = pieces.index("=")
claim(
    "Its result hangs on the digit two places before, and between them stands =, which says "
    "nothing.",
    all(p[digit] > 0.99 for p in adding.places[1].p)
    and len({int(p.argmax()) for p in adding.places[2].p}) > 3
    and adding.kept(2)[2] > 0.99,
)
claim(
    "So the Markov head changes nothing there.",
    np.allclose(adding.kept(0), adding.kept(1), atol=0.01),
)
claim(
    "Told two words, the result is known, and everything stays.",
    adding.kept(2).sum() > 3.98,
)
claim(
    "In a list nothing collides, because nothing is in doubt.",
    listed.kept(0).sum() > 3.97
    and all(p.max() > 0.98 for each in listed.places for p in each.p[:1]),
)
claim(
    "What is rarer counts as refused: of the story's four even the target's own words keep 3.96 "
    "here.",
    abs(ways["a story"].kept(3).sum() - 3.96) < 0.02 and ways["a story"].left_out > 0,
)

# %% after theory-engine-answer
draws = np.random.default_rng(19).dirichlet(np.ones(9), size=(2, 50))
claim(
    "As q · min(1, p/q) is min(p, q), place k stays with",
    np.allclose(draws[0] * np.minimum(1, draws[1] / draws[0]), draws.min(axis=0)),
)
claim(
    "(That pays in a round of ×1.6, as 0.4 / 0.25 is 1.6.)", np.isclose(confident.least / 0.25, 1.6)
)
stay = {key: each[0] for key, each in found.items()}
spread = {key: each[1] for key, each in found.items()}
offered = {key: each[2] for key, each in found.items()}
speed = {key: each[3] for key, each in found.items()}
EXACT = {"exact, told nothing": 0, "exact, its neighbour": 1}
promised = {
    (name, kind): ways[name].kept(told).sum() for name in ways for kind, told in EXACT.items()
}
claim(
    "It does, within what 40 rounds can tell.",
    all(abs(stay[key] - promised[key]) < 3 * spread[key] + 0.1 for key in promised),
)
claim(
    "Where all rounds kept four, ± 0.00 only says that 40 are too few to see one that doesn't.",
    spread["a list", "exact, told nothing"] == 0 and 0.99**40 > 0.6,  # mostly none is seen
)
claim(
    "(The story's promised 3.96 counts rare words as refused, which the engine may keep.)",
    ways["a story"].left_out > 0 and ways["a story"].kept(3).sum() < 3.98,
)
claim(
    "The sum's exact rows are the same rounds, since being told = changes nothing there.",
    found["a sum", "exact, told nothing"] == found["a sum", "exact, its neighbour"],
)
told_nothing = promised["a story", "exact, told nothing"]
claim(
    "The trained block keeps 3.40 ± 0.37 in the story, and even the lower end, 3.03, is above the "
    "2.36 of exact places that are told nothing.",
    stay["a story", "trained"] - spread["a story", "trained"] > told_nothing
    and abs(stay["a story", "trained"] - 3.4) < 0.06,
)
told_one = {name: promised[name, "exact, its neighbour"] for name in ("a story", "a sum")}
claim(
    "Below the 3.96 of exact places that are told their neighbour it stays there.",
    stay["a story", "trained"] + spread["a story", "trained"] < told_one["a story"],
)
claim(
    "On the sum forty rounds don't tell it apart from them, because what the sum's third place "
    "isn't told, no training can tell it.",
    abs(stay["a sum", "trained"] - told_one["a sum"]) < spread["a sum", "trained"],
)
claim(
    "In the story the draft model keeps more, 3.92, and yet the block writes more for the price, "
    "×1.96 and not ×1.64.",
    stay["a story", "word by word"] > stay["a story", "trained"] + 0.3
    and abs(speed["a story", "word by word"] - 1.64) < 0.05
    and abs(speed["a story", "trained"] - 1.96) < 0.05,
)
claim(
    "On the sum and the list the draft model shows no gain (×0.92, ×0.95), because it pays for "
    "four forwards: with one, the sum's 1 + 1.75 tokens for 2.25 would be ×1.22.",
    all(
        speed[name, "word by word"] < 1.1 and (1 + stay[name, "word by word"]) / 2.25 > 1.1
        for name in ("a sum", "a list")
    )
    and abs((1 + stay["a sum", "word by word"]) / 2.25 - 1.22) < 0.05,
)
claim(
    "The confidence head offers two of four places on the sum: 1.95 drafts stay where 2.55 did, "
    "but two fewer are read, and ×1.58 becomes ×1.69.",
    1.8 < offered["a sum", "trained, confident"] < 2.3
    and 0.4 < stay["a sum", "trained"] - stay["a sum", "trained, confident"] < 0.8
    and speed["a sum", "trained, confident"] > speed["a sum", "trained"] + 0.1,
)
claim(
    "In the other texts it offers all.",
    all(offered[name, "trained, confident"] > 3.9 for name in ("a story", "a list")),
)
