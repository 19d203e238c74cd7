"""What checks the sentences of lesson 18 · Confidence and power."""

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
    "Of all walks p(old)⁴ · q(new) propose the way there, p(new)⁴ · q(old) the way back, and of "
    "the more frequent of the two only such a part is taken that as many go each way.",
    all(
        np.isclose(there * min(1, back / there), back * min(1, there / back))
        for old, new in product(every, every)
        for there, back in [(every[old] ** 4 * every[new], every[new] ** 4 * every[old])]
    ),
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

# %% after by-hand-walk-answer
claim(
    "The walk visits yes yes about as often as p⁴ says, and has never added up all texts.",
    abs(visits[1, 1] / 20_000 - to_the_4th[1, 1]) < 0.03,
)

# %% after library-answer
claim(
    "The library accepts as we do, between texts of two words and of three, too.",
    {*map(len, texts)} == {2, 3} and np.isclose(sum(threes.values()), 1),
)
claim(
    "After 40 steps its walks are where they should be.",
    abs(found - to_the_4th[1, 1]) < 5 * 0.5 / 1000**0.5,
)
claim(
    "power_sample lets many walks go on at once, for texts of different lengths.",
    len(walks.tokens) == 1000,
)
two, three = spelled((1, 1)), spelled((1, 1))
three.tokens.append(1)
claim(
    "The place is drawn among a text's own tokens: of a longer text each is drawn more seldom.",
    np.isclose(power.log_accept(two, three, 0, 4.0), np.log(2 / 3)),
)
claim(
    "So it belongs to the proposal, too.",
    power.log_accept(two, three, 0, 4.0) < 0 < power.log_accept(three, two, 0, 4.0),
)

