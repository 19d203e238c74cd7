"""One forward, many ways to compute it: mlx-lm, NumPy, and every cache must agree."""

from lablib.models import LanguageModel, gpt_config, hybrid_config, kernels, llama_config, zoo

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models import llama as mlx_llama
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    BatchRotatingKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    trim_prompt_cache,
)
from oracles import models as oracle
from oracles.refusals import refuses

V = 40
CONFIGS = {
    "llama": llama_config(V, 32, 4, 3, n_kv_heads=2, max_positions=64),
    "gpt": gpt_config(V, 32, 4, 3, max_positions=64),
    "hybrid": hybrid_config(V, 32, 4, 4, attention_every=2, max_positions=64),
}
WITH_ATTENTION_ONLY = ["llama", "gpt"]


@pytest.fixture(params=CONFIGS)
def model(request):
    return LanguageModel(CONFIGS[request.param], seed=1)


def tokens_of(seed, *shape):
    return mx.array(np.random.default_rng(seed).integers(0, V, shape))


def in_chunks(model, tokens, cache, sizes):
    ends = np.cumsum(sizes).tolist()
    assert ends[-1] == tokens.shape[1]
    parts = [model(tokens[:, end - n : end], cache) for n, end in zip(sizes, ends, strict=True)]
    return mx.concatenate(parts, axis=1)


def close(a, b, tolerance=2e-5):
    assert a.shape == b.shape
    np.testing.assert_allclose(np.array(a), np.array(b), atol=tolerance, rtol=0)


# --- against others ---------------------------------------------------------------------------
@settings(max_examples=25)
@given(
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    half_head=st.integers(1, 8),
    width=st.integers(1, 40),
    layers=st.integers(1, 3),
    tied=st.booleans(),
    theta=st.sampled_from([100.0, 10000.0, 500000.0]),
    length=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_same_logits_as_mlx_lm(
    kv_heads, group, half_head, width, layers, tied, theta, length, seed
):
    config = llama_config(
        V, width, kv_heads * group, layers, kv_heads, d_ff=2 * width, head_dim=2 * half_head,
        rope_theta=theta, tie_word_embeddings=tied,
    )  # fmt: skip
    ours = LanguageModel(config, seed=seed)
    theirs = mlx_llama.Model(mlx_llama.ModelArgs.from_dict(config.to_dict()))
    theirs.load_weights(tree_flatten(ours.parameters()), strict=True)
    tokens = tokens_of(seed, 2, length + 2)
    close(ours(tokens), theirs(tokens), 1e-4)
    ours_cache, theirs_cache = ours.make_cache(), theirs.make_cache()
    for part in (tokens[:, :length], tokens[:, length : length + 1], tokens[:, length + 1 :]):
        close(ours(part, ours_cache), theirs(part, theirs_cache), 1e-4)


def test_same_logits_as_numpy(model):
    tokens = tokens_of(2, 1, 20)
    expected = oracle.logits(model, np.array(tokens[0]))
    close(model(tokens)[0], expected, 1e-4)


def test_untied_output_layer_as_numpy():
    config = hybrid_config(V, 24, 3, 3, d_ff=20, tie_word_embeddings=False)
    model = LanguageModel(config, seed=3)
    tokens = tokens_of(3, 1, 9)
    assert "weight" in model.lm_head
    close(model(tokens)[0], oracle.logits(model, np.array(tokens[0])), 1e-4)


def test_gpu_form_of_the_kernels_is_the_same(model, monkeypatch):
    tokens = tokens_of(4, 2, 30)
    expected = in_chunks(model, tokens, model.make_cache(), [25, 4, 1])
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    close(in_chunks(model, tokens, model.make_cache(), [25, 4, 1]), expected)


def test_far_positions_match_mlx_lm():
    """Where the angles are large, float32 rounds them: both must round alike."""
    x = mx.random.normal((2, 3, 4, 16), key=mx.random.key(0))
    for offset in (0, 7, 5000, mx.array([-2, 3000])):
        fast = mx.fast.rope(x, 16, traditional=False, base=10000.0, scale=1.0, offset=offset)
        close(kernels.Rotation(offset, 4, 16, 10000.0)(x), fast, 1e-6)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_stays_half(model, dtype):
    tokens = tokens_of(5, 2, 12)
    full = model(tokens)
    model.set_dtype(dtype)
    half = in_chunks(model, tokens, model.make_cache(), [10, 1, 1])
    assert half.dtype == dtype
    close(half.astype(mx.float32), full, 0.02 if dtype == mx.float16 else 0.2)


# --- caches -----------------------------------------------------------------------------------
def attention_caches(config, make, padding=None):
    kinds = config.layer_types
    return [make() if kind == "full_attention" else ArraysCache(1, padding) for kind in kinds]


@pytest.mark.parametrize("sizes", [[24], [1] * 24, [10, 1, 5, 1, 7], [23, 1]])
def test_decoding_in_chunks_equals_the_full_forward(model, sizes):
    tokens = tokens_of(6, 2, 24)
    close(in_chunks(model, tokens, model.make_cache(), sizes), model(tokens))


@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        (KVCache, 2e-5),
        (ConcatenateKVCache, 2e-5),
        (lambda: RotatingKVCache(max_size=32), 2e-5),
        (lambda: RotatingKVCache(max_size=24, keep=4), 2e-5),
        (lambda: BatchKVCache([0]), 2e-5),
        (lambda: BatchRotatingKVCache(32, [0]), 2e-5),
    ],
    ids=["kv", "concatenate", "rotating", "rotating-full", "batch", "batch-rotating"],
)
def test_every_cache_within_its_window(model, make, tolerance):
    tokens = tokens_of(7, 1, 24)
    cache = attention_caches(model.config, make)
    close(in_chunks(model, tokens, cache, [9, 1, 6, 1, 7]), model(tokens), tolerance)


