"""What checks the sentences of lesson 04 · Many sequences."""

from lablib.course.lessons.lesson_04.widgets import _end

from mlx.utils import tree_flatten

# %% after by-hand-answer
claim("Six sequences want 5, 2, 3, 4, 1 and 3 tokens.", lengths == [5, 2, 3, 4, 1, 3])
first, second = lengths[:2]
claim(
    "The second sequence is done after two steps, and its slot then stands empty for three, while "
    "others wait.",
    second == 2 and max(first, second) - second == 3,
)
claim(
    "Nine, and fewer are impossible, because 18 tokens in two slots take at least 18 / 2 steps.",
    steps == 9 and sum(lengths) == 18 == 2 * steps,
)

# %% after library-schedule
claim(
    "It serves whole batches, too, in as many steps as by hand.",
    all(
        _end(schedule(lengths, n, WHOLE)) == whole_batches(lengths, n)
        for n in range(1, len(lengths) + 1)
    ),
)

# %% after predict-timeline-answer
claim(
    "Four queues wait for four slots, each of sixteen sequences and 112 tokens.",
    all(len(each) == 16 and sum(each) == 112 for each in queues.values())
    and len(queues) == timeline.slots == 4,
)
gain = dict(zip(queues, saved, strict=True))
turns, giants = gain.pop("by turns"), ("a giant first", "a giant last")
stays = timeline.compute("by turns")[WHOLE]["stays"]
claim(
    "By turns, because in each batch two slots stand empty for twelve of thirteen steps, while "
    "others wait in all but the last.",
    turns > max(gain.values())
    and all(sorted(s.length for s in stays[i : i + 4]) == [1, 1, 13, 13] for i in range(0, 16, 4)),
)
claim(
    "With the giant the lengths differ more, and yet less is gained.",
    all(np.std(queues[g]) > np.std(queues["by turns"]) and gain[g] < turns for g in giants),
)
last = timeline.compute("a giant last")
claim(
    "It takes 37 steps by itself; if it comes last, filling slots saves nothing, since it begins "
    "no sooner.",
    all(max(queues[g]) == 37 for g in giants)
    and gain["a giant last"] == 0
    and last[CONTINUOUS]["stays"][-1].start == last[WHOLE]["stays"][-1].start,
)
claim(
    "The picture serves a queue twice: in whole batches, and below it with each free slot filled "
    "at once.",
    [each["title"] for each in timeline.constants["panels"]] == [WHOLE, CONTINUOUS],
)

# %% after predict-serve-run
claim(
    "The weights are in float32, because texts are compared below, token by token.",
    {array.dtype for _, array in tree_flatten(model.parameters())} == {mx.float32},
)
written = [samples.tokens[0] for samples in served]
claim("It must write the same texts.", written == list(texts.values()))
for step, names in enumerate(seated):  # and the seats are schedule's
    taken = [s for s in schedule([*map(len, written)], 4) if 0 <= step - s.start < s.length]
    assert {list(prompts)[stay.sequence] for stay in taken} == {*names}
assert len(seated) > 64  # nobody was cut by max_tokens below
assert all(len(text) < 64 and text[-1] == stop for text in written)

# %% after predict-invariance-answer
beside = {tuple(names) for names in seated if "reader 3" in names}
claim("Reader 3 was served beside others, who came and went.", len(beside) > 1)
claim("The same, token by token, for all ten.", len(texts) == 10 and alone == texts == at_once)
claim(
    "Each reader draws random numbers of its own, which are made of its seed and the token's place "
    "in the text, and so no neighbour can change them.",
    alone == texts == at_once,
)

# %% after predict-broken-answer
shares = np.exp(np.array(row[0])) / np.exp(np.array(row[0])).sum()
claim(
    "For most of the keys: two independent draws would differ in about three of four.",
    abs(1 - (shares**2).sum() - 0.75) < 0.01
    and abs(changed - 37.5) < 3 * np.sqrt(50 * 0.75 * 0.25),
)
keys = [mx.random.key(seed) for seed in range(50)]
one, three = (
    [mx.random.uniform(shape=(n, 4), key=key)[0].tolist() for key in keys] for n in (1, 3)
)
claim(
    "Key and scores are the same, but the numbers are drawn for all rows at once, so that the "
    "number of rows decides which ones the reader gets.",
    sum(a != b for a, b in zip(one, three, strict=True)) == len(keys),
)

# %% after theory-answer
claim(
    "It meets the clock at 1 and 64 rows by construction, and between them it is tested: the "
    "caption says how far off it is.",
    bool(np.isclose(theory[0], 1) and np.isclose(theory[-1], times) and 0 <= off < 10),
)
claim(
    "It has the bend, and that is the point: at the left a row more is nearly free, and behind the "
    "bend each pays its own price.",
    bool(np.isclose(theory[1], min(2, times)) and theory[-1] <= times + 1e-9),
)
bend = [i for i, b in enumerate(sizes) if times / 2 < b < 2 * times]
claim(
    "Around the bend it promises too much, because there the prices are alike, and neither hides "
    "all of the other.",
    clock=mx.default_device() != mx.cpu
    or bool(np.mean([np.median(measured[i]) / theory[i] for i in bend]) < 1.05),
)

# %% after summary
claim(
    "Random numbers that belong to a seed and a place are changed by no neighbour, and it can be "
    "tested.",
    alone == texts == at_once,
)
