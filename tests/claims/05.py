"""What checks the sentences of lesson 05 · Best of N."""

# %% after by-hand-answer
claim("Here are four completions, with the log-probability of each token.", len(candidates) == 4)
sums_so_far = [np.cumsum(logprobs) for logprobs in candidates.values()]
claim(
    "Every further token makes it smaller.",
    all(bool((np.diff(each) < 0).all()) for each in sums_so_far),
)
claim(
    "The sum takes the short wrong answer, and the mean takes the long right one.",
    (by_sum, by_mean) == ("8", "3+4=7"),
)

# %% after library-best-equal
claim(
    "The mean does, and the sum's winner can never be the longer one.",
    len(usual) < len(mean),
)
claim(
    "Stories differ in length, so that here the two rankings can disagree.",
    len({len(tokens) for tokens in drawn.tokens}) > 1 and usual != mean,
)
by_hand = [[score(each) for each in drawn.logprobs] for score in (log_prob, length_normalized)]
claim(
    "By hand, from the same samples:",
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

# %% after predict-order-answer
claim("Four judges choose one chain out of N:", len(judges(problems[0])) == 4)
ranked = [eight[name] for name in ("exact", "learned", "log-prob", "single")]
ends = [curves[name][-1] for name in judges(problems[0])]
claim(
    "With eight samples the exact verifier is best, the learned one comes next, then the "
    "log-probability, and each beats a single sample.",
    ranked == sorted({*ranked}, reverse=True),
)
claim("With 64 they can hardly be told apart.", max(ends) - min(ends) < 0.05)
tokens = [len(row) for r in rows for row in r.tokens]
apart = np.abs(np.array(curves["log-prob"]) - curves["mean"])
claim(
    "Sum and mean lie on top of each other, because nearly all chains have equally many tokens.",
    apart.max() < 0.02 and np.mean([count == 33 for count in tokens]) > 0.9,
)
claim("But 12 problems are few.", len(each) == len(problems) == 12)
of_one = [np.mean([one[name][0] for one in each]) for name in ("exact", "learned", "log-prob")]
claim(
    "All judges chose among the same chains, so take the difference of two judges on each problem.",
    np.allclose(of_one, ranked[:3]),
)
claim(
    "The learned verifier is better than the log-probability, and this is better than a single "
    "sample: both intervals lie above 0.",
    gaps["learned", "log-prob"][0] > 0 and gaps["log-prob", "single"][0] > 0,
)
claim(
    "The exact one is worse than the learned one on no problem, because it takes a right chain "
    "wherever there is one.",
    all(one["exact"][0] > one["learned"][0] - 1e-9 for one in each),
)

# %% after predict-doubt-answer
own = learned.token_scores(*scoring.pad(prompts[0], rows[0].tokens[:4]))
claim(
    "The prompt adds as well, the same for all of its chains, so that only differences count.",
    float(mx.abs(own[:, : len(prompts[0])] - own[0, : len(prompts[0])]).max()) < 1e-3,
)
claim(
    "A chain over a doubtful pair has to divide its probability between the slip and the truth, "
    "and so the most probable chains avoid such pairs.",
    doubtful["chosen"] < doubtful["all"] / 2,
)
hits = [sums.check(p, text) for p, text in zip(problems, chains["greedy"], strict=True)]
claim(
    "Greedy decoding meets some, because it takes the most probable next token, and sees the doubt "
    "when it is too late for another road.",
    doubtful["greedy"] > doubtful["chosen"] and np.mean(hits) < curves["log-prob"][-1],
)

# %% after predict-noise-answer
claim("Mostly the first wrong result.", len(found) > 30 and most > 0.5)
claim(
    "So we take each chain with a slip twice: as it is, and with the same digits in the same "
    "order, added rightly.",
    all(len(row) == len(twin) and row[:4] == twin[:4] for row, twin, *_ in found)
    and all(sum(a != b for a, b in zip(row, twin, strict=True)) < 20 for row, twin, *_ in found),
)
results = np.mean([adds[0][4::6][:5] > 0 for _, _, adds, _ in found])
claim(
    "Compare columns, not signs: most results add something, for the chain looks like many right "
    "ones; but where it slips it loses more than anywhere else.",
    bool(results > 0.6) and most > 0.5,
)
claim("So it has found out by itself which results go with wrong chains.", most > 0.5)
claim(
    "With heavy tails the score rises and rises, because it is the largest of more and more "
    "numbers.",
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
its_truth = np.take_along_axis(right[None], noise._errors[HEAVY].argmax(-1)[..., None], axis=-1)
claim(
    "Of all 64 the winner is mostly the chain with the luckiest error, and lucky errors fall on "
    "wrong chains as easily as on right ones.",
    heavy["lucky"] > 0.5 > gauss["lucky"] and bool(abs(its_truth.mean() - right.mean()) < 0.1),
)
claim(
    "With Gaussian errors the truth does not fall: a reward is five times the noise, and an error "
    "that large is so rare that more samples go on helping.",
    bool((np.diff(gauss["truth"]) > -0.005).all() and math.erfc(5 / math.sqrt(2)) < 1e-6),
)
claim(
    "(There the luckiest error wins only on a right chain: half the time, since about half of the "
    "chains are right.)",
    abs(right.mean() - 0.5) < 0.1 and abs(gauss["lucky"] - right.mean()) < 0.1,
)
loud = {s: noise.compute(noise=s)[GAUSSIAN]["truth"] for s in np.arange(0.2, 1.01, 0.2)}
claim(
    "Here only the heavy tail makes more samples worse.",
    all(bool((np.diff(truth) > -0.02).all()) for truth in loud.values())
    and bool(np.diff(heavy["truth"]).min() < -0.03),
)

# %% after theory-exact-answer
claim(
    "It does, because an exact judge finds a right sample whenever there is one.",
    bool(np.abs(np.array(theory) - curves["exact"]).max() < 0.1)  # 12 problems are few
    and bool(np.abs(np.array(curves["exact"]) - curves["pass"]).max() < 0.02),
)
claim(
    "The gap at N = 1 is about what 768 chains differ by chance.",
    right.size == 768 and abs(theory[0] - right.mean()) < 2 * math.sqrt(0.25 / 768),
)
claim(
    "No judge can do more.",
    all(max(np.array(curves[name]) - curves["pass"]) < 1e-9 for name in judges(problems[0])),
)

# %% after on-smollm2-answer
kept = lablib.course.lessons.smollm2.stored("05")
claim(
    "Of both it is about as sure, and only one is right: Turkey's capital is Ankara.",
    "Canberra" in kept[0]
    and "Ankara" not in kept[1]
    and abs(float(kept[0].split()[0]) - float(kept[1].split()[0])) < 0.5,
)

# %% after summary
claim(
    "Watch the tail of its errors, because a heavy one spoils what many samples gain.",
    bool(heavy["truth"][-1] < heavy["truth"].max() - 0.04),
)
