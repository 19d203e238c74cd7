"""What checks the sentences of lesson 02 · The KV cache."""

# %% after by-hand-attend-run
claim("Our toy has four words, and vectors of two numbers.", embeddings.shape == (len(words), 2))
claim(
    "Three small matrices make three vectors of each one: a query, what the token looks for; a "
    "key, by which others find it; and a value, what they get.",
    to_query.shape == to_key.shape == to_value.shape == (2, 2) and keys.shape == (4, 2),
)
claim(
    "Its query (2, −1) meets the keys (0, 1), (2, 0) and (2, 1): scores −1, 4 and 3.",
    queries[2].tolist() == [2, -1] and keys[:3].tolist() == [[0, 1], [2, 0], [2, 1]],
)
claim(
    "Its query (2, −1) meets the keys (0, 1), (2, 0) and (2, 1): scores −1, 4 and 3.",
    (keys[:3] @ queries[2]).tolist() == [-1, 4, 3],
)
by_paper = np.exp(np.array([-1.0, 4.0, 3.0]) / np.sqrt(2))
claim(
    "We divide them by √2 (a key has 2 numbers; why a root), a softmax makes weights of them, and "
    "the weights mix the values.",
    np.allclose(by_paper / by_paper.sum(), weigh(queries[2], keys[:3])),
)
claim(
    "Sat sees itself and the two words before it.",
    np.allclose(
        attention(embeddings, to_query, to_key, to_value)[2], by_paper / by_paper.sum() @ values[:3]
    ),
)

# %% after by-hand-layers-answer
target, _ = lablib.load("target", dtype=mx.float32)
claim(
    "The two together are a layer: the block of 00b.",
    hasattr(target.layers[0], "self_attn") and hasattr(target.layers[0], "mlp"),
)
claim(
    "Each layer has matrices of its own, and makes its queries, keys and values of what the one "
    "before has left.",
    not mx.array_equal(
        target.layers[0].self_attn.k_proj.weight, target.layers[1].self_attn.k_proj.weight
    ).item(),
)
claim(
    "In neither: of four words the first three are the same.",
    all(np.allclose(three[i], four[i][:, :3]) for i in (0, 1)),
)
claim(
    "So what comes later can't change what it finds, nor what the next layer makes of that.",
    changed == [False, False],
)
mixed = [
    x + np.array([weigh(q, x @ to_key) @ (x @ to_value) for q in x @ to_query])
    for x in (embeddings[:3], embeddings)
]
claim(
    "So what comes later can't change what it finds, nor what the next layer makes of that.",
    not np.allclose(mixed[0], mixed[1][:3]),
)  # if it saw what comes later

# %% after by-hand-picture-run
shown = attention_weights(model, text[:10])
claim(
    "Each row is a token that looks, each column one that is looked at; the numbers are weights in "
    "percent.",
    np.allclose(shown.sum(axis=2), 1) and tuple(sorted(Attending.STEPS)) == Attending.STEPS,
)
claim(
    "The empty half is the causal mask: what comes later is not seen.",
    not shown[:, ~np.tri(10, dtype=bool)].any(),
)
heads = model.config.num_attention_heads
claim(
    "A real layer attends several times side by side, each time with a share of the numbers.",
    heads > 1 and heads * model.config.head_dim == model.config.hidden_size,
)
claim(
    "Now a real layer: our target reads the beginning of a story, and its last token has just "
    "arrived.",
    len(shown) == len(model.layers) and tokenizer.decode(text[:10]).endswith("red"),
)
read = kv.make(model)
model(mx.array([text[:10]]), cache=read)
third, ninth = (read[0].keys[0, :, place] for place in (2, 8))
same_value = mx.allclose(read[0].values[0, :, 2], read[0].values[0, :, 8], atol=1e-5).item()
claim(
    "Unlike our toy's, its queries and keys are turned by the token's place: already in the first "
    "layer a leaves one key as the third token, and another as the ninth.",
    text[2] == text[8] and same_value and not mx.allclose(third, ninth, atol=1e-2).item(),
)

