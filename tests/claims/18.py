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
    "cases, and about half of its chains are right.",
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
    "Means stand with their 95 % intervals, and the cells do a small part again.",
    np.isclose(measured.interval(np.array([0.0, 1.0]))[0], 0.5) and set(here) == set(kept["power"]),
)
claim("p⁴ alone.", bool(more[1].min() > 0) and sum(measured.interval(more[0])) < 0)
claim(
    "At a pair of the habit there is a fork: the author writes the error with 0.6, and the cold "
    "model makes that 0.84.",
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
    "Wherever it adds one of the 20 pairs, right or wrong: two results are likely there, and it "
    "can't tell which is right.",
    max(fork[0], error[0]) < sure[0] - 2 and abs(fork[0] - error[0]) < 0.5,
)
claim(
    "A confidence of a token (DeepConf): minus the mean of the five best log-probabilities.",
    np.isclose(
        chains.values_of(drawn[0], "mean of the best 5")[0],
        -np.mean([sum(row[:5]) / 5 for row in drawn[0].logs[0].tolist()]),
    ),
)
claim(
    "It is high where the runners-up are hopeless.",
    sure[0] > fork[0],
)
claim("So confidence doesn't see errors.", abs(fork[0] - error[0]) < 0.1 * (sure[0] - fork[0]))
by_doubts = {0: [], 1: []}  # chains without a doubtful step, and with any
for each in drawn:
    for text, right in zip(each.texts, each.right, strict=True):
        by_doubts[min(1, chains.doubtful_steps(text))].append(right)
claim(
    "A chain without such a pair is sure of its results, and mostly right.",
    np.mean(by_doubts[0]) > 0.75 > 0.55 > np.mean(by_doubts[1]),
)
claim(
    "Below are one problem's chains, the surest first.",
    np.all(np.diff([values.mean() for _, values, _ in picture.chains]) <= 0),
)

# %% after predict-measures-answer
good = ("mean of the best 5", "minus the entropy", "log-probability")
claim("No.", min(gains) < 0 < max(gains))
claim("Six measures of a whole chain.", len(better) == len(chains.MEASURES) == 6)
claim(
    "The mean of the best 5, the entropy and the log-probability find the right chains; the worst "
    "8 in a row help less.",
    all(votes[f"{name}, pairs"].min() > 0.65 for name in good)
    and all(better[name][0] - better[name][1] > 0 for name in good)
    and 0 < better["its worst 8 in a row"][0] < min(better[name][0] for name in good),
)
claim(
    "The tail looks at the last steps only, and forks may come before.",
    (votes["mean of the best 5, tenth"] - votes["its last 16 tokens, tenth"]).min() > 0,
)
claim(
    "And self-certainty prefers the wrong chains, though it is the same mean, of the best 512 in "
    "place of 5.",
    votes["self-certainty, pairs"].max() < 0.5
    and (votes["self-certainty, tenth"] - votes["majority"]).max() < 0
    and drawn[0].logs[0].shape[1] == 512
    and np.isclose(
        chains.values_of(drawn[0], "self-certainty")[0], -drawn[0].logs[0].mean() - np.log(512)
    ),
)
claim(
    "Look at the table further up: nearly all of the 512 can't come anyway, and at a fork they "
    "look even more hopeless.",
    min(fork[1], error[1]) > sure[1] + 0.2,
)
claim(
    "Weighing all 64 by the mean of the best 5, without leaving any out (weighed), hardly changes "
    "the vote: they weigh nearly the same.",
    np.abs(votes["weighed"] - votes["majority"]).mean() < 0.04
    and all(
        np.std(each) < 0.05 * np.mean(each) for each in map(chains.values_of, drawn, good[:1] * 8)
    ),
)
claim(
    "So it goes up where it should go down.",
    min(fork[1], error[1]) > sure[1] and max(fork[0], error[0]) < sure[0],
)

# %% after predict-author-answer
claim(
    "Less often: of his surest chains next to none is right.",
    surest.compute(other_name, "mean of the best 5", 1.0)["tenths"][0] < 0.1,
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
    "None of these measures mends that; try them, and colder texts.",
    all(
        surest.compute(other_name, name, heat)["ordered"] < 0.5
        for heat in (0.25, 1.0)
        for name in surest.controls["measure"].options
    ),
)
everywhere = {
    name: surest.compute("hesitates everywhere", name, 1.0)["ordered"]
    for name in surest.controls["measure"].options
}
claim(
    "Of errors that are rare the log-probability sees more than the others, for it tells which way "
    "was taken: try hesitates everywhere.",
    everywhere.pop("log-probability") > 0.8 > 0.7 > max(everywhere.values()),
)
claim(
    "So confidence finds right chains if the author hesitated where he might be wrong.",
    slopes["hesitates where he errs"] > 0.65 > 0.6 > slopes["errs without hesitating"] > other,
)