# %% after predict-power-answer
claim("Our large model adds six digits in a chain of steps.", len(problems[0].data) == 6)
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
claim(
    "p⁴ alone, and the cold model even loses.",
    bool(more[1].min() > 0) and sum(measured.interval(more[0])) < 0,
)
claim(
    "At a pair of the habit there is a fork: the author writes the error with 0.6, and the cold "
    "model makes that 0.84, because it sharpens whatever is likelier.",
    round(sharp(np.array([0.6, 0.4]))[0], 2) == 0.84,
)
claim(
    "A chain that meets no such pair loses nothing at forks, so p⁴ prefers it to both branches of "
    "the others.",
    1.0**4 > 0.6**4 > 0.4**4
    and all(
        Author().answers(each, 4)[:, 0].sum() > Author().answers(each)[:, 0].sum() + 0.1
        for each in problems
        if 0.05 < Author().answers(each)[:, 0].sum() < 0.7
    ),
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
        by_doubts[min(1, chains.doubtful_steps(text))].append(right)
claim(
    "Move the slider to 1: a chain without such a pair is sure of its results, and mostly right.",
    np.mean(by_doubts[0]) > 0.75 > 0.55 > np.mean(by_doubts[1]),
)
claim(
    "Below are one problem's chains, ordered from the surest, number 1, to the least sure, on "
    "which the picture opens.",
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
lot = votes["random tenth"]
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
claim(
    "Beside them four measures find right chains, and of these the mean of the best 5, the entropy "
    "and the log-probability find so many that the seven beat the 64.",
    sum(measured.ends(votes[f"{name}, tenth"] - lot)[1] > 0 for name in chains.MEASURES) == 4
    and all(votes[f"{name}, pairs"].min() > 0.65 and bounds[name][1] > 0 for name in good),
)
worst = votes["its worst 8 in a row, tenth"]
claim(
    "The worst 8 in a row help less, probably because they often lie where the next digit is "
    "chosen, which does no harm.",
    all(measured.ends(votes[f"{name}, tenth"] - worst)[1] > 0 for name in good)
    and np.mean(at[lab.FREE]) < min(fork[0], error[0]),
)
claim(
    "The last 16 tokens can't be told from the lot: their vote loses because so few vote.",
    measured.ends(votes["its last 16 tokens, tenth"] - lot)[1] < 0
    and measured.ends(votes["its last 16 tokens, tenth"] - lot)[2] > 0
    and bounds["its last 16 tokens"][2] < 0,
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
claim(
    "Weighing all 64 by the mean of the best 5, without leaving any out, hardly changes the vote, "
    "because they weigh nearly the same.",
    np.abs(votes["weighed"] - votes["majority"]).mean() < 0.04
    and all(
        np.std(each) < 0.05 * np.mean(each) for each in map(chains.values_of, drawn, good[:1] * 8)
    ),
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
claim(
    "Who errs without hesitating and knows no doubt elsewhere gives confidence nothing to see.",
    abs(slopes["errs without hesitating"] - 0.5) < 0.1,
)
claim(
    "None of these measures mends that: by each of them the surest tenth is right less often than "
    "all (third column).",
    [*tenth_right][2] == other_name
    and all(
        tenth_right[other_name][name] < tenth_right[other_name]["all chains"] for name in asked
    ),
)
everywhere = {name: tenth_right["hesitates everywhere"][name] for name in asked}
claim(
    "Of errors that are rare the log-probability sees more than the others, because it tells "
    "which way was taken: of the surest tenth of who hesitates everywhere it makes 0.99 right, the "
    "others at most 0.39.",
    round(everywhere.pop("log-probability"), 2) == 0.99
    and round(max(everywhere.values()), 2) == 0.39,
)
claim(
    "So confidence finds right chains if the author hesitated where he might be wrong.",
    slopes["hesitates where he errs"] > 0.65 > 0.6 > slopes["errs without hesitating"] > other,
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
    "Still a right answer is the surer one in three pairs of four.",
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
    "More than half of the way from the model's own chains to the author's p⁴, and not to the end.",
    way - half > 0.5 and way + half < 0.8,
)
own = votes["p⁴: weights"]
claim(
    "Their goal is the model's own p⁴, though, which is a little lower, because the model errs "
    "even where its author doesn't: at temperature 1 it is right in 0.50, its author in 0.53.",
    measured.ends(own)[2] < theory["p⁴: walks"]
    and kept["calibration"]["0 doubts, right"].sum() < kept["calibration"]["0 doubts"].sum()
    and round(kept["power"]["T = 1"].mean(), 2) == 0.50
    and round(theory["T = 1"], 2) == 0.53,
)
claim(
    "That gives 0.81 for the model's own p⁴, and to this the walks went about two thirds of the "
    "way.",
    round(own.mean(), 2) == 0.81 and abs(gone / (own - start).mean() - 2 / 3) < 0.05,
)
claim(
    "There is a shorter way, where samples are at hand: weigh each of the 64 chains by p³, as "
    "lesson 17 weighs what was drawn otherwise than it is wanted.",
    np.allclose(
        np.log(measured.powered(drawn[0]))
        - 3 * np.array([each.sum() for each in drawn[0].written]),
        (np.log(measured.powered(drawn[0])) - 3 * drawn[0].written[0].sum())[0],
    ),
)
last = [*model][-3:]
claim(
    "But look at the last three rows, which all read the same 64 chains and so cost the same "
    "tokens.",
    last == [*same] and all(same[name] in votes for name in last),
)
tenth = votes["log-probability, tenth"]
claim(
    "One draw from p⁴ is right about as often as the plain vote, and the surest tenth by "
    "log-probability more often than both.",
    abs(own.mean() - votes["majority"].mean()) < 0.03
    and all(measured.ends(tenth - each)[1] > 0 for each in (own, votes["majority"])),
)

claim(
    "The weights prefer texts without forks, where the vote adds up all that end in the same "
    "answer; that the two come out alike is measured here, and no law.",
    measured.ends(own - votes["majority"])[1] < 0 < measured.ends(own - votes["majority"])[2],
)

# %% after theory-calibration-answer
made, tried = (np.array([each[0] for each in curve[name].values()]) for name in curve)
claim(
    "Where its author meets no pair of his habit, he is always right.",
    np.isclose(rights[0], steps[:, 0].sum()),
)
claim("Not always: in about 0.8.", abs(made[-1] - 0.8) < 0.06 and abs(tried[-1] - 0.8) < 0.06)
gap = np.abs(made - tried)
claim(
    "Half of the seeds make it, the others try it.",
    len(table["bin 0"][0:6]) == len(table["bin 0"][6:12]) == 6,
)
claim(
    "On the other seeds that holds: what is called 0.8 is right about as often.",
    gap.max() < 0.1 and abs(made[-1] - 0.8) < 0.06,
)
claim(
    "Behind it is the number of forks: without any the author is never wrong, but the model in 9 % "
    "of its chains, because it makes errors of its own; after one he is right in 0.41 of the "
    "cases, the model in 0.38.",
    np.isclose(rights[0], steps[:, 0].sum())
    and round(rights[1] / steps[:, 1].sum(), 2) == 0.41
    and round(table["0 doubts, right"].sum() / table["0 doubts"].sum(), 2) == 0.91
    and round(table["1 doubts, right"].sum() / table["1 doubts"].sum(), 2) == 0.38
    and all(np.diff(made) > 0),
)
other_tenths = surest.compute(other_name, "mean of the best 5", 1.0)["tenths"]
claim(
    "But for another author the table is false, because of the surest chains of errs there, "
    "hesitates elsewhere 0.03 were right.",
    other_tenths[0] < 0.1 < made[-1] and other_tenths[0] < other_tenths[-1],
)

# %% after theory-real-answer
(smol,) = bins.values()
inside = [
    low <= each["right"][0] <= high
    for each in smol
    for low, high in [map(float, each["bin"].split(" to "))]
]
claim(
    "In three of the five fields the dot lies in the grey, in two beyond it: of what SmolLM2 calls "
    "0.7, more than 0.8 is right.",
    sum(inside) == 3
    and len(inside) == 5
    and round(smol[3]["said"], 1) == 0.7
    and smol[3]["right"][0] > 0.8,
)
claim(
    "Within each field, too, more is right than it said on average.",
    all(each["right"][1] > each["said"] for each in smol),
)
claim(
    "But its chances are in the right order, so that a table like that of the sums would mend "
    "them.",
    all(np.diff([each["right"][0] for each in smol]) > 0),
)

# %% after summary
claim(
    "It finds right chains if the author hesitated where he may be wrong.",
    slopes["hesitates where he errs"] > 0.65,
)
claim(
    "It sees nothing if he never hesitated, and misleads if he did elsewhere.",
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
