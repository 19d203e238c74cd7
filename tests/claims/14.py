"""What checks the sentences of lesson 14 · A server under load."""

# %% after by-hand-little
claim(
    "Four seconds, the dots, although the server is free for 2 of the 14 seconds.",
    sum(waits) == 4 and max(arrivals) + waits[-1] + each - each * len(arrivals) == 2,
)

# %% after by-hand-little-answer
claim(
    "By rows there are 6 readers, each as many marks as he stays.",
    len(stays) == 6 and sum(stays) == sum(waits) + 6 * each,
)
claim(
    "By columns there are 14 seconds, each as many marks as readers are there.",
    len(there) == 14 and sum(there) == sum(stays),
)
claim("It is the same picture, and so the same number:", abs(rate * stay - readers) < 1e-12)
claim(
    "The load ρ is the share of the time in which the server is busy, here arrivals a second × "
    "2 seconds.",
    abs(rate * each - np.mean([count > 0 for count in there])) < 1e-12,
)

# %% after by-hand-random-answer
claim("The load grows from 0.5 to 0.9, which is less than twice.", max(mean) == 0.9 < 2 * 0.5)
claim("About nine times.", 7 < grown < 11)
claim(
    "From 0.5 to 0.9 the rest falls to a fifth, and ρ is 1.8 times as large: 5 · 1.8 = 9.",
    round(0.5 / 0.1 * 0.9 / 0.5) == 9,
)
came = np.cumsum(np.random.default_rng(5).exponential(each / 0.7, 100_000))
waited = np.array(waits_of(came.tolist(), each))
begun = came + waited
running = np.searchsorted(begun, came, "left") - 1  # the last that has begun before
rest = np.maximum(begun[running] + each - came, 0)[1:]
claim(
    "With chance ρ the server is busy, and of the running text half is left on average: he waits "
    "ρ · S / 2 for it.",
    abs(np.mean(rest > 0) - 0.7) < 0.02 and abs(rest.mean() - 0.7 * each / 2) < 0.03,
)
claim(
    "By Little's law λ · W readers are there, and each takes S seconds, which makes λ · S · W = "
    "ρ · W.",
    abs(np.mean(np.arange(len(came)) - 1 - running) / (0.7 / each * waited.mean()) - 1) < 0.05,
)
claim(
    "So W = ρ · S / 2 + ρ · W, and that is W = ρ / (1 − ρ) · S / 2.",
    all(abs(wait_of_one(x, each) - x / (1 - x) * each / 2) < 1e-12 for x in mean)
    and all(abs(found / wait_of_one(x, each) - 1) < 0.25 for x, found in mean.items()),
)
claim(
    "If texts differ in length, more than half is left, as a long text is found running more "
    "often.",
    wait_of_one(0.7, each, spread=0.3) > wait_of_one(0.7, each),
)

# %% after predict
claim(
    "With one text at a time, of a token that takes 2 seconds, it is the server by hand.",
    [one.to_first - each for one in served] == waits,
)

# %% after predict-crowd-answer
begins = sorted((t[0], t) for t in sixteen)
claim(
    "Who begins early has a long gap behind his first token, because the prompts of those beside "
    "him are read then.",
    np.diff(begins[0][1])[0] > 1.5 * gaps_of(sixteen) / 1e3,
)
claim(
    "The second half finds no place, and waits until texts of the first half have ended.",
    begins[8][0] > min(t[-1] for t in sixteen),
)
claim(
    "From token to token a reader waits less than all that, since a round is shared.",
    between < first,
)

# %% after predict-rows-answer
claim("Far less than eight times.", prices.round(8) < 6 * prices.round(1))

# %% after predict-roof-answer
claim(
    "A roof is a promise that nothing is faster, and the clock stays above it in both parts.",
    all(seconds > max(limit[0], limit[1] * n) for n, seconds in prices.rounds.items()),
)
claim(
    "So for so small a model the guess is wrong: what a round pays once isn't the reading of "
    "weights, and what a row pays isn't the multiplying.",
    line[0] > 1.5 * limit[0],
)

