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
claim("About nine times.", 7 < grown < 11)
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
    "Half of the readers find no place, and wait until a text of the first eight has ended.",
    waited[8] > min(t[-1] for t in sixteen) > waited[0],
)

# %% after predict-rows-answer
claim("Far less than eight times.", prices.round(8) < 6 * prices.round(1))

# %% after predict-roof-answer
claim("A roof is a promise that nothing is faster.", series["measured"][0] > roof[0])
claim("With four of them a round of n rows reads 5n tokens.", len([0, *range(4)]) * rows[1] == 10)

# %% after predict-pieces-answer
claim(
    "Read whole, the newcomer stops all seven for as long as the reading takes.",
    ways["whole"][0] >= prices.read(255),
)
claim(
    "In pieces nobody stops, and he himself waits longer, because the others' rounds lie between.",
    ways["in pieces"][0] < ways["whole"][0] and ways["in pieces"][1] > ways["whole"][1],
)

# %% after predict-caches-answer
claim(
    "The oldest text never gives up its cache: it ends, makes room, and the next one is the "
    "oldest.",
    run.evicted[0] == 0 < run.evicted[-1] and ends == sorted(ends),
)
