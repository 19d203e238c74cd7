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
    "Who begins early has a long gap behind his first token, because seven prompts are read then "
    "and he alone is written.",
    clock=np.diff(begins[0][1])[0] > 1.5 * gaps_of(sixteen) / 1e3 and firsts[1] > 2 * firsts[0],
)
claim(
    "The second half finds no place, and waits until texts of the first half have ended.",
    begins[8][0] > min(t[-1] for t in sixteen),
)
claim(
    "The wait from token to token grows much less, since a round is shared.",
    clock=between < first,
)

# %% after predict-rows-answer
claim("Far less than eight times.", clock=prices.round(8) < 6 * prices.round(1))

# %% after predict-roof-answer
claim(
    "In milliseconds the roofline is a floor, and the clock stays far above it.",
    clock=all(seconds > max(limit[0], limit[1] * n) for n, seconds in prices.rounds.items()),
)
claim(
    "So for so small a model the guess is poor: reading weights is a small part of what a round "
    "pays once, and multiplying a part of what a row pays.",
    clock=line[0] > 1.5 * limit[0] and line[1] > limit[1],
)
claim(
    "The thin model has next to nothing to read, and its forward still takes a good part of a: "
    "layer after layer small operations are started, once for all rows.",
    thin.hidden_size * 10 < model.config.hidden_size,
    clock=start > 0.1 * a,
)
claim(
    "Either way further rows are cheap while b · n is less than a, left of the line in the "
    "picture.",
    clock=a > b,
)

# %% after predict-drafts-answer
claim(
    "They pay, with 16 rows a little and with 32 hardly.",
    gain[16].low > 1 and gain[16].value < 1.5 and 0.95 < gain[32].value < 1.15,
)
curve = dict(zip(company.ROWS, company.predicted(company.ROWS), strict=True))
claim(
    "Company makes drafts dearer, because the more rows share a round, the less of it is the part "
    "that is paid once.",
    [gain[n].value for n in company.ROWS]
    == sorted((gain[n].value for n in company.ROWS), reverse=True),
)
claim(
    "The curve says so, and it ends at 3.4 / 5, a loss, where nothing but rows counts.",
    [*curve.values()] == sorted(curve.values(), reverse=True)
    and round(5 * company.predicted([1e6])[0], 1) == 3.4,
)
claim(
    "The clock leaves it twice.",
    all(gain[n].high < curve[n] for n in (2, 4, 8))
    and all(gain[n].low > curve[n] for n in (16, 32)),
)
together = company.gains("refused")
claim(
    "The green dots take the time of rounds in which every draft is refused, so that no row parts.",
    len(together) == len(company.ROWS),
)
claim(
    "Up to eight rows they lie near the curve, at most 15 % off.",
    all(abs(together[n].value / curve[n] - 1) < 0.15 for n in (1, 2, 4, 8)),
)
parts = {name: company.milliseconds(name) for name in ("plain", "drafted", "refused")}
claim(
    "Then all caches are copied, so that they end together again (rewind in "
    "lablib/cache/rewind_batch.py), and the curve leaves that out.",
    all(parts["drafted"][n] > 1.1 * parts["refused"][n] for n in company.ROWS if n > 1),
)
per_draft = {n: (parts["refused"][n] - parts["plain"][n]) / (4 * n) for n in company.ROWS}
slope = np.polyfit(company.ROWS, [*parts["plain"].values()], 1)[0]
claim(
    "With 16 rows and more a draft costs less than a row does: it shares the row's cache, and a "
    "forward reads so many tokens by larger products, which do more of them a second.",
    all(per_draft[n] < 0.8 * slope for n in (16, 32)),
)

# %% after predict-pieces-answer
claim(
    "Read whole, the newcomer stops all seven for as long as the reading takes.",
    ways["read whole"][0] >= prices.read(255),
)
claim(
    "In pieces the longest gap is shorter, though not short: it is a piece, at most as long as the "
    "patience, a round, and at the end the joining.",
    1.5 * seven < ways["in pieces"][0] < ways["read whole"][0] and PATIENCE == 1.75,
)
claim(
    "He himself waits longer, because the others' rounds lie between, and in the engine somewhat "
    "longer than simulated.",
    ways["in pieces"][1] > ways["read whole"][1],
    clock=ways["the engine"][1] > ways["read whole"][1],
)
claim(
    "Each of the seven is spared one gap of a few rounds, and he pays more than that gap.",
    ways["in pieces"][1] - ways["read whole"][1] > ways["read whole"][0] - ways["in pieces"][0],
)

# %% after predict-load-answer
there = dict(zip((0.5, 0.95), under_load.compute(0.95, 1)["there"], strict=True))
claim("At half load the queue comes and goes.", np.mean(there[0.5][1:].sum(axis=0) == 0) > 0.1)
claim(
    "At 0.95 there is nearly always one, which grows and shrinks slowly, and the mean goes up as "
    "ρ / (1 − ρ).",
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

# %% after theory-answer
found = dict(zip(runs.LOADS, runs.ratios(), strict=False))  # medians and 90ths, time by time
claim(
    "Over ten lists the prices foretell the capacity to a few per cent, and so the place of the "
    "wall, although nothing was fitted.",
    abs(share.value - 1) < 0.05 and share.low > 0.9 and share.high < 1.1,
    clock=0.5 < foretold / most < 2,
)
claim(
    "The times between tokens and of whole texts are less than a tenth off.",
    all(abs(each.value - 1) < 0.1 for them in found.values() for each in them[2:]),
)
claim(
    "The first token is the hardest: at load 0.3 the simulation has it earlier than the engine, "
    "and near the wall later.",
    found[0.3][0].high < 1 < found[0.85][0].low
    and found[0.85][0].value > max(each.value for each in found[0.85][2:]),
)
claim(
    "By the law for one text at a time, prices that are 1 % too high, as the capacity says, make "
    "the wait 8 % longer at load 0.85.",
    round(share.value, 2) == 0.99
    and round(wait_of_one(0.85 * 1.01, 1.01) / wait_of_one(0.85, 1.0), 2) == 1.08,
)
claim(
    "That is the right direction, and too little.",
    found[0.85][0].value > 1.1,
)
rounds_to = {who: runs.times(who).mean(axis=0)[-1, 0, 0] for who in runs.BOTH}
claim(
    "(The picture's means are led by the slowest lists, which the table's ratios are not.)",
    rounds_to["simulated"] / rounds_to["engine"] > found[0.85][0].value + 0.1,
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
    "Goodput is highest at 0.7 of it and falls from there, before the wall already: all work is "
    "done, but more and more of it too late.",
    max(by_load, key=lambda load: by_load[load][1]) == 0.7
    and [by_load[load][1] for load in runs.LOADS[2:]]
    == sorted((by_load[load][1] for load in runs.LOADS[2:]), reverse=True),
)
