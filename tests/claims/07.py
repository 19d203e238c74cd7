"""What checks the sentences of lesson 07 · Speculative decoding."""

from lablib.course.lessons.lesson_07.widgets import whole_rounds
from lablib.machine import backend

# %% after by-hand-loop
assert text == write(large, ["the"], 7)

# %% after by-hand-three-answer
claim("Two models with a vocabulary of seven words.", len(words) == len(large) == len(small) == 7)
first, second = verify(["the"], ["cat", "sat"]), verify(["the", "cat", "sat", "on"], ["the", "cat"])
claim(
    "They are accepted, and the third answer, on, comes for nothing: the bonus.",
    first == (["cat", "sat"], "on"),
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
    "The draft's weak place falls on the bonus, where nothing is drafted.",
    three[0][0][-1] == "on" and three[0][2] == large["on"] != small["on"],
)
claim(
    "So α is no property of two models alone: it depends on where the drafts fall.",
    all(kept == drafts for drafts, kept, _ in three) and accepted < reached,
)
claim(
    "So each round adds the accepted drafts and one token of the target's own.",
    write(large, ["the"], 7)[1:] == [word for _, kept, own in rounds for word in [*kept, own]][:7],
)

# %% after library-equal
assert toy.stats["total_drafted"] == drafted
assert toy.stats["total_accepted"] == accepted
assert toy.stats["total_reached"] == reached

# %% after library-load
assert (len(target.layers), len(draft.layers)) == (8, 1)

# %% after library-same
for first, _ in traced.values():
    counted = speculative(first)[1].stats
    assert 0 <= counted["acceptance_rate"] <= counted["alpha"] <= 1

# %% after helped-answer
claim(
    "Now two models that came with this course: target has eight layers, draft has one, "
    "and was trained to imitate the target.",
    (len(target.layers), len(draft.layers)) == (8, 1),
)
claim(
    "The rounds by hand and those of the library are the same.",
    [(list(kept), own) for _, kept, own in rounds]
    == [([words[i] for i in r.drafted[: r.accepted]], words[r.token]) for r in toy.rounds],
)
claim("Fewer calls, for the same text.", helped.stats["target_calls"] < alone.stats["target_calls"])
claim("Fewer calls, for the same text.", str(helped) == str(alone))
claim(
    "At temperature 0 the text must be the one that TokenIterator writes, token for token.",
    all(speculative(prompt)[0] == plain(prompt) for prompt, _ in traced.values()),
)
source = inspect.getsource(Decoder.speculative_round)
claim(
    "Its round, from lablib/inference/decoding/decoder.py, has the same steps:",
    [step for step in steps if step in source] == sorted(steps, key=source.index),
)
some = np.array([tokenizer.encode("On a sunny day, Mia finds a red ball in the garden.")])
claim(
    "On Linux even the bits are the same: a forward of five tokens is rounded as five forwards "
    "of one.",
    backend.blas().few_rows is None or (read(target, some, 5) == read(target, some, 1)).all(),
)
claim(
    "Elsewhere it may round another way, and half precision rounds most: so the weights are "
    "loaded in float32 (32 bits a number).",
    np.finfo(np.float16).eps > np.finfo(np.float32).eps == 2**-23,
)

# %% after predict-rounds-answer
claim(
    "In these rounds some rejected draft had a higher p than some accepted one.",
    bool(max(refused) > min(kept)),
)
claim(
    "A draft is accepted if it is the target's best token, however small its p, "
    "and a second-best one is rejected however close it came.",
    all(r.drafted[r.accepted] != r.token for r in seen if r.accepted < r.reached)
    and bool(max(refused) > min(kept)),
)
claim(
    "On Hello world fewer drafts are kept than on Mia's story, and the text is still "
    "the target's own.",
    unknown.stats["alpha"] < known.stats["alpha"]
    and unknown.stats["acceptance_rate"] < known.stats["acceptance_rate"],
)

# %% after predict-roofline-question
claim(
    "But lesson 02 has shown that it reads five tokens in less than five times the time of one.",
    costs.forward(5) < 5 * once,
)
claim(
    "So nine tokens take less than nine times as long as one.",
    costs.forward(9) < 9 * once,
)

# %% after predict-texts
traced_again = speculative(prompt, trace=True)[1]  # the last one again, by the engine
whole = whole_rounds(texts[-1].agree, 4)
assert [kept for _, kept in whole] == [r.accepted for r in traced_again.rounds[: len(whole)]]


# %% after where-drafts-fail
def judged(gamma):
    """Return which share of the judged drafts were operands."""
    counts = dashboard.tallies["sums"][gamma - 1].classes
    return counts["operand"][1] / sum(reached for _, reached in counts.values())