@pytest.mark.parametrize(("bits", "tolerance"), [(8, 0.01), (4, 0.15)])
@pytest.mark.parametrize("kind", CONFIGS)
def test_quantised_cache(kind, bits, tolerance):
    """Off by at most a fraction of the largest logit, and off by just what mlx-lm's Llama is.

    Up to rounding: where both stand at the edge of a step, a value of theirs may take the next one.
    That is one of the thousands of errors of which quantising costs the sum.
    """
    make = {"llama": llama_config, "gpt": gpt_config, "hybrid": hybrid_config}[kind]
    config = make(V, 128, 2, 3, max_positions=64)
    model = LanguageModel(config, seed=8)
    tokens = tokens_of(8, 1, 20)

    def quantised(model):
        cache = attention_caches(config, lambda: QuantizedKVCache(group_size=64, bits=bits))
        return in_chunks(model, tokens, cache, [12, 1, 5, 1, 1])

    full, out = model(tokens), quantised(model)
    assert 0 < mx.abs(out - full).max() / mx.abs(full).max() < tolerance
    if kind == "llama":
        theirs = mlx_llama.Model(mlx_llama.ModelArgs.from_dict(model.config.to_dict()))
        theirs.load_weights(tree_flatten(model.parameters()))
        cost, apart = mx.abs(out - full), mx.abs(out - quantised(theirs))
        assert apart.mean() < 0.01 * cost.mean()
        assert apart.max() < 0.1 * cost.max()


def test_a_window_smaller_than_the_text_forgets():
    model = LanguageModel(llama_config(V, 32, 4, 1), seed=9)
    tokens = tokens_of(9, 1, 30)
    cache = [RotatingKVCache(max_size=8)]
    out = in_chunks(model, tokens, cache, [1] * 30)
    close(out[:, :8], model(tokens)[:, :8])
    window = LanguageModel(llama_config(V, 32, 4, 1), seed=9)(tokens[:, -8:])
    close(out[:, -1], window[:, -1], 1e-4)  # one layer: the last token sees the last 8 only


@pytest.mark.parametrize("kind", WITH_ATTENTION_ONLY)
def test_rewinding_is_trimming_the_cache(kind):
    model = LanguageModel(CONFIGS[kind], seed=10)
    tokens, wrong = tokens_of(10, 1, 20), tokens_of(11, 1, 6)
    cache = model.make_cache()
    model(tokens[:, :12], cache)
    model(wrong, cache)
    assert trim_prompt_cache(cache, 6) == 6
    close(model(tokens[:, 12:], cache), model(tokens)[:, 12:])


LENGTHS = [3, 9, 1, 6]


def ragged(seed):
    rows = [tokens_of(seed + i, n + 4) for i, n in enumerate(LENGTHS)]
    prompts = [row[:n] for row, n in zip(rows, LENGTHS, strict=True)]
    return rows, prompts, mx.stack([row[n:] for row, n in zip(rows, LENGTHS, strict=True)])


def check_rows(model, rows, outputs):
    """``outputs[i]`` holds the logits of the last tokens of row i, as if it were alone."""
    for row, out in zip(rows, outputs, strict=True):
        close(out, model(row[None])[0, -len(out) :], 5e-5)


