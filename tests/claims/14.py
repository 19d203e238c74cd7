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
claim(
    "The theory is ρ / (1 − ρ) · half a text's seconds, and what counts in it is the rest, 1 − ρ.",
    all(abs(wait_of_one(x, each) - x / (1 - x) * each / 2) < 1e-12 for x in mean)
    and all(abs(found / wait_of_one(x, each) - 1) < 0.25 for x, found in mean.items()),
)

# %% after predict
claim(
    "With one text at a time, of a token that takes 2 seconds, it is the server by hand.",
    [one.to_first - each for one in served] == waits,
)

# %% after predict-crowd-answer
waited = sorted(t[0] for t in sixteen)
claim(
    "Who is being written notices his neighbours less, since they share a round.", between < first
)
claim(
    "Half of the readers find no place, and wait until a text of the first eight has ended.",
    1.25 * waited[8] > min(t[-1] for t in sixteen) > waited[0],  # streams hear a turn late,
)

# %% after predict-rows-answer
claim("Far less than eight times.", prices.round(8) < 6 * prices.round(1))

# %% after predict-roof-answer
claim("A roof is a promise that nothing is faster.", series["measured"][0] > roof[0])
claim("The clock stays far above it for so small a model.", series["measured"][0] > 1.5 * roof[0])

# %% after predict-drafts-answer
claim(
    "Reckoned from the prices of rows, which go on in a straight line beyond 32: the more rows, "
    "the less is gained.",
    max(gain[16], gain[32]) < gain[1],
)
claim(
    "Where arithmetic alone counts, a round takes five times as long, for 3.4 tokens a row, and "
    "that is a loss.",
    round(expected_tokens(0.8, 4), 1) == 3.4 < 5,
)

# %% after predict-pieces-answer
claim(
    "Read whole, the newcomer stops all seven for as long as the reading takes.",
    ways["whole"][0] >= prices.read(255),
)
claim(
    "In pieces nobody stops for long, and he himself waits longer, because the others' rounds "
    "lie between.",
    ways["in pieces"][0] < ways["whole"][0] and ways["in pieces"][1] > ways["whole"][1],
)

# %% after predict-caches-answer
claim(
    "The oldest text never gives up its cache: it ends, makes room, and the next one is the "
    "oldest.",
    run.evicted[0] == 0 < max(run.evicted) and ends == sorted(ends),
)

# %% after predict-load-answer


def orange(load, size):
    at, first, last = under_load.compute(load, size)["times"].T
    return sum(first - at) / sum(last - at)


claim(
    "At 0.95 a much larger part of the picture is orange than at half load.",
    orange(0.95, 1) > 1.3 * orange(0.5, 1),
)
claim(
    "A batch of eight moves the wall, since it serves several times as many.",
    under_load.capacity[8] > 1.5 * under_load.capacity[1],
)
claim(
    "It doesn't take the wall away, because at 0.95 of what it can do its readers wait as well.",
    under_load.waits[8][1][-1] > 2 * under_load.waits[8][1][0],
)

# %% after theory-answer
claim(
    "The caption says how far off the simulation is, at worst.",
    all(f"{part.max():.0%}" in spread for part in off.swapaxes(0, 1)),
)
claim(
    "It knows fourteen prices of this machine and one factor, and nothing of these runs.",
    sum(map(len, (prices.rounds, prices.reads, prices.joins, prices.leaves))) == 14,
)
assert all([one.asked for one in run.served] == at_rate(x * most) for x, run in runs.items())

# %% after theory-goodput-answer
claim(
    "Little's law holds at each load, to what is lost because the crowd is only counted once a "
    "turn.",
    all(abs(each - 1) < 0.15 for each in law.values()),
)
# By the simulation: where another program has disturbed the run at 0.3, its promise is a lax one.
some = {load: simulate(at_rate(load * most), scaled, 8) for load in (0.3, 0.5, 1.2)}
promised = 3 * lab.three_times(some[0.3])[:2, 1] / 1e3


def share(load):
    kept = [s.to_first <= promised[0] and s.between <= promised[1] for s in some[load]]
    return np.mean(kept)


claim(
    "Goodput rises too, and then falls, for behind the wall all work is done, and much of it too "
    "late.",
    share(1.2) < share(0.5),
)
