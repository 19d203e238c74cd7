"""What checks the sentences of lesson 18 · Confidence and power."""

from itertools import product

from lablib.inference.sampling.row import Row
from lablib.inference.steering import power

# %% after by-hand-question
claim("A model has four words, and its texts have two.", len(words) == 4 and len(every) == 4**2)
claim(
    "Well is the likelier beginning, but anything may follow it; after yes nearly always comes "
    "yes.",
    first.argmax() == 0 and np.ptp(after[0]) == 0 and after[1, 1] > 0.9,
)

# %% after by-hand-sharp-answer
claim(
    "By tokens well rises to 0.71, by texts yes to 0.95.",
    round(begins["by tokens"][0], 2) == 0.71 and round(begins["by texts"][1], 2) == 0.95,
)
claim(
    "Let us make the model sharper.",
    max(begins["by tokens"]) > max(begins["model"]) and max(begins["by texts"]) > max(first),
)
claim(
    "One way is to take each token's chances to the fourth power, and to scale them: that is "
    "temperature ¼ (lesson 03).",
    np.allclose(sharp(first), np.exp(4 * np.log(first)) / np.exp(4 * np.log(first)).sum()),
)
claim(
    "If the model itself writes the ends, q is its p of them, and the cube of p(new) / p(old) is "
    "left.",
    all(
        np.isclose(every[new] ** 4 * every[old] / (every[old] ** 4 * every[new]), ratio**3)
        for old, new in product(every, every)
        for ratio in [every[new] / every[old]]
    ),
)

# %% after by-hand-balance-answer
claim("As many go as come back, 4.4.", round(propose * goes, 1) == 4.4)
claim(
    "Let 1,000 walks be spread as p⁴ says, and write each anew from its first word:",
    round(1000 * to_the_4th[well] * every[yes], 1) == 4.4,
)
claim(
    "That is what the rule is for: from yes yes the way is proposed 27 times as often, and one "
    "time in 27 it is taken.",
    round(1 / goes) == 27 and round(propose / (1000 * to_the_4th[well] * every[yes])) == 27,
)
claim(
    "So texts that are as frequent as p⁴ stay so.",
    all(
        np.isclose(there * min(1, back / there), back * min(1, there / back))
        for old, new in product(every, every)
        for there, back in [(every[old] ** 4 * every[new], every[new] ** 4 * every[old])]
    ),
)

# %% after by-hand-walk-answer
claim(
    "The walk visits yes yes about as often as p⁴ says, and has never added up all texts.",
    abs(visits[1, 1] / 20_000 - to_the_4th[1, 1]) < 0.03,
)

# %% after library-answer
claim(
    "After 40 steps the library's walks are where they should be.",
    abs(found - to_the_4th[1, 1]) < 5 * 0.5 / 1000**0.5,
)
claim(
    "power_sample lets many walks go on at once, for texts of different lengths.",
    len(walks.tokens) == 1000,
)
halves = {"logprobs": [np.log(0.5)] * 2, "log_q": [np.log(0.5)] * 2}
two, three = (Row([0], lablib.SamplerOptions(), 0, tokens=[1] * n, **halves) for n in (2, 3))
claim(
    "The place is drawn among a text's own tokens, so that the chance to propose also has the "
    "factor 1 / length.",
    np.isclose(power.log_accept(two, three, 0, 4.0), np.log(2 / 3)),
)

# %% after predict-fork
claim(
    "Our large model, the target since lesson 02, adds six digits in a chain of steps, in any "
    "order, and only the last digit of a sum counts.",
    len(problems[0].data) == 6 and sums.check(problems[0], f"#{sum(problems[0].data) % 10}"),
)
claim(
    "Below are two of the 720 orders of one problem, which are all equally likely: one comes to "
    "such a pair, 0 + 4, the other goes round it.",
    {*map(tuple, map(sorted, orders))} == {tuple(sorted(problems[0].data))}
    and len({*problems[0].data}) == 6
    and (0, 4) in sums.NOISY_PAIRS
    and np.isclose(share["T = 1"][0], sum(share["T = 1"][1:]))
    and len(share["T = 1"]) == 3,
)

