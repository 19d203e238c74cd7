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
    "A temperature looks at the next word alone, so it can't know that well leads into many "
    "unlikely texts, and yes into a likely one.",
    every[0].max() < every[1].max() / 2
    and np.allclose((cold / cold.sum(axis=1, keepdims=True)), [sharp(row) for row in after])
    and np.allclose(cold.sum(axis=1), sharp(first)),
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
    "If from well well all 4.4 go, then of the 119.2 one in 27 may go: as many go as come, and "
    "texts that are as frequent as p⁴ stay so.",
    (round(go, 1), round(back, 1), round(back / go)) == (4.4, 119.2, 27)
    and all(
        np.isclose(there * min(1, again / there), again * min(1, there / again))
        for old, new in product(texts, texts)
        for there, again in [(every[old] ** 4 * every[new], every[new] ** 4 * every[old])]
    ),
)
claim(
    "Let 1,000 walks be spread as p⁴ says, and let each draw the first place:",
    np.isclose(go, 1000 * every[well] ** 4 / (every**4).sum() * every[yes]),
)
halves = {"logprobs": [np.log(0.5)] * 2, "log_q": [np.log(0.5)] * 2}
two, three = (Row([0], lablib.SamplerOptions(), 0, tokens=[1] * n, **halves) for n in (2, 3))
claim(
    "Each count is a product of three factors, and so it is for any two texts, where q is the "
    "chance to write an end:",
    [round(1000 * to_the_4th[well]), round(1000 * to_the_4th[yes])] == [12, 953]
    and [round(every[yes], 3), round(every[well], 3)] == [0.376, 0.125]
    and np.isclose(power.log_accept(two, three, 0, 4.0), np.log(2 / 3)),
)
claim(
    "Go from old to new with the chance min(1, last row / the row above), each row multiplied.",
    np.isclose(
        np.exp(
            power.log_accept(
                *(
                    Row(
                        [0],
                        lablib.SamplerOptions(),
                        0,
                        tokens=[1, 1],
                        logprobs=[np.log(every[text]), 0.0],
                        log_q=[np.log(every[text]), 0.0],
                    )
                    for text in (yes, well)
                ),
                0,
                4.0,
            )
        ),
        go / back,
    ),
)
claim(
    "If the model itself writes the ends, q is its p of them, and for equal lengths the cube of "
    "p(new) / p(old) is left.",
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
# %% after predict-fork
claim(
    "Our large model, the target since lesson 02, adds six digits in a chain of steps, in any "
    "order, and only the last digit of a sum counts.",
    len(problems[0].data) == 6 and sums.check(problems[0], f"#{sum(problems[0].data) % 10}"),
)
claim(
    "Of the 720 orders of one problem, all equally likely, here are two: one comes to 0 + 4, the "
    "other avoids it.",
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
    "p⁴ alone: 0.71 against 0.50.",
    bool(more[1].min() > 0)
    and sum(measured.interval(more[0])) < 0
    and [round(kept["power"][n].mean(), 2) for n in ("p⁴: walks", "T = 1")] == [0.71, 0.5],
)
claim(
    "The cold model even loses, and the greedy one most of all: 0.28.",
    sum(measured.interval(more[0])) < 0
    and measured.ends(greedy - kept["power"]["T = 1/4"])[2] < 0
    and round(greedy.mean(), 2) == 0.28,
)
cold, powered = share["T = 1/4"], share["p⁴"]
claim("The forks say why.", cold[2] > share["T = 1"][2] > powered[2])
claim(
    "At 0 + 4 the cold model makes the error's 0.6 to 0.84, because it sharpens whatever is "
    "likelier; but one digit before, it doesn't avoid 0 + 4 more often, because it can't see what "
    "comes after +2.",
    round(sharp(np.array([0.6, 0.4]))[0], 2) == round(cold[2] / sum(cold[1:]), 2) == 0.84
    and np.isclose(cold[0], share["T = 1"][0]),
)
claim(
    "The power p⁴ compares whole texts, 1 with 0.6⁴ and 0.4⁴, so that the way without 0 + 4 "
    "rises from 0.50 to 0.87.",
    np.allclose(powered, np.array([1, 0.4**4, 0.6**4]) / (1 + 0.4**4 + 0.6**4))
    and round(share["T = 1"][0], 2) == 0.5
    and round(powered[0], 2) == 0.87,
)
fell = measured.ends(kept["power"]["p⁴: walks"] - kept["power"]["vote of 11"])
claim(
    "At equal tokens that shows no gain, though: a walk of 20 steps (10 here) writes the tokens of "
    "some eleven chains, and isn't told apart from a vote of eleven (−0.08 to 0.04).",
    abs(measured.walked(20) - measured.ELEVEN) < 0.5
    and [round(end, 2) for end in fell[1:]] == [-0.08, 0.04],
)
claim(
    "And they fall short of the author's p⁴, 0.85, exact because all that he writes can be listed.",
    max(measured.ends(kept["power"][name])[2] for name in ("p⁴: walks", "vote of 11")) < exact["p⁴"]
    and round(exact["p⁴"], 2) == 0.85
    and all(
        np.allclose(author.answers(each).sum(axis=1), sums.answer_distribution(each))
        for each in measured.problems()[:8]
    ),
)

# %% after predict-confidence-chains
by_three, by_six = ([-np.log(p)[:most].mean() for p in (one_way, two_ways)] for most in (3, 6))
claim(
    "Two tokens by hand, of six words; three stand for the five:",
    [*map(len, (one_way, two_ways))] == [6, 6]
    and all(np.isclose(p.sum(), 1) and (np.diff(p) <= 0).all() for p in (one_way, two_ways)),
)
claim(
    "By the best three the model is surer of the first token, 2.63 against 1.57, because one word "
    "has nearly all.",
    [round(x, 2) for x in by_three] == [2.63, 1.57] and one_way[0] > 0.9,
)
claim(
    "By all six it is surer of the second, 4.79 against 3.85, because three words that hardly ever "
    "come are half of that mean, and are still less likely here.",
    [round(x, 2) for x in by_six[::-1]] == [4.79, 3.85] and max(two_ways[3:]) < min(one_way[3:]),
)

# %% after predict-confidence-answer
plainly, forked, erred = (sure[name] for name in lab.RESULTS.values())
claim(
    "Wherever it adds one of the 20 pairs, right or wrong, because two results are likely there.",
    max(forked[0], erred[0]) < plainly[0] - 2 and abs(forked[0] - erred[0]) < 0.5,
)
claim(
    "Its confidence (DeepConf) is minus the mean of the five best log-probabilities; "
    "self-certainty takes the mean of the whole vocabulary.",
    np.isclose(
        chains.values_of(drawn[0], "self-certainty")[0], -drawn[0].logs[0].mean() - np.log(512)
    )
    and np.isclose(
        chains.values_of(drawn[0], "mean of the best 5")[0],
        -np.mean([sum(row[:5]) / 5 for row in drawn[0].logs[0].tolist()]),
    ),
)
claim(
    "So confidence doesn't see errors.", abs(forked[0] - erred[0]) < 0.1 * (plainly[0] - forked[0])
)
surest_one, below = (picture.compute(i) for i in (1, picture.values["chain"]))
claim(
    "Of 32 chains for the problem of the fork the picture has the surest, and below it the least "
    "sure that adds 0 + 4.",
    np.all(np.diff([values.mean() for _, values, _ in picture.chains]) <= 0)
    and len(picture.chains) == 32
    and surest_one["right"]
    and not surest_one["doubtful"]
    and (0, 4) in lab.pairs_of(picture.chains[below["chain"] - 1][0])
    and not any((0, 4) in lab.pairs_of(text) for text, *_ in picture.chains[below["chain"] :]),
)

# %% after predict-measures-answer
claim(
    "The picture shows what such a vote gains on that of all 64, at the same tokens.",
    gained["surest tenth: log-probability"]
    == measured.ends(votes["log-probability, tenth"] - votes["majority"])
    and measured.CHAINS == 64,
)
lot = votes["random tenth"]
claim("Two of them.", [gained[name][1] > 0 for name in tenths] == [True, True, False])
claim(
    "By each the surest tenth of 64 chains, 7, vote alone.",
    -(-measured.CHAINS // 10) == 7 and len(tenths) == 3,
)
claim(
    "Seven chains drawn by lot vote worse than all 64, by 0.17; the seven surest by the best 5 and "
    "by the log-probability make up for this and beat the 64, by 0.13 and 0.15.",
    round(-gained["a random tenth"][0], 2) == 0.17
    and measured.ends(lot - votes["majority"])[2] < 0
    and gained["a random tenth"] == measured.ends(lot - votes["majority"])
    and [round(each, 2) for each in gains[:2]] == [0.13, 0.15],
)
claim(
    "But the vote by self-certainty is right in 0.37, less often than one chain, 0.49, because it "
    "prefers wrong chains: of a right and a wrong one the right one is surer in 0.42.",
    round(votes["self-certainty, tenth"].mean(), 2) == 0.37
    and round(votes["single"].mean(), 2) == 0.49
    and measured.ends(votes["self-certainty, tenth"] - votes["single"])[2] < 0
    and round(votes["self-certainty, pairs"].mean(), 2) == 0.42
    and votes["self-certainty, pairs"].max() < 0.5,
)
others = [(512 * whole - 5 * best) / 507 for best, whole in (plainly, forked, erred)]
claim(
    "The numbers above the chains show one reason, that of our six words: at the 20 pairs the mean "
    "of the best 5 falls and that of all 512 rises, because 507 can hardly come anyway, and on "
    "average still less there.",
    min(forked[1], erred[1]) > plainly[1] + 0.2
    and max(forked[0], erred[0]) < plainly[0]
    and drawn[0].logs[0].shape[1] == 512
    and min(others[1:]) > others[0] + 0.3 > 18,
)

# %% after theory-author-answer
FIRST, SECOND, THIRD = named
best5 = {name: surest.compute(name, used[0], 1.0) for name in named}
written = {name: surest.compute(name, used[1], 1.0) for name in named}
distinct = [i for i, each in enumerate(surest.problems) if len({*each.data}) == 6]
doubts = [
    np.corrcoef(
        chains.values_of(each, used[0]),
        [sum(doubtful[pair] for pair in lab.pairs_of(text)) for text in each.texts],
    )[0, 1]
    for name in (FIRST, SECOND)
    for doubtful in [(named[name].results() > 0).sum(-1) > 1]
    for each in [surest._written(name, 1.0)[i] for i in distinct]
]
claim(
    "Less than the others: by the best 5, 0.03 of his surest tenth are right, of all his chains "
    "0.18, because he errs without a doubt, and a right chain of his has doubted at each step.",
    round(best5[SECOND]["tenths"][0], 2) == 0.03
    and round(best5[SECOND]["votes"][0], 2) == 0.18
    and best5[SECOND]["lead"][1] < 0
    and max(doubts) < -0.99  # the less brown, the surer
    and [named[each] for each in (FIRST, SECOND, THIRD)]
    == [Author(habit=0.6), Author(habit=1.0, doubt=0.1), Author(habit=0.6, doubt=0.1)],
)
sure_errors = named[SECOND]
rights = sum(sure_errors.answers(each)[sum(each.data) % 10] for each in surest.problems)
claim(
    "By the log-probability it is 0.00, and so is his vote: on no problem is the right answer his "
    "most frequent one.",
    written[SECOND]["tenths"][0] == best5[SECOND]["votes"][1] == 0
    and written[SECOND]["lead"][1] < 0
    and rights[5] > 0
    and rights[:5].sum() < 1e-9 + 0.01 * rights[5],
)
claim(
    "The third doubts on all ways, so that by the best 5 his surest tenth isn't told apart from "
    "all.",
    bool(((named[THIRD].results() > 0).sum(-1) == 2).all())
    and leads[used[0]][THIRD][1] < 0 < leads[used[0]][THIRD][2],
)
claim(
    "But the log-probability asks which result was written, and one of chance 0.9 lowers it less "
    "than one of 0.6 or 0.4.",
    {0.9, 0.6, 0.4} <= {round(x, 3) for x in named[THIRD].results().ravel().tolist()},
)
claim(
    "So its surest tenth avoids the 20 pairs, 0.01 a chain against 0.97, and is right in 0.99.",
    [round(x, 2) for x in written[THIRD]["met"]] == [0.01, 0.97]
    and round(written[THIRD]["tenths"][0], 2) == 0.99,
)
claim(
    "So it depends on where the author hesitates, and on the measure: where he errs, both find "
    "right chains; only elsewhere, both find wrong ones; everywhere, the log-probability alone "
    "finds right ones.",
    all(leads[measure][FIRST][1] > 0 > leads[measure][SECOND][2] for measure in used[:2])
    and leads[used[1]][THIRD][1] > 0 > leads[used[0]][THIRD][1],
)

# %% after real-answer
gain = found[compared.LIKELY]
claim(
    "Each is held against the plain vote, question by question.",
    np.isclose(gain.value, (right[compared.LIKELY] - right["majority"]).mean()),
)
claim(
    "Lesson 12 asked SmolLM2 1,012 questions, eight times each, and kept the log-probability of "
    "each answer.",
    len(compared.questions()) == 1012
    and {len(each.answers) for each in compared.questions()} == {8},
)
claim(
    "So we can choose among the same eight texts otherwise: the likeliest alone; a vote in which "
    "each counts with its probability; a vote of the likelier half.",
    [*found][:4] == ["one sample", "the likeliest", compared.LIKELY, compared.LIKELIER],
)
claim(
    "508 questions were asked once more, for one greedy answer.",
    found[compared.GREEDY].n == np.isfinite(right[compared.GREEDY]).sum() == 508,
)
alone = {
    on: compared.gain("the likeliest", on=on)
    for on in ("one sample", compared.LIKELY, compared.GREEDY)
}
claim(
    "Yes, by 2.2 points in a hundred (1.1 to 3.3), and the likeliest alone gains as much, because "
    "a right answer is likelier than a wrong one to the same question in three cases of four.",
    [round(100 * x, 1) for x in (gain.value, gain.low, gain.high)] == [2.2, 1.1, 3.3]
    and abs(alone[compared.LIKELY].value) < 0.005
    and compared.verdict(found["the likeliest"]) == compared.BETTER
    and abs(ordered.value - 0.75) < 0.01,
)
claim(
    "One sample is 7.7 points behind the plain vote, but 9.9 behind the likeliest; that a vote on "
    "top of it adds anything, these questions don't show.",
    round(100 * found["one sample"].value, 1) == -7.7
    and round(100 * alone["one sample"].value, 1) == 9.9
    and alone[compared.LIKELY].low < 0 < alone[compared.LIKELY].high,
)
claim(
    "Nor that eight texts are worth their tokens: one greedy answer isn't told apart from the "
    "plain vote, nor from the likeliest.",
    compared.verdict(found[compared.GREEDY]) == compared.OPEN
    and compared.verdict(alone[compared.GREEDY]) == compared.OPEN,
)

# %% after summary
claim(
    "It finds the right chains of an author who hesitates only where he errs, and misleads if he "
    "hesitates only elsewhere; if everywhere, it depends on the measure.",
    all(leads[measure][FIRST][1] > 0 > leads[measure][SECOND][2] for measure in used[:2])
    and leads[used[1]][THIRD][1] > 0 > leads[used[0]][THIRD][1],
)
claim(
    "One greedy answer was told apart from neither.",
    compared.verdict(alone[compared.GREEDY]) == compared.OPEN
    and compared.verdict(found[compared.GREEDY]) == compared.OPEN,
)
claim(
    "On the same chains one measure finds the right ones, another the wrong ones.",
    votes["mean of the best 5, pairs"].min() > 0.5 > votes["self-certainty, pairs"].max(),
)
claim(
    "The one follows the likeliest next word into forks, but the other looks for ways without "
    "them; at equal tokens a vote wasn't told apart from it.",
    fell[1] < 0 < fell[2]
    and begins["by tokens"][0] > 0.5 > begins["by texts"][0]
    and exact["p⁴"] > exact["T = 1"] > exact["T = 1/4"],
)
claim(
    "Of a real model's eight answers the likeliest was right 9.9 points more often than one "
    "sample, the plain vote 7.7.",
    round(100 * alone["one sample"].value, 1) == 9.9
    and round(-100 * found["one sample"].value, 1) == 7.7,
)
