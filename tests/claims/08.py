"""What checks the sentences of lesson 08 · Lossless speculation."""

from lablib.inference import NGram
from lablib.inference.speculation.judge import plays_out

# %% after by-hand-pq
claim("Tomorrow's weather is one of four words.", len(words) == len(p) == len(q) == 4)

# %% after by-hand-rule-answer
keep = np.array([rejection(p, q, x)[0] for x in range(4)])
claim(
    "A drafted sun is always kept: there are too few of them already.",
    keep[0] == 1 and q[0] < p[0],
)
claim("Of the drafted fog only a quarter may stay, p/q = 0.1/0.4.", np.isclose(keep[3], 0.1 / 0.4))
claim(
    "Keeping a draft with probability min(1, p/q) writes each word with probability "
    "q · min(1, p/q) = min(p, q).",
    np.allclose(q * keep, np.minimum(p, q)),
)
claim(
    "The rest of p, max(p − q, 0), is still missing; it is drawn from when a draft was refused.",
    np.allclose(p - q * keep, np.maximum(p - q, 0)),
)

# %% after by-hand-proof
claim("The result is p, and not by luck.", np.allclose(written(rejection, p, q), p))
claim(
    "The result is p, and not by luck.",
    all(np.allclose(written(rejection, a, b), a) for a in (p, q) for b in (p[::-1], q[::-1])),
)
refused = 1 - (q * keep).sum()
claim(
    "A draft is refused with probability 1 − Σ min(p, q), and the sum of max(p − q, 0) is the same "
    "number, as p and q both sum to 1.",
    np.isclose(refused, 1 - np.minimum(p, q).sum())
    and np.isclose(refused, np.maximum(p - q, 0).sum())
    and np.isclose(p.sum(), q.sum()),
)
claim(
    "What is added is what was missing.",
    np.allclose(refused * rejection(p, q, 3)[1], p - q * keep),
)

# %% after by-hand-bug-answer
claim("Snow and fog come too often.", min(error[2:]) > 0.03)
claim(
    "Kept drafts had written their whole share, and now they get a second helping.",
    np.allclose((q * keep)[2:], p[2:]),
)
claim("Sun and rain pay for it.", max(error[:2]) < -0.03 and np.isclose(error.sum(), 0))
claim(
    "The text still looks fine: every word is one that the target might have said.",
    p.min() > 0,
)

# %% after by-hand-tv
claim(
    "It can't be: it always writes the word that was drawn from p.",
    np.allclose(written(match, p, q), p),
)
by_match = sum(q[x] * match(p, q, x)[0] for x in range(4))
claim(
    "It only keeps less: Σ p·q, the chance that two samples are equal, against Σ min(p, q).",
    np.isclose(by_match, kept_by_match) and kept_by_match < kept_by_rejection,
)
claim(
    "The total variation TV = ½ Σ |p − q| is the share of the mass that lies in another place, and "
    "Σ min(p, q) = 1 − TV.",
    np.isclose(kept_by_rejection, 1 - tv) and np.isclose(tv, np.maximum(p - q, 0).sum()),
)

# %% after library-equal
pairs = [mx.array(np.array(each, np.float32)) for each in ([p, p, p], [q, q])]
ends, both = rules.rejection(*pairs, mx.array([0, 3])), mx.array([0, 3])
claim(
    "lablib.inference.speculation.rules holds the rules as pure functions of p at every draft and "
    "after the last, q at every draft, and the drafts.",
    [*inspect.signature(rules.rejection).parameters] == ["p", "q", "drafts"],
)
claim(
    "Each returns two things: for every n the probability that exactly n drafts are kept, and the "
    "distribution of the token after them.",
    np.isclose(ends.kept.sum().item(), 1) and np.allclose(ends.following.sum(axis=1), 1),
)
claim(
    "A rule of your own is a function in a cell: lossless.bias lists everything that it may write, "
    "and is 0 if nothing is lost.",
    max(lossless.bias(rule) for rule in rules.RULE.values()) < 1e-9
    and lossless.bias(lab.residual_from_p) > 0.01,
)
zeros = np.array(rules.padded(pairs[1])[-1])
halves = rules.one_by_one(mx.array([0.5, 0.5]))
claim(
    "ratio_of is p/q of each draft, one_by_one turns the chance of each draft into that of each "
    "length, scaled makes rows sum to 1, and padded puts a row of zeros behind q.",
    np.allclose(rules.ratio_of(*pairs, both), p[[0, 3]] / q[[0, 3]])
    and np.allclose(halves, [0.5, 0.25, 0.25])
    and np.allclose(rules.scaled(pairs[1] / 3, pairs[1]).sum(axis=1), 1)
    and not zeros.any(),
)
claim(
    "For behind the last draft nothing was drafted, and max(p − 0, 0) is p.",
    np.allclose(np.maximum(p - zeros, 0), p),
)
claim(
    "The bonus token after γ kept drafts is thus the same thing as the correction after a refusal.",
    np.allclose(ends.following[-1], np.maximum(p - zeros, 0)),
)

