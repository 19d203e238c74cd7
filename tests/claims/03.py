"""What checks the sentences of lesson 03 · Sampling."""

from lablib.course.theory.estimators import difference_interval, wilson_interval

from mlx_lm.sample_utils import make_sampler

# %% after by-hand-temperature-answer
plain = softmax(logits)
claim(
    "Mat is 0.8 ahead of sofa, and therefore e^0.8 = 2.2 times as probable.",
    round(float(np.exp(0.8)), 1) == 2.2 and np.isclose(plain[0] / plain[1], np.exp(0.8)),
)
claim(
    "Temperature divides all scores by T, so that every difference is divided, and the odds become "
    "e^(0.8/T).",
    all(
        np.isclose(softmax(logits / t)[0] / softmax(logits / t)[1], np.exp(0.8 / t)) for t in heats
    ),
)
claim(
    "Cold, odds grow, until the best word has everything: this limit is called temperature 0, "
    "or greedy.",
    each[0, 0] > 0.999 and (np.diff(each[0]) < 0).all(),
)
claim(
    "Hot, odds shrink towards 1, and all words draw near to one tenth each.",
    np.ptp(softmax(logits / 1000)) < 0.01 and np.ptp(each[:, -1]) < np.ptp(each[:, 10]),
)
claim(
    "But no heat changes the order of the words, because dividing by T leaves a better score the "
    "better one.",
    (np.diff(each, axis=0) <= 0).all() and (np.diff(logits) < 0).all(),
)

# %% after by-hand-question-answer
cut_on = top_k(logits, 3), top_p(logits, 0.8), min_p(logits, 0.3)
before = [np.isfinite(cut).sum() for cut in cut_on]
claim("Heat never rules a word out.", (each[:, 5:] > 0).all())
claim(
    "Here the model isn't sure, and the three rules keep three or four words.", before == [3, 4, 3]
)
claim(
    "Top-k keeps three whatever happens, because it counts places and looks at no score.",
    stay[0] == before[0] == 3,
)
claim(
    "Top-p keeps one, because that word alone has the mass it asks for.",
    stay[1] == 1 and softmax(sure).max() >= 0.8,
)
claim(
    "In other words, the last two follow the model's certainty.",
    max(stay[1:]) < min(before[1:]) and stay[0] == before[0],
)
claim(
    "Min-p keeps one, too: no other word comes near enough to the best.",
    stay[2] == 1 and np.sort(softmax(sure))[-2] < 0.3 * softmax(sure).max(),
)

# %% after library-equal
two = transforms.top_k(mx.stack([row, row[::-1]]), 3)
claim(
    "lablib has the same rules for a whole batch, as functions from scores to scores.",
    mx.array_equal(two[1], two[0][::-1]).item(),
)
tie = mx.array([0.0, 1.0, 1.0])
claim(
    "At a tie on the edge of top-k or top-p ours keep both words, the library's the one with the "
    "smaller id.)",
    np.isfinite(top_k(np.array(tie), 1)).tolist()
    == np.isfinite(top_p(np.array(tie), 0.3)).tolist()
    == [False, True, True],
)
claim(
    "At a tie on the edge of top-k or top-p ours keep both words, the library's the one with the "
    "smaller id.)",
    mx.isfinite(transforms.top_k(tie, 1)).tolist()
    == mx.isfinite(transforms.top_p(tie, 0.3)).tolist()
    == [False, True, False],
)

# %% after library-options-run
untouched = mx.softmax(transforms.apply(row, lablib.SamplerOptions()))
claim(
    "We hold ours against the library's, and print the order in which it applies them. (peak "
    "subtracts the best score, which changes no probability.",
    mx.allclose(mx.softmax(transforms.ORDER["peak"](row, mx.max(row))), mx.softmax(row)).item(),
)
in_turn, steps = row, {"top_k": 5, "peak": 4.0, "temperature": 0.9, "top_p": 0.9, "min_p": 0.1}
for name in transforms.ORDER:
    in_turn = transforms.ORDER[name](in_turn, steps[name]) if name in steps else in_turn
settings = lablib.SamplerOptions(temperature=0.9, top_k=5, top_p=0.9, min_p=0.1)
claim(
    "We hold ours against the library's, and print the order in which it applies them. (peak "
    "subtracts the best score, which changes no probability.",
    mx.array_equal(in_turn, transforms.apply(row, settings)).item(),
)
claim(
    "SamplerOptions holds the settings of one text; by default nothing is changed.",
    np.allclose(untouched, plain, atol=1e-6),
)
punished = transforms.apply(row, lablib.SamplerOptions(top_k=1, presence_penalty=3.0), [0])
claim(
    "Its penalties lower the scores of words that were said lately, before anything else is done.",
    punished.argmax().item() == 1,  # mat was punished, and then sofa is the best
)

