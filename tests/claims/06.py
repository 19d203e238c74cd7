"""What checks the sentences of lesson 06 · Majority vote."""

import math

from lablib.course.theory import estimators

# %% after why-answer
vote_alone, by_chance, verifier, weighed = (np.array(each) for each in compared.values())
claim(
    "By itself the vote comes last.",
    bool(max(vote_alone[1:] - np.min([by_chance, verifier], axis=0)[1:]) < 0),
)
claim(
    "Here is the vote (majority) beside two of them, on 200 problems of sums from a stored run; "
    "learned is its verifier.",
    run["about"]["plan"]["problems"] == 200,
)
heavy = [row["accuracy"] for row in run["sums"]["curves"]["best: heavy-tailed"]]
claim(
    "And it wins with a judge's help: weighed by what the verifier gives each chain, it loses "
    "hardly a problem.",
    bool((weighed[3:] > verifier[3:]).all()) and weighed[6] > 0.99 > verifier[6],
)
claim(
    "It wins where a judge errs by much, as we shall see.",
    bool(vote_alone[-1] > heavy[-1] + 0.1),
)

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
    "A second vote buys nothing: two that differ tie, and the first is elected.",
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

# %% after library-vote-note
claim(
    "Six votes stand against six, and the wrong 0 came first: it is elected.",
    [count for _, count in votes][:2] == [6, 6] and votes.winner == votes.answers[0] == "0",
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
    "The hard one has a leader too, and after all 32 it is wrong.",
    full["hard"]["leader"] != full["hard"]["truth"],
)
claim(
    "Its lead is what tells: wrong winners are ahead by few votes, and most right ones by more.",
    bool(np.median(wide) > max(narrow)) and leads[shown["hard"]][0] in narrow,
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
shares = dict(zip(heat["temperatures"], heat["majority"], strict=True))
claim("At 1.5, because there is more that differs.", max(gain, key=gain.get) == 1.5)
claim(
    "But to gain most is not to be best: single samples are worse there, and votes at 0.8 and 1.0 "
    "are right as often or more.",
    shares[1.5][0] < min(shares[0.8][0], shares[1.0][0])
    and shares[1.5][-1] <= min(shares[0.8][-1], shares[1.0][-1]),
)
ends = estimators.wilson_interval(0.7 * 200, 200), estimators.wilson_interval(0.5 * 200, 200)
claim(
    "(With 200 problems a share may be off by 6 or 7 %.)",
    [round(50 * (high - low)) for low, high in ends] == [6, 7],
)
claim("At 2.0 too much is nonsense.", shares[2.0][0] < 0.1)

# %% after predict-weights-answer
best, plain, by_e, by_sigma = spoiled.values()
sigma = {score: math.exp(log_expit(score)) for score in (0.0, 1.0, 1000.0)}
right = [np.array(each.answers) == each.truth for each in judged]
errors = np.concatenate(
    [each.log_weights["e^score"] - ok for each, ok in zip(judged, right, strict=True)]
)
claim(
    "In lesson 05 a judge with heavy-tailed errors spoiled the best of many.",
    np.mean(abs(errors) < 0.5) > 0.7 and abs(errors).max() > 100,
)
claim(
    "It scores answers drawn from the author's own distribution: 1 if right, 0 if wrong, "
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
claim(
    "With four samples the judge's favourite is the best choice, because among four a huge error "
    "is rare.",
    max(spoiled, key=lambda name: spoiled[name][2]) == "best: judge"
    and 4 * np.mean(abs(errors) > 2) < 0.5,
)
claim(
    "But the best of N rises and falls, as in lesson 05.",
    best[0] + 0.1 < max(best) > best[-1] + 0.1,
)
claim("So does the vote with e to the score.", by_e[0] + 0.1 < max(by_e) > by_e[-1] + 0.05)
claim(
    "It is best-of-N in disguise: at 64 samples one lucky vote outweighs all the others together "
    "in more than half of the polls.",
    heaviest.mean() > 0.5,
)
claim(
    "Neither ends above the plain vote, which never asked the judge.",
    max(best[-1], by_e[-1]) < plain[-1],
)
claim(
    "However lucky a score, its vote weighs at most 1, where an exact score of 1 gives 0.73 "
    "and one of 0 gives 0.5.",
    sigma[1000.0] <= 1 and round(sigma[1.0], 2) == 0.73 and abs(sigma[0.0] - 0.5) < 1e-12,
)
claim(
    "Errors no longer decide, and what the judge knows adds up: this vote ends above the plain "
    "one.",
    by_sigma[-1] > plain[-1] + 0.1,
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

# %% after theory-lost
claim("On some the right digit's lead is small, and a small lead takes a long vote.", close > 0)
claim("Where a wrong digit is the favourite, no number of votes helps.", lost > 0)
claim("That is no proof: below we meet a wrong favourite.", lost > 0)

# %% after on-smollm2-answer
kept = lablib.course.lessons.smollm2.stored("06")
elected = [line.split("most: ")[1] for line in kept]
claim(
    "For Italy and Spain 13 of 16 texts name nothing and have no vote, so that two or three right "
    "ones are enough.",
    all(f"[('{capital}'" in said for said, capital in zip(elected, CAPITALS.values(), strict=True))
    and "right  3 of 16, no vote 13" in kept[4]
    and "right  2 of 16, no vote 13" in kept[5],
)
claim(
    "That is thin: Sydney and Toronto have as many.",
    "('Sydney', 2)" in elected[1] and "('Toronto', 3)" in elected[3],
)

# %% after summary
claim(
    "Problems differ: average what each one's own die gives, not the dice.",
    bool((one_die > process)[counts > 1].all()),
)
claim(
    "On 9 of 200 problems that is a wrong digit, as the die above shows.",
    lost == 9 and len(problems) == 200 and int(np.argmax(die)) != int(truths[worst]),
)
