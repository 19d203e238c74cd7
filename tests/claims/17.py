"""What checks the sentences of lesson 17 · Sampling under a grammar."""

import json

# %% after by-hand-mask-note
claim("A model of the weather has four words.", len(words) == len(first) == len(after) == 4)
rain_or_ice = mask(first, [False, True, False, True])
claim(
    "A mask puts 0 in every other place and divides by what is left, 0.4.",
    np.isclose(first[1] + first[3], 0.4) and np.allclose(rain_or_ice, [0, 0.3 / 0.4, 0, 0.1 / 0.4]),
)
claim(
    "Between the two the proportions stay: rain is three times as likely as ice.",
    np.isclose(rain_or_ice[1], 3 * rain_or_ice[3]) and np.isclose(first[1], 3 * first[3]),
)

# %% after by-hand-texts-answer
claim(
    "On the first day all four may come, on the second only ice.",
    allowed(()).all()
    and all(allowed((i,)).tolist() == [False, False, False, True] for i in range(4)),
)
claim(
    "Under the mask as often as ever, 0.5: on the first day it forbids nothing, and on the second "
    "it is too late.",
    np.isclose(masked[0, 3], 0.5) and all(np.isclose(masked[i, 3], first[i]) for i in range(4)),
)
claim("But after sun the model says ice with 0.02 only.", after[0, 3] == 0.02)
claim(
    "Under the mask every text obeys, too, but sun ice comes six times as often.",
    np.isclose(sum(masked.values()), 1) and np.isclose(masked[0, 3], 6 * true[0, 3]),
)
claim(
    "After sun it let a mass of 0.02 through, and divided by it.",
    np.isclose(mask(after[0], allowed((0,)))[3], after[0, 3] / 0.02),
)
claim(
    "Of its own texts that end in ice one in twelve begins with sun, and half begin with ice.",
    np.isclose(true[0, 3], 1 / 12) and np.isclose(true[3, 3], 1 / 2),
)

# %% after by-hand-weights-answer
claim(
    "What the mask had divided by is multiplied back, so mask times weight is p of the text.",
    all(np.isclose(masked[text] * weight[text], free[text]) for text in wanted),
)
claim(
    "Over their sum that is what we wanted.",
    all(np.isclose(masked[text] * weight[text] / mean, true[text]) for text in wanted),
)
claim(
    "And the mean weight is the share of the model's own texts that obey, the evidence: masked "
    "texts alone tell how rarely the model obeys.",
    np.isclose(mean, share),
)

# %% after library-answer
claim(
    "With importance_sample texts are drawn under the mask, 4,000 here, and their weights kept.",
    len(found.tokens) == 4000
    and {text[1] for text in found.tokens} == {3}
    and abs(plain - masked[0, 3]) < 5 * 0.5 / 4000**0.5
    and abs(weighed - true[0, 3]) < 0.02,
)
claim(
    "No text had to be thrown away; of the model's own it would have been seven in eight.",
    min(found.weights) > 0 and round(8 * (1 - share)) == 7,
)
claim(
    "Still the 4,000 count for a third, some 1,300, because weights differ; of as many free texts "
    "480 would be left.",
    len(parts) == 4000
    and abs(1 / (parts**2).sum() - 4000 / 3) < 150
    and np.isclose(mean**2 / sum(masked[t] * weight[t] ** 2 for t in wanted), 1 / 3)
    and round(4000 * share) == 480,
)


def library_allows(so_far):
    state = ICE.copy()
    state.read([4])
    state.read([4, *so_far])
    return state.allowed()[:4].tolist()


claim(
    "The library's grammar allows what ours allows.",
    all(library_allows(each) == allowed(each).tolist() for each in ((), (0,), (1,), (2,), (3,))),
)


# %% after predict-masked-answer
def gap(name, dependence, weigh=False):
    data = picture.compute(name, dependence, weigh)
    return np.abs(data["shown"] - data["true"]).sum() / 2


def same_mass(name, dependence):
    chain, masses = WEATHER.mixed(dependence), []
    goal = chain.wanted(2, lab.GRAMMARS[name])
    for text in goal:
        steps = [chain.next(text[:i])[chain.allowed(goal, text[:i])].sum() for i in (0, 1)]
        masses.append(np.prod(steps))
    return bool(np.ptp(masses) < 1e-9)


claim(
    "Depends on today makes the days independent of each other, at 0.",
    np.allclose(WEATHER.mixed(0.0).after, first) and np.allclose(WEATHER.mixed(1.0).after, after),
)
claim(
    "They agree, 0.00, where the allowed mass is the same on every way.",
    all((gap(name, d) < 1e-9) == same_mass(name, d) for name in lab.GRAMMARS for d in (0.0, 1.0)),
)
claim(
    "Ice on the first day forbids only on the first day: right at 1 and at 0.",
    max(gap("ice on the first day", d) for d in (0.0, 1.0)) < 1e-9,
)
claim(
    "Ice on the second day is right at 0, as no first day makes ice more likely.",
    gap("ice on the second day", 0.0) < 1e-9,
)
claim(
    "Two different days is wrong even at 0: after a sunny day only half of the mass is allowed, "
    "after an icy one nine tenths.",
    gap("two different days", 0.0) > 0.01 and np.allclose(1 - first[[0, 3]], [0.5, 0.9]),
)
claim(
    "With the weights every bar meets its line.",
    max(gap(name, d, True) for name in lab.GRAMMARS for d in (0.0, 0.5, 1.0)) < 1e-9,
)

