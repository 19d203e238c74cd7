"""What checks the sentences of lesson 10 · Rewinding."""

import itertools

import mlx_lm

# %% after by-hand-answer
claim(
    "The second, a sliding window, is a ring of four slots: the newest token overwrites the "
    "oldest.",
    len(ring) == 4 and [ring[4 % 4], ring[5 % 4]] == [5, 6],
)
claim(
    "The third is recurrent: one number, which each token fades and adds to.",
    read_all([8, 1])[2] == 8 / 2 + 1 and isinstance(state, float),
)
claim("The entries can: drop the last two, trim.", entries[:-2] == [1, 2, 3, 4])
claim(
    "The ring can't: 1 and 2 are overwritten.",
    ring[:2] == [5, 6] and not {1, 2} & {*ring} and found == [True, False, True],
)

# %% after by-hand-inverse-answer
claim(
    "Here are 60 tokens forwards and the same 60 backwards, in float32.",
    len(tokens) == 60 and state.dtype == np.float32,
)
ways = [np.float32(7)]
for token in tokens:
    ways.append(half * ways[-1] + token)
errors, again = [], ways[-1]
for token, before in zip(tokens[::-1], ways[-2::-1], strict=True):
    again = (again - token) / half
    errors.append(float(again) - float(before))
claim(
    "Fading throws digits away, and dividing by 0.5 doubles the rounding error at each step.",
    abs(again - 7) > 1000 and np.allclose(np.divide(errors[-20:], errors[-21:-1]), 2, atol=0.01),
)

# %% after by-hand-replay
assert state == read_all([1, 2, 3, 4, 5])[2]

# %% after by-hand-alias-answer
claim(
    "The snapshot moved along: it is no copy but a second name for the same array.",
    snapshot is layer.state and snapshot[0] == read_all([1, 2, 3, 4, 5, 6])[2],
)

# %% after library-ring-note
claim(
    "Tokens read at once lie behind the ring, unrolled, and only the 1 is gone: the first of them "
    "sees 2, 3, 4 and itself.",
    blocks == [2, 3, 4, 5, 6],
)
claim(
    "Drafts read as a block can still be dropped: 2, 3, 4 are left, and with the next token itself "
    "that is a full window.",
    blocks[:-2] == [2, 3, 4] and len(blocks[:-2]) + 1 == RotatingKVCache(max_size=4).max_size,
)

# %% after library-trim-answer
kinds = [type(layer).__name__ for layer in having_read("recurrent", text)[1]]
claim("Two of the hybrid's three layers are recurrent.", kinds == [*["ArraysCache"] * 2, "KVCache"])
spared = []
for memory in ("sliding window", "recurrent"):
    _, cache = having_read(memory, text, *([token] for token in drafts))
    ends = kv.offset(cache), trim_prompt_cache(cache, 3)
    try:
        kv.trim(cache, 3)
    except ValueError:
        spared.append((ends[1], kv.offset(cache) == ends[0]))
claim(
    "Where it can't trim, kv.trim raises before any layer is touched, and mlx-lm's own function "
    "returns 0.",
    spared == [(0, True), (0, True)],
)
asks = inspect.getsource(speculative_generate_step).split("while True:")
claim(
    "The speculation of mlx-lm 0.32.2 asks once, at the start, whether its caches can be trimmed; "
    "a window that fills later can't any more.",
    mlx_lm.__version__ == "0.32.2" and [a.count("can_trim_prompt_cache(") for a in asks] == [1, 0],
)
_, early = having_read("sliding window", text[:7])
_, later = having_read("sliding window", text[:7], text[7:8])
claim(
    "The speculation of mlx-lm 0.32.2 asks once, at the start, whether its caches can be trimmed; "
    "a window that fills later can't any more.",
    (trim_prompt_cache(early, 3), trim_prompt_cache(later, 3)) == (3, 0),
)

# %% after library-rewinder
claim(
    "Here are ten greedy texts, beside the model alone.",
    all(len(each) == 60 for each in greedy(0, 16)),
)
claim("A window of 100 never fills, and all is well.", wrong[100] == 0 and 10 + 60 + 4 < 100)
claim("In a window of 16 refused drafts stay, and texts part.", wrong[16] > 2)

# %% after library-equal-note
claim("Only the recurrent memory needed the replay.", [*again.values()] == [0, 0, 1])
model, cache = having_read("sliding window", text, drafts)
try:
    refused = not kv.trim(cache, 3) and False
except ValueError as error:
    refused = "is full" in str(error)
