"""What checks the sentences of lesson 08 · Lossless speculation."""

from lablib.course.lessons import smollm2

# %% after by-hand-pq
claim("Tomorrow's weather is one of four words.", len(words) == len(p) == len(q) == 4)

# %% after by-hand-rule-answer
keep = np.array([rejection(p, q, x)[0] for x in range(4)])
claim("Sun is drafted too rarely, and fog too often.", q[0] < p[0] and q[3] > p[3])
claim(
    "A drafted sun is always kept, because there are too few of them already.",
    keep[0] == 1 and q[0] < p[0],
)
claim(
    "Of the drafted fog only a quarter may stay, since p/q is 0.1/0.4.", np.isclose(keep[3], 1 / 4)
)
claim(
    "So the first part of the rule is a coin: a draft is kept with probability min(1, p/q).",
    np.allclose(keep, np.minimum(1, p / q)),
)
claim(
    "A word is then drafted and kept with probability q · min(1, p/q), which is min(p, q).",
    np.allclose(q * keep, np.minimum(p, q)),
)
claim(
    "That is never more than p, but for sun and rain it is less.",
    (q * keep <= p + 1e-12).all() and (q * keep < p - 0.1).tolist() == [True, True, False, False],
)
claim(
    "The second part of the rule fills this gap: after a refusal the word is drawn from the rest "
    "of p, max(p − q, 0), divided by its sum so that it is a distribution.",
    all(
        np.allclose(rejection(p, q, x)[1], np.maximum(p - q, 0) / np.maximum(p - q, 0).sum())
        for x in range(4)
    ),
)

# %% after by-hand-proof
refused = 1 - (q * keep).sum()
claim(
    "Kept drafts bring 0.6 of the words, so that refusals have to bring the other 0.4.",
    np.isclose((q * keep).sum(), 0.6) and np.isclose(refused, 0.4),
)
claim("The result is p, and not by luck.", np.allclose(written(rejection, p, q), p))
claim(
    "The result is p, and not by luck.",
    all(np.allclose(written(rejection, a, b), a) for a in (p, q) for b in (p[::-1], q[::-1])),
)
claim(
    "Both p and q sum to 1, so what q has too much of in some words it has too little of in "
    "others.",
    np.isclose(p.sum(), 1)
    and np.isclose(q.sum(), 1)
    and np.isclose(np.maximum(q - p, 0).sum(), np.maximum(p - q, 0).sum()),
)
claim(
    "The first is what gets refused, 1 − Σ min(p, q), and the second is what is missing, "
    "Σ max(p − q, 0): the two are equal. Each refusal then goes to the missing words, in the right "
    "shares.",
    np.isclose(refused, np.maximum(p - q, 0).sum())
    and np.allclose(refused * rejection(p, q, 3)[1], p - q * keep),
)
claim(
    "As many drafts are taken away as words are missing, and each of them is replaced by a missing "
    "one.",
    np.isclose(refused, missing.sum()) and not rejection(p, q, 3)[1][missing == 0].any(),
)

# %% after by-hand-bug-answer
claim(
    "Snow and fog come too often, because kept drafts have already written their whole share, and "
    "plain p gives them a second helping.",
    min(error[2:]) > 0.03 and np.allclose((q * keep)[2:], p[2:]),
)
claim("Sun and rain pay for it.", max(error[:2]) < -0.03 and np.isclose(error.sum(), 0))
claim(
    "Nobody would notice it while reading, since every word is one that the target might have "
    "said.",
    p.min() > 0,
)

# %% after by-hand-most
claim(
    "It loses nothing, because what it writes is always the word that was drawn from p.",
    np.allclose(written(match, p, q), p),
)
by_match = sum(q[x] * match(p, q, x)[0] for x in range(4))
claim(
    "But it keeps less: two draws are the same word with probability Σ p·q, while rejection keeps "
    "Σ min(p, q) of the drafts.",
    np.isclose(by_match, kept_by_match) and kept_by_match < kept_by_rejection,
)
claim(
    "The rest of the mass is what they have in common.",
    np.isclose(kept_by_rejection, 1 - tv) and np.isclose(tv, np.maximum(p - q, 0).sum()),
)
claim(
    "In other words, rejection keeps all that the two models have in common, and match gives some "
    "of it away.",
    np.isclose(kept_by_rejection, 1 - tv) and kept_by_match < 1 - tv,
)