# %% after predict-drafts-answer
claim(
    "The more rows share a round, the less of it is the part that is paid once, so that four "
    "tokens more for each row weigh more.",
    ms[16][2] > ms[1][2] and gain[16] < gain[1],
)
claim(
    "If a round were nothing but arithmetic, it would take five times as long, for 3.4 tokens a "
    "row, and that is a loss.",
    round(expected_tokens(0.8, 4), 1) == 3.4 < 5,
)

# %% after predict-pieces-answer
claim(
    "Read whole, the newcomer stops all seven for as long as the reading takes.",
    ways["read whole"][0] >= prices.read(255),
)
claim(
    "In pieces the longest gap is shorter, though not short: it is a piece as long as the "
    "patience, a round, and at the end the joining, so that the seven do notice.",
    1.5 * seven < ways["in pieces"][0] < ways["read whole"][0],
)
claim(
    "He himself waits longer, because the others' rounds lie between.",
    ways["in pieces"][1] > ways["read whole"][1],
)

# %% after predict-load-answer
there = dict(zip((0.5, 0.95), under_load.compute(0.95, 1)["there"], strict=True))
claim("At half load the queue comes and goes.", np.mean(there[0.5][1:].sum(axis=0) == 0) > 0.1)
claim(
    "At 0.95 there is nearly always one, which grows and shrinks slowly, and the mean goes up "
    "along the law of above, ρ / (1 − ρ).",
    np.mean(there[0.95][1] > 0) > 0.6
    and np.allclose(under_load.waits[1][0], under_load.theory, rtol=0.25),
)
claim(
    "The median stays at 0 up to a load of one half, for a simple reason: who comes at random "
    "finds the server free with a chance of 1 − ρ.",
    max(under_load.waits[1][1][:8]) < 1e-9 < under_load.waits[1][1][10],
)
claim(
    "So below this load a keeper who looks at the median sees nothing, and a mean of few long "
    "waits.",
    min(under_load.waits[1][0][:8]) > 0,
)
claim(
    "A batch of eight moves the wall, since it serves several times as many a second.",
    under_load.capacity[8] > 1.5 * under_load.capacity[1],
)
claim(
    "It doesn't take the wall away, because at 0.95 of what it can do its readers wait as well.",
    under_load.waits[8][0][-1] > 2 * under_load.waits[8][0][0],
)

# %% after theory-measure
assert [one.asked for one in run.served] == requests
assert 0.5 < foretold / most < 2

# %% after theory-answer
found = dict(zip(runs.LOADS, runs.ratios(), strict=False))  # medians and 90ths, time by time
claim(
    "The prices foretell the capacity to a few per cent, and so the place of the wall, although "
    "nothing was fitted.",
    abs(share.value - 1) < 0.05 and share.low > 0.9 and share.high < 1.1,
)
claim(
    "The times between tokens and of whole texts are less than a tenth off.",
    all(abs(each.value - 1) < 0.1 for them in found.values() for each in them[2:]),
)
claim(
    "The first token is the hardest, the nearer the wall the more so: there the simulation has it "
    "later than the engine.",
    1 < found[0.5][0].value < found[0.7][0].value < found[0.85][0].value
    and found[0.85][0].low > 1
    and found[0.85][0].value > max(each.value for each in found[0.85][2:]),
)
claim(
    "It is mostly waiting in a queue, where the law of above multiplies what is wrong: if "
    "all prices are 2 % too high, a load of 0.85 is one of 0.867, and 1 / (1 − ρ) grows by 13 %.",
    round(0.85 * 1.02, 3) == 0.867 and round(0.15 / (1 - 0.867), 2) == 1.13,
)

# %% after theory-goodput-answer
by_load = dict(zip(runs.LOADS, runs.rates("engine").mean(axis=0), strict=True))
claim(
    "Throughput follows the load up to the capacity, and stays there.",
    by_load[0.3][0] < by_load[0.7][0] < by_load[1.2][0]
    and abs(by_load[1.5][0] / by_load[1.2][0] - 1) < 0.1
    and abs(by_load[1.5][0] - 1) < 0.1,
)
claim(
    "Goodput leaves it before, and beyond the wall it falls: all work is done, but much of it too "
    "late.",
    by_load[0.85][1] < by_load[0.85][0] and by_load[1.5][1] < by_load[1.2][1] < by_load[0.7][1],
)
claim(
    "It counts once a turn, and so it misses a little of those who come while a turn is running.",
    0.9 < counted.low < counted.high < 1,
)
