"""What checks the sentences of lesson 09 · Better drafts."""

from itertools import pairwise

from lablib.course.lessons.lesson_09.exercises_dropping import first_token
from lablib.inference import AdaptiveLength, Proposal
from lablib.inference.speculation.proposal import check_proposal
from lablib.validation import BadValue

# %% after by-hand-size-answer
claim(
    "After the alone stood cat, the last time; after sat on the, mat.",
    (looked_up(longer, 1, 1), looked_up(longer, 1, 3)) == (["cat"], ["mat"]),
)
claim(
    "One word stands in many places, six words in none: the library tries the longest run first, "
    "then shorter ones.",
    longer[:-1].count("the") == 3 and looked_up(longer, 1, 6) == [],
)

# %% after by-hand-certain-answer
hot = np.array(rules.one_hot(mx.array([guess]), 3))[0]
claim("A looked-up word x was drawn from no q.", hot.max() == 1)
claim("The drafter is certain: q is 1 at x.", hot[guess] == 1 == hot.sum())
claim(
    "By lesson 08's rule x is kept with probability min(1, p(x)/1) = p(x); after a refusal "
    "max(p − q, 0) is p without x.",
    min(1, p[guess] / hot[guess]) == p[guess] and np.allclose(np.maximum(p - hot, 0), rest),
)
claim(
    "Nothing is lost, but even this lookup, the best possible one, keeps only max p.",
    np.allclose(written, p) and p[guess] == p.max(),
)
claim(
    "The model, roughly right about every word, keeps more.",
    np.minimum(p, q).sum() > p.max() and np.abs(p - q).max() < 0.11,
)
sharp = np.eye(3)[0]  # temperature 0
claim(
    "At temperature 0 a lookup is either right or wrong.",
    {np.minimum(sharp, np.eye(3)[x]).sum() for x in range(3)} == {0.0, 1.0},
)

# %% after library-same
claim(
    "One word stands in many places, six words in none: the library tries the longest run first, "
    "then shorter ones.",
    ngram.lookup(ids, 1) == [ids[longer.index("mat")]],
)
claim(
    "NGram is the lookup, with a dictionary in place of the search:",
    "follows.get(" in inspect.getsource(NGram.lookup),
)
claim("All write the same text.", all(text == plain for text, _ in found.values()))
claim(
    "EarlyExit(n), the early exit, asks the target itself, but goes from its first n layers "
    "straight to the output: no second model, but layers as dear as the target's.",
    all(a is b for a, b in zip(first_layers(target, 2).layers, target.layers[:2], strict=True)),
)

# %% after predict-sources-answer
claim(
    "The target writes 12 greedy texts of each, and what each drafter would propose is noted at "
    "every place.",
    all(len(each) == 12 for found in guesses.values() for each in found.values()),
)
claim(
    "Let a small model's draft cost a tenth of one, a lookup nothing, two of the target's eight "
    "layers a quarter, and reading one token more a tenth.",
    [*prices.values()][:3] == [0.1, 0.0, 0.25]
    and len(target.layers) == 8
    and np.allclose(np.diff(reading), 0.1),
)
speeds = {task: data["speedups"] for task, data in at_four.items()}
calls = {task: {n: v[0] for n, v in data["yields"].items()} for task, data in at_four.items()}
claim(
    "On edits the n-gram promises most: it costs nothing, and copies until the replaced word.",
    prices["n-gram"] == 0
    and max(speeds["edits"], key=speeds["edits"].get) == "n-gram"
    and max(speeds[task]["n-gram"] for task in speeds) == speeds["edits"]["n-gram"],
)
claim(
    "The small model has more tokens per call there, and promises less.",
    calls["edits"]["small model"] > calls["edits"]["n-gram"]
    and speeds["edits"]["small model"] < speeds["edits"]["n-gram"],
)
steps = [step for each in guesses["stories"]["n-gram"] for step in replay(each, FixedLength(4))]
silent = sum(step.calls for step in steps if not step.drafted)
claim(
    "On stories what stood after the last time says nothing about now, and mostly there is no "
    "guess at all. sums are hardly better.",
    lookups[1] < 1.05 and silent > sum(step.calls for step in steps) / 2,
)
claim(
    "On stories what stood after the last time says nothing about now, and mostly there is no "
    "guess at all. sums are hardly better.",
    lookups[1] < lookups[2] < 1.2,
)
at_eight = sources.compute(8, "stories", "n-gram")
claim(
    "Long rounds pay for whoever is seldom refused: with γ = 8 on stories the small model gains, "
    "the n-gram does not.",
    at_eight["speedups"]["small model"] > speeds["stories"]["small model"]
    and at_eight["speedups"]["n-gram"] < speeds["stories"]["n-gram"],
)
claim(
    "More layers are right more often, and every layer has its full price.",
    all(each["first 2 layers"] < each["first 4 layers"] for each in calls.values())
    and prices["first 4 layers"] == 2 * prices["first 2 layers"],
)
claim(
    "On stories and sums a small model trained for guessing keeps more than a piece of a large "
    "one.",
    all(
        calls[task]["small model"] > max(calls[task][f"first {n} layers"] for n in (2, 4))
        for task in ("stories", "sums")
    ),
)
best = {max(each, key=each.get) for each in speeds.values()}
claim(
    "There is no best drafter, only a best one for a text and a price.",
    best == {"n-gram", "small model"},
)

