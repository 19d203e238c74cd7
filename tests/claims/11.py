"""What checks the sentences of lesson 11 · A prefix trie and an async model."""

# %% after by-hand-tree
assert sum(len(tokens) for _, tokens in edges(root)) == len(prefixes)

# %% after by-hand-evict-run
claim(
    "Now the cat ran is read, and then there is room for six tokens only, one fewer than the tree "
    "holds.",
    len(prefixes) == 7 and len(left) == 5,
)

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
assert all(each.slots is None for each in trie.root.children.values())  # so whole leaves go

# %% after library-lm
logits = model(mx.array([ids]))[0, -1]
assert mx.abs(row - (logits - mx.logsumexp(logits))).max().item() < 0.01
assert (lm.stats["token_forwards"], read) == (len(ids), 0)

# %% after queue-yours
claim(
    "Each speaks until it awaits, and nobody interrupts it before.",
    heard == ["A1", "B1", "A2", "B2"],
)
claim(
    "And one sleep(0) is enough to hear everybody: who makes way goes on only after all who stood "
    "in the line, and so each of them has had its say.",
    heard.index("A2") > heard.index("B1"),
)
order = ["A waits", "B waits", "C answers", "C goes on", "A hears yes", "B hears yes"]
claim("Several may await the same future, and all hear the same.", told[-2:] == order[-2:])
claim("C goes on before A and B hear it: an answer that is there is not yet heard.", told == order)

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
    "Nobody had asked for the story itself: the library sorts a batch, runs one prompt whole of "
    "those that begin alike, and lets the others go on from there.",
    all(len(prompt) > len(ids) for prompt, _ in answers) and forwards[0] == [len(ids) + 1],
)

# %% after predict-film-answer
without = TreeFilm([query.split() for query in queries if query != "the dog ran"])
scenes = {(q, b): film.compute(query=q, budget=b) for q in range(9) for b in range(6, 19)}
tops = [{above + tokens[:1] for above, tokens in paths(scenes[8, b].after)} for b in range(6, 19)]
claim(
    "It holds the earlier one, because the dog ran entered the edge dog sat and left it in the "
    "middle.",
    third and not fifth,
)
claim(
    "A use is of whole edges, so sat became young without having been asked for.",
    "the dog sat" in whole(end) and "the dog sat" not in whole(without.compute(query=7, budget=11)),
)
claim(
    "And as every use begins at the root, the outlives all that hangs on it.",
    all(("the",) in held for held in tops),
)
claim(
    "With keys and values the tree eats a leaf from its last token, and no more of it than it "
    "must.",
    all(
        s.after == () or sum(len(n["tokens"]) for n in s.after) == b
        for (_, b), s in scenes.items()
        if "evict" in [e.kind for e in s.events]
    ),
)

# %% after predict-batches-answer
every = [timeline.compute(size, wait) for size in range(1, 7) for wait in (0.0, 1.0, 10.0)]
claim(
    "The rules are the library's, and the clock is made up: a forward takes 4 ms, and half a "
    "millisecond for each token that it runs.",
    all(abs(f.ended - f.began - 4 - f.run / 2) < 1e-9 for line in every for f in line.forwards),
)
claim(
    "The tokens are the same, whatever the batches, because the tree sees to that.",
    len({line.run for line in every}) == 1,
)
claim(
    "Batches save forwards, each of which has a price of its own.",
    len(sizes[1].forwards) > len(sizes[2].forwards) >= len(sizes[4].forwards),
)
claim(
    "Yet with four the callers wait longer than with two.",
    np.mean(sizes[4].waits) > np.mean(sizes[2].waits),
)
first, second, *_ = sizes[4].forwards
ran = ("the", "cat", "ran")
claim(
    "Follow the cat ran: it is run by 7.5 ms, and hears of it at 12, because all wait until the "
    "last of their batch is done.",
    (first.ended, sizes[4].calls[3].answered) == (7.5, 12.0) == (7.5, second.ended)
    and sizes[4].calls[3].prompt == ran in {piece.prompt for piece in first.pieces},
)
(last_one,) = second.pieces
claim(
    "That saves two tokens, 1 ms, and costs a second forward, 4 ms.",
    last_one.prompt == ("the", "cat", "sat") and last_one.start == 2,
)
claim(
    "With the story above it wins, because it saves 105 tokens of 132.",
    6 * (len(ids) + 1) == 132 == 105 + cost["token_forwards"],
)
claim(
    "Where a row goes on from what another row has just run, the batch takes one more forward.",
    first.batch == second.batch and all(piece.start > 0 for piece in second.pieces),
)
claim(
    "Who asks for what is running joins that batch.",
    sizes[2].calls[2].asked > sizes[2].forwards[0].began and sizes[2].calls[2].batch == 1,
)

# %% after theory-count
claim(
    "The theory is the one from paper: while nothing is evicted, what is read is the number of "
    "different prefixes of all that was asked, exactly.",
    all(a == b for a, b in counts) and counts[0][1] == different_prefixes(family),
)

# %% after theory-clock-answer
alone, tree_only, both = np.diff(times)
claim(
    "The tree saves time because it saves tokens, and reads 192 in place of 4,224.",
    [each.stats["token_forwards"] for each in trees] == [192, 192]
    and sum(map(len, family)) == 4224,
    clock=tree_only < 0.8 * alone,
)
claim(
    "The queue saves more, because it runs two forwards in place of 64.",
    [each.stats["forwards"] for each in trees] == [64, 2],
    clock=both < 0.8 * tree_only,
)

# %% after summary
claim(
    "A batch whose rows go on from each other takes one forward more.",
    [forward.batch for forward in sizes[4].forwards].count(1) == 2,
)
