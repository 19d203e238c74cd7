"""What checks the sentences of lesson 18 · Confidence and power."""

from itertools import product

from lablib.inference.sampling.row import Row
from lablib.inference.steering import power

# %% after by-hand-question
claim("A model has four words, and its texts have two.", len(words) == 4 and every.shape == (4, 4))
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
# %% after by-hand-balance-answer
texts = [*product(range(4), repeat=2)]
claim(
    "If from well well all 4.4 go, then of the 119.2 one in 27 may go: 4.4 go, 4.4 come, and texts "
    "that are as frequent as p⁴ stay so.",
    (round(go, 1), round(back, 1), round(back / go)) == (4.4, 119.2, 27)
    and all(
        np.isclose(there * min(1, again / there), again * min(1, there / again))
        for old, new in product(texts, texts)
        for there, again in [(every[old] ** 4 * every[new], every[new] ** 4 * every[old])]
    ),
)
claim(
    "Let 1,000 walks be spread as p⁴ says, and let each propose a text that is new from its first "
    "word:",
    np.isclose(go, 1000 * every[well] ** 4 / (every**4).sum() * every[yes]),
)
claim(
    "If the model itself writes the ends, q is its p of them, and the cube of p(new) / p(old) is "
    "left.",
    np.isclose(go / back, (every[well] / every[yes]) ** 3)
    and all(
        np.isclose(every[new] ** 4 * every[old] / (every[old] ** 4 * every[new]), ratio**3)
        for old, new in product(texts, texts)
        for ratio in [every[new] / every[old]]
    ),
)

# %% after library-answer
claim(
    "After 40 steps the walks are where they should be, and nobody has added up all texts.",
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
    "Of the 720 orders of one problem, all equally likely, here are two: one comes to 0 + 4, the "
    "other goes round it.",
    {*map(tuple, map(sorted, orders))} == {tuple(sorted(problems[0].data))}
    and len({*problems[0].data}) == 6
    and (0, 4) in sums.NOISY_PAIRS
    and np.isclose(share["T = 1"][0], sum(share["T = 1"][1:]))
    and len(share["T = 1"]) == 3,
)

claim(
    "A pair has an order: 0 + 4 is one of the 20, 4 + 0 is not.",
    (0, 4) in sums.NOISY_PAIRS and (4, 0) not in sums.NOISY_PAIRS,
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
    and len({problem.data for s in range(100, 112) for problem in sums.problems(s, 30)}) > 340
    and set(here) == set(kept["power"]),
)
greedy = kept["power"]["greedy"]
claim(
    "p⁴ alone: 0.71 for 0.50.",
    bool(more[1].min() > 0)
    and sum(measured.interval(more[0])) < 0
    and [round(kept["power"][n].mean(), 2) for n in ("p⁴: walks", "T = 1")] == [0.71, 0.5],
)
claim(
    "The cold model even loses, and the greedy one, at temperature 0, most of all: 0.28.",
    sum(measured.interval(more[0])) < 0
    and measured.ends(greedy - kept["power"]["T = 1/4"])[2] < 0
    and round(greedy.mean(), 2) == 0.28,
)
cold, powered = share["T = 1/4"], share["p⁴"]
claim("The forks say why.", cold[2] > share["T = 1"][2] > powered[2])
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
    "Not at equal tokens, though: a walk of 20 steps (10 here) writes the tokens of some eleven "
    "chains for one answer.",
    abs(1 + 20 * np.mean([(33 - place) / 33 for place in range(33)]) - 11) < 0.5,
)
start = kept["power"]["T = 1"]
way, half = measured.interval((kept["power"]["p⁴: walks"] - start) / (exact["p⁴"] - start))
claim(
    "And they went more than half of the way to the author's p⁴, 0.85, which is known exactly, "
    "because he can be listed: every order, every result.",
    way - half > 0.5
    and way + half < 0.8
    and round(exact["p⁴"], 2) == 0.85
    and all(
        np.allclose(author.answers(each).sum(axis=1), sums.answer_distribution(each))
        for each in measured.problems()[:8]
    ),
)

# %% after predict-confidence-chains
claim(
    "Our first model has four words; so here is minus the mean of four, after each of its two "
    "beginnings:",
    after.shape == (4, 4),
)
claim(
    "After well any word may come: 1.39.",
    np.ptp(after[0]) == 0 and round(-np.log(after[0]).mean(), 2) == 1.39,
)
claim(
    "After yes one word has nearly all: 2.95, because the others are hopeless, and their "
    "logarithms lie far below 0.",
    after[1].max() > 0.9
    and round(-np.log(after[1]).mean(), 2) == 2.95
    and sorted(np.log(after[1]))[2] < -3,
)