# %% after sampled-answer
lost = {name: first - last for name, (first, last) in kept.items()}
claim(
    "Lesson 08's recording has one more drafter, a head: one block, trained on top of the target's "
    "own hidden state (Li et al., 2024).",
    [*DRAFTERS] == ["draft model", "head", "look-up"],
)


def sureness(model, hot):
    rows = model(mx.array([[*prompt, *plain]]))[0, len(prompt) - 1 : -1] / hot
    return mx.softmax(rows, axis=-1).max(axis=-1).mean().item()


claim(
    "The draft model: its own doubts have grown with the temperature.",
    lost["draft model"] > 0.2
    and sureness(draft, 1.5) < sureness(draft, 1.0) - 0.1
    and sureness(target, 1.5) > 0.9,
)
claim(
    "The head has a q, and loses as little.",
    max(lost["head"], lost["look-up"]) < 0.03,
)
claim(
    "What counts is not whether a drafter has a q, but how near it is.",
    lost["head"] < lost["draft model"] / 5,
)

# %% after predict-length-answer
claim(
    "A round of γ drafts yields 1 + α + ... + α^γ tokens.",
    np.isclose(expected_tokens(0.8, 4), sum(0.8**i for i in range(5))),
)
claim(
    "It costs γ drafts, and a forward over γ + 1 tokens.",
    np.isclose(Costs(reading, 0.1).of_round(4), 4 * 0.1 + reading[4]),
)
gains = [speedup(0.8, gamma, Costs((1, 1.1), 0.1)) for gamma in range(21)]
claim(
    "Let the table below allow up to 20 drafts, and let reading one token more cost a tenth.",
    lengths[0.8][1] == np.argmax(gains) and np.isclose(Costs((1, 1.1), 0.1).forward(21), 3),
)
claim("Four.", lengths[0.8][1] == 4)
free = [lengths[alpha][0] for alpha in (0.5, 0.8, 0.9, 1.0)]
claim(
    "A free draft still has to be read: the best γ stays finite as long as reading has a price and "
    "some drafts are refused.",
    free[0] < free[1] < free[2] < free[3] == 20,
)
claim(
    "Where it is 0, not even one draft pays: α must be larger than what it costs, the draft and "
    "reading it.",
    all(
        (gamma == 0) == (alpha < price + of_reading)
        for alpha, row in lengths.items()
        for price, gamma in zip(of_a_draft, row, strict=True)
    ),
)
endless = [best_draft_tokens(alpha, Costs((1, 1), 0.0), 20) for alpha in lengths]
claim("(Set of_reading to 0: then free drafts end only with the table.)", {*endless} == {20})
rates = [expected_tokens(0.5, g) for g in range(9)]
claim("Maximising tokens per round always says more.", rates == sorted(rates))
claim(
    "Maximise tokens per cost, with γ = 0 among the candidates, as lablib.forecast does for a "
    "drafter of your own.",
    best_draft_tokens(0.5, Costs((1, 1.1), 0.5), 20) == 0,
)