# %% after library-same-note
claim(
    "It plays match out: it draws the target's own token at each place and keeps the drafts that "
    "equal them.",
    plays_out("match", False) and not plays_out("rejection", False),
)
claim(
    "So the target draws what it would draw alone, and one sees without statistics that nothing is "
    "lost.",
    same["match"] >= len(asked) - 1,  # a rounding error may flip a token once in a long while
)
claim(
    "(In float32, as in lesson 07: half precision rounds most.)",
    np.finfo(np.float16).precision < np.finfo(np.float32).precision,
)
claim(
    "rejection mostly writes other texts from the same seed, as it uses its random numbers in "
    "another way.",
    same["rejection"] < len(asked) / 2,
)

# %% after predict-overlap-answer
seen = [overlap.compute(1.0, 1.0, "rejection", judged) for judged in range(5)]
tops = [each["kept"] + each["added"] for each in seen]
snow = seen[3]["added"] - seen[2]["added"]
claim(
    "At the left each word has a column, as wide as its q.",
    np.allclose(seen[0]["q"], q),
)
claim(
    "A coin u falls somewhere in it: below min(1, p/q) the draft is kept, above it is refused.",
    np.allclose(seen[4]["keep"], np.minimum(1, p / q)),
)
claim(
    "Then turn the draft's distance from 1, the q from above, to 0, where q = p.",
    np.allclose(overlap.compute(0.0, 1.0, "rejection")["q"], p),
)
claim(
    "Into sun and rain: q has too little of them, and only they are missing something.",
    (snow[:2] > 0.01).all() and np.allclose(snow[2:], 0) and (q < p).tolist() == [1, 1, 0, 0],
)
_, poured = lossless.by_draft(rules.rejection, p, q)
shares = poured[2:] / poured[2:].sum(axis=1, keepdims=True)
claim(
    "Each refused word is poured in the same shares, those of max(p − q, 0), and the columns may "
    "be judged in any order.",
    np.allclose(shares, np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()),
)
claim(
    "When the last one is judged the bars reach the lines, and no bar has ever crossed one.",
    np.allclose(tops[4], p) and all((top < p + 1e-12).all() for top in tops),
)
near = overlap.compute(0.0, 1.0, "rejection")
claim("At distance 0 every coin falls below its mark.", np.allclose(near["keep"], 1))
turned = [overlap.compute(1.0, hot, "rejection") for hot in (0.3, 1.0, 3.0)]
claim(
    "The draft decides how much is kept, never what is written.",
    len({round(each["min"], 3) for each in turned}) == 3
    and all(np.allclose(each["kept"] + each["added"], p) for each in turned),
)

# %% after predict-bugs
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
    "Even for q = p it keeps only Σ p²: two honest samples of the same distribution often differ.",
    np.isclose(drawn[0.0][0]["kept"].sum(), (p * p).sum()) and (p * p).sum() < 0.5,
)
even = [theory.acceptance_match(np.ones(n) / n, np.ones(n) / n) for n in (2, 4, 100)]
sure = np.array([0.997, 0.001, 0.001, 0.001])
claim(
    "The more tokens are possible, the more match gives away; where the model is sure of its token "
    "it gives away next to nothing.",
    even == sorted(even, reverse=True) and theory.acceptance_match(sure, sure) > 0.99,
)
claim(
    "The two bugs at the end of the list move the tops.",
    all(np.abs(top - p).max() > 0.05 for top in tops[1.0][2:]),
)
claim(
    "With a draft that is near, at distance 0.1, you can hardly see it:",
    all(0.005 < np.abs(top - p).max() < 0.05 * 0.5 for top in tops[0.1][2:]),  # of an axis to 0.5
)

