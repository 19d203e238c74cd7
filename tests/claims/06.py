"""What checks the sentences of lesson 06 · Majority vote."""

from lablib.course.theory import estimators
from lablib.inference.voting.stopping import StopRule

# %% after by-hand-answer
tied = all(vote([a, b]) == a for a in faces for b in faces)
fluctuation = {n: math.sqrt(n * 0.3 * 0.7) for n in (100, 400)}
claim(
    "A loaded die: the six falls in 30 % of the throws, each other face in 14 %.",
    loaded == [0.14] * 5 + [0.30],
)
claim("The six has no majority: 0.30 is less than a half.", loaded[5] == 0.30 < 0.5)
claim(
    "Throw N times and elect the most frequent face, among equals the first to appear.",
    vote([2, 6, 6, 2]) == 2,
)
claim("It can.", found[100] > 0.9 > found[1])
claim(
    'A plurality, more than each rival, is enough (the field says "majority vote" all the same).',
    max(loaded[:5]) < loaded[5] < 0.5 and found[100] > 0.9,
)
claim(
    "Counts grow like N, their fluctuations like √N, so even a small lead decides a long vote.",
    abs(fluctuation[400] / fluctuation[100] - 2) < 1e-9 and found[100] > 0.9,
)
claim(
    "A second vote buys nothing (29 and 31 % differ by chance): two that differ tie, and the first "
    "is elected.",
    tied and 0 < found[2] - found[1] < 2 * math.sqrt(2 * 0.3 * 0.7 / 3000),
)

# %% after by-hand-rival-answer
claim(
    "Now the six falls as often as before, but another face more often.",
    rival[5] == loaded[5] < rival[4],
)
claim(
    "In the long run they harm, by the same law: a vote doesn't find the truth, it finds the "
    "favourite.",
    harmed[100] < harmed[30] < harmed[1],
)
claim(
    "In the long run they harm, by the same law: a vote doesn't find the truth, it finds the "
    "favourite.",
    estimators.majority_accuracy(rival, 100, right=4) > 0.9,
)

# %% after library-vote-run
claim(
    "tally counts votes that are cast, by the same rule.",
    tally([[2], [6], [6], [2]], [2, 6, 6, 2]).winner == vote([2, 6, 6, 2]),
)
claim(
    "majority_vote draws and counts, here chains like lesson 05's. extract says what the "
    "answer of a chain is: the digit after #.",
    all(
        tokenizer.decode(tokens[:-1]).endswith("#" + answer)
        for answer, (tokens, _) in zip(votes.answers, votes, strict=True)
    ),
)
claim(
    "majority_vote draws and counts, here chains like lesson 05's. extract says what the "
    "answer of a chain is: the digit after #.",
    sum(count for _, count in votes) + len(votes.missing) == votes.drawn == 16,
)

# %% after predict-bars-answer
full = {name: bars_of_votes.compute(samples=32, problem=name) for name in shown}
claim(
    "We draw 32 chains for each of 24 unseen problems.",
    [len(each.answers) for each in cast] == [32] * 24,
)
claim(
    "The picture counts them for an easy one, one in the middle, and a hard one.",
    single[shown["hard"]]
    == single.min()
    < single[shown["middling"]]
    < single.max()
    == single[shown["easy"]],
)
claim(
    "The hard one has a leader too, and it is wrong.",
    full["hard"]["leader"] != full["hard"]["truth"],
)
claim(
    "Its lead is what tells: winners that are far ahead are right more often than narrow ones.",
    np.mean(wide) > np.mean(narrow),
)


# %% after predict-heat-answer
def chains(temperature, first, n):
    seeds = [lablib.SamplerOptions(temperature, seed=j) for j in range(first)]
    drawn = lablib.sample_many(model, prompts[:first], seeds, n, **shape)
    return [tokenizer.decode(row[:-1]).strip() for each in drawn for row in each.tokens]


claim(
    "At 0 all samples say what greedy decoding says; very hot ones talk nonsense.",
    len({*chains(0.0, 1, 8)}) == 1 and not any(map(sums.extract, chains(3.0, 1, 8))),
)
claim("The votes at 1.0 gain more than the cold ones.", gain[1.0] > max(gain[0.3], gain[0.6]))
slips, kinds = {}, {}
for temperature in (0.3, 1.0):
    texts = chains(temperature, 6, 16)
    steps = [step for text in texts for step in text.split(";") if step[1::2] == "+="]
    steps = [[*map(int, step[::2])] for step in steps if step[::2].isdigit()]
    met = [(a + b - c) % 10 > 0 for a, b, c in steps if (a, b) in sums.NOISY_PAIRS]
    orders = {text[:1] + text[2::6] for text in texts}
    slips[temperature], kinds[temperature] = np.mean(met), len(orders)