# %% after predict-adapt-answer
def stretches(memory):
    """Return γ and α of the steps in each of the three tasks."""
    data = adapting.compute(memory, "n-gram")
    run, ends = data["run"], [0, *data["ends"]]
    inside = [(run.place >= a) & (run.place < b) for a, b in pairwise(ends)]
    return [run.length[each] for each in inside], [run.alpha[each] for each in inside]


length, alpha = stretches(32)
told = inspect.getsource(AdaptiveLength)
claim(
    "AdaptiveLength estimates it from the last rounds and takes the best γ.",
    "best_draft_tokens(" in told,
)
claim(
    "Where that is 0 it decodes plainly, and now and then spends one draft to look.",
    {*length[2][-20:].tolist()} == {0, 1},
)
claim("On edits lookups hit, and γ is high.", length[0].mean() > 6 and alpha[0].mean() > 0.8)
drops = [each[0] - each[-1] for each in alpha]
claim(
    "On stories the n-gram mostly proposes nothing, which costs nothing and teaches little: the "
    "estimate moves slowly.",
    silent > len(steps) / 2 and 0 < drops[1] < 0.4 and prices["n-gram"] == 0,
)
claim(
    "On sums it is mostly wrong, and γ falls to plain decoding with single probes.",
    alpha[2][-1] < 0.4 and {*length[2][-20:].tolist()} == {0, 1},
)
brief, long = stretches(4), stretches(128)
claim(
    "A short memory trembles and follows quickly; a long one is calm, and late.",
    brief[1][0].std() > 1.5 * long[1][0].std()
    and brief[0][1].mean() < length[1].mean() < long[0][1].mean(),
)
worst = lab.run(guesses["sums"]["first 2 layers"], FixedLength(8), costs["first 2 layers"])
claim(
    "A fixed length can be slower than no speculation at all: eight drafts by two layers, on sums, "
    "take more than three times as long.",
    3 < worst.cost / worst.tokens < 3.6,
)
runs = [
    lab.run(each[name], AdaptiveLength(8, costs[name]), costs[name])
    for each, name in product(guesses.values(), drafters)
]
claim(
    "Here the adaptive one never costs a tenth more than plain decoding, with any drafter on any "
    "task.",
    len(runs) == 12 and all(run.cost < 1.1 * run.tokens for run in runs),
)

# %% after theory-coins-answer
counts = {}
for task, name, gamma in product(guesses, drafters, (1, 2, 4, 8)):
    steps = [s for each in guesses[task][name] for s in replay(each, FixedLength(gamma))]
    rate = sum(s.kept for s in steps) / max(1, sum(s.reached for s in steps))
    counts[task, name, gamma] = (
        expected_tokens(rate, gamma),
        lab.tokens_per_call(guesses[task][name], gamma)[0],
        rate,
    )
claim(
    "On stories the target accepts every draft of the small model, and the formula promises γ + 1 "
    "tokens per call.",
    all(counts["stories", "small model", g][::2] == (g + 1, 1) for g in (1, 2, 4, 8)),
)
pairs = ("stories", "small model"), ("edits", "small model"), ("edits", "n-gram")
shown = [counts[*each, gamma] for each in pairs for gamma in (2, 8)]
claim(
    "The count is lower.",
    all(counted < formula for formula, counted, _ in shown),
)
lengths_of = {task: [len(each.right) for each in guesses[task]["small model"]] for task in guesses}


