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
    "Hundreds of questions with eight samples each take minutes, and you would wait for them each "
    "time.",
    len(asked.truths) > 200 and all(len(problem.answers) == 8 for problem in asked.problems),
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
plurals = choosing.compute("plurals", 8)
sums = choosing.compute("sums", 8)
claim(
    "From the same eight samples we can elect the most frequent answer, or take the one that the "
    "model itself finds likeliest.",
    runs.COUNTS[-1] == 8,
)
claim("Both cost the same tokens.", {"majority", "best: likeliest"} < {*curves})
claim(
    "Neither, as far as so many questions can tell, and the row says which difference it would "
    "have seen.",
    apart.verdict == runs.OPEN and "visible from" in table.printed([apart]),
)
claim(
    "Plurals are nearly solved by one sample, so that nobody can gain.",
    plurals["one"] > 0.8 and abs(plurals["gain"].value) < 0.1,
)
claim(
    "On two-digit sums the favourite is mostly wrong, and both ways elect it.",
    sums["right"]["the vote"][-1].value < 0.5 and sums["right"]["the likeliest"][-1].value < 0.5,
)

# %% after predict-lead-answer
claim(
    "It does, and by far more than the rows before could see.",
    won[leads >= 4].mean() - won[leads < 4].mean() > 0.3
    and table.leads_tell().verdict == runs.HELD,
)

# %% after predict-drafts-answer
claim(
    "The head is a block that was trained on the model's own texts and offers two tokens a round, "
    "while look-up offers up to four that followed the last words before.",
    all(each["head"]["judged"] <= 2 * each["head"]["rounds"] for each in drafts)
    and all(each["look-up"]["judged"] <= 4 * each["look-up"]["rounds"] for each in drafts),
)
told = {name: dict(zip(kinds, calls[name], strict=True)) for name in calls}
claim(
    "In a copy it finds the next words in the prompt, and elsewhere its guesses are refused.",
    told["look-up"]["copies"].value
    > 1.3 * max(told["look-up"][kind].value for kind in kinds if kind != "copies"),
)
clocked = {name: dict(zip(kinds, gains[name], strict=True)) for name in gains}
claim(
    "What is gained is less than the tokens a call say, because a drafted round costs more than a "
    "plain one.",
    all(
        np.exp(clocked[name][kind].value) < told[name][kind].value
        for name in told
        for kind in kinds
    ),
)

# %% after theory-law-answer
claim(
    "Here is its promise beside what was kept, for both drafters and two temperatures.",
    len(shares) == 4,
)
claim(
    "Each pair agrees within its interval: about as many drafts stay as p and q promise.",
    all(off.low <= 0 <= off.high for off in offs),
)
looked_up = [each for each in law if each["drafter"] == "look-up"]
claim(
    "For a look-up q is 1 at its one word, so that the promise is simply p there.",
    all(abs(each["min"] - each["dot"]) < 0.01 for each in looked_up),
)
claim(
    "Two engines are given the same drafts, of which every third is wrong, around that place: "
    "ours, and the one of mlx-lm.",
    window.DRAFTS == 3 and window.BEFORE < 512 < window.BEFORE + window.BEHIND,
)

# %% after theory-window-answer
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
    "This lesson puts ten of these claims to SmolLM2 with 135 million parameters and to Gemma 3 "
    "with 270 million, and ends in one table: for each claim a number, its interval, and a "
    "verdict.",
    round(parameters) == 135,
)
ratio = bits[32]["bytes"] / bits[4]["bytes"]
claim("It is faster, but by less than the bytes promise.", 1 < np.exp(faster.value) < ratio)
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
    "the smallest difference that so many would have shown.",
    len(every) == 10 and all(row.visible and row.n for row in every.values()),
)
proved = [table.neighbours(), table.drafts_change_nothing(), table.window_wraps()]
claim(
    "What was proved held without exception: equal texts in a batch, with drafts and past a "
    "window, and the law of kept drafts.",
    all(row.verdict == runs.HELD for row in [*proved, table.rejection_keeps()]),
)
