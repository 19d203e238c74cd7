"""What checks the sentences of lesson 14 · Scaling out."""

# %% after by-hand-limit
claim(
    "No number is enough: the unit of 6 seconds is somebody's, and nobody can help.",
    max(unit_seconds) == by_queue(unit_seconds, 100) == 6,
)
claim(
    "The speed-up is at most the number of ranks, and at most total / slowest.",
    all(sum(unit_seconds) / by_queue(unit_seconds, r) <= min(r, 18 / 6) for r in range(1, 101)),
)

# %% after by-hand-order-answer
claim(
    "First: 6 seconds, which is a third of the work and also the slowest unit.",
    queue["longest first"]
    == sum(unit_seconds) / 3
    == max(unit_seconds)
    == min(queue.values())
    == 6,
)
claim(
    "A long unit that is begun last runs alone, while the others wait.",
    queue["longest last"] > max(by_queue(sorted(unit_seconds)[:-1], 3), 6),
)

# %% after by-hand-dealt-question
claim(
    "A queue took 7 seconds as they come, and 6 longest first.",
    (queue["as they come"], queue["longest first"]) == (7, 6),
)

# %% after by-hand-dealt-answer
in_rounds = {name: by_rounds(order, 3) for name, order in orders.items()}
claim(
    "Here rounds take 8 to 10 seconds, never less than the queue.",
    (min(in_rounds.values()), max(in_rounds.values())) == (8, 10),
)
claim(
    "Here rounds take 8 to 10 seconds, never less than the queue.",
    all(in_rounds[name] >= queue[name] for name in orders),
)
claim(
    (
        "As they come, they save nothing over dealing once; longest first, they save one "
        "second of nine."
    ),
    in_rounds["as they come"] == dealt_once(unit_seconds, 3),
)
claim(
    (
        "As they come, they save nothing over dealing once; longest first, they save one "
        "second of nine."
    ),
    in_rounds["longest first"] + 1 == dealt_once(orders["longest first"], 3) == 9,
)

# %% after by-hand-seeds-answer
claim("A seed by rank gives other results with two ranks.", changed["by rank"]["two ranks"] > 0)
claim(
    "The index survives that, until somebody sorts the list.",
    changed["by index"]["two ranks"] == 0 < changed["by index"]["another order"],
)

# %% after predict-command
by_one, by_two = ((room / f"by_{ranks}.jsonl").read_bytes() for ranks in (1, 2))
assert sorted(by_one.splitlines()) == sorted(by_two.splitlines())

# %% after predict-answer
printing = [sys.executable, "-c", "print('started')"]
with open(room / "started.txt", "w") as said:
    start(2, printing, cwd=room, stdout=said)
claim(
    "Each rank starts for itself: no number of them divides the start.",
    (room / "started.txt").read_text().count("started") == 2 and min(starting.values()) > 0,
)
claim(
    "The same command again finds everything in the file.",
    header["unit"] is not None and (room / "by_2.jsonl").read_bytes() == by_two,
)
claim(
    (
        "Two ranks can't be more than twice as fast: that is a theorem about units that "
        "take the same seconds everywhere."
    ),
    all(scaling.simulate(order, 2).speedup <= 2 for order in orders.values()),
)
claim(
    "So the last figure may well pass 2, and refutes nothing.",
    # if all was twice as slow while one rank ran
    all(2 * sum(order) / by_queue(order, 2) > 2 for order in orders.values()),
)
claim(
    "What doesn't depend on the clock: the records are equal.",
    sorted(by_one.splitlines()) == sorted(by_two.splitlines()),
)

# %% after accident-run
assert status != 0

# %% after predict-widget
claim(
    "The other rank sees that one is gone, says which, and ends.",
    re.search("rank [01] .*has died", line) is not None,
)
claim(
    "The file holds whole lines, those of the finished rounds; problem 20 is not among them.",
    killed.endswith("\n")
    and 20 not in [json.loads(line).get("problem") for line in killed.splitlines()],
)
claim(
    "It does what is missing, and nobody can tell from the results that there was an accident.",
    status == 0 and {*killed.splitlines()} < {*(room / "toss.jsonl").read_text().splitlines()},
)
claim(
    "It does what is missing, and nobody can tell from the results that there was an accident.",
    sorted(found) == [*range(24)],
)

