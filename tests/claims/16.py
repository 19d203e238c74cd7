"""What checks the sentences of lesson 16 · Capstones."""

# %% after by-hand-price
seal = text[3]
claim("Four.", calls == 4)
claim(
    "Look-up copies the list, but the new word, seal, misleads it twice: it isn't in the list, and "
    "what followed it in the prompt was the question's end.",
    tokenizer.decode([seal]).strip() == "seal" == tokenizer.decode([prompt[-2]]).strip()
    and seal not in prompt[3:-5]
    and drafts.baseline(prompt, text[:3], 8)[:1] != [seal]
    and drafts.baseline(prompt, text[:4], 8)[0] == prompt[-1] != text[4],
)
copied = [drafts.baseline(prompt, text[:n], 8)[:1] == [text[n]] for n in range(16)]
assert [n for n, right in enumerate(copied) if not right] == [3, 4]
claim(
    "The price of a call is 1 and the drafter's own work, in calls, rounded down to quarters: who "
    "works for 0.6 of a call each time pays 1.5.",
    1 + int(drafts.PARTS * 0.6) / drafts.PARTS == 1.5,
)

# %% after library-parts
looked = np.reshape(plain.values, (3, -1)).mean(axis=1)
claim(
    "Of look-up's many drafts 7 in 100 stay, and its gain is in edits: stories and sums come at "
    "about one token a call, as without drafts.",
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
    "So even with a cache it would get less than 1, and this one reads the whole text anew for "
    "each draft, and pays for that on top.",
    unpaid / 9 < 1 and asked.parts["price"] > 9,
)
inside = sum(min(drafts.LIMIT, len(t) - at) for t in world.texts for at in range(0, len(t), 9))
claim(
    "(Drafts that don't stay were asked for behind a text's end.)",
    round(asked.parts["acceptance_rate"] * asked.parts["drafted"]) == inside,
)

# %% after predict-heart-answer
claim(
    "On another seed that is worth nothing.",
    found["by heart"].value > 5 and set(found["by heart, seed 2"].values) == {1.0},
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
    "Here it knows what the target will write, for nothing, so that each call writes nine tokens "
    "until a text ends: L tokens take L/9 calls, rounded up.",
    np.isclose(promised, top.value) and top.values == found["by heart"].values,
)
claim(
    "What there is to gain begins at 1, where one does nothing, and ends at the oracle; ours gets "
    "a third of it.",
    nothing.value == 1 and 0.3 < (good.value - 1) / (top.value - 1) < 0.37,
)
ours_kinds = kinds["knows edits"]
claim(
    "Edits are done; all that is left lies in stories and sums, where ours has look-up's own "
    "numbers.",
    ours_kinds[2] == kinds["the oracle"][2]
    and np.allclose(ours_kinds[:2], kinds["look-up"][:2], atol=0.02)
    and min(kinds["the oracle"][:2] - ours_kinds[:2]) > 5,
)

# %% after theory-board-note
rows = leaderboard().rows
assert {row[5] for row in rows} == {"1", "2"}
places = {row[5]: row[1] for row in rows if row[4] == "by_heart"}
last = max(int(row[1]) for row in rows if row[5] == "2")
claim(
    "Look for who knew seed 1 by heart: first there, last on seed 2.",
    places["1"] == "1" and int(places["2"]) == last > 1,
)
claim(
    "The oracle gets no place.",
    all((row[1] == "–") == (row[4] == "the oracle") for row in rows),
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
    "It falls: cold stories are valid more often, but they begin alike.",
    cold.value < own.value
    and cold.parts["valid"] > own.parts["valid"]
    and cold.parts["different"] < own.parts["different"],
)

# %% after briefs-better-answer
claim(
    "Not on each: one seed need not rank them.",
    not all(apart.value > 0 for apart in on_seed) and not all(apart.sure for apart in on_seed),
)
claim("Over three seeds the interval of the difference lies above 0.", over_all.low > 0)
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
dealt = play_ours(np.log([[0.3, 0.5, 0.2]] * 2) * 1.2, [[], []])
claim(
    "Ours deals out the ruler to all stories that are equal so far, anew at each token.",
    np.allclose(dealt, [one, other])
    and np.allclose(play_ours(np.log([p] * 2) * 1.2, [[1], [2]]), [p, p]),
)
cut = play_ours(np.log([[0.5, 0.26, 0.24 - 0.012, 0.012]]), [[]])
claim(
    "(It also divides the logits by 1.2, and cuts what then has less than 0.05 of the best token's "
    "chance.)",
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
sure = voting.right.mean(axis=0)
claim(
    "Why it works is on the right: of each problem's surest samples most are right, of the least "
    "sure few.",
    sure[0] > 0.7 and sure[-1] < 0.3,
)
assert voting.compute(5, 2.0)["gain"][1, 4] > 0