# %% after predict-before-after-answer
warm = np.sort(softmax(logits / 2.0))[::-1]
claim(
    "The line stays at 0.9, and the heat goes from 1 to 3.",
    [s["top_p"] for s in settings] == [0.9] * 3,
)
claim("More words stay.", stay[0] < stay[1] < stay[2])
claim(
    "Heat brings them closer together, so the staircase rises more slowly, and more steps begin "
    "below the line.",
    (np.cumsum(warm)[:-1] < np.cumsum(plain)[:-1]).all(),
)
late = transforms.temperature(transforms.top_p(row, 0.9), 3.0)
drawn = make_sampler(temp=50.0, top_p=0.9)(mx.broadcast_to(mx.log(mx.softmax(row)), (2000, 10)))
claim(
    "Where a tool cuts first, fewer stay, and so temperature 2, top-p 0.9 says little as long as "
    "nobody names the order.)",
    mx.isfinite(late).sum().item() == len({*drawn.tolist()}) < stay[2],
)
hot = explorer.compute(temperature=3.0, top_k=0, top_p=1.0, min_p=0.1)["after"]
claim(
    "It lets in even more of these ten, for it asks only how far each is behind the best.",
    (hot > 0).sum() > stay[2],
)

# %% after theory-frontier-why-answer
bare, p_cut, m_cut = ([outcomes[cut, t] for t in temperatures] for cut in cuts)
every = (bare, p_cut, m_cut)
diverse = [[np.mean(o.unlike) for o in each] for each in every]
claim("Below, 48 are written from the same opening with each setting.", bare[0].drawn == n == 48)
claim(
    "A path begins at the left, where it is cold: nearly all stories are right, and much alike.",
    all(o[0].valid > 0.9 * n for o in every) and max(each[0] for each in diverse) < 0.4,
)
claim(
    "Up to 0.8 all three go far to the right and hardly fall, so that heat is a gift there.",
    all(o[1].valid > o[0].valid - 0.15 * n for o in every)
    and min(b - a for a, b, *_ in diverse) > 0.2,
)
claim(
    "Then no cut falls, until hardly a story is right.",
    bare[1].valid > bare[2].valid > bare[3].valid and bare[3].valid < 0.15 * n,
)
claim(
    "Top-p goes over an edge, too, only later, behind 1.3.",
    p_cut[3].valid < 0.4 * n and p_cut[2].valid > bare[2].valid,
)
claim(
    "From 1.3 to 1.8 min-p hardly moves.",
    abs(diverse[2][3] - diverse[2][2]) < 0.1 and abs(m_cut[3].valid - m_cut[2].valid) < 0.15 * n,
)


def gap(cut, t):
    return difference_interval(outcomes[cut, t].valid, n, outcomes["no cut", t].valid, n)


claim(
    "Its share lies above that of no cut, but both may be off, as 48 stories are few.",
    p_cut[1].valid > bare[1].valid and np.ptp(wilson_interval(bare[1].valid, n)) > 0.08,
)
claim(
    "The caption has the interval of the difference, and 0 lies inside: these stories can't tell "
    "the two apart.",
    gap("top-p 0.9", 0.8)[0] <= 0 <= gap("top-p 0.9", 0.8)[1],
)
claim(
    "At 1.3 it lies outside for both cuts.", gap("top-p 0.9", 1.3)[0] > 0 < gap("min-p 0.1", 1.3)[0]
)
(low, high), (least, most) = wilson_interval(40, 48), wilson_interval(47, 48)
claim(
    "Don't ask instead whether the two crosses overlap, because they may overlap where the "
    "difference is clear: it is improbable that one is off upwards and the other downwards, both "
    "as far as they can.",
    least < high and difference_interval(47, 48, 40, 48)[0] > 0,
)
claim(
    "Each token of the tail has next to nothing, but there are 502 of them.",
    len(scores) - 10 == 502,
)
p = mx.sort(mx.softmax(scores / 1.8))[::-1]
claim(
    "At 1.8 heat has given them so much, all together, that 0.9 is reached only far down among "
    "them, and top-p lets in whatever lies on the way.",
    counts[0] > 30 and p[10:].sum().item() > 0.1 > 10 * p[10].item(),
)
claim(
    "Min-p compares each with the best one alone, so that no crowd can help it in.",
    counts[1] < 10 and m_cut[3].valid > 0.8 * n,
)
claim("With a whole vocabulary that turns round, as the last part shows.", counts[1] < counts[0])
claim(
    "More to the right isn't better by itself, as nonsense differs from everything.",
    diverse[0][3] > diverse[2][3] and bare[3].valid < m_cut[3].valid,
)
claim(
    "The stories that differ most are those at 1.8 without a cut.",
    np.max(diverse) == diverse[0][3],
)

# %% after summary
claim(
    "Only the last two follow the model's certainty, and of these only min-p is safe from a "
    "heavy tail.",
    [a == b for a, b in zip(before, (3, 1, 1), strict=True)] == [True, False, False]
    and counts[1] < 10 < counts[0],
)
claim(
    "Heat buys diversity first and costs validity later.",
    diverse[0][1] - diverse[0][0] > 0.2 > (bare[0].valid - bare[1].valid) / n,
)
claim(
    "Heat buys diversity first and costs validity later.", bare[1].valid - bare[3].valid > 0.5 * n
)
begins = [next((t for t in temperatures if outcomes[cut, t].valid < 0.8 * n), 9) for cut in cuts]
claim(
    "On these stories a cut moves the place where it begins to cost: top-p a little, min-p a lot.",
    begins[0] < begins[1] < begins[2],
)