# %% after predict-power-answer
claim(
    "It learned from an author who is wrong on 20 of the 100 pairs of digits, in 60 % of the "
    "cases, so that about half of its chains are right.",
    len(sums.NOISY_PAIRS) == 20
    and sums.NOISE == 0.6
    and abs(kept["votes"]["single"].mean() - 0.5) < 0.05,
)
claim(
    "What follows was measured on 12 seeds, each with problems and samples of its own (python -m "
    "lablib.course.lessons.lesson_18.measured, within an hour).",
    {len(values) for part in kept.values() for values in part.values()} == {12}
    and len({problem.data for s in range(100, 112) for problem in sums.problems(s, 30)}) > 340,
)
claim(
    "A dot is a mean over the seeds, its line the 95 % interval, and the cells do a small part "
    "again.",
    shares["T = 1"] == measured.ends(kept["power"]["T = 1"]) and set(here) == set(kept["power"]),
)
greedy = kept["power"]["greedy"]
claim("p⁴ alone.", bool(more[1].min() > 0) and sum(measured.interval(more[0])) < 0)
claim(
    "The cold model even loses, and the greedy one, at temperature 0, most of all: 0.28.",
    sum(measured.interval(more[0])) < 0
    and measured.ends(greedy - kept["power"]["T = 1/4"])[2] < 0
    and round(greedy.mean(), 2) == 0.28,
)
cold, powered = share["T = 1/4"], share["p⁴"]
claim("The fork says why.", cold[2] > share["T = 1"][2] > powered[2])
claim(
    "At 0 + 4 the cold model makes the error's 0.6 to 0.84, because it sharpens whatever is "
    "likelier; but one digit before, it doesn't go round more often, because it can't see what "
    "lies behind +2.",
    round(sharp(np.array([0.6, 0.4]))[0], 2) == round(cold[2] / sum(cold[1:]), 2) == 0.84
    and np.isclose(cold[0], share["T = 1"][0]),
)
claim(
    "The power p⁴ compares whole texts, 1 with 0.6⁴ and 0.4⁴, so that the way round rises from "
    "0.50 to 0.87.",
    np.allclose(powered, np.array([1, 0.4**4, 0.6**4]) / (1 + 0.4**4 + 0.6**4))
    and round(share["T = 1"][0], 2) == 0.5
    and round(powered[0], 2) == 0.87,
)
claim(
    "(Which digit comes next is a fork, too, but all orders pay for it alike.)",
    np.allclose(
        [
            sum(forks.texts(author, order, 1.0, "texts").values())
            for order in ((4, 4, 8, 1, 8, 0), (8, 0, 8, 4, 1, 4), (0, 1, 4, 4, 8, 8))
        ],
        4 / 720,
    ),
)
claim(
    "Not at equal tokens, though: a walk took 20 steps (10 here), which write the tokens of some "
    "ten chains for one answer.",
    abs(20 * np.mean([(33 - place) / 33 for place in range(33)]) - 10) < 0.5,
)

# %% after predict-confidence-answer
fork, sure = (np.mean(at[kind], axis=0) for kind in ((True, True), (False, True)))
error = np.mean(at[True, False], axis=0)
claim(
    "Wherever it adds one of the 20 pairs, right or wrong, because two results are likely there "
    "and it can't tell which is right.",
    max(fork[0], error[0]) < sure[0] - 2 and abs(fork[0] - error[0]) < 0.5,
)
claim(
    "The confidence of a token (DeepConf) is minus the mean of the five best log-probabilities, so "
    "that it is high where the runners-up are hopeless.",
    np.isclose(
        chains.values_of(drawn[0], "mean of the best 5")[0],
        -np.mean([sum(row[:5]) / 5 for row in drawn[0].logs[0].tolist()]),
    ),
)
claim(
    "(Which digit comes next is a fork, too, where it is less sure still, but each way on is "
    "right.)",
    np.mean(at[lab.FREE]) < min(fork[0], error[0]) - 0.5,
)
claim("So confidence doesn't see errors.", abs(fork[0] - error[0]) < 0.1 * (sure[0] - fork[0]))
by_doubts = {0: [], 1: []}  # chains without a doubtful step, and with any
for each in drawn:
    for text, right in zip(each.texts, each.right, strict=True):
        met = [(t, x) in sums.NOISY_PAIRS for _, t, x, _ in lab.steps(text)]
        by_doubts[min(1, sum(met))].append(right)
claim(
    "Move the slider to 1: a chain that goes round such pairs is sure of its results, and mostly "
    "right.",
    np.mean(by_doubts[0]) > 0.75 > 0.55 > np.mean(by_doubts[1]),
)
claim(
    "Below are chains for the problem of the fork, ordered from the surest, number 1, to the least "
    "sure, on which the picture opens.",
    np.all(np.diff([values.mean() for _, values, _ in picture.chains]) <= 0)
    and len(picture.compute(len(picture.chains))["doubtful"]) > 0
    and not picture.compute(1)["doubtful"],
)

