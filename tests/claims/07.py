"""What checks the sentences of lesson 07 · Speculative decoding."""

import re

from lablib.course.lessons import smollm2
from lablib.inference.speculation.costs import expected_tokens

import numpy as np
from mlx.utils import tree_flatten

# %% after by-hand-loop
assert text == write(large, ["the"], 7)

# %% after by-hand-three-answer
claim("Two models have a vocabulary of seven words.", len(words) == len(large) == len(small) == 7)
first, second = verify(["the"], ["cat", "sat"]), verify(["the", "cat", "sat", "on"], ["the", "cat"])
claim(
    "In the first case the target says both drafts too, so they are accepted, and the third "
    "answer, on, comes for nothing: it is the bonus.",
    first == (["cat", "sat"], "on"),
)
claim(
    "In the second case the first draft is rejected, because the target says something else.",
    second == ([], "a") and large["on"] != small["on"],
)
claim(
    "Seven words, three forwards of the target instead of seven, and the same text.",
    len(rounds) == 3 and speculate(["the"], 2, 7)[0] == write(large, ["the"], 7),
)
claim(
    "6 words were drafted, 4 accepted, and 5 reached: those that were accepted, "
    "and the one that was rejected.",
    (drafted, accepted, reached) == (6, 4, 5) and reached == accepted + 1,
)
claim(
    "The draft's weak place falls on the bonus, where nothing is drafted, so nothing can be wrong "
    "there.",
    three[0][0][-1] == "on" and three[0][2] == large["on"] != small["on"],
)
claim(
    "In other words, α is no property of two models alone, because it depends on where the drafts "
    "fall.",
    all(kept == drafts for drafts, kept, _ in three) and accepted < reached,
)
claim(
    "In other words, a round adds the accepted drafts and one token of the target's own.",
    write(large, ["the"], 7)[1:] == [word for _, kept, own in rounds for word in [*kept, own]][:7],
)

# %% after library-same-answer
claim(
    "The counts are those of the last of three texts.",
    iterator.prompt == tokenizer.encode([*TASKS.values()][-1].problems(7, 3)[-1].prompt),
)
for first, _ in traced.values():
    counted = speculative(first)[1].stats
    assert 0 <= counted["acceptance_rate"] <= counted["alpha"] <= 1
claim(
    "Two models came with this course: target has eight layers, and draft has one, so a token of "
    "it is cheap.",
    (len(target.layers), len(draft.layers)) == (8, 1),
)
claim(
    "At temperature 0 the text must be the one that TokenIterator writes, token for token.",
    all(speculative(prompt)[0] == plain(prompt) for prompt, _ in traced.values()),
)
claim(
    "We load the weights in float32, 32 bits a number, because coarser numbers may round two "
    "equally good tokens one way or the other (further).",
    all(array.dtype == mx.float32 for _, array in tree_flatten(target.parameters())),
)
alone, helped = speculative(prompt)[1].stats, lablib.TokenIterator(target, prompt, **options)
one_by_one = len(list(helped))
claim(
    "Each round is one forward of the target, where plain decoding takes a forward for each token.",
    alone["rounds"] == alone["target_calls"] < one_by_one,
)
story = speculative(tokenizer.encode(TASKS["stories"].problems(7, 3)[-1].prompt))[1].stats
claim(
    "In the story each draft that was reached was accepted, so α is 1.",
    story["alpha"] == 1 and story["total_accepted"] == story["total_reached"],
)
claim(
    "The acceptance rate is lower, because the last round drafts beyond the end of the text, and "
    "what lies there is not reached.",
    story["acceptance_rate"] < 1 and story["total_reached"] == story["total_drafted"] - 2,
)

# %% after predict-rounds-answer
claim(
    "It opens where a rejected draft had the highest p.",
    rejected[1] == shown.values["text"] == "sums" and shown.values["round"] == rejected[2],
)
claim(
    "A draft is accepted if it is the target's best token, however small its p, "
    "and a second-best one is rejected however close it came.",
    all(r.drafted[r.accepted] != r.token for *_, r in seen if r.accepted < r.reached)
    and rejected > accepted,
)
opened = shown.compute(round=rejected[2], text="sums")
claim(
    "Here a draft with p = 0.22 is rejected, because another token has more.",
    f"{rejected[0]:.2f}" == "0.22" and opened["own_p"] > rejected[0],
)
claim(
    "In Hello world one with p = 0.07 is accepted, because no token has more there.",
    f"{accepted[0]:.2f}" == "0.07" and accepted[1] == "Hello world",
)
claim(
    "On Hello world, which these models don't know, fewer drafts are accepted than elsewhere.",
    unknown.stats["total_accepted"] / unknown.stats["total_reached"]
    < min(
        sum(r.accepted for r in each) / sum(r.reached for r in each)
        for name, (_, each) in shown_first.items()
        if name != "Hello world"
    ),
)