@pytest.mark.parametrize("chunk", [9, 4, 1])
def test_left_padded_rows_are_as_if_alone(model, chunk):
    rows, prompts, rest = ragged(20)
    longest = max(LENGTHS)
    padding = [longest - n for n in LENGTHS]
    padded = mx.stack([mx.pad(p, (n, 0)) for p, n in zip(prompts, padding, strict=True)])
    cache = attention_caches(model.config, lambda: BatchKVCache(padding), padding)
    sizes = [chunk] * (longest // chunk) + [longest % chunk] * (longest % chunk > 0)
    prompt_out = in_chunks(model, padded, cache, sizes)
    rest_out = in_chunks(model, rest, cache, [1, 2, 1])
    assert np.isfinite(np.array(prompt_out)).all()
    parts = zip(prompt_out, rest_out, padding, strict=True)
    check_rows(model, rows, [mx.concatenate([p[n:], r]) for p, r, n in parts])


# Both sides of where each kernel changes its form: of `_MANY` queries, of a CHUNK of retention, and
# of `_MOST` scores in a head (725 queries of 725 keys).
EDGES = [13, 15, 16, 17, 40, 127, 128, 129, 724, 725]


@pytest.mark.parametrize("length", EDGES)
@pytest.mark.parametrize("name", ["target", "hybrid", "gpt"])
def test_left_padded_rows_of_every_length_are_as_if_alone(name, length, loaded):
    """A query of the padding sees nothing, and what it makes of that reaches no other."""
    model = loaded(name)
    tokens = mx.random.randint(0, model.vocab_size, (2, length + 17), key=mx.random.key(length))
    cache = attention_caches(model.config, lambda: BatchKVCache([0, 12]), [0, 12])
    out = in_chunks(model, tokens, cache, [length, 1, 16])
    assert np.isfinite(np.array(out)).all()
    for row, padding in enumerate((0, 12)):
        alone = model(tokens[row : row + 1, padding:])[0]
        # A thousand roundings of the largest logit; to see one token of padding costs far more.
        close(out[row, padding:], alone, 6e-5 * mx.abs(alone).max().item())


@pytest.fixture(scope="module")
def loaded():
    gpt = gpt_config(V, 32, 4, 3, max_positions=800)
    models = {"gpt": LanguageModel(gpt, seed=1)}

    def load(name):
        if name not in models:
            models[name] = zoo.load(name, dtype=mx.float32)[0]
        return models[name]

    return load


@pytest.mark.parametrize("sizes", [[9], [4, 5]])
def test_right_padded_rows_are_as_if_alone(model, sizes):
    rows, prompts, rest = ragged(30)
    longest = max(LENGTHS)
    padding = [longest - n for n in LENGTHS]
    padded = mx.stack([mx.pad(p, (0, n)) for p, n in zip(prompts, padding, strict=True)])
    cache = attention_caches(model.config, lambda: BatchKVCache([0] * 4), [0] * 4)
    for layer in cache:
        layer.prepare(lengths=LENGTHS, right_padding=padding)
    prompt_out = in_chunks(model, padded, cache, sizes)
    for layer in cache:
        layer.finalize()
    rest_out = in_chunks(model, rest, cache, [1, 2, 1])
    parts = zip(prompt_out, rest_out, LENGTHS, strict=True)
    check_rows(model, rows, [mx.concatenate([p[:n], r]) for p, r, n in parts])


def test_rows_merged_and_extracted(model):
    """mlx-lm's batching: separate prompts, merged, decoded together, taken apart again."""
    rows, prompts, rest = ragged(40)
    alone = []
    for prompt in prompts:
        alone.append(model.make_cache())
        model(prompt[None], alone[-1])
    merged = [type(layers[0]).merge(layers) for layers in zip(*alone, strict=True)]
    check_rows(model, [row[:-1] for row in rows], list(model(rest[:, :3], merged)))
    for i in (2, 1):
        cache = [layer.extract(i) for layer in merged]
        close(model(rest[i : i + 1, 3:], cache)[0], model(rows[i][None])[0, -1:], 5e-5)


def in_two(model):
    tokens = tokens_of(6, 2, 24)
    close(in_chunks(model, tokens, model.make_cache(), [10, 14]), model(tokens))


def shifted(self, offset, *rest, start=kernels.Rotation.__init__):
    start(self, offset + 1 if offset else 0, *rest)


def as_if_alone(model):
    test_right_padded_rows_are_as_if_alone(model, [9])


BUGS = {
    "a position is off by one": ("llama", kernels.Rotation, "__init__", shifted, in_two),
    "no causal mask": ("llama", KVCache, "make_mask", lambda *_, **__: None, in_two),
    "padding fades the state": ("hybrid", ArraysCache, "make_mask", lambda *_: None, as_if_alone),
    "a lost state": ("hybrid", ArraysCache, "__getitem__", lambda *_: None, in_two),
}


@pytest.mark.thorough  # a test of tests
@pytest.mark.parametrize(("kind", "owner", "name", "bug", "check"), BUGS.values(), ids=BUGS)
def test_planted_bugs_are_caught(kind, owner, name, bug, check, monkeypatch):
    model = LanguageModel(CONFIGS[kind], seed=1)
    check(model)
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises(AssertionError):
        check(model)


# --- learned positions ------------------------------------------------------------------------
def test_learned_positions_end():
    model = LanguageModel(gpt_config(V, 16, 2, 2, max_positions=8), seed=0)
    assert model.max_positions == 8
    model(tokens_of(0, 1, 8))
    with pytest.raises(ValueError, match="within the context of 8 positions, got 9 after 0"):
        model(tokens_of(0, 1, 9))
    cache = model.make_cache()
    model(tokens_of(0, 1, 6), cache)
    before = [np.array(layer.keys) for layer in cache]
    refuses(ValueError, "got 3 after 6", model, tokens_of(0, 1, 3), cache)
    assert [layer.offset for layer in cache] == [6, 6]
    assert all((np.array(c.keys) == b).all() for c, b in zip(cache, before, strict=True))
    model(tokens_of(0, 1, 2), cache)


def test_learned_positions_of_ragged_rows_end_with_the_longest():
    model = LanguageModel(gpt_config(V, 16, 2, 2, max_positions=8), seed=0)
    cache = [BatchKVCache([3, 1]) for _ in model.layers]
    model(tokens_of(0, 2, 9), cache)  # positions -3..5 and -1..7
    refuses(ValueError, "got 1 after 8", model, tokens_of(0, 2, 1), cache)


# --- training, quantising, using --------------------------------------------------------------
def gradient_of(model, tokens):
    def loss(model):
        return nn.losses.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:], reduction="mean")

    return nn.value_and_grad(model, loss)(model)[1]