claim(
    "Samples at 0.3 still add in different orders, but slip on most doubtful pairs that they meet: "
    "their votes divide less.",
    kinds[0.3] > 0.5 * len(texts) and slips[0.3] > max(0.6, slips[1.0] + 0.1),
)
claim("A dozen problems give a rough map, not a law.", len(few) == 12)

# %% after predict-weights-answer
best, plain, by_e, by_sigma = spoiled.values()
logs = [each.log_weights["e^score"] for each in judged]
outweighs = [np.exp(each - each.max()).sum() < 2 for each in logs]
sigma = {score: math.exp(log_expit(score)) for score in (0.0, 1.0, 1000.0)}
right = [np.array(each.answers) == each.truth for each in judged]
errors = np.concatenate(
    [each.log_weights["e^score"] - ok for each, ok in zip(judged, right, strict=True)]
)
claim(
    "In lesson 05 a judge with heavy-tailed errors, mostly small, now and then huge, spoiled "
    "the best of many.",
    np.mean(abs(errors) < 0.5) > 0.7 and abs(errors).max() > 100,
)
claim(
    "It scores answers drawn from the annotator's own distribution: 1 if right, 0 if wrong, "
    "plus its error.",
    abs(np.median(errors)) < 0.02,
)
claim(
    "A vote weighs e to its score, or σ of it, 1 / (1 + e^(−score)), which lies between 0 and 1.",
    all(
        np.exp(each.log_weights["σ(score)"]).min() > 0 and each.log_weights["σ(score)"].max() <= 0
        for each in judged
    ),
)
claim("The best of N rises and falls, as in lesson 05.", best[0] + 0.1 < max(best) > best[-1] + 0.1)
claim("So does the vote with e to the score.", by_e[0] + 0.1 < max(by_e) > by_e[-1] + 0.05)
claim(
    "It is best-of-N in disguise: at 64 samples one lucky vote often outweighs all the others"
    " together.",
    np.mean(outweighs) > 0.4,
)
claim(
    "Both end below the plain vote, which never asked the judge.",
    max(best[-1], by_e[-1]) < plain[-1],
)
claim(
    "However lucky a score, its vote weighs at most 1, where an exact score of 1 gives 0.73 "
    "and one of 0 gives 0.5.",
    sigma[1000.0] <= 1 and round(sigma[1.0], 2) == 0.73 and abs(sigma[0.0] - 0.5) < 1e-12,
)
claim(
    "Errors no longer decide, and the little that the judge knows adds up: this vote ends "
    "above the plain one.",
    by_sigma[-1] > plain[-1] + 0.1,
)

# %% after predict-stopping-why
claim(
    "Put in a ball for each vote, one more for each answer, and one for an answer not given yet.",
    abs(played - exact) < 0.03,
)
claim("Take 8 votes against 5, with 19 to come:", exact == overtake_risk([8, 5], 19))
claim("The risk is how often the strongest rival overtakes.", abs(played - exact) < 0.03)
claim(
    "Promise 95 %: at most one vote in twenty elects another than the full vote.",
    abs((1 - 0.95) - 1 / 20) < 1e-12,
)
claim(
    "Three votes for the same answer are enough.",
    overtake_risk([3], 29) <= 0.05 < overtake_risk([2], 30),
)