# %% after predict-stop-answer
gains = {
    quantile: measured.interval(stopping[f"{quantile}, right"] - votes["majority"])
    for quantile in measured.FLOORS
}
claim("Nothing: the vote is right more often.", all(gain > half for gain, half in gains.values()))
claim(
    "At the median a quarter of the tokens is saved, too.",
    abs(stopping["0.5, tokens"].mean() - 0.75) < 0.03,
)
claim(
    "What is given up was wrong more often than the rest, as the worst 8 in a row say further up.",
    votes["its worst 8 in a row, pairs"].min() > 0.55,
)
claim(
    "The first 16 chains are whole; they set a floor, here the median of their worst eight tokens "
    "in a row.",
    len(whole) == 16 and np.isclose(stop.floor, floor) and stop.window == 8,
)
claim(
    "Any later chain that falls below it is given up at once (GiveUp), and casts no vote.",
    0 < len(gave_up) < 48,
)

# %% after predict-thinking-answer
whole_one, short = thinking["30, single"], thinking["6, vote"]
claim(
    "A chain thinks in a row: 33 tokens.",
    Counter(len(each) for one in drawn for each in one.written).most_common(1)[0][0] == 33,
)
claim("Rarely.", short.max() < 0.4)
claim(
    "These 16 short thoughts take four times the tokens of one whole chain, and their vote is "
    "right less than half as often.",
    4 <= 16 * len("3+9=2;#2.") / 33 < 5 and short.mean() < 0.5 * whole_one.mean(),
)
claim(
    "A thought of one step has added two digits of six and guesses the rest; a vote can't know "
    "what no voter knows.",
    (thinking["6, single"] - whole_one).max() < -0.2 and thinking["6, single"].mean() < 0.25,
)
claim(
    "Of whole chains, 30 tokens and more, the vote of 16 is far better than one.",
    (thinking["30, vote"] - whole_one).min() > 0.1,
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
way, half = measured.interval((kept["power"]["power 4"] - start) / (theory["power 4"] - start))
claim(
    "More than half of the way from the model's own chains, and not to the end.",
    way - half > 0.5 and way + half < 0.8,
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
claim(
    "That comes near to the author's own p⁴.",
    abs(votes["power 4"].mean() - theory["power 4"]) < 0.05,
)
claim(
    "At a temperature the model is right nearly as often as its author.",
    all(abs(kept["power"][name].mean() - theory[name]) < 0.06 for name in ("T = 1", "T = 1/4")),
)

# %% after theory-calibration-answer
gap = np.abs(curve["made"] - curve["tried"])
claim(
    "Half of the seeds make it, the others try it.",
    len(table["bin 0"][0:6]) == len(table["bin 0"][6:12]) == 6,
)
claim(
    "On the other seeds it holds: what is called 0.8 there is right about as often.",
    gap.max() < 0.1 and abs(curve["made"][-1] - 0.8) < 0.06,
)
claim(
    "Behind it is the number of forks: without any the author is never wrong, after one he is "
    "right in 0.4 of the cases, and the model nearly so.",
    np.isclose(rights[0], steps[:, 0].sum())
    and abs(rights[1] / steps[:, 1].sum() - 0.4) < 0.02
    and abs(table["0 doubts, right"].sum() / table["0 doubts"].sum() - 1) < 0.12
    and abs(table["1 doubts, right"].sum() / table["1 doubts"].sum() - 0.4) < 0.06
    and all(np.diff(curve["made"]) > 0),
)
other_tenths = surest.compute(other_name, "mean of the best 5", 1.0)["tenths"]
claim(
    "For another author the table is false: of the surest chains of errs there, hesitates "
    "elsewhere next to none was right.",
    other_tenths[0] < 0.1 < curve["made"][-1] and other_tenths[0] < other_tenths[-1],
)

# %% after one-text-answer
claim(
    "The wide beam finds the likeliest text: nothing but the end.",
    beams[4].tokens == [3]
    and np.isclose(np.exp(beams[4].score), 0.15)
    and 0.15 > 0.3**8
    and max(0.3**n * 0.15 for n in range(1, 8)) < 0.15,
)
claim(
    "A wider beam finds likelier texts.", beams[4].score > beams[2].score >= beams[1].score - 1e-6
)
claim(
    "A longer text is one of very many, so each is unlikely, though together they are most of "
    "what the model writes.",
    1 - 0.15 == 0.85 and np.mean([len(text) > 1 for text in free.tokens]) > 0.75,
)
claim(
    "That is the beam's curse: a search with fewer errors can find a worse text.",
    len(beams[4].tokens) < np.mean([len(text) for text in free.tokens]) - 2,
)
claim(
    "Minimum Bayes risk elects, among samples, the one that resembles the others most; if only "
    "equal answers do, it is the majority vote.",
    alike in free.tokens
    and len(alike) > 1
    and elected == tally([[]] * len(answers), answers).winner,
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
    "The one follows the likeliest next word into forks, the other looks for ways without them.",
    begins["by tokens"][0] > 0.5 > begins["by texts"][0]
    and theory["power 4"] > theory["T = 1"] > theory["T = 1/4"],
)