# %% after predict-widget-answer
loose, long, lumps, alike = dealt.values()
claim(
    "Forty-eight made-up units, 48 seconds of work in all, dealt in rounds.",
    len(loose["seconds"]) == 48 and abs(sum(loose["seconds"]) - 48) < 1e-9,
)
claim(
    "Whoever is done early waits for the end of the round: four ranks wait a quarter of the time.",
    abs(dealing.compute(4, lab.COMES, 1.0, 1)["took"].efficiency - 3 / 4) < 0.02,
)
claim(
    "From eight ranks on the slowest unit sets the limit: it is an eighth of all the work.",
    abs(48 / max(loose["seconds"]) - 8) < 0.05,
)
claim(
    (
        "Longest first it is begun at once: 16 ranks take 7.4 seconds instead of 12.1, where a "
        "queue would take 6.0."
    ),
    [round(each, 1) for each in (long["took"].seconds, loose["took"].seconds)] == [7.4, 12.1],
)
claim(
    (
        "Longest first it is begun at once: 16 ranks take 7.4 seconds instead of 12.1, where a "
        "queue would take 6.0."
    ),
    round(by_queue(long["seconds"], 16), 1) == 6.0 and long["seconds"][0] == max(long["seconds"]),
)
claim(
    (
        "As they come, the line even falls here and there with one rank more, for then all is "
        "dealt otherwise."
    ),
    bool((np.diff(loose["speedups"]) < -0.01).any()),
)
claim(
    "A queue over the same units never falls.",
    bool((np.diff([-by_queue(loose["seconds"], r) for r in range(1, 17)]) >= 0).all()),
)
claim(
    "When all units are alike, the order says nothing.",
    bool(np.allclose(dealing.compute(16, lab.LONGEST, 0.0, 1)["seconds"], alike["seconds"])),
)
claim(
    "In groups of 8 there are six pieces to deal, and ranks beyond the sixth find nothing to do.",
    len(lumps["seconds"]) == 6 and lumps["took"].busy.count(0) == 10,
)

# %% after theory-answer
claim(
    "Eight ranks are busier than 512, which have hardly more than a unit each.",
    forecast[3].efficiency > forecast[9].efficiency and len(pile) / 512 < 1.2,
)
claim(
    "The rounds never cross total / slowest, with the start or without.",
    all(line <= work / max(pile) * 1.000001 for line in [*(f.speedup for f in forecast), *whole]),
)
claim(
    (
        "Of one rank's time it is a share s which nobody divides, so r ranks are at most "
        "1 / (s + (1 − s) / r) times as fast, and never more than 1 / s."
    ),
    all(
        w <= a * 1.000001 and a <= 1 / serial * 1.000001 for w, a in zip(whole, amdahl, strict=True)
    ),
)
slow = [begin + 2 * k for k in range(10)]  # a start that takes two seconds more each time
later = [(begin + work) / (s + each.seconds) for s, each in zip(slow, forecast, strict=True)]
saved = forecast[6].seconds - forecast[9].seconds
claim(
    "More ranks even lose, once their start costs more than their work saves.",
    later[9] < later[6] and slow[9] - slow[6] > saved,
)
claim(
    "Many ranks want more work: with ten times the units, s is smaller.",
    begin / (begin + 10 * work) < serial,
)

# %% after summary
claim(
    "Here a shared queue, longest first, wasted least, but somebody must keep it.",
    queue["longest first"] == min([*queue.values(), *in_rounds.values()]),
)
claim(
    "The speed-up is at most the number of ranks, and at most total / slowest unit.",
    all(f.speedup <= m * 1.000001 for f, m in zip(forecast, limits, strict=True)),
)
claim(
    "Rounds need nobody in the middle, and cost some waiting.",
    sum(in_rounds.values()) > sum(queue.values()),
)
claim(
    "The slowest unit, the start and the telling are not divided.",
    forecast[-1].seconds >= max(pile) + 0.01 * forecast[-1].rounds and min(starts) == begin,
)
claim(
    "Then one rank, two ranks and a sweep that was killed leave the same records.",
    sorted(by_one.splitlines()) == sorted(by_two.splitlines())
    and found == swept([{"problem": j} for j in range(24)], 1, colleagues["by identity"]),
)