# %% after predict-confidence-answer
plainly, forked, erred = (sure[name] for name in lab.RESULTS.values())
claim(
    "Wherever it adds one of the 20 pairs, right or wrong, because two results are likely there "
    "and it can't tell which is right.",
    max(forked[0], erred[0]) < plainly[0] - 2 and abs(forked[0] - erred[0]) < 0.5,
)
claim(
    "Its confidence (DeepConf) is minus the mean of the five best log-probabilities.",
    np.isclose(
        chains.values_of(drawn[0], "mean of the best 5")[0],
        -np.mean([sum(row[:5]) / 5 for row in drawn[0].logs[0].tolist()]),
    ),
)
claim(
    "So confidence doesn't see errors.", abs(forked[0] - erred[0]) < 0.1 * (plainly[0] - forked[0])
)
first_chain, last_chain = (picture.compute(i) for i in (1, len(picture.chains)))
claim(
    "The picture has chains for the problem of the fork: of 32 the surest, number 1, and below it "
    "the least sure, which the slider can change.",
    np.all(np.diff([values.mean() for _, values, _ in picture.chains]) <= 0)
    and len(picture.chains) == 32
    and first_chain["right"]
    and not first_chain["doubtful"]
    and len(last_chain["doubtful"]) > 0,
)

# %% after predict-measures-answer
claim(
    "The picture shows what such a vote gains on that of all 64, on the same chains, so that both "
    "cost the same tokens.",
    gained["surest tenth: log-probability"]
    == measured.ends(votes["log-probability, tenth"] - votes["majority"])
    and measured.CHAINS == 64,
)
lot = votes["random tenth"]
claim("Two of them.", [gained[name][1] > 0 for name in tenths] == [True, True, False])
claim(
    "By each the surest tenth of 64 chains vote alone, which is 7.",
    -(-measured.CHAINS // 10) == 7 and len(tenths) == 3,
)
claim(
    "So few voters cost something: a random tenth, with a dotted line, says how much.",
    measured.ends(lot - votes["majority"])[2] < 0
    and gained["a random tenth"] == measured.ends(lot - votes["majority"]),
)
claim(
    "Seven chains drawn by lot vote worse than all 64, by 0.17; the mean of the best 5 and the "
    "log-probability make so much good of this that their seven beat the 64, by 0.13 and 0.15.",
    round(-gained["a random tenth"][0], 2) == 0.17
    and [round(each, 2) for each in gains[:2]] == [0.13, 0.15],
)
claim(
    "But self-certainty is worse than the lot: it prefers the wrong chains, though it is the same "
    "mean, of 512 in place of 5.",
    measured.ends(votes["self-certainty, tenth"] - lot)[2] < 0
    and votes["self-certainty, pairs"].max() < 0.5
    and (votes["self-certainty, tenth"] - votes["majority"]).max() < 0
    and drawn[0].logs[0].shape[1] == 512
    and np.isclose(
        chains.values_of(drawn[0], "self-certainty")[0], -drawn[0].logs[0].mean() - np.log(512)
    ),
)
claim(
    "The numbers above the chains say why: at one of the 20 pairs all that can't come anyway looks "
    "even more hopeless, so that self-certainty goes up.",
    min(forked[1], erred[1]) > plainly[1] + 0.2 and max(forked[0], erred[0]) < plainly[0],
)

# %% after theory-author-answer
FIRST, SECOND, THIRD = named
best5 = {name: surest.compute(name, used[0], 1.0) for name in named}
written = {name: surest.compute(name, used[1], 1.0) for name in named}
claim(
    "Less than the others: by the mean of the best 5 his surest tenth is right in 0.03, all his "
    "chains in 0.18 (−0.18 to −0.11), because he errs without a doubt, and a right chain of his "
    "has doubted at each of its five steps.",
    round(best5[SECOND]["tenths"][0], 2) == 0.03
    and round(best5[SECOND]["votes"][0], 2) == 0.18
    and [round(end, 2) for end in best5[SECOND]["lead"]] == [-0.18, -0.11],
)
sure_errors = named[SECOND]
rights = sum(sure_errors.answers(each)[sum(each.data) % 10] for each in surest.problems)
claim(
    "The log-probability makes it 0.00, and so does his vote: on no problem is the right answer "
    "his most frequent one.",
    written[SECOND]["tenths"][0] == best5[SECOND]["votes"][1] == 0
    and written[SECOND]["lead"][1] < 0
    and rights[5] > 0
    and rights[:5].sum() < 1e-9 + 0.01 * rights[5],
)
claim(
    "The second errs there, hesitates elsewhere: on the 20 pairs he is always wrong, and sure of "
    "it, and on all others wrong one time in ten.",
    sure_errors == Author(habit=1.0, doubt=0.1),
)
claim(
    "The third hesitates everywhere: on the 20 pairs like the first, on all others like the "
    "second.",
    named[THIRD] == Author(doubt=0.1) and named[FIRST] == Author(),
)
claim(
    "By the best 5 his surest tenth isn't told apart from all (−0.03 to 0.14), though of two "
    "chains the right one is surer in 0.61 (0.57 to 0.65); the first author's is in 0.78 (0.74 to "
    "0.82).",
    [round(end, 2) for end in best5[THIRD]["lead"]] == [-0.03, 0.14]
    and [round(x, 2) for x in (best5[THIRD]["ordered"], *best5[THIRD]["spread"])]
    == [0.61, 0.57, 0.65]
    and [round(x, 2) for x in (best5[FIRST]["ordered"], *best5[FIRST]["spread"])]
    == [0.78, 0.74, 0.82],
)
drawn_by_third = surest._written(THIRD, 1.0)
met = [
    sum((t, x) in sums.NOISY_PAIRS for _, t, x, _ in lab.steps(each.texts[i]))
    for each in drawn_by_third
    for i in np.argsort(-chains.values_of(each, used[1]), kind="stable")[:6]
]
claim(
    "But the log-probability asks, too, which way was taken: by it his surest tenth is right in "
    "0.99, and went round the 20 pairs.",
    round(written[THIRD]["tenths"][0], 2) == 0.99 and np.mean(met) < 0.1,
)
claim(
    "So confidence finds right chains as far as the author hesitated where he might be wrong, and "
    "not elsewhere.",
    best5[FIRST]["ordered"] > 0.7 > best5[THIRD]["spread"][1]
    and best5[THIRD]["spread"][0] > 0.5 > best5[SECOND]["spread"][1],
)
claim(
    "Who hesitates everywhere doubts on all ways.",
    bool(((named[THIRD].results() > 0).sum(-1) == 2).all()),
)

# %% after real-answer
gain = found[compared.LIKELY]
claim(
    "Each is held against the plain vote of the eight, question by question.",
    np.isclose(gain.value, (right[compared.LIKELY] - right["majority"]).mean()),
)
claim(
    "Lesson 12 asked it 1,012 questions, eight times each, and kept the log-probability of each "
    "answer.",
    len(compared.questions()) == 1012
    and {len(each.answers) for each in compared.questions()} == {8},
)
claim(
    "So we can choose among the same eight texts, at equal tokens, in other ways: the likeliest "
    "alone; a vote in which each counts with its probability; a vote of the likelier half.",
    [*found] == ["one sample", "the likeliest", compared.LIKELY, compared.LIKELIER],
)
claim(
    "Yes, by 2.2 points in a hundred (1.1 to 3.3), and the likeliest alone gains as much.",
    [round(100 * x, 1) for x in (gain.value, gain.low, gain.high)] == [2.2, 1.1, 3.3]
    and abs(compared.gain(compared.LIKELY, on="the likeliest").value) < 0.005
    and compared.verdict(found["the likeliest"]) == compared.BETTER,
)
claim(
    "A right answer is likelier than a wrong one to the same question in three cases of four.",
    abs(ordered.value - 0.75) < 0.01,
)
claim(
    "One sample is 7.7 points behind the plain vote, but 9.9 behind the likeliest, for which "
    "nobody votes.",
    round(100 * found["one sample"].value, 1) == -7.7
    and round(100 * alone["one sample"].value, 1) == 9.9,
)
claim(
    "So here the probability alone does what a vote does, and a little more; that a vote on top of "
    "it adds anything, these questions don't show.",
    found["the likeliest"].low > 0 and alone[compared.LIKELY].low < 0 < alone[compared.LIKELY].high,
)

# %% after summary
claim(
    "It finds right chains as far as the author hesitated where he may be wrong, and misleads if "
    "he hesitated elsewhere.",
    best5[FIRST]["ordered"] > 0.7 > best5[THIRD]["spread"][1]
    and best5[THIRD]["spread"][0] > 0.5 > best5[SECOND]["spread"][1],
)
claim(
    "On the same chains one measure finds the right ones, another the wrong ones.",
    votes["mean of the best 5, pairs"].min() > 0.5 > votes["self-certainty, pairs"].max(),
)
claim(
    "The one follows the likeliest next word into forks, but the other looks for ways without "
    "them.",
    begins["by tokens"][0] > 0.5 > begins["by texts"][0]
    and exact["p⁴"] > exact["T = 1"] > exact["T = 1/4"],
)
claim(
    "Of a real model's eight answers the likeliest was right 9.9 points more often than one "
    "sample, without any vote; the plain vote 7.7.",
    round(100 * alone["one sample"].value, 1) == 9.9
    and round(-100 * found["one sample"].value, 1) == 7.7,
)
