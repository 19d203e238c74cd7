"""What checks the sentences of lesson 16 · Capstones."""

# %% after by-hand-price
seal = text[3]
claim("Four.", calls == 4)
claim(
    "Nothing is written at first, so look-up goes by the prompt's last sign, the colon, which "
    "stood after edit, too, and copies what followed there.",
    prompt[-1] in prompt[:-1]
    and tokenizer.decode([prompt[prompt.index(prompt[-1]) - 1]]).strip() == "edit"
    and drafts.baseline(prompt, [], 8) == prompt[prompt.index(prompt[-1]) + 1 :][:8],
)
claim(
    "The new word, seal, stops it twice: it isn't in the list, and what followed it in the prompt "
    "was the question's end.",
    tokenizer.decode([seal]).strip() == "seal" == tokenizer.decode([prompt[-2]]).strip()
    and seal not in prompt[3:-5]
    and drafts.baseline(prompt, text[:3], 8)[:1] != [seal]
    and drafts.baseline(prompt, text[:4], 8)[0] == prompt[-1] != text[4],
)
copied = [drafts.baseline(prompt, text[:n], 8)[:1] == [text[n]] for n in range(16)]
assert [n for n, right in enumerate(copied) if not right] == [3, 4]
claim(
    "The price of a call is 1, and the drafter's own work, rounded down to quarters of a call: "
    "work of 0.6 makes it 1.5.",
    1 + int(drafts.PARTS * 0.6) / drafts.PARTS == 1.5,
)

# %% after library-parts
looked = np.reshape(plain.values, (3, -1)).mean(axis=1)
claim(
    "Of look-up's many drafts 7 in 100 stay, and its gain is in edits.",
    round(100 * plain.parts["acceptance_rate"]) == 7
    and max(looked[:2]) < 1.2
    and looked[2] > 3
    and set(nothing.values) == {1.0},
)
claim(
    "score plays the whole game, eight texts of each kind: first without drafts, then with "
    "look-up.",
    len(plain.values) == len(nothing.values) == 24
    and [len(each) for each in world.prompts[16:]] == [24] * 8,
)
claim(
    "Each text counts the same, so that eight short edits carry this score.",
    max(map(len, world.texts[16:])) < min(map(len, world.texts[:16]))
    and sum(plain.values[16:]) - 8 > 0.9 * (sum(plain.values) - 24)
    and np.isclose(np.mean(plain.values), plain.value),
)

# %% after predict-asks-answer
claim("Less than one.", asked.value < 1 < plain.value)
claim(
    "Eight drafts cost eight calls, and a ninth judges them: nine tokens for nine calls, and fewer "
    "where a text ends sooner.",
    drafts.LIMIT == 8 and 8 < unpaid < 9,
)
claim(
    "Even with a cache that is less than 1, and this one reads the whole text anew for each draft, "
    "and pays for that on top.",
    unpaid / 9 < 1 and asked.parts["price"] > 9,
)
inside = sum(min(drafts.LIMIT, len(t) - at) for t in world.texts for at in range(0, len(t), 9))
# As the question says: each draft that lies within the text stays, and no other.
assert round(asked.parts["acceptance_rate"] * asked.parts["drafted"]) == inside

# %% after predict-heart-answer
claim(
    "On another seed that is worth nothing.",
    found["by heart"].value > 5 and set(found["by heart, seed 2"].values) == {1.0},
)

guess = player("drafts", "one good answer")
claim(
    "Our answer does that; elsewhere it looks up, too, but only what followed its last two tokens.",
    guess([5, 6, 7, 8], [5, 6], 8) == [7, 8, 5, 6]
    and guess([5, 6, 7, 8], [6], 8) == []
    and drafts.baseline([5, 6, 7, 8], [6], 8)[:2] == [7, 8],
)

# %% after predict-knows-answer
claim(
    "The two scores' intervals overlap, but that of the difference lies above 0: on the same texts "
    "ours is ahead.",
    good.low < plain.high and lead.low > 0,
)

# %% after theory-answer
kinds = {name: np.reshape(each.values, (3, -1)).mean(axis=1) for name, each in found.items()}
claim(
    "This one, like by heart on seed 1, knows what the target will write, so that each call writes "
    "nine tokens until a text ends: L tokens take L/9 calls, rounded up.",
    np.isclose(promised, top.value) and top.values == found["by heart"].values,
)
claim(
    "What there is to gain begins at 1, where one does nothing, and ends at the oracle; ours gets "
    "a third of it.",
    nothing.value == 1 and 0.3 < (good.value - 1) / (top.value - 1) < 0.37,
)
ours_kinds = kinds["knows edits"]
claim(
    "Edits are done; all that is left lies in stories and sums.",
    ours_kinds[2] == kinds["the oracle"][2]
    and max(*ours_kinds[:2], *kinds["look-up"][:2]) < 1.06
    and min(kinds["the oracle"][:2] - ours_kinds[:2]) > 5,
)

