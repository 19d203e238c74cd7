"""What checks the sentences of lesson 10 · Rewinding."""

import itertools

from lablib.course.lessons.lesson_10.widgets import replayed
from lablib.inference.speculation.costs import expected_tokens

import mlx_lm

# %% after by-hand-answer
claim(
    "The second, a sliding window, is a ring of four slots, where the newest token overwrites the "
    "oldest.",
    len(ring) == 4 and [ring[4 % 4], ring[5 % 4]] == [5, 6],
)
claim(
    "The third is recurrent: one number, which each token fades and adds to.",
    read_all([8, 1])[2] == 8 / 2 + 1 and isinstance(state, float),
)
claim(
    "The entries can, because each token has one of its own: drop the last two, which is to trim.",
    entries[:-2] == [1, 2, 3, 4],
)
claim(
    "The ring can't, because 1 and 2 were overwritten to make room.",
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
    "Each step backwards doubles the error which that has left, so that after 60 steps nothing "
    "else is to be seen.",
    abs(again - 7) > 1000 and np.allclose(np.divide(errors[-20:], errors[-21:-1]), 2, atol=0.01),
)

# %% after by-hand-replay
assert state == read_all([1, 2, 3, 4, 5])[2]

# %% after by-hand-alias-answer
claim(
    "The snapshot moved along, because it was no copy but a second name for the same array.",
    snapshot is layer.state and snapshot[0] == read_all([1, 2, 3, 4, 5, 6])[2],
)

# %% after library-ring-note
claim(
    "They must, because the 5 itself has to see 2, 3 and 4, and so none of these may go before the "
    "read is done.",
    blocks == [2, 3, 4, 5, 6],
)
claim("Only the 1 is gone.", {1, 2, 3, 4, 5, 6} - {*blocks} == {1})
claim(
    "So drafts that were read as a block can be dropped even from a ring: 2, 3, 4 are left, and "
    "with the next token itself that is a full window.",
    blocks[:-2] == [2, 3, 4] and len(blocks[:-2]) + 1 == RotatingKVCache(max_size=4).max_size,
)
drawn = rings(rows, stays=4)
claim(
    "Read at once, 5 and 6 lie behind the ring, unrolled.",
    [mark["text"] for mark in drawn.marks[0]][-5:] == [*"23456"],
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
    "A program that doesn't look at that 0 goes on with refused drafts in its memory.",
    spared == [(0, True), (0, True)],
)
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
    "Below are ten greedy texts, written by mlx-lm's speculation and by ours, on the same kind of "
    "cache.",
    len(texts) == 10 and all(len(each) == 60 for each in texts[0]),
)
claim("A window of 100 never fills, and all is well.", wrong[100] == [0, 0] and 10 + 60 + 4 < 100)
claim(
    "In a window of 16 refused drafts stay, and mlx-lm's texts part from what the model would "
    "write.",
    wrong[16][0] > 2,
)
claim(
    "Ours don't, because a Rewinder looks at each layer and finds a way back that is safe.",
    wrong[16][1] == 0,
)

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
    "In the ring, whose window is full, the Rewinder found the drafts at the end, and dropped them "
    "there.",
    refused and (ends, rewinder.cache[0].keys.shape[2]) == (11, 8),
)