# %% after predict-sums-answer
answers = [tokenizer.decode(tokens, skip_special_tokens=True)[-1] for tokens in texts]
claim("All answers will be even.", {*answers} <= {*"02468"} and len(answers) == 256)
claim(
    "Our large model adds digits in a chain of steps, and repeats the last total behind #.",
    np.mean([own(t) for each in alone for t in each.tokens]) > 0.98,
)
claim(
    "The form is the model's own, so in effect the mask acts on one token, when all else is "
    "written.",
    min(
        w
        for cloud in clouds
        for w, t in zip(cloud.log_weights, cloud.tokens, strict=True)
        if own(t)
    )
    > -0.1,
)
claim(
    "A chain that leads to an odd total gets an even digit after it, of which the model thinks "
    "next to nothing: that is its weight.",
    max(
        w
        for cloud in clouds
        for w, t in zip(cloud.log_weights, cloud.tokens, strict=True)
        if not own(t)
    )
    < -3,
)
claim(
    "The share of even answers that the model gives without a grammar.",
    abs(evidence - freely) < 0.02,
)
claim(
    "It is that of the author, too, from whom the model learned (lesson 00).",
    abs(evidence - author) < 0.02,
)
claim("Weighed, all answers are their chain's own.", weighed > 0.995)
claim(
    "But only about half of the texts count: the others were written for nothing.",
    0.35 < agree < 0.65,
)

# %% after predict-particles-answer
kept, gone = np.zeros(4), np.zeros(4)
for data in seen:
    for i, word in enumerate(data["words"][0]):
        (kept if i in data["alive"][0] else gone)[word] += 1
left = kept[1:] / (kept + gone)[1:]


def grown(data, n):
    parents, kept_weights = data["parents"][n], n + 1 not in data["drawn"]
    before = data["weights"][n - 1] if kept_weights else np.ones(len(parents))
    shares = before[parents] * (1 - after[:, 0])[np.array(data["words"][n - 1])[parents]]
    return shares / shares.sum()


claim(
    "Each row is a text, a particle; its mark is as large as its share of all weights, which "
    "multiply from day to day, since the last anew.",
    all(np.allclose(data["weights"][n], grown(data, n)) for data in seen for n in range(1, 7)),
)
claim(
    "How many of N are effective is 1 / Σ share²: shares of ¼ each make 4, shares ½, ½, 0 and 0 "
    "make 2.",
    all(np.isclose(data["effective"][-1], 1 / (data["weights"][-1] ** 2).sum()) for data in seen),
)
claim(
    "After rain the model says sun with 0.7, so a mass of only 0.3 is allowed, and that is the "
    "factor in its weight; after ice it is 0.95.",
    np.allclose(1 - after[[1, 3], 0], [0.3, 0.95]) and left[0] < 0.5 < left[2],
)
claim("Those that began with rain, mostly.", left[0] < 0.5 < left[2])
claim(
    "What lives on is akin: it descends from about half of the first day's texts.",
    5 < np.mean(ancestors) < 8,
)
often = [[cloud.compute(12, ess, seed, 6) for seed in range(20)] for ess in (0.0, 0.5, 0.9)]
times, few = (
    [np.mean([len(f(d)) for d in row]) for row in often]
    for f in (lambda data: data["drawn"], lambda data: data["alive"][0])
)
claim(
    "When that is less than the threshold times N, N are drawn anew by weight: resampling.",
    times[0] == 0 < times[1],
)
claim("Light ones die, heavy ones go on more than once.", max(ancestors) < 12)
claim(
    "A higher threshold resamples more often and leaves fewer ancestors.",
    times[1] < times[2] and few[2] < few[1] < few[0],
)
most = [np.sort(data["weights"][-1])[-4:].sum() for data in often[0]]
claim(
    "At 0 nobody dies, and at the end of the week few texts have most of the weight.",
    few[0] == 12 and np.mean(most) > 0.6,
)

# %% after predict-rules-answer
claim(
    "Their text has exactly p, for every p and every q.",
    all(lossless.bias(r) < 1e-9 for r in rules.RULE.values()),
)
claim(
    "So it has exactly the masked p.",
    max(error.values()) < 1e-9,
)
claim(
    "Here is a grammar in which no word may follow itself, and every text of three words behind "
    "sun is listed, as in lesson 08.",
    truth.size == 4**3 and all(truth[:, i, i].sum() == 0 for i in range(4)),
)
claim("The text is right in all rows.", max(error.values()) < 1e-9 and len(error) == 8)
claim(
    "But a draft that the grammar forbids has p = 0, and is refused for certain: who drafts freely "
    "drafts in vain more often.",
    all(fewer) and not target_table[~no_repeat].any(),
)


