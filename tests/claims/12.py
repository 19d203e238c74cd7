"""What checks the sentences of lesson 12 · A real model."""

from lablib.course.lessons.lesson_12 import measured, window
from lablib.course.lessons.lesson_12.facts import KINDS

# %% after by-hand-pairs-answer
claim(
    "Eight questions were answered twice: once by a single sample, and once by a vote.",
    len(one) == len(vote) == 8,
)
claim("A 1 stands for a right answer.", {*one.tolist(), *vote.tolist()} == {0, 1})
claim(
    "The vote won two questions and lost none.",
    (gain > 0).sum() == 2 and bool((gain >= 0).all()),
)
claim(
    "Yet the interval reaches below 0, because eight questions are few, and with eight others the "
    "two might not be there.",
    low < 0 < high and gain.mean() / (error * np.sqrt(8) / np.sqrt(32)) > 1.96,
)

# %% after by-hand-visible-answer
claim(
    "A gain of half the size takes four times as many questions, because the standard error falls "
    "with their root.",
    bool(np.isclose((2.8 * spread / 0.1) ** 2, 4 * (2.8 * spread / 0.2) ** 2)),
)
claim("Four points take about a thousand.", 900 < (2.8 * spread / 0.04) ** 2 < 1100)

# %% after library-asked
claim(
    "A thousand questions with eight samples each take minutes, and you would wait for them each "
    "time.",
    len(asked.truths) > 1000 and all(len(problem.answers) == 8 for problem in asked.problems),
)
claim(
    "Each question stands behind three examples of its form, so that a model which was never "
    "trained to chat knows what to do.",
    all(examples.count("\n") == 3 for examples in KINDS.values()),
)
claim(
    "It was asked eight times at temperature 0.8, and some of the questions once greedily, too.",
    measured.HEAT == 0.8 and 100 < np.isfinite(asked.greedy).sum() <= len(asked.truths),
)

# %% after library-again-answer
again = real.answers(some)
known = {each["number"]: each for each in runs.stored("facts")}
claim(
    "Where you have fetched the model (python -m lablib fetch, 93 MB), the next cell asks four "
    "questions now.",
    len(some) == 4,
)
claim(
    "The samples come out again, to the token, because a seed's random numbers are the lab's own "
    "(lesson 04).",
    all(each["of"] == known[each["number"]]["of"] for each in again),
)

# %% after predict-choose-answer
sums = choosing.compute("sums", 8)["right"]
claim(
    "From the same eight samples we can elect the most frequent answer, or take the one that the "
    "model itself finds likeliest.",
    runs.COUNTS[-1] == 8,
)
claim("Both cost the same tokens.", {"majority", "best: likeliest"} < {*curves})
claim(
    "The likeliest, by about two points.",
    apart.verdict == runs.REFUTED and -0.03 < apart.points.value < -0.01,
)
claim(
    "A quarter of the questions could not have told, because the smallest difference that they "
    "show is twice as large.",
    2 * 2.8 * apart.points.error > -apart.points.value,
)
claim(
    "Both are right more often than a single sample, as the table will show.",
    table.votes().verdict == table.likeliest().verdict == runs.HELD,
)
claim(
    "Two-digit sums stay mostly wrong, whoever chooses, because the favourite itself is wrong "
    "there.",
    all(found[-1].high < 0.5 for found in sums.values()),
)

# %% after predict-lead-answer
claim(
    "It does.",
    table.leads_tell().verdict == runs.HELD,
)

# %% after predict-drafts-answer
claim(
    "With the head a call of the model can bring three tokens, its own and two drafts.",
    all(each["head"]["judged"] <= 2 * each["head"]["rounds"] for each in drafts),
)
claim(
    "The head is a block that was trained on the model's own texts and offers two tokens a round, "
    "while look-up offers up to four that followed the last words before.",
    all(each["look-up"]["judged"] <= 4 * each["look-up"]["rounds"] for each in drafts),
)
claim(
    "A little over two, and nearly three in code.",
    2 < whole.value < 2.4 and 2.6 < calls["head"][kinds.index("code")].mean() < 3,
)
found_there = [x for kind, each in zip(kinds, calls["look-up"], strict=True) for x in each]
claim(
    "Look-up mostly brings one, the model's own, because its guesses are refused where nothing "
    "repeats itself.",
    np.median(found_there) < 1.1,
)
paid = {name: dict(zip(kinds, map(np.mean, some), strict=True)) for name, some in gains.items()}
claim(
    "In copies it pays more than the head, because there its guesses stand in the prompt.",
    paid["look-up"]["copies"] > paid["head"]["copies"]
    and all(paid["look-up"][kind] < paid["head"][kind] for kind in kinds if kind != "copies"),
)
claim(
    "The head's gain by the clock is less than its tokens a call, because a drafted round costs "
    "more than a plain one.",
    all((a < b).all() for a, b in zip(gains["head"], calls["head"], strict=True)),
)
claim(
    "Where look-up brings one token a call, its drafts cost time and bring nothing.",
    all(
        0.8 < fast < 1.1
        for some, others in zip(gains["look-up"], calls["look-up"], strict=True)
        for fast, each in zip(some, others, strict=True)
        if each < 1.05
    ),
)