def to_the_end(tokens, alpha, gamma):
    """Return the tokens per call of coins on a text of so many tokens."""
    calls = [0.0]
    for left in range(1, tokens + 1):
        most = min(gamma, left)
        chances = [alpha**k * (1 - alpha) for k in range(most)] + [alpha**most]
        calls.append(1 + sum(p * calls[max(0, left - k - 1)] for k, p in enumerate(chances)))
    return tokens / calls[-1]


ending = []
for task in ("stories", "edits"):
    formula, counted, rate = counts[task, "small model", 8]
    near = np.mean([to_the_end(n, rate, 8) for n in lengths_of[task]])
    ending.append((formula - near) / (formula - counted))
claim("The formula knows no end: the last round of a text is cut short.", min(ending) > 0.5)
claim(
    "That is the whole gap on stories, and most of the small model's on edits, whose texts have "
    "only 17 tokens.",
    abs(ending[0] - 1) < 0.02 and 0.5 < ending[1] < 0.9 and {*lengths_of["edits"]} == {17},
)

# %% after theory-clock-answer
claim(
    "Now the prices of this machine, and its clock, for three texts of each task.",
    all(len(each) == 3 for took in seconds.values() for each in took.values()),
)
again = [
    lablib.speculative_decode(target, drafter, few["edits"][1], **options)[0].tolist()
    for drafter in some.values()
]
claim("The texts are equal, only the time differs.", again[0] == again[1] == again[2])
shares = {task: len(few[task][0]) / lengths_of[task][0] for task in few}
claim(
    "The promise leaves out the prompt, which is read in any case and weighs most on short texts, "
    "and the housekeeping of each round.",
    max(shares, key=shares.get) == min(lengths_of, key=lambda task: lengths_of[task][0]),
)
below = []
for task, name in product(few, some):
    four = lab.run(guesses[task][name][:3], FixedLength(4), measured[name])
    plainly = four.tokens * measured[name].forward(1)
    promise = plainly / four.cost
    below += [plainly < four.cost] if promise < 1 else []
claim("Below ×1 four drafts are too many.", all(below))

# %% after dropping-answer
exact = {  # every draft offered, dropped below 1/2, dropped unseen
    "every draft is offered": first_token(p_two, q_two, np.ones(2)),
    "dropped where q(x) < 1/2": first_token(p_two, q_two, 1.0 * (q_two >= 0.5)),
    "dropped by a coin": first_token(p_two, q_two, np.full(2, 0.5)),
}
claim(
    "A draft model that is unsure should offer fewer drafts.",
    best_draft_tokens(0.3, Costs((1, 1.1), 0.1), 8)
    < best_draft_tokens(0.8, Costs((1, 1.1), 0.1), 8),
)
claim(
    "The target has p = (½, ½), the draft model q = (0.7, 0.3).",
    p_two.tolist() == [0.5, 0.5] and q_two.tolist() == [0.7, 0.3],
)
claim(
    "In 65 %.",
    np.allclose([found[0] for found in exact.values()], [0.5, 0.65, 0.5])
    and all(abs(first[what] - found[0]) < 0.01 for what, found in exact.items()),
)
claim(
    "The rule keeps all that p has of the first word, a half.",
    np.isclose(min(p_two[0], q_two[0]), 0.5),
)
claim(
    "Then plain p follows each drop, and brings 15 % more.",
    np.isclose(q_two[1] * p_two[0], 0.15),
)
claim(
    "A coin that hasn't seen x does no harm.",
    np.allclose(exact["dropped by a coin"], p_two),
)
claim(
    "The rule counts on it that x is offered as often as q says.",
    all(np.allclose(first_token(p_two, q_two, np.full(2, c)), p_two) for c in (0.0, 0.3, 1.0)),
)


def refused(blind):
    proposal = Proposal(mx.array([[1]]), mx.full((1, 1, 2), 0.5), drawn=True, blind=blind)
    try:
        check_proposal(proposal, [1], 2, False)
    except BadValue as error:
        return "blind=True" in str(error)
    return False