# %% after predict-round-answer
claim(
    "In this language of three letters the next letter depends on the last one.",
    len({tuple(row) for row in target_table}) == 3,
)
claim(
    "Two letters are drafted, judged, and followed by one of the target's own; what the round "
    "leaves open, the target writes.",
    rounds.DRAFTED == 2 and max(letters.values()) == 3,
)
claim("That makes 27 texts.", len(rounds.texts) == 27)
claim(
    "Yes: whatever letter is written at a place has the target's distribution, and the next place "
    "starts from the right text.",
    max(errors[name] for name in names[:2]) < 1e-9,
)
fastest = max(letters, key=letters.get)
claim("The bug that keeps every draft is the fastest of all.", fastest == lab.ACCEPT_BUG)
claim(
    "Speed says nothing about exactness, and neither does a high acceptance.",
    errors[fastest] > 0.1
    and letters[lab.RESIDUAL_BUG] == letters["rejection"]
    and errors[lab.RESIDUAL_BUG] > 0.01 > errors["rejection"],
)

# %% after theory-engine-answer
claim(
    "Two tiny random models with three tokens write three of them, 4,096 times.",
    large(mx.array([prompt])).shape[-1] == small(mx.array([prompt])).shape[-1] == 3,
)
claim(
    "The expected frequencies of the 27 texts come from the target alone.",
    expected.size == 27 and np.isclose(expected.sum(), 1) and expected.min() * 4096 > 5,
)
claim(
    "Pearson's chi-square, Σ (observed − expected)² / expected, is about 26 if the frequencies are "
    "right, give or take √(2 · 26), about 7: of 27 that sum to 1, 26 are free to differ, the "
    "degrees of freedom.",
    chi2(26).mean() == expected.size - 1 and round(chi2(26).std()) == 7,
)
claim(
    "We call the alarm above a limit that chance passes once in a million tests.",
    np.isclose(chi2.sf(limit, 26), 1e-6),
)
claim(
    "The rules pass, and the planted bug is found.",
    max(measured["match"], measured["rejection"]) < limit < measured["bug"],
)
claim(
    "That line matters most: a test that has never failed has not been tested.",
    measured["bug"] > limit,
)

