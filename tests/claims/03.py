"""What checks the sentences of lesson 03 · Sampling."""

from math import erf, lgamma, log, sqrt

from lablib.course.theory.estimators import wilson_interval

from mlx_lm.sample_utils import make_sampler

# %% after by-hand-temperature-run
cold, plain, warm = (softmax(logits / t) for t in (0.5, 1.0, 2.0))
claim(
    "Below 1 the differences grow, and the best word wins more often.",
    np.ptp(logits / 0.5) > np.ptp(logits),
)
claim("Below 1 the differences grow, and the best word wins more often.", cold[0] > plain[0])
claim("Above 1 they shrink, and rare words get a chance.", np.ptp(logits / 2.0) < np.ptp(logits))
claim("Above 1 they shrink, and rare words get a chance.", (warm[5:] > 2 * plain[5:]).all())

# %% after by-hand-question-answer
before = [
    np.isfinite(cut).sum() for cut in (top_k(logits, 3), top_p(logits, 0.8), min_p(logits, 0.3))
]
claim("Now the model is very sure: one word has 0.97.", round(softmax(sure).max(), 2) == 0.97)
claim("Top-k keeps three whatever happens.", stay[0] == before[0] == 3)
claim("Top-p and min-p keep one: their cut moves with the model's certainty.", stay[1:] == [1, 1])
claim("Top-p and min-p keep one: their cut moves with the model's certainty.", min(before[1:]) > 1)

# %% after library-equal
two = transforms.top_k(mx.stack([row, row[::-1]]), 3)
claim(
    "lablib has the same rules for a whole batch, as functions from scores to scores.",
    mx.array_equal(two[1], two[0][::-1]).item(),
)
tie = mx.array([0.0, 1.0, 1.0])
claim(
    "(Top-k and top-p differ at a tie: at the edge ours keep both words, the library's "
    "the one with the smaller id.)",
    np.isfinite(top_k(np.array(tie), 1)).tolist()
    == np.isfinite(top_p(np.array(tie), 0.3)).tolist()
    == [False, True, True],
)
claim(
    "(Top-k and top-p differ at a tie: at the edge ours keep both words, the library's "
    "the one with the smaller id.)",
    mx.isfinite(transforms.top_k(tie, 1)).tolist()
    == mx.isfinite(transforms.top_p(tie, 0.3)).tolist()
    == [False, True, False],
)

# %% after library-options-run
untouched = mx.softmax(transforms.apply(row, lablib.SamplerOptions()))
claim(
    "The steps run in this order, and transforms.draw draws. (greedy is temperature 0; "
    "peak subtracts the best score, which changes no probability.)",
    mx.allclose(mx.softmax(transforms.ORDER["peak"](row, mx.max(row))), mx.softmax(row)).item(),
)
in_turn, steps = row, {"top_k": 5, "peak": 4.0, "temperature": 0.9, "top_p": 0.9, "min_p": 0.1}
for name in transforms.ORDER:
    in_turn = transforms.ORDER[name](in_turn, steps[name]) if name in steps else in_turn
settings = lablib.SamplerOptions(temperature=0.9, top_k=5, top_p=0.9, min_p=0.1)
claim(
    "The steps run in this order, and transforms.draw draws. (greedy is temperature 0; "
    "peak subtracts the best score, which changes no probability.)",
    mx.array_equal(in_turn, transforms.apply(row, settings)).item(),
)


def refusal(name):
    try:
        return str(lablib.SamplerOptions(**{name: -1}))
    except ValueError as error:
        return str(error)


claim(
    "By default nothing is changed, and what a setting can't mean is refused by name.",
    np.allclose(untouched, plain, atol=1e-6)
    and all(refusal(name).startswith(name) for name in ("temperature", "top_p", "min_p")),
)

# %% after predict-before-after-answer
claim("More.", stay[0] < stay[2])
claim(
    "A higher temperature flattens the distribution, so it takes more words to collect "
    "0.9 of the mass.",
    stay[0] < stay[1] < stay[2],
)
claim(
    "A higher temperature flattens the distribution, so it takes more words to collect "
    "0.9 of the mass.",
    np.cumsum(warm)[stay[0] - 1] < 0.9 <= np.cumsum(plain)[stay[0] - 1],
)

# %% after predict-order-answer
claim("Then fewer stay.", set(kept(cut_then_warm)) < set(kept(warm_then_cut)))

drawn = make_sampler(temp=50.0, top_p=0.9)(mx.broadcast_to(mx.log(mx.softmax(row)), (2000, 10)))
claim(
    "But temperature 2, top-p 0.9 is no complete description until the order is named.",
    {words[i] for i in drawn.tolist()} == set(kept(cut_then_warm)),
)
claim(
    "But temperature 2, top-p 0.9 is no complete description until the order is named.",
    kept(cut_then_warm) != kept(warm_then_cut),
)