# %% after library-equal
pairs = [mx.array(np.array(each, np.float32)) for each in ([p, p, p], [q, q])]
ends, both = rules.rejection(*pairs, mx.array([0, 3])), mx.array([0, 3])
claim(
    "Each is given p at every draft and at the place behind the last one, q at every draft, and "
    "the drafts.",
    [*inspect.signature(rules.rejection).parameters] == ["p", "q", "drafts"]
    and len(pairs[0]) == len(pairs[1]) + 1,
)
claim(
    "It returns two things: for every n the probability that exactly n drafts are kept, and the "
    "distribution of the token behind them.",
    np.isclose(ends.kept.sum().item(), 1) and np.allclose(ends.following.sum(axis=1), 1),
)
zeros = np.array(rules.padded(pairs[1])[-1])
halves = rules.one_by_one(mx.array([0.5, 0.5]))
claim(
    "ratio_of is p/q of each draft. one_by_one turns the chance of each draft into that of each "
    "length, because the first refusal ends the round. scaled makes rows sum to 1. padded puts a "
    "row of zeros behind q, as nothing was drafted behind the last draft, and max(p − 0, 0) is p.",
    np.allclose(rules.ratio_of(*pairs, both), p[[0, 3]] / q[[0, 3]])
    and np.allclose(halves, [0.5, 0.25, 0.25])
    and np.allclose(rules.scaled(pairs[1] / 3, pairs[1]).sum(axis=1), 1)
    and np.allclose(np.maximum(p - zeros, 0), p)
    and not zeros.any(),
)
claim(
    "In other words, the bonus token after γ kept drafts and the correction after a refusal are "
    "one thing: a draw from what the drafts have left of p.",
    np.allclose(ends.following[-1], np.maximum(p - zeros, 0))
    and np.allclose(ends.following[0], rejection(p, q, 0)[1]),
)

# %% after predict-overlap-answer
seen = [overlap.compute(1.0, 1.0, "rejection", judged) for judged in range(5)]
tops = [each["kept"] + each["added"] for each in seen]
snow = seen[3]["added"] - seen[2]["added"]
claim(
    "At the left each word has a column as wide as its q, because that is how often it is drafted.",
    np.allclose(seen[0]["q"], q),
)
claim(
    "A coin u falls somewhere from 0 to 1: below min(1, p/q) the draft is kept, above it is "
    "refused.",
    np.allclose(seen[4]["keep"], np.minimum(1, p / q)),
)
claim(
    "So areas are probabilities, and the numbers in them say how large they are.",
    np.allclose(seen[4]["kept"], q * np.minimum(1, p / q)),
)
claim(
    "Then turn the draft's distance from 1, the q from above, to 0, where q = p.",
    np.allclose(overlap.compute(0.0, 1.0, "rejection")["q"], p),
)
claim(
    "Into sun and rain, because only they are missing something.",
    (snow[:2] > 0.01).all() and np.allclose(snow[2:], 0) and (q < p).tolist() == [1, 1, 0, 0],
)
_, poured = lossless.by_draft(rules.rejection, p, q)
shares = poured[2:] / poured[2:].sum(axis=1, keepdims=True)
claim(
    "Each refused word is poured in the same shares, those of max(p − q, 0), so that the columns "
    "may be judged in any order.",
    np.allclose(shares, np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()),
)
claim(
    "When the last one is judged, the 0.10 and 0.30 refused at the left stand at the right as 0.20 "
    "and 0.20, and the bars reach the lines.",
    np.allclose((q * (1 - seen[4]["keep"]))[2:], [0.1, 0.3])
    and np.allclose(seen[4]["added"], [0.2, 0.2, 0, 0])
    and np.allclose(tops[4], p),
)
near = overlap.compute(0.0, 1.0, "rejection")
claim("At distance 0 every coin falls below its mark.", np.allclose(near["keep"], 1))
turned = [overlap.compute(1.0, hot, "rejection") for hot in (0.3, 1.0, 3.0)]
claim(
    "The draft decides how much is kept, but never what is written.",
    len({round(each["min"], 3) for each in turned}) == 3
    and all(np.allclose(each["kept"] + each["added"], p) for each in turned),
)