rewinder = Rewinder(*having_read("sliding window", text))
rewinder.forward(mx.array([drafts]))
ends = rewinder.cache[0].keys.shape[2]
rewinder.rewind(3)
claim(
    "Our kv.trim would still refuse the ring: its window is full.",
    refused and again["sliding window"] == 0,
)
claim(
    "Rewinder looks inside, and finds the drafts at the end.",
    (ends, rewinder.cache[0].keys.shape[2]) == (11, 8),
)
_, cache = having_read("recurrent", text)
mx.eval([layer.state for layer in cache])
room = mx.get_active_memory()
held = kv.copy(cache)
claim(
    "A snapshot takes no room at first: MLX arrays are shared until one side writes, and then "
    "there are two.",
    mx.get_active_memory() <= room and len(held) == len(cache),
)

# %% after predict-memories-answer
claim(
    "The window has 6 places: the next token and the five before it.",
    memories.model.window == 6 and trimmed["right"][1].sum() == 5,
)
claim(
    "8 prompt tokens, 4 drafts, 3 of them taken back, and each layer trims if it can.",
    (trimmed["prompt"], trimmed["read"], trimmed["stays"]) == (8, 12, 9),
)
keys, ring, faded = trimmed["seen"]
claim(
    "The window sees three tokens that are no longer in the text, and misses three that are.",
    ring[9:].sum() == 3 and (trimmed["right"][1][:9] > ring[:9]).sum() == 3,
)
claim(
    "The recurrent state has the refused drafts in its sum, and all else is faded too far.",
    (faded[9:12] > 0).all() and (faded[:9] < trimmed["right"][2][:9]).all(),
)
short = memories.compute(drafts=3, back=3, prompt=2, way="trim what can be trimmed")
claim(
    "Set the prompt to 2 and read three drafts: the window is not full yet, and trimming it works.",
    np.allclose(short["seen"][:2], short["right"][:2]) and short["read"] < memories.model.window,
)
cases = itertools.product(
    (0, 2, 6), (0, 1, 4), (1, 3, 8), ("snapshot and replay", "snapshots between drafts")
)
moved = [memories.compute(*case) for case in cases]
claim(
    "Choose snapshot and replay: all rows are right, whatever you move.",
    all(np.allclose(each["seen"], each["right"], atol=1e-4) for each in moved),
)
singly = Rewinder(*having_read("recurrent", text))
for token in drafts:
    singly.forward(mx.array([[token]]))
singly.rewind(3)
single = memories.compute(drafts=4, back=3, prompt=8, way="snapshots between drafts")
claim(
    "Choose snapshots between drafts: nothing is read again, as there is a snapshot between any "
    "two drafts.",
    single["again"] == 0 and singly.tokens_read == len(drafts),
)
fresh = next_logits(*having_read("recurrent", text + drafts[:1]))
claim(
    "A draft model, which writes one by one, has that; a target, which reads all in one forward, "
    "hasn't.",
    mx.allclose(next_logits(hybrid, singly.cache), fresh, atol=1e-4).item()
    and again["recurrent"] == 1,
)

# %% after predict-damage-answer
claim(
    "A model whose rewind failed reads on, beside one that never read the three refused drafts.",
    len(drafts[:3]) == 3 and not max(gaps["keys and values, layer 2"]) > 1e-4,
)
claim(
    "It gets smaller, with ups and downs.",
    all(
        max(gaps[memory][:5]) > 0.5 > 2 * gaps[memory][-1] and max(np.diff(gaps[memory])) > 0
        for memory in ("sliding window, layer 2", "recurrent, layer 3")
    ),
)
first, second = (np.array(gaps[f"sliding window, layer {n}"]) > 1e-4 for n in (1, 2))
claim(
    "The window heals, the first layer first: after a while only rounding is left.",
    not first[7:].any() and second[7:12].all() and not second[14:].any(),
)
claim(
    "The recurrent state only fades, and has not forgotten after 60 tokens.",
    gaps["recurrent, layer 3"][-1] > 0.01 and len(gaps["recurrent, layer 3"]) == 60,
)

# %% after theory-heal
claim("With W places, a token sees the W − 1 before it.", trimmed["right"][1].sum() == 6 - 1)
claim(
    "After W − 1 tokens the refused drafts have left the first layer's window.",
    all(traces[window, 1] == window - 1 for window in (4, 8)),
)
claim(
    "But the second layer remembers what the first made of them, for another W − 1.",
    traces[8, 1] < traces[8, 2] <= 2 * 7,
)
claim(
    "With L layers the last trace goes after L · (W − 1) tokens.",
    all(-2 <= seen - deep * (wide - 1) <= 0 for (wide, deep), seen in traces.items()),
)