# %% after predict-stopping-answer
alone, shares = (at[shared, 0.95]["used"] for shared in (False, True))
claim(
    "The rule asks after every sample.",
    alone.min() == 3 and len({*alone.tolist()}) > 20,
)
claim(
    "A certain stop is free: once the leader can't lose any more, the rest changes nothing.",
    free["kept"] == 1 and free["used"].mean() < 32,
)
claim("So let a vote stop once its risk is 5 % or less.", at[False, 0.95]["risk"].max() <= 0.05)
claim(
    "A confident stop comes earlier, when losing is improbable.",
    shares.mean() < free["used"].mean(),
)
claim("It doesn't.", at[False, 0.95]["kept"] < 0.95)
claim(
    "The risk is right for one look, and a vote of 32 looks up to 31 times.",
    abs(played - exact) < 0.03 and alone.max() >= 31,
)
once = np.bincount(at[False, 0.95]["changed"]) / len(alone)
claim(
    "Each look is one more chance to be wrong by luck.",
    np.count_nonzero(once) > 5 and once.max() < 0.05 < once.sum(),
)
claim(
    "So in the library the looks share the promise: a vote of 32 that promises 95 % stops at a "
    "risk of 2 % (StopRule.allowed_risk).",
    round(StopRule(0.95).allowed_risk(32), 2) == 0.02 == round(at[True, 0.95]["allowed"], 2),
)
claim(
    "Then each promise of the table is kept.",
    all(data["kept"] >= confidence for (shared, confidence), data in at.items() if shared),
)
claim(
    "Its price is four samples more, and a certain stop would cost eight on top.",
    round(shares.mean() - alone.mean()) == 4 and round(free["used"].mean() - shares.mean()) == 8,
)

# %% after predict-until
claim(
    "vote_until stops while it draws.",
    certain.drawn + certain.saved == 32 and early.drawn <= certain.drawn < 32,
)
claim(
    "vote_until stops while it draws.", certain.winner == majority_vote(model, easy, **same).winner
)

# %% after theory-problems
claim("For sums there are three curves to compare:", len(series) == 3)
claim(
    "measured: the model's votes in a stored run of 200 problems, with 95 % intervals;",
    len(problems) == 200
    and np.allclose(process, run["sums"]["process"]["majority"], atol=1e-4)  # they are the run's
    and bool(((low <= measured) & (measured <= high)).all()),
)
claim(
    "one die for all: the dice are averaged first, as if every problem were the same.",
    abs(one_die[0] - process[0]) < 1e-9,
)
claim(
    "One die for all does, by more with each doubling from 2 samples on.",
    bool((np.diff(one_die - process)[1:] > 0.005).all()),
)
claim(
    "From 16 samples on it lies above the interval of what is measured, and the exact process "
    "within.",
    bool(((high < one_die) & (low <= process) & (process <= high))[counts >= 16].all()),
)
claim(
    "Between measurement and exact process lie chance and what the model has not learned.",
    np.abs(process - measured).max() < 0.1,
)

# %% after theory-lost
claim("On some the right digit's lead is small, and a small lead takes a long vote.", close > 0)
claim("Where a wrong digit is the favourite, no number of votes helps.", lost > 0)
claim("That is no proof: below we meet a wrong favourite.", lost > 0)

# %% after theory-stored-answer
rows = {name: [row["accuracy"] for row in table[name]] for name in table}
draws = table["confident"][-1]["used"]
claim(
    "A stored run of the model (python -m lablib evaluate made it): 200 problems, up to 64 "
    "samples, and what the two stopping rules draw.",
    columns[-1] == 64 and stored()["about"]["plan"]["problems"] == 200,
)
claim(
    "The two weighted votes.",
    min(rows["weighted: learned"][-1], rows["weighted: log-probability"][-1])
    > rows["majority"][-1]
    >= rows["confident"][-1],
)
claim(
    "The learned verifier leads from N = 2 on.",
    all(
        a > max(b, c)
        for a, b, c in zip(
            rows["weighted: learned"][1:],
            rows["weighted: log-probability"][1:],
            rows["majority"][1:],
            strict=True,
        )
    ),
)
claim(
    "The log-probability helps here, for lesson 05's reason; with "
    "real models Wang et al. (2022) found such weights and the plain vote very similar.",
    rows["weighted: log-probability"][-1] > rows["majority"][-1] + 0.05,
)
claim(
    "Confident gives up less than a hundredth at 64, and draws about half of the samples.",
    0 < rows["majority"][-1] - rows["confident"][-1] < 0.01 and abs(draws / 64 - 0.5) < 0.05,
)

# %% after on-smollm2-answer
kept = lablib.course.lessons.smollm2.stored("06")
claim(
    "Those that err don't agree, so even a few right ones win.",
    all(
        line.split("elected: ")[1].startswith(f"[('{capital}'")
        for line, capital in zip(kept, CAPITALS.values(), strict=True)
    )
    and "right  2 of 16" in kept[-1],
)