# %% after predict-state-answer
claim("With them all do.", obeyed["with copies"] == len(prompts))
claim(
    "Without copies no text obeys, and no error says so.",
    obeyed["never taken back"] == 0,
)

# %% after predict-drafter-run
assert len(calls) * len(prompts) == stats["rounds"]


# %% after predict-drafter-answer
def chained(row):
    *steps, _ = tokenizer.decode(row, skip_special_tokens=True).split(";")
    return all(steps[n][0] == steps[n - 1][-1] for n in range(1, 5))


claim(
    "Where only one token may come, the forced token, the model needn't be asked: as a draft it "
    "is always kept.",
    all(each.stats["acceptance_rate"] == 1 for each in found.values()),
)
claim(
    "After a step's first digit must come +.",
    all(kinds[n] == "forced" and tokens[n] == "+" for n in range(1, 30, 6)),
)
claim(
    "A chain has five steps, as 3+9=2;, and an answer, as #2: 32 tokens, and one that ends it.",
    {len(row) for each in found.values() for row in each.tokens} == {33},
)
claim(
    "Nearly three, though nobody has drafted but the grammar, and every draft is kept.",
    2.7 < found["its totals"].stats["tokens_per_round"] < 3
    and found["its totals"].stats["total_drafted"] == found["its totals"].stats["total_accepted"],
)
claim(
    "The choices are new digits alone: one for the first step's beginning, and two in each step, "
    "what is added and what comes out.",
    kinds.count("chosen") == 1 + 2 * 5
    and all(token.isdigit() for token, kind in zip(tokens, kinds, strict=True) if kind == "chosen"),
)
claim(
    "A context-free grammar has rules with names, and so can remember: each step begins with the "
    "total before it, and the answer repeats the last one.",
    all(own(row) and chained(row) for row in found["its totals"].tokens),
)
claim(
    "Here are two of its rules, one of them cut short: s1_7 is what follows when the first step "
    "came to 7, and n1 is the next total with what follows that.",
    totals.count("s1_7: ") == totals.count("n1: ") == 1,
)

# %% after theory-evidence-answer
claim(
    "Here clouds of particles, eight texts each, estimate which share of the model's months, of "
    "28 days, has no sun.",
    {len(run.tokens) for run in runs} == {8}
    and {len(t) for run in runs for t in run.tokens} == {28},
)
claim(
    "One multiplication for each day says it exactly.",
    np.isclose(WEATHER.share(cloud.allowed, 2), (first * cloud.allowed) @ after @ cloud.allowed),
)
claim(
    "Both means agree with the exact share, within two standard errors (± is one).",
    all(abs(ratio.mean() - 1) < 2 * ratio.std() / 10 for ratio in estimates.values()),
)
claim(
    "But most single estimates are too small: the mean is carried by a few lucky clouds.",
    all((ratio < 1).mean() > 0.6 for ratio in estimates.values()),
)
claim(
    "This one is, as the plain mean is without resampling, because each step's mean is right "
    "whatever came before it: averages can be taken from the last step backwards.",
    all(abs(ratio.mean() - 1) < 3 * ratio.std() / 10 for ratio in estimates.values()),
)
claim(
    "Resampling doesn't change what is estimated, it makes the luck less rare: the spread is "
    "smaller, and the median nearer to the mean.",
    estimates[0.8].std() < estimates[0.0].std()
    and np.median(estimates[0.8]) > np.median(estimates[0.0]),
)

# %% after theory-calls-answer
claim(
    "The engine needs one call more than there are choices: what is forced behind the last choice "
    "is read in a call of its own.",
    all(each.stats["rounds"] / len(prompts) - 1 in (11, 16) for each in found.values()),
)


# %% after json-answer
def readable(text):
    try:
        return {*json.loads(text)} == {*keys}
    except ValueError:
        return False


claim(
    "Free, it says something around JSON, in a form of its own.",
    not any(readable(text) for text in said["free"]),
)
claim(
    "Under the grammar each answer can be read by a program.",
    all(readable(text) for text in said["grammar"]),
)
claim(
    "Where the number stands the schema let 0.02 and 0.006 of the model's mass through, as with "
    "sun ice: the model was about to write something else, and the mask made a number of it.",
    not masses
    or [
        f"{each[at]:.1g}"
        for each, answer in zip(masses, said["grammar"], strict=True)
        if json.loads(answer)["legs"] == 1
    ]
    == ["0.02", "0.006"],
)
claim("And the drafter has little to say.", all(ratio < 1.6 for ratio in real_stats))
claim(
    'The schema forces letters, but 49,152 tokens can spell "animal" in many ways, and each of '
    "them is a choice.",
    not real_stats or len(english.get_vocab()) == 49_152,
)

# %% after summary
claim(
    "Every text obeys.",
    sum(masked.values()) > 1 - 1e-9 and obeyed["with copies"] == len(prompts),
)
claim(
    "The product of the allowed masses is a text's weight; mask times weight, scaled, is the "
    "model, had it obeyed.",
    all(np.isclose(masked[text] * weight[text] / mean, true[text]) for text in wanted),
)