# %% after by-hand-picture-answer
drawn = Attending(pieces[:10], shown)
alone = drawn.compute(10, 5, "keep")
claim(
    "Only the last row is computed now.",
    drawn.values["way"] == "keep" and alone["first"] == 9,
)
fewer = attention_weights(model, text[:8])
claim(
    "Then move tokens so far: one row and one column come or go, and no other number changes.",
    np.allclose(fewer, shown[:, :8, :8], atol=1e-5),
)
claim("That is why keeping is allowed.", np.allclose(fewer, shown[:, :8, :8], atol=1e-5))
least = np.abs(alone["weights"] - drawn.compute(10, 5, "recompute")["weights"]).max()
claim(
    "Switch older keys and values to recompute: all rows are computed, and each number is the "
    "same.",
    least == 0 and drawn.compute(10, 5, "recompute")["first"] == 0,
)
before_it = kv.make(model)
model(mx.array([text[:9]]), cache=before_it)
kept_keys = [mx.array(each.keys[:, :, :9]) for each in before_it]
claim(
    "The grey rows were computed when their tokens arrived, and of that the green keys and values "
    "are kept.",
    all(
        mx.allclose(each.keys[:, :, :9], old, atol=1e-4).item()
        for each, old in zip(read, kept_keys, strict=True)
    ),
)
claim(
    "Without a cache this must be done again, because the next layer makes its keys and values of "
    "all rows.",
    not np.allclose(three[1][0], embeddings[:3] @ second[1]),
)

# %% after library-parts-run
claim(
    "A model takes a list of caches, one for each layer, and moves them on.",
    len(cache) == len(model.layers) and kv.offset(cache) == len(text),
)
claim(
    "Reading a text in two parts gives the same logits as reading it at once, up to rounding.",
    mx.allclose(in_parts, at_once, atol=1e-4).item(),
)

# %% after library-trim-run
claim(
    "The cache knows how many tokens were read; the model itself remembers nothing between two "
    "calls.",
    mx.allclose(model(mx.array([text])), model(mx.array([text])), atol=1e-5).item()
    and kv.offset(cache) == len(text),
)
claim(
    "Trimming takes the last tokens back, in every layer, or refuses and changes nothing:",
    {each.offset for each in cache} == {len(text)},
)
shorter = kv.copy(cache)
kv.trim(shorter, 5)
claim(
    "Trimming takes the last tokens back, in every layer, or refuses and changes nothing:",
    {each.offset for each in shorter} == {len(text) - 5},
)

# %% after predict-cost-answer
longer = times[1].sum() / times[0].sum()
on_cpu = mx.default_device() == mx.cpu  # elsewhere forwards of a small model may cost alike
fast, slow = (times[way][1:] for way in (0, 1))  # of the tokens after the first
claim(
    "The first one must wait until the whole prompt is read, yet the second is much cheaper.",
    not on_cpu or np.median(fast[:8]) < 0.7 * times[0][0],
)
claim("Why 95, and not 96?", with_cache == 32 + 63 == 95)
plain = lablib.TokenIterator(model, prompt, max_tokens=64, temperature=0.0, stop_tokens=[])
assert [*prompt, *(token.id for token in plain)] == kept_text
claim("With a cache no token is read twice.", plain.stats["token_forwards"] == with_cache)
claim(
    "Without one each step reads the whole text, one token longer than the step before, and so the "
    "sum grows with the square: twice the prompt and the text take four times as many.",
    without == sum(range(32, 96)) and abs(sum(range(64, 64 + 128)) / without - 4) < 0.05,
)
claim(
    "The clock agrees, but not about how much: the count says 43 times, the clock here 4 or 5.",
    round(without / with_cache) == 43,
    clock=not on_cpu or 2 < longer < 10,
)
claim(
    "The first token costs much the same either way: the prompt is read, and with a cache room for "
    "keys and values made.",
    clock=not on_cpu or 0.5 < times[0][0] / times[1][0] < 2,
)
claim(
    "With one those after it cost little, and much the same.",
    not on_cpu
    or (
        np.median(fast) < 0.7 * np.median(slow)
        and np.median(fast[-16:]) < 1.5 * np.median(fast[:16])
    ),
)

