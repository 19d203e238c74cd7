"""What checks the sentences of lesson 11 · A prefix trie and an async model."""

# %% after by-hand-tree
assert sum(len(tokens) for _, tokens in edges(root)) == len(prefixes)

# %% after by-hand-evict-answer
last = {prompt: now for now, prompt in enumerate(prompts, 1)}
claim(
    "In the cat ran the last word was written earlier, but it has been read since.",
    last["the", "cat", "ran"] < last["the", "dog", "sat"] and {"the", "the cat ran"} <= {*left},
)

# %% after library-equal
claim(
    "After each of 400 random queries both trees have the same edges.",
    agreed == now == 400,
)

# %% after library-lm
logits = model(mx.array([ids]))[0, -1]
assert mx.abs(row - (logits - mx.logsumexp(logits))).max().item() < 0.01
assert lm.stats["token_forwards"] == len(ids)

# %% after queue-future
claim(
    "Each speaks until it awaits, and nobody interrupts it before.",
    heard == ["A1", "B1", "A2", "B2"],
)

# %% after queue-strangers-answer
apart = [
    mx.abs(row - (out := model(mx.array([prompt]))[0, -1]) + mx.logsumexp(out)).max().item()
    for prompt, row in answers
]
claim(
    "In the second the five others run side by side: equal questions are one row.",
    cost["forwards"] == 2 and forwards[1] == [1] * 5 and len(answers) == 12 and max(apart) < 0.01,
)
claim(
    "Nobody had asked for the story itself: the library sorts a batch, finds what neighbours "
    "share, and runs it first.",
    all(len(prompt) > len(ids) for prompt, _ in answers) and forwards[0] == [len(ids) + 1],
)

# %% after predict-film-answer
without = TreeFilm([query.split() for query in queries if query != "the dog ran"])
scenes = {(q, b): film.compute(query=q, budget=b) for q in range(9) for b in range(6, 19)}
tops = [{above + tokens[:1] for above, tokens in paths(scenes[8, b].after)} for b in range(6, 19)]
claim("It holds the earlier one.", third and not fifth)
claim(
    "A use is of whole edges, so sat became young without having been asked for.",
    "the dog sat" in whole(end) and "the dog sat" not in whole(without.compute(query=7, budget=11)),
)
claim(
    "And as every use begins at the root, the outlives all that hangs on it.",
    all(("the",) in held for held in tops),
)
claim(
    "By hand we threw whole leaves away, and so did TokenTrie above, which held no keys and "
    "values.",
    agreed == 400 and all(each.slots is None for each in trie.root.children.values()),
)
claim(
    "With them it eats a leaf from its last token, and no more of it than it must.",
    all(
        s.after == () or sum(len(n["tokens"]) for n in s.after) == b
        for (_, b), s in scenes.items()
        if "evict" in [e.kind for e in s.events]
    ),
)

# %% after predict-batches-answer
short, long = (timeline.compute(batch_size=6, timeout=wait) for wait in (1.0, 10.0))
claim(
    "The tokens are the same, whatever the batches: the tree sees to that.",
    len({timeline.compute(size, wait).run for size in range(1, 7) for wait in (0.0, 1.0, 10.0)})
    == 1,
)
claim(
    "Batches save forwards, each of which has a price of its own.",
    len(sizes[1].forwards) > len(sizes[2].forwards) > len(sizes[4].forwards),
)
at_once, patient = (timeline.compute(batch_size=4, timeout=wait) for wait in (0.0, 1.0))
claim(
    "With batches of four, a millisecond of waiting for company spares a whole one, and the mean "
    "wait is shorter.",
    len(patient.forwards) == len(at_once.forwards) - 1
    and np.mean(patient.waits) < np.mean(at_once.waits),
)
first, second, *_ = patient.forwards
claim(
    "A batch takes one more forward where a row goes on from what another row has just run.",
    first.batch == second.batch and all(piece.start > 0 for piece in second.pieces),
)
pairs = timeline.compute(batch_size=2, timeout=1.0)
claim(
    "Whoever asks for what is running joins its batch.",
    pairs.calls[3].asked > pairs.forwards[0].began and pairs.calls[3].batch == 1,
)
claim(
    "The timeout is what company may cost: with batches of six, waiting 10 ms for it instead of 1 "
    "makes the mean wait half as long again.",
    np.mean(long.waits) > 1.5 * np.mean(short.waits),
)

# %% after predict-particles-run
for found, *_ in runs.values():
    assert not any("b" in tokenizer.decode(s[len(ids) :], skip_special_tokens=True) for s in found)

# %% after predict-particles-answer
different = rows["different: rows run"]
claim(
    "One forward for each step, and in it a row for each different sentence: a single one in the "
    "first step, when all are the same.",
    cost["forwards"] == len(asked) and different[0] == 1,
)
claim(
    "A copy costs nothing, being the same prompt.",
    sum(different) == cost["token_forwards"] - len(ids) + 1 and max(different) > 1,
)
claim(
    "With weights fewer stories are broken, and those weigh little: the second share is one of "
    "weight.",
    right["particles"] > good.mean() > right["forbidding only"],
)
claim(
    "Such a sentence weighs next to nothing, and its place goes to a better one.",
    64 * runs["forbidding only"][1].min() < 0.01 and right["particles"] > right["forbidding only"],
)

# %% after theory-count
claim(
    "The theory is the one from paper: while nothing is evicted, what is read is the number of "
    "different prefixes of all that was asked, exactly.",
    all(a == b for a, b in counts) and counts[0][1] == different_prefixes(family),
)

# %% after theory-seconds-show
assert lm.stats["token_forwards"] == different_prefixes(everything)