# %% after briefs-stories-answer
claim(
    "The score is the share of twelve that counts, over eight openings.",
    len(own.values) == 8 and {round(12 * each, 6) % 1 for each in own.values} == {0.0},
)
claim(
    "The oracle knows no more than you, but writes three times as many and keeps what counts.",
    stories.MORE == 3 and stories.ROWS == 12,
)
claim(
    "It falls: cold stories are valid more often, but they begin alike, as four of six do above.",
    cold.value < own.value
    and max([each.first for each in told[1]].count(each.first) for each in told[1]) == 4
    and len({each.first for each in told[0]}) == 6
    and cold.parts["valid"] > own.parts["valid"]
    and cold.parts["different"] < own.parts["different"],
)

# %% after briefs-better


def surest(place):
    """Return the answer of the surest of a sum's first five samples, and that of their majority."""
    five = pool.samples[place][:5]
    return max(five, key=lambda sample: sum(sample[1]))[0], sums.baseline(five, 0, 1)


claim(
    "In the first sum the surest sample is right and the majority wrong; in the second both are "
    "wrong.",
    surest(36)[0] == pool.truths[36] != surest(36)[1] and pool.truths[0] not in surest(0),
)
claim(
    "Ours believes sure samples more.",
    player("sums", "one good answer")(pool.samples[36][:5], 0, 1) == surest(36)[0],
)

# %% after briefs-better-answer
claim(
    "Not on each: one seed need not rank them.",
    not all(gap.value > 0 for gap in gaps[:3]) and not all(gap.sure for gap in gaps[:3]),
)
claim("Over three seeds the interval of the difference lies above 0.", gaps[3].low > 0)
claim(
    "The budget pays for five samples of each of 48 sums.",
    sums.EACH == 5 and len(pool.truths) == 48,
)
claim(
    "The oracle gets every sum right, for less than half of the budget.",
    all(each.value == 1 for each in known)
    and all(each.parts["tokens"] < each.parts["budget"] / 2 for each in known),
)
claim(
    "How near a vote can come, nobody has shown, but ours left tokens unspent on each seed: can "
    "you use them?",
    all(each.parts["tokens"] < each.parts["budget"] for each in best),
)

# %% after exercises-board
assert {row[5] for row in leaderboard(seed=3).rows} == {"3"}
assert {row[4]: row[1] for row in leaderboard(seed=3).rows}["the oracle"] == "–"

# %% after ours-ruler-answer
claim(
    "Both take the same word in 24 of 100 cases, two free draws in 38: only sad lies across the "
    "middle.",
    round((one * other).sum(), 2) == 0.24
    and round((p * p).sum(), 2) == 0.38
    and (one * other > 0).tolist() == [False, True, False],
)
claim(
    "Neither story keeps the model's chances now, but their mean does.",
    np.allclose((one + other) / 2, p) and not np.allclose(one, p),
)
play_ours = player("stories", "one good answer")
dealt = play_ours(np.log([p] * 2) * 1.2, [[], []])
assert np.allclose(dealt, [one, other])
thirds = np.array([[0.9, 0.1, 0], [0, 1, 0], [0, 0.4, 0.6]])
claim(
    "The rest it deals out anew at each token: three stories that are equal so far read a third "
    "each; two of them that take the same word then share the next ruler, and the one that has "
    "parted reads the whole.",
    np.allclose(play_ours(np.log([p] * 3) * 1.2, [[], [], []]), thirds)
    and np.allclose(play_ours(np.log([p] * 3) * 1.2, [[1], [2], [1]]), [one, p, other]),
)
cut = play_ours(np.log([[0.5, 0.26, 0.24 - 0.012, 0.012]]), [[]])
claim(
    "Ours first divides the logits by 1.2, and cuts what then has less than 0.05 of the best "
    "token's chance.",
    np.allclose(cut[0, 1] / cut[0, 0], (0.26 / 0.5) ** (1 / 1.2))
    and cut[0, 3] == 0
    and 0.012 / 0.5 < 0.05 > (0.012 / 0.5) ** (1 / 1.2),
)

# %% after ours-shares-answer
dealing = Difference.of(ours, alone)
claim(
    "It is most of our lead over the baseline.",
    dealing.low > 0 and dealing.value > (ours.value - own.value) / 2,
)

# %% after ours-weights-answer


def of_two(first, second):
    """What the good vote makes of two samples of 7 with a chance, and one of 4 with another."""
    both = [("7", [np.log(first)]), ("7", [np.log(first)]), ("4", [np.log(second)])]
    return player("sums", "one good answer")(both, 0, 1)


clear = [("7", [np.log(0.5)])] * 3
claim(
    "With β = 0 it counts; ours takes β = 2, and stops early where one answer leads clearly.",
    of_two(0.3, 0.5) == "4"  # with β = 1 it were 7
    and of_two(0.39, 0.5) == "7"  # with β = 3 it were 4
    and player("sums", "one good answer")(clear, 1000, 1) == "7"
    and player("sums", "one good answer")(clear[:2], 1000, 1) == "more",
)
early = compare("sums", "one good answer", always_five)
claim("Nothing that three seeds can show: the interval holds 0.", early.low < 0 < early.high)
assert always_five(clear, 1000, 1) == "more"
assert voting.right.shape == (3 * 48, 16)
sure = voting.right.mean(axis=0)
claim(
    "Why weighting works is on the right: of each problem's surest samples most are right, of the "
    "least sure few.",
    sure[0] > 0.7 and sure[-1] < 0.3,
)
assert voting.compute(5, 2.0)["gain"][1, 4] > 0
