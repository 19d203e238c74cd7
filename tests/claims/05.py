"""What checks the sentences of lesson 05 · Best of N."""

# %% after by-hand-answer
claim("Four completions, each token with its log-probability.", len(candidates) == 4)
sums_so_far = [np.cumsum(logprobs) for logprobs in candidates.values()]
claim(
    "Every further token makes it smaller.",
    all(bool((np.diff(each) < 0).all()) for each in sums_so_far),
)
claim(
    "The sum takes the short wrong answer, the mean the long right one.",
    (by_sum, by_mean) == ("8", "3+4=7"),
)

# %% after library-best-equal
claim(
    "The mean, and the sum's winner can never be the longer one.",
    all(a <= b for a, b in lengths) and any(a < b for a, b in lengths),
)
by_hand = [[score(each) for each in drawn.logprobs] for score in (log_prob, length_normalized)]
claim(
    "By hand, from the same samples as the last story's:",
    [drawn.tokens[int(np.argmax(each))] for each in by_hand] == [usual, mean],
)

# %% after predict-draw
claim(
    "From here on the task is sums: six digits, added modulo 10 one by one, in any order.",
    all(len(problem.data) == 6 for problem in problems)
    and all(problem.answer.endswith(f"#{sum(problem.data) % 10}") for problem in problems),
)
claim(
    "The next cell draws 64 chains for each of 12 unseen problems; the judges below choose among "
    "these.",
    right.shape == (12, 64),
)

# %% after predict-doubt-answer
claim("Four judges choose one chain out of N:", len(judges(problems[0])) == 4)
ranked = [eight[name] for name in ("exact", "learned", "log-prob", "single")]
ends = [curves[name][-1] for name in judges(problems[0])]
claim(
    "With eight samples the exact verifier is best, the learned one comes next, then the "
    "log-probability, and each beats a single sample; with 64 they can hardly be told apart.",
    ranked == sorted({*ranked}, reverse=True) and max(ends) - min(ends) < 0.05,
)
tokens = [len(row) for r in rows for row in r.tokens]
gaps = np.abs(np.array(curves["log-prob"]) - curves["mean"])
claim(
    "Sum and mean lie on top of each other, as nearly all chains have equally many tokens.",
    gaps.max() < 0.02 and np.mean([count == 33 for count in tokens]) > 0.9,
)
claim(
    "A chain over a doubtful pair has to divide its probability between the slip and the truth, "
    "and the most probable chains avoid such pairs.",
    doubtful["chosen"] < doubtful["all"] / 2,
)
hits = [sums.check(p, text) for p, text in zip(problems, chains["greedy"], strict=True)]
claim(
    "Greedy decoding meets some: it takes the most probable next token, and sees the doubt when it "
    "is too late for another road.",
    doubtful["greedy"] > doubtful["chosen"] and np.mean(hits) < curves["log-prob"][-1],
)

# %% after predict-noise-answer
claim("Mostly the first wrong result.", len(found) > 30 and first > 0.5)
claim(
    "The score rises and rises: it is the largest of more and more numbers.",
    bool((np.diff(heavy["score"]) > 0).all()),
)
peak = int(np.argmax(heavy["truth"]))
claim(
    "The truth rises, has a peak, and falls.",
    bool(
        0 < peak < len(counts) - 1
        and (np.diff(heavy["truth"])[:peak] > 0).all()
        and heavy["truth"][peak] - heavy["truth"][-1] > 0.04
    ),
)
errors = noise._errors[HEAVY]  # (verifiers, problems, 64 chains)
luckiest, scores = errors.argmax(axis=-1), right + 0.2 * errors
won = [scores[..., :n].argmax(axis=-1) == errors[..., :n].argmax(axis=-1) for n in counts]
its_truth = np.take_along_axis(right[None], luckiest[..., None], axis=-1)
claim(
    "Beyond the peak the winner is mostly the chain with the luckiest error, and lucky errors fall "
    "on wrong chains as easily as on right ones.",
    bool(np.mean(won[peak + 1 :], axis=(1, 2)).min() > 0.5)
    and bool(abs(its_truth.mean() - right.mean()) < 0.1),
)

# %% after predict-noise-end
claim(
    "It doesn't: at this noise a Gaussian error as large as one reward is so rare that more "
    "samples go on helping.",
    bool((np.diff(gauss["truth"]) > -0.005).all() and math.erfc(5 / math.sqrt(2)) < 1e-6),
)
loud = {s: noise.compute(noise=s, errors=GAUSSIAN)["truth"] for s in np.arange(0.2, 1.01, 0.2)}
claim("Raise the noise and they help less.", bool(loud[1.0][-1] < gauss["truth"][-1]))
claim(
    "But it takes the heavy tail to make more samples worse.",
    all(bool((np.diff(truth) > -0.02).all()) for truth in loud.values())
    and bool(np.diff(heavy["truth"]).min() < -0.03),
)

# %% after theory-exact-answer
claim(
    "The average p promises too much from N = 2 on, wherever problems differ: the curve bends "
    "downwards, and its average lies below the curve of the average (Jensen's inequality).",
    bool(
        (own_two < average_two)[1:].all()
        and (own < average)[1:4].all()
        and np.isclose([own[0], own_two[0]], [average[0], average_two[0]]).all()
    ),
)
assert jensen < 0.02
claim(
    "In the picture the gap is wide: more samples of an easy problem don't help the hard one.",
    bool((average_two - own_two).max() > 0.2),
)
assert gap < 0.2  # the model isn't quite the annotator, and 12 problems are few
assert abs(np.array(curves["exact"]) - curves["pass"]).max() < 0.02

# %% after theory-kl-answer
claim(
    "The next cell computes both sides exactly: for 3,000 equally likely outcomes of different "
    "scores, and for the digits of one sums problem with the exact verifier.",
    len(many) == 3000 and len(probs) == 10,
)
bound, nearly, exact = (np.array(each) for each in series.values())
claim(
    "A verifier that says only right or wrong moves no further than -log p, the surprise of a "
    "right answer: once the answer is right, there is nothing left to choose.",
    bool(
        (exact <= -math.log(probs[digit]) + 1e-9).all()
        and exact[-1] > -math.log(probs[digit]) - 1e-3
    ),
)
assert (nearly <= bound + 1e-9).all()
assert (exact <= bound + 1e-9).all()
assert nearly[-1] > 0.99 * bound[-1]

# %% after on-smollm2-answer
kept = lablib.course.lessons.smollm2.stored("05")
claim(
    "The first three are right, and the last is noise.",
    ["Canberra" in line for line in kept] == [True, True, True, False],
)