def test_every_parameter_gets_a_gradient(model):
    gradient = dict(tree_flatten(gradient_of(model, tokens_of(12, 3, 20))))
    assert gradient.keys() == dict(tree_flatten(model.parameters())).keys()
    for name, g in gradient.items():
        # A bias on the keys adds the same to every score of a query: the softmax cancels it.
        if not name.endswith("k_proj.bias"):
            assert mx.abs(g).max().item() > 1e-6, name


def test_gradient_is_the_slope_of_the_numpy_model(model):
    tokens = tokens_of(13, 1, 12)
    target = np.array(tokens[0, 1:])

    def numpy_loss(step):
        model.update(tree_map(lambda w, d: w + step * d, weights, direction))
        out = oracle.logits(model, np.array(tokens[0, :-1]))
        return (np.log(np.exp(out).sum(-1)) - out[np.arange(len(target)), target]).mean()

    weights = model.parameters()
    draw = np.random.default_rng(14).normal
    direction = tree_map(lambda w: mx.array(draw(size=w.shape).astype(np.float32)), weights)
    slopes = tree_map(lambda g, d: (g * d).sum().item(), gradient_of(model, tokens), direction)
    slope = sum(each for _, each in tree_flatten(slopes))
    measured = (numpy_loss(1e-4) - numpy_loss(-1e-4)) / 2e-4
    assert measured == pytest.approx(slope, rel=0.01, abs=0.01)


def test_seed_makes_the_weights_and_leaves_the_global_state():
    mx.random.seed(5)
    expected = mx.random.uniform(shape=(4,)).tolist()
    mx.random.seed(5)
    first, second, other = (LanguageModel(CONFIGS["llama"], seed=s) for s in (3, 3, 4))
    assert mx.random.uniform(shape=(4,)).tolist() == expected
    pairs = list(zip(*(tree_flatten(m.parameters()) for m in (first, second, other)), strict=True))
    assert all(mx.array_equal(a[1], b[1]) for a, b, _ in pairs)
    assert any(not mx.array_equal(a[1], c[1]) for a, _, c in pairs)


def test_weights_can_be_quantised():
    model = LanguageModel(llama_config(V, 64, 2, 2, d_ff=64), seed=0)
    tokens = tokens_of(15, 1, 10)
    full = model(tokens)
    nn.quantize(model, group_size=64, bits=8)
    assert 0 < mx.abs(model(tokens) - full).max().item() < 0.1


def test_mlx_lm_generates_with_it(model):
    from mlx_lm.generate import generate_step

    prompt = tokens_of(16, 7)
    greedy = [token for token, _ in generate_step(prompt, model, max_tokens=6)]
    text = prompt.tolist()
    for token in greedy:
        assert token == mx.argmax(model(mx.array([text]))[0, -1]).item()
        text.append(int(token))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((mx.array([1, 2]),), r"tokens must have shape \(B, T\) with T ≥ 1, got \(2,\)"),
        ((mx.zeros((2, 0), mx.int32),), r"T ≥ 1, got \(2, 0\)"),
        ((mx.array([[1]]), [None]), "cache must have 3 layers, got 1"),
    ],
)
def test_bad_calls(arguments, message):
    with pytest.raises(ValueError, match=message):
        LanguageModel(CONFIGS["llama"], seed=0)(*arguments)