# %% after theory-alpha-answer
promised = {task: board.frame(task=task, temperature=1.0)[0]["alpha"] for task in TASKS}
rare = {task: binom.cdf(kept, judged, promised[task]) for task, (kept, judged, _) in engine.items()}
recorded = board.recording.texts("stories", 1.0)
claim(
    "A recording holds 16 such texts of each task.",
    all(len(board.recording.texts(task, 1.0)) == 16 for task in TASKS),
)
near = [rare[task] for task in ("sums", "edits")]
claim("On sums and edits the two agree.", min(near) > 0.01 and max(near) < 0.99)
kept, judged, own = engine["stories"]
due = judged * (1 - promised["stories"])
claim(
    "On stories theory promises 0.994 and the engine keeps 0.963: where one refusal was expected, "
    "eight came.",
    (round(promised["stories"], 3), round(kept / judged, 3)) == (0.994, 0.963)
    and (round(due), judged - kept) == (1, 8),
)
claim("Chance does that less than once in 10,000 times.", rare["stories"] < 1e-4)
claim(
    "Along the engine's own stories the models share 0.975, and eight refusals are no surprise.",
    round(float(mean), 3) == 0.975 and chance > 0.1,
)
hardest = [sorted(shared_along(*text).min() for text in texts) for texts in (recorded, own)]
claim(
    "At their hardest places the recorded stories share at least 0.92; two of the engine's eight "
    "have places with 0.00 and 0.35.",
    min(hardest[0]) > 0.915
    and np.allclose(hardest[1][:2], [0.0, 0.35], atol=0.005)
    and hardest[1][2] > 0.9
    and len(own) == 8,
)
emma = next(text for text in own if "Emma, and" in tokenizer.decode([*text[0], *text[1]]))
at = len(emma[0]) + int(shared_along(*emma).argmin())
line = [*emma[0], *emma[1]]
expects = int(mx.argmax(draft(mx.array([line[:at]]))[0, -1]))
claim(
    "(After Emma, and the target said she where the draft expects he.)",
    tokenizer.decode(line[:at]).endswith("Emma, and")
    and [pieces[line[at]].strip(), pieces[expects].strip()] == ["she", "he"],
)
claim(
    "Theory and measurement part because they are about different texts: drafts aren't throws of "
    "one coin, and a few places decide.",
    rare["stories"] < 1e-4 < chance and not any(text in recorded for text in own),
)
whole = board.frame(task="sums", rule="rejection", draft_tokens=GAMMA, temperature=1.0)[0]
claim(
    "Six recorded texts, and one toss of their rounds.",
    len(whole["tokens"]) == 6
    and all(
        sum(kept + 1 for _, kept in rounds) in (len(tokens), len(tokens) + 1)
        for rounds, tokens in zip(whole["rounds"], whole["tokens"], strict=True)
    ),
)
bars = {rule: board.frame(task="sums", rule=rule)[0]["columns"] for rule in ("rejection", "match")}
claim(
    "The bars above the first say how often a draft at that place is kept, in all 16.",
    all([count for *_, count in each] == 33 * [16] for each in bars.values()),
)
of_numbers = {rule: [each[place][0] for place in range(2, 27, 6)] for rule, each in bars.items()}
claim(
    "Number by number rejection keeps less; match keeps about one in five of each.",
    of_numbers["rejection"] == sorted(of_numbers["rejection"], reverse=True)
    and of_numbers["rejection"][-1] < 20 < 70 < of_numbers["rejection"][0]
    and all(15 < share < 25 for share in of_numbers["match"]),
)
least = board.overlaps("sums", "draft model", 1.0)[0]
begun, said = board.recording.written("sums", 1.0)
hard = int(np.argmin(least))
before = "".join(pieces[i] for i in said[:hard])
numbers = tokenizer.decode(begun[1:]).split("sum ")[1].strip(" :").split()
p_hard, q_hard = (
    np.array(mx.softmax(model(mx.array([[*begun, *said[:hard]]]))[0, -1]))
    for model in (target, draft)
)
claim(
    "The hardest token is the last number to be added.",
    before.endswith("+") and before.count("+") == len(numbers) - 1,
)
claim("The target knows it: only one is left.", p_hard[said[hard]] > 0.9)
guessed = {pieces[i].strip() for i in np.argsort(-q_hard)[:5]}
claim(
    "The draft has not kept the list.",
    q_hard[said[hard]] < 0.3 and len({*guessed} & {*numbers} - {pieces[said[hard]].strip()}) >= 3,
)
p_first, q_first = (
    np.array(mx.softmax(model(mx.array([begun]))[0, -1])) for model in (target, draft)
)
claim(
    "At the first number the target hesitates between several, and the draft does too: most of p "
    "and q is shared, and rejection keeps it.",
    max(p_first.max(), q_first.max()) < 0.5 and least[0] > 0.9,
)
best = [int(each.argmax()) for each in (p_first, q_first)]
greedy, sampled = (lines["sums"]["rejection"][at] for at in (zero, one))
claim("On sums sampling therefore keeps more than greed.", sampled > greedy + 0.04)
claim(
    "At temperature 0 only the best word counts, and two models that weigh five words alike may "
    "differ about the first.",
    np.isclose(lines["sums"]["match"][zero], greedy) and best[0] != best[1],
)
fall = {rule: line[zero] - line[one] for rule, line in lines["stories"].items()}
claim(
    "On stories match falls further: it agrees by luck, and luck becomes rare as more words are "
    "possible.",
    fall["match"] > 0.1 > fall["rejection"],
)
claim(
    "On sums a round of four loses all its drafts more often than coins of one α, the diamonds: "
    "lesson 07 shows why.",
    GAMMA == 4 and whole["shares"][0] > whole["coins"][0],
)

# %% after theory-detection-answer
claim(
    "Enumeration says what the bug writes.",
    np.isclose(wrong.sum(), 1) and found[1.0][1] > found[0.5][1] > found[0.1][1] > 0,
)
claim(
    "A test by samples doubles their number until it sounds the alarm.",
    all(np.log2(count) % 1 == 0 for count, _ in found.values()),
)
claim(
    "More: the bug acts only where a draft is refused.",
    [*found.values()] == sorted(found.values(), key=lambda each: each[0])
    and found[0.1][0] > found[1.0][0]
    and lossless.bias(lab.residual_from_p) > 0,
)


def growth(error, samples):
    """Return the statistic of so many samples of a rule that is wrong by so much."""
    written = p + error * np.array([1, -1, 0, 0])
    return lab.chi_square(np.random.default_rng(0).multinomial(samples, written), p)