# %% after predict-memory-answer
claim(
    "Its weights, by far; only in our small model it is the cache.",
    small["mib"][0] > 5 * small["weights"],
)
claim(
    "Its weights, by far; only in our small model it is the cache.",
    large["weights"] > 5 * large["mib"][0],
)
read_once = kv.copy(cache)
two_readers = kv.expand(read_once, 2)
claim(
    "But the cache grows with every token, and with every reader's text; the weights don't.",
    kv.nbytes(two_readers) == 2 * kv.nbytes(read_once),
)
claim(
    "But the cache grows with every token, and with every reader's text; the weights don't.",
    memory.compute(9, bits=16)["models"]["our target"]["mib"][0] > small["mib"][0],
)
crossing = 8000 * large["weights"] / large["mib"][0]
claim("Nothing is free: what is not computed again is kept.", kv.nbytes(cache) > 0)
claim(
    "Move the first slider: near 122,000 tokens the cache of the 8 billion is as large as its "
    "weights.",
    round(crossing, -3) == 122_000,
)
eight, kib = LARGE["8 billion"], large["layer"][0]
claim(
    "The blocks at the left are what one token leaves: as high as there are layers, as wide "
    "as the keys and values of one.",
    np.isclose(8000 * kib * eight.layers / 1024, large["mib"][0]),
)
claim(
    "Our small target does without; for the larger ones the outline shows what a token would "
    "take if each query head had its own.",
    Shape.of(model).heads == Shape.of(model).kv_heads,
)
claim(
    "Grouped heads save memory: several query heads share one key and one value.",
    eight.heads > eight.kv_heads,
)
claim(
    "Grouped heads save memory: several query heads share one key and one value.",
    large["mib"][0] < large["mib"][1],
)
claim(
    "Our small target does without; for the larger ones the outline shows what a token would "
    "take if each query head had its own.",
    np.isclose(large["layer"][1] / large["layer"][0], eight.heads / eight.kv_heads),
)

# %% after theory-time-answer
own = Shape.of(model)
expected = 2 * own.layers * own.kv_heads * own.head_dim * 4  # bytes of a token, in float32
claim(
    "The memory is what the picture says, but a cache makes room for 256 tokens at a time.",
    kv.nbytes(cache) == room * expected and room == 256 == cache[0].step,
)
claim(
    "At 16 bits, as in the picture, that is 6.0.",
    kv.nbytes(cache) / room / 2**10 == 12 == 2 * small["layer"][0] * len(model.layers),
)
claim(
    "By the count, reading 32 tokens is 32 times the work of reading one.",
    widths[5] / widths[0] == 32,
)
claim(
    "Below are medians of 15, with quartiles.",
    {len(each) for each in seconds.values()} == {15}
    and all(
        6 <= sum(a <= s <= b for s in each) <= 10
        for a, b, each in zip(low, high, seconds.values(), strict=True)
    ),
)

# %% after theory-loop-answer
claim("Either way 64 tokens take 64 forwards: these, by the curve.", len(times[0]) == 64)
claim("Either way 64 tokens take 64 forwards: these, by the curve.", len(times[1]) == len(reads))
claim("A cache saves no forward: it makes each smaller.", reads.sum() == without)
claim(
    "One of 32 to 95 tokens takes a few times as long as one of a token: so the clock says a few, "
    "not 43.",
    clock=not on_cpu
    or (1.5 < one(reads).mean() / one(1) < 12 and 0.5 < anew / kept_time / longer < 2),
)

# %% after theory-roof-answer
ours = memory.shapes["our target"].weights
claim(
    "Ours has the weights of the picture above, at twice the bits.",
    np.isclose(4 * ours / 2**20, 2 * small["weights"]),
)
claim(
    "So few may lie in the processor's own memory, which is faster: the table's time is the most "
    "that fetching takes.",
    clock=not on_cpu or 1e3 * 4 * ours / speed < middle[0],
)
claim(
    "It ends where arithmetic takes longer than the other two: the fixed part, divided by the time "
    "of each token, says about where.",
    clock=not on_cpu or 2 < fixed / each < 128,
)

# %% after summary
claim(
    "Key and value never change, and are kept; trimming takes them back, in every layer.",
    changed == [False, False],
)
claim(
    "With a cache, prompt + new - 1 tokens go through the model; without one, the count "
    "grows with the square.",
    with_cache == len(prompt) + 64 - 1,
)
claim(
    "With a cache, prompt + new - 1 tokens go through the model; without one, the count "
    "grows with the square.",
    without == 64 * 32 + 63 * 64 // 2,
)
half = kv.copy(cache)
for each in half[:4]:
    each.trim(5)
wrong = model(mx.array([text[-5:-4]]), cache=half)[0, 0]
claim(
    "Key and value never change, and are kept; trimming takes them back, in every layer.",
    not mx.allclose(wrong, at_once[0, -5], atol=1e-2).item(),
)
claim(
    "The cache grows with every token of every text; the weights don't.",
    kv.nbytes(two_readers) == 2 * kv.nbytes(read_once),
)
claim(
    "The first two are paid once, so the clock gains less than the count.",
    clock=not on_cpu or longer < without / with_cache,
)