claim(
    "The engine asks a drafter's offers before it draws, and refuses a Proposal with a q that "
    "doesn't say blind=True.",
    refused(False) and not refused(True),
)
certain = np.array([np.where(np.arange(2) == x, 1.0, 0.0) for x in range(2)])
claim(
    "A guess without a q may be dropped at will: it is judged as certain, and that is right for "
    "any guess.",
    all(np.allclose(first_token(p_two, row, c * row), p_two) for row in certain for c in (0, 1)),
)
claim(
    "So a length may hang on the text, on q and on earlier drafts, but not on the token that was "
    "drawn.",
    not np.allclose(exact["dropped where q(x) < 1/2"], p_two),
)

# %% after batch-answer
one, *_, last = table
claim(
    "With 16 rows 34 forwards become 13: a round may cost 2.6 plain steps.",
    (last.plain_calls, last.calls, last.rows) == (34, 13, 16) and round(34 / 13, 1) == 2.6,
)
whole = expected_tokens(last.alpha, 4)
claim(
    "Theory allows 3.6, the tokens of a whole round, and between the two it recommends drafts that "
    "lose: it leaves out that a batch waits for its unluckiest row, and that last rounds are cut "
    "short.",
    round(whole, 1) == 3.6 and whole > last.plain_calls / last.calls,
)
between = Costs((1.0, 1.75, 2.5, 2.75, 3.0), 0.0)  # a round for 3 plain steps
claim(
    "Theory allows 3.6, the tokens of a whole round, and between the two it recommends drafts that "
    "lose: it leaves out that a batch waits for its unluckiest row, and that last rounds are cut "
    "short.",
    speedup(last.alpha, 4, between) > 1 > last.plain_calls / last.calls / between.of_round(4),
)
claim(
    "Theory allows 3.6, the tokens of a whole round, and between the two it recommends drafts that "
    "lose: it leaves out that a batch waits for its unluckiest row, and that last rounds are cut "
    "short.",
    last.calls > one.calls and last.calls > (last.plain_calls - 1) / whole,
)
busy = Costs((1, 2, 3, 4, 5), 0.0)
claim(
    "Where only arithmetic counts, γ drafts make a forward γ + 1 times as dear, for γ + 1 tokens "
    "at the very best: the best γ is 0 even if drafts are free.",
    all(best_draft_tokens(alpha, busy, 4) == 0 for alpha in (0.5, last.alpha, 1.0)),
)
ratio = np.array(p_row) / np.array(q_row)
claim(
    "A is drafted twice as often as it should be, B half as often: A B exactly as often as the "
    "target would say it.",
    np.allclose(ratio, [0.5, 2]) and np.isclose(ratio.prod(), 1),
)
claim(
    "Then block never refuses it, token-wise rejection loses half of the pairs at the A.",
    np.allclose(chances["rejection", "AB"], [0.5, 0, 0.5]) and chances["block", "AB"][2] > 0.999,
)
claim(
    "As B A shows, a word drafted too seldom makes up only for one before it that came too often.",
    np.allclose(chances["block", "BA"], chances["rejection", "BA"]),
)
more_kept = [there[1] - there[0] for there in gain.values()]
claim("The gain grows with γ.", more_kept == sorted(more_kept) and more_kept[-1] > 1)

# %% after summary
claim(
    "Lookup is free and wins where texts repeat themselves: half of the target's layers are right "
    "more often, and lose to it.",
    counts["edits", "first 4 layers", 4][2] > counts["edits", "n-gram", 4][2]
    and speeds["edits"]["first 4 layers"] < speeds["edits"]["n-gram"],
)
claim(
    "The best γ maximises expected tokens per cost.",
    lengths[0.8][1] == np.argmax(gains),
)
claim(
    "It is 0 where even one draft does not pay, and it changes with the text.",
    best_draft_tokens(0.5, Costs((1.0, 1.5), 0.5), 1) == 0 and length[0].mean() > length[2].mean(),
)
claim(
    "How many are offered may hang on anything but the tokens that were drawn.",
    not np.allclose(exact["dropped where q(x) < 1/2"], p_two)
    and np.allclose(exact["dropped by a coin"], p_two),
)