# %% after predict-round
drawn = {d: [overlap.compute(d, 1.0, name) for name in names] for d in (0.0, 0.1, 0.5, 1.0)}
tops = {d: [each["kept"] + each["added"] for each in found] for d, found in drawn.items()}
claim(
    "The blue parts shrink and the tops stay.",
    all(
        np.allclose(tops[d][0], p) and (drawn[d][0]["kept"] <= drawn[d][1]["kept"] + 1e-12).all()
        for d in drawn
    ),
)
claim(
    "Even for q = p match keeps only Σ p², because two honest draws from one distribution often "
    "differ.",
    np.isclose(drawn[0.0][0]["kept"].sum(), (p * p).sum()) and (p * p).sum() < 0.5,
)
even = [theory.acceptance_match(np.ones(n) / n, np.ones(n) / n) for n in (2, 4, 100)]
sure = np.array([0.997, 0.001, 0.001, 0.001])
claim(
    "The more words are likely, the more it gives away; but where the model is sure of its word it "
    "gives away next to nothing.",
    even == sorted(even, reverse=True) and theory.acceptance_match(sure, sure) > 0.99,
)
claim(
    "The two bugs at the end of the list do move the tops.",
    all(np.abs(top - p).max() > 0.05 for top in tops[1.0][2:]),
)
claim(
    "With a draft that is near, at distance 0.1, you can hardly see it, since a bug shows only "
    "where p and q differ:",
    all(0.005 < np.abs(top - p).max() < 0.05 * 0.5 for top in tops[0.1][2:])  # of an axis to 0.5
    and all(np.allclose(top, p) for top in tops[0.0][2:]),
)
claim(
    "In other words, the better the draft, the better a wrong rule hides.",
    all(
        np.abs(tops[a][bug] - p).max() < np.abs(tops[b][bug] - p).max()
        for a, b in ((0.0, 0.1), (0.1, 0.5), (0.5, 1.0))
        for bug in (2, 3)
    ),
)

# %% after predict-round-answer
claim(
    "In this language of three letters the next letter depends on the last one, and before the "
    "first stands an a.",
    len({tuple(row) for row in target_table}) == 3 and "abc"[rounds.FIRST] == "a",
)
claim(
    "Two letters are drafted and judged, and one of the target's own follows.",
    rounds.DRAFTED == 2 and max(letters.values()) == 3,
)
claim(
    "If a round writes fewer than three, the target adds the rest.",
    min(letters.values()) < 3 and {len(text) for text in rounds.texts} == {3},
)
claim(
    "So each round ends in one of 27 texts.",
    len(rounds.texts) == 27 and {len(text) for text in rounds.texts} == {3},
)
claim("The engine has two more rules.", {*rules.RULE} == {"match", "rejection", "coupled", "block"})
tables = np.array(target_table), np.array(draft_table)
claim(
    "The other, block, judges all drafts of a round together, and so it keeps a little more of a "
    "round than rejection, though no more at one position.",
    1e-3 < lossless.one_round(rules.block, *tables, 0, 2)[1] - letters["rejection"] < 0.1
    and lossless.one_token(rules.block, p, q)[0].sum() < 1 - tv + 1e-9,
)
claim(
    "The picture opens with the bug, whose bars miss their outlines.",
    rounds.values["rule"] == lab.ACCEPT_BUG and errors[lab.ACCEPT_BUG] > 0.1,
)
claim(
    "Choose another rule, and each bar fills its outline: whole texts are right, too, because each "
    "letter is right given the text before it.",
    len(errors) == 3 and max(errors["match"], errors["rejection"]) < 1e-9,
)
claim(
    "The two rules keep different amounts, but neither of them loses anything.",
    max(lossless.bias(rule) for rule in (rules.match, rules.rejection)) < 1e-9
    and letters["rejection"] > letters["match"] + 0.1,
)
fastest = max(letters, key=letters.get)
claim("The bug that keeps every draft is the fastest of all.", fastest == lab.ACCEPT_BUG)
same = lossless.one_round(lab.residual_from_p, *map(np.array, (target_table, draft_table)), 0, 2)
claim(
    "In other words, speed says nothing about exactness, and neither does a high acceptance.",
    errors[fastest] > 0.1
    and np.isclose(same[1], letters["rejection"])
    and lossless.bias(lab.residual_from_p) > 0.01 > errors["rejection"],
)

# %% after theory-alpha-answer
claim(
    "The shipped models now write sixteen texts of each task.",
    {len(each) for each in asked.values()} == {16},
)
sampled = {task: found[task, 1.0] for task in asked}
greedily = {task: found[task, 0.0] for task in asked}
claim(
    "At temperature 1 each count lies within what chance allows, so the engine keeps what theory "
    "promises.",
    all(abs(each.share - each.promised) < each.spread for each in sampled.values()),
)
claim(
    "At temperature 0 there is no coin: one word is left of p and one of q, and they are the same "
    "or they are not.",
    all({round(place.shared, 6) for place in each.places} <= {0, 1} for each in greedily.values())
    and all(np.isclose(each.share, each.promised) for each in greedily.values()),
)
claim(
    "On sums sampling keeps more than greed.", sampled["sums"].share > greedily["sums"].share + 0.03
)

# %% after theory-first-number-answer


def both_say(place):
    """Return what both models say at a place, (2, V)."""
    return np.array([chances(model, place.before) for model in (target, draft)])


def at_first(places):
    """Return the places of sums at which the first number is chosen."""
    return [each for each in places if tokenizer.decode(each.before).endswith(":")]