# %% after predict-penalties-answer
said_by = Penalties(words, logits, said)
found = said_by.compute(**said_by.values)
base, shown = found["before"], found["after"]
lost = np.array(row) - np.array(
    transforms.penalize(row[None], mx.array([twice]), {"repeat_penalty": 1.5})[0]
)
claim("The frequency penalty: mat pays twice.", after[2][1] < after[2][0])
claim(
    "The others ask only whether a word has been said.",
    after[0][0] == after[0][1] and after[1][0] == after[1][1],
)
pieces = [
    mark.get("key", "") for mark in said_by.frame(frequency_penalty=1.0)[0]["panels"][0]["marks"]
]
claim(
    "Move its slider: two pieces come off mat, one off sofa.",
    [sum(key.startswith(f"frequency{i}.") for key in pieces) for i in (0, 1)] == [2, 1],
)
claim(
    "It takes more from mat than from sofa, because it divides and mat has the higher score.",
    bool(lost[0] > lost[1] and np.allclose(lost[:2], logits[:2] * (1 - 1 / 1.5), atol=1e-5)),
)
claim(
    "It takes more from mat than from sofa, because it divides and mat has the higher score.",
    base[0] - shown[0] > base[1] - shown[1],
)
claim(
    "Dog was punished too and ends with more: it loses little, and gets its share of what"
    " the others give up.",
    bool(0 < lost[5] < lost[1] and shown[5] > base[5]),
)
short = said_by.compute(**said_by.values | {"repeat_last_n": 2})["after"]
claim("Shorten the window, and the oldest words are forgiven first.", short[0] > base[0])
claim("Shorten the window, and the oldest words are forgiven first.", short[1] < base[1])

# %% after theory-assert
claim(
    "Here 4,000 slots, places for one text each, draw once from the ten words.",
    measured.sum() * n == 4000,
)


def within(errors):  # of a normal distribution
    return erf(errors / sqrt(2))


def beyond(p, errors):  # of a binomial one, both sides, exactly
    k = np.arange(n + 1)
    choose = [lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) for i in range(n + 1)]
    each = np.exp(choose + k * log(p) + (n - k) * log(1 - p))
    return each[np.abs(k / n - p) > errors * sqrt(p * (1 - p) / n)].sum()


claim(
    "A word's distance is below two standard errors 95 times in 100.", round(within(2), 2) == 0.95
)
claim(
    "Seven words are left, and the farthest of seven is about two away, seldom three.",
    left.sum() == 7 and measured[~left].sum() == 0,
)
claim(
    "Seven words are left, and the farthest of seven is about two away, seldom three.",
    within(1.5) ** 7 < 0.5 < within(2) ** 7 and 1 - within(3) ** 7 < 0.05,
)
claim(
    "More than 5.5 comes by chance less than once in a million runs: a sampler that shows"
    " it is almost surely wrong.",
    sum(beyond(float(p), 5.5) for p in theory[left]) < 1e-6,
)
claim(
    "More than 5.5 comes by chance less than once in a million runs: a sampler that shows"
    " it is almost surely wrong.",
    away.max() <= 5.5,
)

# %% after theory-frontier-why-answer
bare, p_cut, m_cut = ([outcomes[cut, t] for t in temperatures[::2]] for cut in cuts)
every = (bare, p_cut, m_cut)
diverse = [[np.mean(o.unlike) for o in each] for each in every]
claim(
    "Cold, nearly all stories are right, and much alike.",
    all(o[0].valid > 0.9 * n for o in every) and max(each[0] for each in diverse) < 0.4,
)
claim(
    "Up to 0.8 they differ more and more, and nearly all stay right.",
    all(o[1].valid > 0.85 * n for o in every) and min(b - a for a, b, *_ in diverse) > 0.2,
)
claim("Up to here, heat is a gift.", all(o[1].valid > o[0].valid - 0.15 * n for o in every))
claim(
    "After that less is to be gained, and without a cut validity falls until hardly a story is "
    "right.",
    all(hot - middle < middle - cold for cold, middle, _, hot in diverse),
)
claim(
    "After that less is to be gained, and without a cut validity falls until hardly a story is "
    "right.",
    bare[1].valid > bare[2].valid > bare[3].valid and bare[3].valid < 0.15 * n,
)
claim("Both cuts help at 1.3.", min(p_cut[2].valid, m_cut[2].valid) > bare[2].valid + 0.1 * n)
claim(
    "At 1.8 top-p is lost, too: it goes over the same edge, only later.",
    p_cut[3].valid < 0.4 * n and p_cut[2].valid > bare[2].valid,
)
claim(
    "Min-p hardly moves from 1.3 on.",
    abs(diverse[2][3] - diverse[2][2]) < 0.1 and abs(m_cut[3].valid - m_cut[2].valid) < 0.15 * n,
)
claim(
    "The stories that differ most are those at 1.8 without a cut, and hardly one is right.",
    np.max(diverse) == diverse[0][3] and bare[3].valid < 0.15 * n,
)
p = mx.sort(mx.softmax(scores / 1.8))[::-1]
claim(
    "At 1.8 it has given the many improbable tokens so much mass, all together, that 0.9 "
    "is reached only far down among them.",
    counts[0] > 30 and p[10:].sum().item() > 0.1 > 10 * p[10].item(),
)
claim(
    "Min-p asks how a token compares with the best, and that question still works when it is hot.",
    counts[1] < 10 and m_cut[3].valid > 0.8 * n,
)

low, high = wilson_interval(bare[1].valid, n)
claim(
    "And the intervals are wide, for a few dozen stories say little about a few percent.",
    high - low > 0.08,
)

# %% after summary
claim(
    "Only the last two follow the model's certainty.",
    [a == b for a, b in zip(before, (3, 1, 1), strict=True)] == [True, False, False],
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