# %% after predict-texts
traced_again = speculative(prompt, trace=True)[1]  # the last one again, by the engine
whole = [kept for start, kept in replayed(texts[-1], 4) if start + 4 < len(texts[-1].agree)]
assert whole == [r.accepted for r in traced_again.rounds[: len(whole)]]
claim("Here are 24 unseen problems of each task.", len(texts) == 24 * len({t.task for t in texts}))


# %% after where-drafts-fail
def refused_at(gamma):
    """Return how many of the five texts that are shown have a rejected token, place by place."""
    counts = np.zeros(60, int)
    for text in texts[:5]:
        for start, kept in replayed(text, gamma):
            if kept < gamma and start + kept < len(text.agree):
                assert text.classes[start + kept] == "operand"
                counts[start + kept] += 1
    return counts


claim(
    "The carpet below shows five of these texts, twice: written with γ = 4 drafts a round, and "
    "with γ + 1.",
    [len(each) for each in dashboard.compute(4, "sums")["rounds"]] == [5, 5],
)
claim(
    "With γ = 4 the rejected tokens stand in columns: they are the next numbers to add.",
    len(np.flatnonzero(refused_at(4))) <= 6 < refused_at(4).sum(),
)
claim(
    "There the draft would have to guess the target's favourite, because any of the numbers left "
    "would do.",
    min(share, key=share.get) == "operand",
)
claim(
    "With γ = 5 most of these columns turn white.",
    2 * np.count_nonzero(refused_at(5)[refused_at(4) > 0]) <= np.count_nonzero(refused_at(4)),
)
claim(
    "An addition is six tokens long, so from there six tokens, five drafts and a bonus, reach "
    "exactly the next one.",
    len(tokenizer.encode("7+5=2;", add_special_tokens=False)) == 5 + 1,
)


# %% after predict-classes-answer
def judged(counts):
    """Return which share of the judged drafts were operands."""
    return counts.classes["operand"][1] / sum(reached for _, reached in counts.classes.values())


claim("The same by the kind of token, of all 24 texts.", len(four.rounds) == len(five.rounds) == 24)
claim(
    "Operands are accepted least with either γ, but with γ = 5 far fewer of them are reached at "
    "all.",
    all(
        min(each.classes, key=lambda name: np.divide(*each.classes[name])) == "operand"
        for each in (four, five)
    )
    and judged(five) < judged(four) / 2,
)
claim(
    "Then the hard token falls on the bonus, where nobody has to guess it.",
    four.classes["operand"][1] > 2 * five.classes["operand"][1],
)
claim("So α is higher, though both models are the same.", five.alpha > four.alpha)
claim(
    "In other words, the draft has not become any better: its mistakes are made where nobody asks "
    "it.",
    five.classes["operand"][1] < four.classes["operand"][1] / 2,
)
missed = [
    kept
    for text in texts[:24]
    for start, kept in replayed(text, 6)
    if kept < 6 and start + kept < len(text.agree)
]
claim("Now the sixth draft is mostly the hard token.", 2 * missed.count(5) > len(missed))
claim(
    "Where it is rejected the round is as long as before, because the correction stands where the "
    "bonus stood.",
    judged(six) > 2 * judged(five) and abs(six.tokens_per_round - five.tokens_per_round) < 0.1,
)

# %% after predict-roofline-question
claim(
    "But lesson 02 has shown that a forward over five tokens takes far less than five times as "
    "long as one.",
    clock=costs.forward(5) < 4 * once,
)
claim(
    "Nine tokens take less than nine times as long as one, because a forward has two prices that "
    "it pays once, however many tokens are in it.",
    clock=costs.forward(9) < 9 * once,
)
claim(
    "The second token costs most: with it a round begins, which has to be judged.",
    clock=costs.forward(2) - once > 0.4 * (costs.forward(9) - costs.forward(2)) / 7,
)
claim(
    "After it one token more is cheap but not free, since its arithmetic is added.",
    clock=costs.forward(2) < costs.forward(9) < 3 * costs.forward(2),
)