first = [both_say(place) for place in at_first(sampled["sums"].places)]
claim(
    "Which number is added first is free.",
    len(first) == 16 and all(row[0].max() < 0.6 for row in first),
)
top = [set(np.argsort(-chances(model, prompt))[:6].tolist()) for model in (target, draft)]
claim(
    "Both spread their mass over the same numbers, so that p and q share most of it.",
    top[0] == top[1] and both > 0.8 and all(np.minimum(*row).sum() > 0.8 for row in first),
)
greedy = [place.shared for place in at_first(greedily["sums"].places)]
claim(
    "Greed asks only whether their best words agree, and of words that weigh alike either model "
    "may prefer another one, as 9 and 4 here.",
    [tokenizer.decode([int(chances(m, prompt).argmax())]) for m in (target, draft)] == ["9", "4"]
    and np.mean(greedy) < np.mean([np.minimum(*row).sum() for row in first]) - 0.1,
)
claim(
    "Here is, for each task, the place at which the two models share least:",
    all(each.hardest.shared == min(p.shared for p in each.places) for each in sampled.values()),
)

# %% after theory-places-answer
claim(
    "A few places lose about half of what is lost.",
    all(
        len(hard[task]) < 0.1 * sampled[task].judged and 0.4 < lost[task] < 0.65 for task in sampled
    ),
)
ends = {task: [tokenizer.decode(place.before) for place in each] for task, each in hard.items()}
doubts = [both_say(place)[1] for place in hard["stories"]]
pronouns = [tokenizer.encode(f" {word}")[-1] for word in ("he", "she")]
claim(
    "In a story it is, for example, the word that refers to Emma, where the small model doubts "
    "between he and she.",
    "Emma, and" in tokenizer.decode(sampled["stories"].hardest.before)
    and all(doubt[pronouns].min() > 0.3 and doubt[pronouns].sum() > 0.97 for doubt in doubts),
)
worst = sorted(hard["sums"], key=lambda place: place.shared)[:10]
done = [tokenizer.decode(place.before).count(";") for place in worst]  # of five additions
claim(
    "In a sum it is the next number to be added.",
    all(text.endswith("+") for text in ends["sums"]),
)
claim(
    "Half of these places are the last one: the target knows it, because only one is left, but the "
    "draft has not kept the list.",
    0.4 < last / len(hard["sums"]) < 0.6
    and done == [4] * 10
    and all(both_say(place)[0].max() > 0.98 > 0.5 > both_say(place)[1].max() for place in worst),
)
place = sampled["edits"].hardest
old, new = tokenizer.decode(place.before).split("|")[1].split(":")[0].split("->")
claim(
    "In an edit it is the replaced word, which the draft copies as it stands.",
    [best_word(model, place.before).split()[0] for model in (target, draft)]
    == [new.strip(), old.strip()],
)
claim(
    "It says how many of its places are hard for the smaller one.",
    max(each.share for each in sampled.values()) - min(each.share for each in sampled.values())
    > 0.05,
)

# %% after on-smollm2-answer
told = [line.split() for line in smollm2.stored("08")]
numbers = [[float(each.strip(",")) for each in (line[1], line[3], line[5])] for line in told]
*each_of_four, whole = numbers
claim("SmolLM2-135M answers four questions at temperature 1.", len(each_of_four) == 4)
claim(
    "With a vocabulary of 49,152 tokens the counts agree with the promises, too.",
    all(abs(kept - promised) <= spread for kept, promised, spread in numbers),
)
claim(
    "But four short answers test it weakly: within ± 0.15 many a bug would pass.",
    round(np.mean([spread for *_, spread in each_of_four]), 2) == 0.15,
)
claim(
    "It keeps less than on our tasks.",
    whole[0] < min(each.share for each in sampled.values()) - 0.2,
)

# %% after summary
claim(
    "Keep a draft with probability min(1, p/q); after a refusal draw from what is missing, "
    "max(p − q, 0).",
    np.allclose(written(rejection, p, q), p),
)
rng = np.random.default_rng(8)
some = rng.dirichlet(np.ones(5), size=(100, 2))
claim(
    "As much is refused as is missing, so that what is written is p, for every q.",
    all(np.allclose(written(rejection, a, b), a) for a, b in some),
)
claim(
    "Rejection keeps Σ min(p, q) = 1 − TV of the drafts, and no rule keeps more at one position.",
    np.isclose(kept_by_rejection, 1 - tv)
    and all(
        lossless.one_token(rule, p, q)[0].sum() < 1 - tv + 1e-9 for rule in rules.RULE.values()
    ),
)
claim(
    "A few hard places of a text lose about half of the rest.",
    all(0.4 < each < 0.65 for each in lost.values()),
)
claim("Match keeps Σ p·q.", np.isclose(by_match, p @ q))