claim(
    "The statistic of a wrong rule grows in proportion to the number of samples and to the square "
    "of its error: an error ten times smaller needs a hundred times the samples.",
    abs(growth(0.1, 10_000_000) / growth(0.1, 100_000) / 100 - 1) < 0.1
    and abs(growth(0.1, 100_000) / growth(0.01, 10_000_000) - 1) < 0.1,
)
claim("The enumeration finds it at once.", lossless.bias(lab.residual_from_p) > 0.01)

# %% after lossy-cost
shared = {name: lossless.one_round(rule, *tables, 0, 2)[1] for name, rule in rules.RULE.items()}
claim(
    "On average it keeps no fewer than rejection, here more, and loses nothing.",
    shared["rejection"] < shared["block"] and lossless.bias(rules.block) < 1e-9,
)
turned = [rules.block(*pairs, mx.array(pair)).kept[2].item() for pair in ([3, 0], [0, 3])]
claim(
    "Judged together. block asks about all drafts of a round at once: a draft that p likes more "
    "than q makes up for one before it that p likes less.",
    turned[0] > turned[1] + 0.1 and np.isclose(turned[1], min(1, p[3] / q[3])),
)
counts = np.bincount(drawn, minlength=4)
claim(
    "It is: each race alone is an honest draw.",
    lab.chi_square(counts, p) < chi2.isf(lab.FALSE_ALARM, 3),
)
claim(
    "Word i wins both with probability 1 / Σⱼ max(pⱼ/pᵢ, qⱼ/qᵢ).",
    abs(agree - both_win(p, q)) < 5 * np.sqrt(0.25 / len(drawn)),
)
claim(
    "The sum over i is at least (1 − TV) / (1 + TV), and never more than rejection's Σ min(p, q).",
    (1 - tv) / (1 + tv) < both_win(p, q) < kept_by_rejection,
)
ids, seeds = tokenizer.encode("On a sunny day, Mia finds"), range(3)
more = {"temperature": 1.0, "stop_tokens": stop, "rule": "coupled"}
told = [
    [lablib.speculative_decode(target, who, ids, 32, seed=n, **more)[0].tolist() for n in seeds]
    for who in (draft, NGram())
]
claim(
    "coupled keeps less than rejection, and its text belongs to the seed: exchange the draft "
    "model, and nobody reads another text.",
    both_win(p, q) < kept_by_rejection and told[0] == told[1],
)
level = min(0.25, 0.5 * np.exp((p * np.log(p)).sum()))
claim("Here ε = 0.25 and δ = 0.5: what is likelier than 0.139 is kept.", round(level, 3) == 0.139)
some = [extras.typical(pairs[0], each, both).kept.tolist() for each in (pairs[1], pairs[0][:2])]
claim("It never looks at q.", some[0] == some[1])
claim(
    "At ε = 0.25 the rule is biased, and yet keeps less than rejection.",
    bias[0.25] > 0.05
    and lossless.one_round(extras.typical, *tables, 0, 2)[1] < shared["rejection"],
)
lenient = partial(extras.typical, epsilon=0.09)
joint, tokens = lossless.one_round(lenient, *tables, 0, 2)
claim(
    "At 0.09 it keeps every draft here, and what is written is the draft model's text but for the "
    "last letter.",
    np.isclose(tokens, 3) and np.allclose(joint.sum(axis=2), lossless.plain(tables[1], 0, 2)),
)
with patch.dict(rules.RULE, typical=extras.typical):
    alarmed = statistic("typical") > limit
claim("The chi-square test finds such a rule in the engine.", alarmed)

# %% after summary
claim(
    "Keep a draft with probability min(1, p/q); after a refusal draw from max(p − q, 0), "
    "renormalised.",
    np.allclose(written(rejection, p, q), p),
)
rng = np.random.default_rng(8)
some = rng.dirichlet(np.ones(5), size=(100, 2))
claim(
    "What is written is p, for every q.",
    all(np.allclose(written(rejection, a, b), a) for a, b in some),
)
claim(
    "Rejection keeps Σ min(p, q) = 1 − TV of the drafts, match Σ p·q.",
    np.isclose(kept_by_rejection, 1 - tv) and np.isclose(by_match, p @ q),
)
claim("Compare theory and engine on the same one.", rare["stories"] < 1e-3 < chance)