# %% after theory-law-answer
claim(
    "Here is its promise beside what was kept, for both drafters and two temperatures.",
    len(shares) == 4,
)
claim(
    "All four agree within their intervals, and so do all drafts together, a row of our table.",
    all(off.low <= 0 <= off.high for off in offs) and table.rejection_keeps().verdict == runs.HELD,
)
looked_up = [each for each in law if each["drafter"] == "look-up"]
claim(
    "For a look-up q is 1 at its one word, so that the promise is simply p there.",
    all(abs(each["min"] - each["dot"]) < 0.01 for each in looked_up),
)
# %% after theory-rounding-answer
parting, once = runs.stored("rounding"), runs.stored("match")
claim(
    "At temperature 1 forty texts were written three times: plainly, with the head and with "
    "look-up.",
    len(once) == 40,
)
claim(
    "Three of the eighty drafted texts were other ones.",
    [each[name]["equal"] for each in once for name in ("head", "look-up")].count(False) == 3
    and len(parting) == 3,
)
claim(
    "Each parted where two words were drawn that nobody expects.",
    all(max(each["p"]) < 1e-3 for each in parting),
)
claim(
    "With drafts the prompt is read in other pieces, so that floats are added in another order, "
    "and log-probabilities move in the fifth or sixth digit.",
    all(1e-6 <= each["off"] < 1e-4 for each in parting),
)
claim(
    "Inside lablib.same_bits() every sum is added in one order, which takes some time more, and "
    "all three texts are the same.",
    all(each["equal with same_bits"] for each in parting),
)

# %% after theory-window-answer
claim(
    "Two engines are given the same drafts, of which every third is wrong, around that place: "
    "ours, and the one of mlx-lm.",
    window.DRAFTS == 3 and window.BEFORE < 512 < window.BEFORE + window.BEHIND,
)
wrapped = runs.stored("window")
claim(
    "Ours writes the plain text each time.",
    all(each["lablib"] is None for each in wrapped) and len(wrapped) > 0,
)
claim(
    "The other engine leaves it right behind place 512, and says nothing, which is the worst kind "
    "of error: the text reads well, and is another one.",
    all(each["mlx-lm"] and 505 <= each["mlx-lm"] <= 560 for each in wrapped),
)

# %% after theory-bits-answer
parameters = bits[32]["bytes"] / 4 / 1e6
claim(
    "This lesson puts eleven of these claims to SmolLM2 with 135 million parameters and to Gemma 3 "
    "with 270 million, and ends in one table: for each claim a number, its interval, and a "
    "verdict.",
    round(parameters) == 135,
)
ratio = bits[32]["bytes"] / bits[4]["bytes"]
claim("It is faster, but by less than the bytes promise.", 1 < np.exp(faster.value) < ratio)
claim(
    "(They fall to a fifth and not to an eighth, because scales stand beside the codes, and not "
    "all is rounded.)",
    4.5 < ratio < 5.5,
)
over = {
    n: np.median(each["seconds"]) * 1e9 * each["bandwidth"] / each["bytes"]
    for n, each in bits.items()
}
claim(
    "Even with 32 bits a token takes longer than its bytes do, because attention, small operations "
    "and the drawing of a token cost time that doesn't shrink with the weights.",
    over[32] > 1,
)
claim("The fewer the bytes, the more of a token's time is that rest.", over[4] > over[32])
flips = {n: np.mean(each["flips"]) for n, each in bits.items()}
claim(
    "And rounding has a price: the best token is another one at some places, with 4 bits at far "
    "more than with 8.",
    flips[4] > 2 * flips[8] and flips[32] == 0,
)

# %% after theory-table-answer
every = {row.claim: row for row in table.rows()}
claim(
    "Each row is a claim of this course, what came of it here, how many cases it stands on, and "
    "the smallest difference that so many would have shown, four times in five; with luck a "
    "smaller one shows, too.",
    len(every) == 11 and all(row.visible and row.n for row in every.values()),
)
verdicts = {row.claim: row.verdict for row in every.values()}
claim(
    "What was proved is the law of kept drafts, the greedy texts and the window: all held.",
    all(
        row.verdict == runs.HELD
        for row in (table.rejection_keeps(), table.greedy_texts(), table.window_wraps())
    ),
)
claim(
    "Under match three texts of eighty parted, and we know why: the proof speaks of exact numbers.",
    table.drawn_texts().verdict == runs.REFUTED,
)
claim(
    "Here choosing helped, the likeliest more than the vote, heat cost right answers, and a wide "
    "lead was a good sign, but how much of each the toys could not have told us.",
    all(
        row.verdict == runs.HELD
        for row in (table.votes(), table.likeliest(), table.heat_costs(), table.leads_tell())
    ),
)
claim(
    "What hangs on the machine is a bound, which the clock doesn't reach.",
    all(each > 1 for each in over.values()),
)

# %% after summary
claim("Four points take about a thousand questions.", 900 < (2.8 * spread / 0.04) ** 2 < 1100)
claim(
    "Three kinds of claims.", {row.verdict for row in rows} <= {runs.HELD, runs.REFUTED, runs.OPEN}
)
claim(
    "Two of eight questions more are what chance brings.",
    runs.above(runs.mean_of(gain)) == runs.OPEN,
)