# %% after predict-measures-answer
claim(
    "It shows how much more often such a vote is right than that of all 64, on the same chains, so "
    "that both cost the same tokens.",
    gained["surest tenth: log-probability"]
    == measured.ends(votes["log-probability, tenth"] - votes["majority"])
    and measured.CHAINS == 64,
)
good = ("mean of the best 5", "minus the entropy", "log-probability")
claim("No.", min(gains) < 0 < max(gains))
claim(
    "A tenth is 7 chains, and few voters alone cost something; so the picture has a random tenth "
    "beside them.",
    -(-measured.CHAINS // 10) == 7
    and measured.ends(lot - votes["majority"])[2] < 0
    and gained["a random tenth"] == measured.ends(lot - votes["majority"]),
)
claim(
    "Seven chains drawn by lot vote worse than all 64, by 0.17.",
    round(-gained["a random tenth"][0], 2) == 0.17,
)
claim(
    "By each of the six, the surest tenth of 64 chains vote alone, and the others are thrown away.",
    len(tenths) == len(chains.MEASURES) == 6,
)
bounds = {name: gained[f"surest tenth: {name}"] for name in chains.MEASURES}
worst = votes["its worst 8 in a row, tenth"]
claim(
    "Four measures make so much good of this that their seven beat the 64: the mean of the best 5, "
    "the entropy, the log-probability and, by less, the worst 8 in a row, probably because these "
    "often lie where the next digit is chosen, which does no harm.",
    sum(low > 0 for _, low, _ in bounds.values()) == 4
    and all(votes[f"{name}, pairs"].min() > 0.65 and bounds[name][1] > 0 for name in good)
    and bounds["its worst 8 in a row"][1] > 0
    and all(measured.ends(votes[f"{name}, tenth"] - worst)[1] > 0 for name in good)
    and np.mean(at[lab.FREE]) < min(fork[0], error[0]),
)
claim(
    "The last 16 tokens gain 0.04 on the lot, but their interval holds 0: so few votes cost them "
    "more.",
    round(last[0], 2) == 0.04
    and last[1] < 0 < last[2]
    and bounds["its last 16 tokens"][2] < 0
    and -gained["a random tenth"][0] > last[0],
)
claim(
    "Self-certainty alone is worse than the lot: it prefers the wrong chains, though it is the "
    "same mean, of the best 512 in place of 5.",
    measured.ends(votes["self-certainty, tenth"] - lot)[2] < 0
    and votes["self-certainty, pairs"].max() < 0.5
    and (votes["self-certainty, tenth"] - votes["majority"]).max() < 0
    and drawn[0].logs[0].shape[1] == 512
    and np.isclose(
        chains.values_of(drawn[0], "self-certainty")[0], -drawn[0].logs[0].mean() - np.log(512)
    ),
)
claim(
    "Look at the numbers above the last picture: nearly all of the 512 can't come anyway, and at a "
    "fork they look even more hopeless, so that self-certainty goes up where it should go down.",
    min(fork[1], error[1]) > sure[1] + 0.2 and max(fork[0], error[0]) < sure[0],
)

# %% after predict-author-answer
claim(
    "Less often: of his surest tenth by the mean of the best 5 0.03 are right, of all his chains "
    "0.18, because he errs without a doubt, and doubts where he is right.",
    round(tenth_right[other_name]["mean of the best 5"], 2) == 0.03
    and round(tenth_right[other_name]["all chains"], 2) == 0.18,
)
sure_errors = lab.AUTHORS["errs there, hesitates elsewhere"]
rights = sum(sure_errors.answers(each)[sum(each.data) % 10] for each in surest.problems)
claim(
    "A right chain of his has doubted at each of its five steps.",
    rights[5] > 0 and rights[:5].sum() < 1e-9 + 0.01 * rights[5],
)
claim(
    "Two others err on the same 20 pairs, but always, and are sure of it.",
    all(lab.AUTHORS[name].habit == 1 for name in ("errs without hesitating", other_name)),
)
claim(
    "One of the two errs there, hesitates elsewhere: on all other pairs he errs one time in ten.",
    sure_errors == Author(habit=1.0, doubt=0.1),
)
claim(
    "A fourth hesitates everywhere: on the 20 pairs like the first, on all others now and then.",
    lab.AUTHORS["hesitates everywhere"] == Author(doubt=0.1) and len(lab.AUTHORS) == 4,
)
settled = lab.AUTHORS["errs without hesitating"]
claim(
    "Who errs without hesitating is sure of every result.",
    {*settled.results().ravel()} == {0.0, 1.0},
)
sure_low, sure_high = lead["errs without hesitating"]
silent = surest.compute("errs without hesitating", "mean of the best 5", 1.0)
claim(
    "His surest tenth looks better, 0.40 for 0.32, but from 20 problems that isn't told apart from "
    "nothing (−0.02 to 0.19), nor are right chains from wrong ones (0.48 to 0.58).",
    [
        round(tenth_right["errs without hesitating"][n], 2)
        for n in ("mean of the best 5", "all chains")
    ]
    == [0.40, 0.32]
    and (round(sure_low, 2), round(sure_high, 2)) == (-0.02, 0.19)
    and [round(end, 2) for end in silent["spread"]] == [0.48, 0.58]
    and len(surest.problems) == 20,
)
claim(
    "(Self-certainty orders these authors' chains as the best 5 do, because they leave the same "
    "dust to whatever can't come.)",
    all(
        surest.compute(name, "self-certainty", 1.0)["ordered"] == slopes[name]
        for name in lab.AUTHORS
    ),
)
claim(
    "None of these measures mends that: by each of them the surest tenth is right less often than "
    "all.",
    [*tenth_right][2] == other_name
    and all(
        tenth_right[other_name][name] < tenth_right[other_name]["all chains"] for name in asked
    ),
)
everywhere = {name: tenth_right["hesitates everywhere"][name] for name in asked}
claim(
    "Who hesitates everywhere leaves no way round: his surest tenth is right in at most 0.39, and "
    "only by the log-probability in 0.99, because that tells which way was taken, too.",
    round(everywhere.pop("log-probability"), 2) == 0.99
    and round(max(value for key, value in everywhere.items() if key != "all chains"), 2) == 0.39
    and bool(((lab.AUTHORS["hesitates everywhere"].results() > 0).sum(-1) == 2).all()),
)
claim(
    "So a confidence that doesn't ask which way was taken finds right chains if the author "
    "hesitated where he might be wrong, only there, and chains can go round.",
    slopes["hesitates where he errs"] > 0.7 > max(slopes[n] for n in [*lab.AUTHORS][1:])
    and other < slopes["errs without hesitating"],
)

# %% after real-answer
gain = found[compared.LIKELY]
claim(
    "Each is held against the plain vote of the eight, question by question.",
    np.isclose(gain.value, (right[compared.LIKELY] - right["majority"]).mean()),
)
claim(
    "Lesson 12 asked SmolLM2 1,012 questions, eight times each: sums, sequences, plurals, "
    "capitals, chemical symbols.",
    len(compared.questions()) == 1012
    and {len(each.answers) for each in compared.questions()} == {8}
    and len({each.kind for each in compared.questions()}) == 5,
)
claim(
    "It kept the log-probability of each answer, so that we can choose among the same eight texts "
    "in other ways, which all cost the same tokens: the likeliest alone; a vote in which each "
    "counts with its probability; a vote of the surest half, because a tenth of eight is less than "
    "one.",
    {"the likeliest", compared.LIKELY, *list(compared.HALVES)[:2]} <= {*found} and 8 / 10 < 1,
)
claim(
    "More often, by 2.2 points in a hundred (1.1 to 3.3), and the likeliest alone gains as much.",
    [round(100 * x, 1) for x in (gain.value, gain.low, gain.high)] == [2.2, 1.1, 3.3]
    and abs(compared.gain(compared.LIKELY, on="the likeliest").value) < 0.005
    and compared.verdict(found["the likeliest"]) == compared.BETTER,
)
claim(
    "Still a right answer is surer than a wrong one to the same question in three cases of four.",
    abs(ordered.value - 0.75) < 0.01,
)
claim(
    "And see where the gain comes from: one sample is 7.7 points behind the plain vote, but 9.9 "
    "behind the likeliest, for which nobody votes.",
    round(100 * found["one sample"].value, 1) == -7.7
    and round(100 * alone["one sample"].value, 1) == 9.9,
)
claim(
    "So here the probability alone does what a vote does, and a little more; that a vote on top of "
    "it adds anything, these questions don't show.",
    found["the likeliest"].low > 0 and alone[compared.LIKELY].low < 0 < alone[compared.LIKELY].high,
)

# %% after theory-power-answer
claim(
    "So his temperature ¼ and his p⁴ are known exactly.",
    all(
        np.allclose(author.answers(each).sum(axis=1), sums.answer_distribution(each))
        for each in many[:8]
    ),
)
start = kept["power"]["T = 1"]
gone = (kept["power"]["p⁴: walks"] - start).mean()
way, half = measured.interval((kept["power"]["p⁴: walks"] - start) / (theory["p⁴: walks"] - start))
claim(
    "More than half of the way from the model's own chains to the author's p⁴.",
    way - half > 0.5 and way + half < 0.8,
)
# %% after theory-weights-answer
mine = votes["p⁴: weights"]
claim(
    "There is a shorter way, where samples are at hand: weigh each of the 64 chains by p³, as "
    "lesson 17 weighs what was drawn otherwise than it is wanted.",
    np.allclose(
        np.log(measured.powered(drawn[0]))
        - 3 * np.array([each.sum() for each in drawn[0].written]),
        (np.log(measured.powered(drawn[0])) - 3 * drawn[0].written[0].sum())[0],
    ),
)
claim(
    "With 64 chains that is only nearly so; the author's chains show how nearly.",
    weighed != theirs and len(many[::6]) == 60,
)
claim(
    "No: about as often.",
    measured.ends(mine - votes["majority"])[1] < 0 < measured.ends(mine - votes["majority"])[2]
    and abs(mine.mean() - votes["majority"].mean()) < 0.03,
)
claim("Of the author the weights give what is exact, within 0.01.", abs(weighed - theirs) < 0.01)
claim(
    "Of the model they give 0.81 (0.81 to 0.82), and to this the walks went about two thirds of "
    "the way.",
    [round(x, 2) for x in own] == [0.81, 0.81, 0.82]
    and abs(gone / (mine - start).mean() - 2 / 3) < 0.05,
)
claim(
    "The last four rows all read the same 64 chains, a walk the tokens of some eleven.",
    [*rows][1:] == ["p⁴: one of 64, by weights", *keys.values()]
    and abs(1 + 20 * np.mean([(33 - place) / 33 for place in range(33)]) - 11) < 0.5,
)
claim(
    "At a walk's price no vote was measured, but seven chains by lot vote 0.65, the walks 0.71.",
    round(votes["random tenth"].mean(), 2) == 0.65
    and round(kept["power"]["p⁴: walks"].mean(), 2) == 0.71,
)
tenth = votes["log-probability, tenth"]
claim(
    "The surest tenth by log-probability is right more often than all of them.",
    all(measured.ends(tenth - votes[key])[1] > 0 for key in ("majority", "random tenth"))
    and measured.ends(tenth - mine)[1] > 0
    and measured.ends(tenth - kept["power"]["p⁴: walks"])[1] > 0,
)
claim(
    "The weights prefer texts without forks, whereas the vote adds up all that end in the same "
    "answer; that the two come out alike is measured here, and no law.",
    measured.ends(mine - votes["majority"])[1] < 0 < measured.ends(mine - votes["majority"])[2],
)

# %% after theory-real-answer
claim(
    "More often: all five dots lie above the dashes, with their whole lines, from 0.13 where it "
    "said 0.09 to 0.99 where it said 0.89.",
    len(bins) == 5
    and all(each["right"][1] > each["said"] for each in bins)
    and [round(bins[i][key], 2) for i in (0, 4) for key in ("said",)] == [0.09, 0.89]
    and [round(bins[i]["right"][0], 2) for i in (0, 4)] == [0.13, 0.99],
)
claim(
    "But its chances are in the right order, so that a table made on questions whose answers are "
    "known would mend them for others of the kind.",
    all(np.diff([each["right"][0] for each in bins]) > 0),
)

# %% after summary
claim(
    "It finds right chains if the author hesitated where he may be wrong, only there, and chains "
    "can go round.",
    slopes["hesitates where he errs"] > 0.7 > slopes["hesitates everywhere"],
)
claim(
    "It sees little if he never hesitated, and misleads if he did elsewhere.",
    abs(slopes["errs without hesitating"] - 0.5) < 0.1 and other < 0.4,
)
claim(
    "Look at which measure you take: on the same chains one finds the right ones, another the "
    "wrong ones.",
    votes["minus the entropy, pairs"].min() > 0.5 > votes["self-certainty, pairs"].max(),
)
claim(
    "The one follows the likeliest next word into forks, but the other looks for ways without "
    "them.",
    begins["by tokens"][0] > 0.5 > begins["by texts"][0]
    and theory["p⁴: walks"] > theory["T = 1"] > theory["T = 1/4"],
)
claim(
    "Of a real model's eight answers the likeliest was right 9.9 points more often than one "
    "sample, without any vote; the plain vote 7.7.",
    round(100 * alone["one sample"].value, 1) == 9.9
    and round(-100 * found["one sample"].value, 1) == 7.7,
)
claim(
    "What a model calls likely can be held against what comes: SmolLM2 says too little, but in the "
    "right order.",
    all(each["right"][1] > each["said"] for each in bins)
    and all(np.diff([each["right"][0] for each in bins]) > 0),
)