# %% after predict-length-answer
claim(
    "α begins at that of sums with γ = 4; move it down.",
    length.values["alpha"] == round(20 * four.alpha) / 20,
)
claim(
    "A single draft adds α tokens to a round on average, so it pays where α is above its price.",
    expected_tokens(0.3, 1) == 1.3 and pays == [alpha for alpha in alphas if alpha > price],
)
claim(
    "Two may pay a little earlier, because the second is read more cheaply: compare both lines.",
    clock=costs.of_round(2) - costs.of_round(1) >= price * once
    or first <= min([*pays, 1]) + 0.011,  # α goes by hundredths
)
worth = [expected_tokens(0.3, i) - expected_tokens(0.3, i - 1) for i in range(1, 9)]
claim(
    "If all places were equally hard, draft number i would be worth α^i tokens.",
    all(abs(each - 0.3**i) < 1e-12 for i, each in enumerate(worth, 1)),
)
claim(
    "At α = 0.3 the third is worth 0.027 tokens, but it has to be drafted and read like the first.",
    abs(worth[2] - 0.027) < 1e-12,
)

gains = np.diff(length.compute(four.alpha)["tokens"])
claim(
    "One α for all of them can't know the step of six: its yield bends evenly, and nothing in it "
    "sets γ = 5 apart.",
    all(abs(gains[1:] / gains[:-1] - four.alpha) < 1e-9),
)

# %% after theory-clock-answer
claim(
    "The carpet's five sums texts are written plainly and with each γ, in turn, twice over; the "
    "shorter time counts.",
    len(prompts) == 5 and all(len(each) == 2 for each in seconds.values()),
)
claim(
    "With γ = 5 there are 32 calls in place of 50, and they come back as seconds.",
    (calls[4], calls[5]) == (50, 32),
    clock=spent[5] < spent[4],
)
claim("The counted tokens had promised this rise from 4 to 5.", promised[5] > promised[4])
claim(
    "One α had not, because it knows of no step.",
    promised[5] / promised[4] > 1.2 * one_alpha[5] / one_alpha[4],
)
claim("A sixth draft saves no further call.", calls[6] == calls[5])
claim(
    "The formula lets plain decoding take a call for each token, but it takes two more a "
    "text: one reads the prompt, and one has begun before the end is seen.",
    all(stats[0, text]["target_calls"] == stats[0, text]["tokens"] + 2 for text in range(5)),
)
claim(
    "With drafts the first round reads the prompt.",
    all(each["target_calls"] == each["rounds"] for (gamma, _), each in stats.items() if gamma),
)
claim(
    "The prices, too, are those of another moment, so the clock lies near the promise, and not on "
    "it.",
    clock=all(0.6 < measured[gamma] / promised[gamma] < 1.6 for gamma in gammas),
)


# %% after on-smollm2-answer
said = smollm2.stored("07")
claim("The text is the same, in fewer calls.", all("the same text: True" in s for s in said[::2]))
numbers = [[float(n) for n in re.findall(r"\d+\.?\d*", line)] for line in said[1::2]]
claim(
    "The clock gains less than the calls do, because the head has to draft, and each draft has to "
    "be read.",
    all(1 < faster < plain_calls / calls for plain_calls, calls, faster in numbers),
)

# %% after summary
two = of_sums[1]
claim(
    "So the best γ is no larger for a poorer draft, and theory only promises: the clock decides.",
    best == sorted(best),
)
claim(
    "Drafts are rejected at certain places of a text, so what is accepted depends on where rounds "
    "begin, and one α for all places can't tell the best γ.",
    five.alpha > four.alpha and promised[5] / promised[4] > 1.2 * one_alpha[5] / one_alpha[4],
)
claim(
    "With γ = 4 more drafts were accepted in a round than with γ = 2, and the five texts took "
    "fewer calls.",
    four.tokens_per_round > two.tokens_per_round and calls[4] < calls[2],
)
claim(
    "The clock gained less, because two drafts more had to be drafted and read each time.",
    clock=costs.of_round(4) > costs.of_round(2) and spent[4] / spent[2] > calls[4] / calls[2],
)