# %% after theory-cost-measure
counted = Rewinder(*having_read("recurrent", text))
counted.forward(mx.array([[7, *drafts]]))
counted.rewind(4 - 1)
claim(
    "In a round the target reads the last token of the text and γ drafts.",
    counted.tokens_read == 5 + 2,
)
claim(
    "If n < γ of them stay, the trimming model is done.",
    all(tokens_a_round(memory, 0.5, rounds=9)[0] == 5 for memory in [*MEMORIES][:2]),
)
claim(
    "The recurrent one reads n + 1 tokens again, in a second forward.",
    (counted.calls, counted.tokens_read - 5) == (2, 1 + 1),
)
claim(
    "With a chance α for each draft that happens with probability 1 − α^γ.",
    np.isclose(replayed(0.8, 4)[0], sum(0.8**n * 0.2 for n in range(4))),
)
bare = cost.compute(0.8, 4)["forwards"]
claim(
    "With no drafts each written token costs one forward.", np.isclose(expected_tokens(0.8, 0), 1)
)
claim(
    "Less than half of one: two forwards in most rounds, but several tokens.",
    bare[1][3] < 0.5 < replayed(0.8, 4)[0] and expected_tokens(0.8, 4) > 3,
)
even = [cost.compute(alpha, 4)["forwards"][1] for alpha in (0.45, 0.5, 0.55)]
claim(
    "That is at ½ for every γ: (1 − α^(γ+1))/(1 − α) tokens and 2 − α^γ forwards are equal there.",
    np.allclose(even[1], 1) and np.isclose(expected_tokens(0.5, 7), 2 - 0.5**7),
)
claim(
    "Move α down until the line replay at the left touches 1.",
    bare[1][3] < 1 < cost.compute(0.45, 4)["forwards"][1][3],
)
claim("Below ½ replays eat more than drafts save.", min(even[0]) > 1 > max(even[2]))
claim(
    "Now measured, on the real caches: 80 rounds for each α.",
    all(
        abs(mean - 5 - replayed(alpha, 4)[1]) < 5 * error + 0.05
        for alpha, (mean, error) in measured.items()
    ),
)

# %% after theory-engine-answer
claim("This drafter's α is 0.46.", round(alpha, 2) == 0.46)
claim(
    "Plain decoding needs 60 forwards for 60 tokens.",
    np.isclose(expected_tokens(0.8, 0), 1) and len(wrote[0]) == 60,
)
claim(
    "More: 64 forwards for 60 tokens, as nearly every round needs a replay.",
    (forwards, len(wrote[1])) == (64, 60) and replays / len(both.rounds) > 0.85,
)
claim("The texts are equal: the memory is sound.", wrote[0] == wrote[1])
claim(
    "Theory says so, to a forward: below ½ there is nothing to win.",
    abs(theory - forwards) < 1 and alpha < 0.5 and min(even[0]) > 1,
)
claim(
    "Last the whole engine: the hybrid drafts with its own first two layers.",
    stats["total_drafted"] == stats["draft_calls"] and wrote[0] == wrote[1],
)
claim(
    "These are not: each of the 126 goes through two of the target's three layers, the work of 84 "
    "forwards more: 148 for 60 tokens.",
    stats["draft_calls"] == 126 and 126 * 2 / len(hybrid.layers) == 84 and forwards + 84 == 148,
)
replayed_tokens = [one.accepted + 1 for one in both.rounds if one.accepted < len(one.drafted)]
read = sum(len(one.drafted) + 1 for one in both.rounds) + sum(replayed_tokens)
claim(
    "The texts are equal: the memory is sound.",
    stats["token_forwards"] == len(text) - 1 + read and wrong[16] > 0,
)

# %% after summary
_, whole = having_read("keys and values", text, drafts)
claim(
    "Keys and values are trimmed for free, a full window only if the drafts were read as a block.",
    again["keys and values"] == again["sliding window"] == 0 and trim_prompt_cache(whole, 3) == 3,
)
claim(
    "Keys and values are trimmed for free, a full window only if the drafts were read as a block.",
    spared[0] == (0, True),
)
claim("Below α = ½ that costs more forwards than drafts save.", min(even[0]) > 1 > max(even[2]))
claim("A silent 0 becomes a wrong text.", wrong[16] > wrong[100] == 0)