# %% after library-room-answer
claim(
    "A snapshot takes no room at first, because MLX arrays are shared until one side writes.",
    abs(megabytes[1] - megabytes[0]) < 0.02 * megabytes[0],
)
claim(
    "But the next thing that a round does is to write, and then there are two.",
    1.9 < megabytes[2] / megabytes[0] < 2.1,
)
freely = Rewinder(*having_read("keys and values", text))
freely.forward(mx.array([drafts]))
claim(
    "So keys and values get no copy from the Rewinder: it notes where they end, a single number, "
    "and trims.",
    freely._reads[-1][2] == [len(text)] * 2,
)
rolls = Rewinder(*having_read("sliding window", text))
rolls.forward(mx.array([drafts]))
claim(
    "Only rings and recurrent states are copied, and these stop growing however long the text "
    "becomes.",
    isinstance(rolls._reads[-1][2][0], RotatingKVCache) and rolls._reads[-1][2][0].max_size == 8,
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
short = memories.compute(drafts=3, back=3, prompt=2, way="trim where possible")
claim(
    "Set the prompt to 2 and read three drafts: the window is not full yet, and so trimming works.",
    np.allclose(short["seen"][:2], short["right"][:2]) and short["read"] < memories.model.window,
)
claim(
    "That is how the bug hides, because short tests pass.",
    np.allclose(short["seen"][1], short["right"][1]) and wrong[100][0] == 0,
)
cases = itertools.product(
    (0, 2, 6), (0, 1, 4), (1, 3, 8), ("snapshot and replay", "snapshot each draft")
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
single = memories.compute(drafts=4, back=3, prompt=8, way="snapshot each draft")
claim(
    "Choose snapshot each draft: nothing is read again, as there is a snapshot between any "
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
    "The hybrid's gets smaller with ups and downs, and is not gone after 60 tokens, because "
    "its recurrent states only fade, and its one layer with keys and values has kept those of "
    "the refused drafts, too.",
    all(
        max(gaps[memory][:5]) > 0.5 > 2 * gaps[memory][-1] and max(np.diff(gaps[memory])) > 0
        for memory in ("sliding window, layer 2", "recurrent, layer 3")
    ),
)
first, second = (np.array(gaps[f"sliding window, layer {n}"]) > 1e-4 for n in (1, 2))
claim(
    "The window's doesn't fade, it ends, the first layer first: after a while only rounding is"
    " left.",
    not first[7:].any() and second[7:12].all() and not second[14:].any(),
)
assert gaps["recurrent, layer 3"][-1] > 0.01
assert len(gaps["recurrent, layer 3"]) == 60

# %% after theory-heal-answer
claim("With W places, a token sees the W − 1 before it.", trimmed["right"][1].sum() == 6 - 1)
claim(
    "So after W − 1 tokens the refused drafts have left the first layer's window.",
    all(traces[window, 1] == window - 1 for window in (4, 8)),
)
claim(
    "It looks at what the first has made of them, and the last of these that saw a draft stays in "
    "its window for another W − 1.",
    traces[8, 1] < traces[8, 2] <= 2 * 7,
)
claim(
    "With L layers the last trace should go after L · (W − 1) tokens.",
    all(-2 <= seen - deep * (wide - 1) <= 0 for (wide, deep), seen in traces.items()),
)
claim(
    "It does, to the token.",
    all(seen == deep * (wide - 1) for (wide, deep), seen in traces.items()),
)
claim(
    "In other words, a failed rewind of a window is forgiven after L · (W − 1) tokens, and what "
    "was written until then is kept.",
    len(traces) == 5,
)
claim("A replay isn't free, either: it is a second forward.", again["recurrent"] == 1)
claim(
    "Where most drafts are refused, such forwards eat more than drafts save.",
    1 + replayed(0.4, 4)[0] > expected_tokens(0.4, 4),
)

# %% after summary
_, whole = having_read("keys and values", text, drafts)
claim(
    "Keys and values keep an entry for each token, and are trimmed for free.",
    again["keys and values"] == 0 and trim_prompt_cache(whole, 3) == 3,
)
claim(
    "A full ring has overwritten its oldest; drafts that were read as a block lie behind it, "
    "and can be dropped.",
    spared[0] == (0, True) and again["sliding window"] == 0,
)
claim(
    "What can't be rewound must say so, because a 0 that nobody looks at becomes a wrong text.",
    wrong[16][0] > wrong[100][0] == 0,
)
claim(
    "Where all layers are windows, they heal after L · (W − 1) tokens, and a recurrent state "
    "only fades.",
    gaps["recurrent, layer 3"][-1] > 0.01 and traces[8, 2] == 14,
)