claim(
    "The next operand is the hardest of these classes: the draft would have to guess "
    "the target's favourite.",
    min(share, key=share.get) == "operand",
)
claim(
    "Signs (boilerplate) are kept more often, and so are results.",
    min(share["boilerplate"], share["result"]) > share["operand"],
)
edit = {name: a / r for name, (a, r) in four["edits"].classes.items()}
claim(
    "In edits copied words are kept more often than the replacement.",
    edit["copy"] > edit["replacement"],
)
claim(
    "On stories more than nine of ten drafts are kept: there the draft has learned "
    "the target's favourites.",
    bool(four["stories"].accepted.sum() > 0.9 * 4 * four["stories"].rounds.sum()),
)
claim(
    "An addition is six tokens long, so with γ = 5 a round without a rejection is one addition: "
    "rounds fall into step with the text, and hard tokens land on the bonus.",
    len(tokenizer.encode("7+5=2;", add_special_tokens=False)) == 5 + 1 and judged(5) < judged(4),
)
claim(
    "There α is higher than with γ = 4, a round brings a token more, and in the small chart "
    "the points leave the dashed line, which stands for one α at all places.",
    dashboard.tallies["sums"][4].alpha > four["sums"].alpha
    and dashboard.tallies["sums"][4].tokens_per_round > four["sums"].tokens_per_round + 1
    and any(
        not low <= promised <= high
        for shown in [dashboard.compute(4, "sums")]
        for low, promised, high in zip(shown["low"], shown["theory"], shown["high"], strict=True)
    ),
)
claim("Here are 24 unseen problems of each task.", len(texts) == 24 * len(dashboard.tallies))

# %% after predict-length-answer
claim(
    "On the textbook's machine drafts pay as soon as α is above the price of a drafted token "
    "(Leviathan et al., 2023).",
    [gamma > 0 for gamma in best["textbook"]] == [alpha > price for alpha in alphas],
)
claim(
    "Here theory and clock part: γ = 0, plain decoding, stays the best at least as long; "
    "look how far the zeros go in the second list.",
    best["here"].count(0) >= best["textbook"].count(0),
)
claim(
    "A single draft wins only if α is above both together, the second price printed.",
    [alpha > beyond for alpha in alphas] == [(1 + alpha) / (1 + beyond) > 1 for alpha in alphas]
    and abs(beyond - (price + costs.forward(2) / once - 1)) < 1e-9,
)
claim(
    "A better draft deserves longer rounds: along each list γ never falls.",
    all(found == sorted(found) for found in best.values()),
)
worth = [expected_tokens(0.3, i) - expected_tokens(0.3, i - 1) for i in range(1, 9)]
claim(
    "The yield bends: the second draft counts only if the first was accepted, "
    "so draft number i is worth α^i tokens.",
    all(abs(each - 0.3**i) < 1e-12 for i, each in enumerate(worth, 1)),
)
claim(
    "At α = 0.3 the third is worth 0.027 tokens, and it has to be drafted and read like the first.",
    abs(worth[2] - 0.027) < 1e-12,
)
claim(
    "However many are drafted, a round yields less than 1 / (1 − α) tokens on average, "
    "and each draft is paid for.",
    all(expected_tokens(a, 8) < 1 / (1 - a) for a in alphas[1:-1]) and costs.draft > 0,
)

# %% after theory-tokens-answer
claim(
    "With a chance for each place the sum is exact: it counts the same rounds in another way.",
    all(abs(a - b) < 1e-9 for a, b in zip(by_place, measured, strict=True)),
)
claim(
    "One α for all places is a real prediction, from one number, and a rough one: "
    "somewhere it leaves the band.",
    any(not a <= one <= b for a, one, b in zip(low, one_alpha, high, strict=True)),
)


# %% after theory-clock-answer
def with_start(plain_tokens, speed, start):
    return (plain_tokens + start) / (plain_tokens / speed + start)


claim(
    "Where it would be ×2 on forty tokens, a start worth ten plain tokens leaves ×1.67.",
    round(with_start(40, 2, 10), 2) == 1.67,
)
claim(
    "Whatever both ways pay alike pulls a speed-up towards ×1.",
    all(abs(with_start(40, s, 10) - 1) < abs(s - 1) for s in (0.5, 0.8, 1.2, 2, 3)),
)

# %% after same-bits-answer
strict = {name: pair for (name, switch), pair in bits.items() if switch == "same_bits"}
loose = {name: pair for (name, switch), pair in bits.items() if switch != "same_bits"}
claim(
    "Floats round, so a sum hangs on its order, and a fast product chooses one by how many rows "
    "there are.",
    (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3) and max(equal for equal, _ in loose.values()) < 1,
)
claim(
    "On Linux lablib adds up fewer than 16 tokens in one order. lablib.same_bits() keeps one for "
    "all of them, and takes a little longer.",
    not strict or (read(target, rows[:1, :30], 15) == read(target, rows[:1, :30], 1)).all(),
)
claim(
    "Below, rows of random tokens are read alone, each at once, and then all together, five tokens "
    "at a time; in float32, and with each product rounded to half precision, as GPUs do.",
    rows.shape == (24, 120) and batch.shape == (*rows.shape, target.vocab_size),
)
claim(
    "Without the switch most logits differ in their last digits.",
    not strict or max(equal for equal, _ in loose.values()) < 0.5,
)
claim(
    "In float32 a token flips only if the two best are all but equal; half precision has coarser "
    "digits, and there it happens sooner.",
    loose["float32"][1] <= loose["half"][1],
)
claim(
    "Inside same_bits every logit is equal, and nothing flips.",
    all(pair == (1, 0) for pair in strict.values()),
)

# %% after summary
long, short = (expected_tokens(0.3, gamma) for gamma in (8, 1))
sold = Costs.from_ratio(0.12)
claim("The best γ is no larger for a poorer draft.", best["here"] == sorted(best["here"]))
claim(
    "With γ = 8 more tokens are accepted in a round than with γ = 1, and it may still be slower: "
    "all eight had to be drafted and read.",
    long > short and long / sold.of_round(8) < short / sold.of_round(1),
)
