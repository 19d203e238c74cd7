"""An engine's texts, held against all texts that there are."""

import itertools
import json
import math
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import lablib
from lablib import __main__
from lablib.course.plots import chart
from lablib.tools import audit as audits
from lablib.tools import audit_laws as laws
from lablib.tools.audit import audit
from lablib.validation import BadType, BadValue

import mistaken
import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import BatchKVCache, trim_prompt_cache

T = laws.TEMPERATURE
PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
NAMES = {
    mistaken.wrong_greedy_draft_judged_by_soft_q: laws.GREEDY,
    mistaken.wrong_draft_sampled_cooler_than_judged: laws.UNSAMPLED,
    mistaken.wrong_unsure_draft_dropped: laws.DROPPED,
    mistaken.wrong_temperature_twice: laws.TWICE,
}


# --- the two models ------------------------------------------------------------------------------


def test_the_models_say_the_same_in_one_call_in_pieces_taken_back_and_behind_padding() -> None:
    text = [2, 0, 1, 1, 2, 0, 0, 2]
    for model in laws.world():
        exact = np.array([model.logits(text[:end]) for end in range(1, len(text) + 1)])
        whole = np.array(model(mx.array([text])))[0]
        np.testing.assert_allclose(whole, exact, atol=1e-6)
        cache = model.make_cache()
        pieces = [model(mx.array([text[:5]]), cache=cache)]
        model(mx.array([[1, 2, 2]]), cache=cache)  # drafts that are refused
        trim_prompt_cache(cache, 3)
        pieces += [model(mx.array([[token]]), cache=cache) for token in text[5:]]
        assert np.array_equal(np.concatenate(pieces, axis=1)[0], whole)
        padded = [BatchKVCache([3, 0])]
        rows = model(mx.array([[0, 0, 0, *text], [1, 1, 2, *text]]), cache=padded)
        assert np.array_equal(np.array(rows)[0, 3:], whole)
        assert np.array_equal(np.array(rows)[1], np.array(model(mx.array([[1, 1, 2, *text]])))[0])
        step = np.array(model(mx.array([[1], [1]]), cache=padded))
        np.testing.assert_allclose(step[0, 0], model.logits([*text, 1]), atol=1e-6)


def test_the_law_has_every_text_once_and_every_known_law_sums_to_one() -> None:
    target, _ = laws.world()
    for text, chance in zip(laws.TEXTS.tolist(), laws.own(T), strict=True):
        steps = [target.probs([*laws.PROMPT, *text[:t]], T)[text[t]] for t in range(laws.LENGTH)]
        assert chance == pytest.approx(math.prod(steps), rel=1e-12)
    known = [law for variants in laws.mistakes(T).values() for law in variants.values()]
    assert np.allclose([law.sum() for law in known], 1, atol=1e-12)
    assert np.min(known) >= 0


def test_drafts_that_are_judged_rightly_leave_the_law_as_it_is() -> None:
    p, q = (laws.chances(model, T) for model in laws.world())
    pairs = [laws.judged(*three) for three in zip(p, q, q, strict=True)]
    for drafts, spare, alone in itertools.product((1, 2, 4), (False, True), (False, True)):
        law = laws.law(tuple(zip(*pairs, strict=True)), p, drafts, spare, alone)
        np.testing.assert_allclose(law, laws.own(T), atol=1e-15)


def stated() -> list[tuple[str, str, np.ndarray]]:
    """Return the laws that the promise is about: two drafts or more; of temperatures, three."""
    found = []
    for name, variants in laws.mistakes(T).items():
        for variant, law in variants.items():
            weak = "γ = 1" in variant or "alone" in variant
            heat = re.match(r"(?:drawn|judged) at ([\d.]+)", variant)
            if not weak and (heat is None or heat[1] in ("1", f"{T * T:.3g}", f"{T / 2:.3g}")):
                found.append((name, variant, law))
    return found


def test_each_known_mistake_moves_the_law_by_06_and_is_seen_999_times_of_1000() -> None:
    own, rng = laws.own(T), np.random.default_rng(0)
    assert {name for name, *_ in stated()} == {*laws.mistakes(T)}
    free = len(own) - 1
    needed = next(x for x in np.arange(80, 200, 0.1) if 3 * audits.bound(x, free) < 1e-6)
    for name, variant, law in stated():
        assert np.abs(law - own).sum() / 2 >= 0.06, (name, variant)
        seen = [audits.divergence(c, own) for c in rng.multinomial(20_000, law, size=200)]
        assert (np.mean(seen) - needed) / np.std(seen) > 3.5, (name, variant)  # of σ: 2e-4


def test_the_smallest_bias_that_is_visible_is_seen_even_where_that_is_hardest() -> None:
    own, rng, n = laws.own(T), np.random.default_rng(1), 20_000
    far = audits.visible(n)
    assert 0.06 < far < 0.065
    up = np.zeros(len(own), bool)  # half of the mass goes up by one factor: KL is 2·TV²
    for i in rng.permutation(len(own)):
        up[i] = own[up].sum() + own[i] <= 0.5
    biased = np.where(up, own * (1 + far / own[up].sum()), own * (1 - far / own[~up].sum()))
    assert np.abs(biased - own).sum() / 2 == pytest.approx(far)
    draws = rng.multinomial(n, biased, size=2000)
    p = [3 * audits.bound(audits.divergence(c, own), len(own) - 1) for c in draws]
    assert np.mean(np.array(p) < audits.FALSE_ALARM) > 0.997


def test_the_bound_holds_for_every_outcome_of_small_draws() -> None:
    n = 14
    counts = np.array([(a, b, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)])
    factorial = np.array([math.factorial(i) for i in range(n + 1)], float)
    ways = factorial[n] / factorial[counts].prod(axis=1)
    for law in ([1 / 3] * 3, [0.9, 0.09, 0.01], [0.5, 0.499, 0.001]):
        chances = ways * (np.array(law) ** counts).prod(axis=1)
        far = np.array([audits.divergence(each, np.array(law)) for each in counts])
        for x in far:
            assert chances[far >= x - 1e-9].sum() <= audits.bound(x, 2) + 1e-12


# --- right engines -------------------------------------------------------------------------------


def plain(target, draft, prompt, n, max_tokens, temperature, seed):
    rng = np.random.default_rng(seed)
    texts = np.tile(prompt, (n, 1))
    for _ in range(max_tokens):
        token = mistaken.pick(rng, target.probs(texts, temperature))
        texts = np.concatenate([texts, token[:, None]], axis=1)
    return texts[:, len(prompt) :]


RIGHT = [
    (plain, 20_000),
    (mistaken.right_rejection, 2000),
    (mistaken.right_matching, 2000),
    (mistaken.right_mixed_lengths, 2000),
]


@pytest.mark.parametrize(
    "seeds", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (100, 250))]
)
def test_no_audit_of_a_right_engine_accuses(seeds: int) -> None:
    for (engine, n), seed in itertools.product(RIGHT, range(seeds)):
        found = audit(engine, n, seed=seed)
        assert not found.biased, (engine, seed)
        assert found.verdict.endswith(f"is not visible with {n:,} texts.")


@pytest.mark.parametrize("n", [200, pytest.param(1500, marks=pytest.mark.slow)])
def test_mlx_lm_speculation_is_lossless(n: int) -> None:
    for temperature in (T, 1.0):
        found = audit("mlx-lm", n, temperature=temperature)
        assert not found.biased
        assert found.distances == {audits.OWN: found.error}
        assert found.error < found.chance + 0.05


def test_lablib_is_lossless_with_its_log_probabilities() -> None:
    for temperature in (T, 1.0):
        assert not audit("lablib", 6000, temperature=temperature).biased
    found = audit("lablib", 400, logprobs_at=T)  # they are the model's own, at 1
    assert found.causes == ("looks like log-probabilities at another temperature (1, not 0.6)",)


# --- mistaken ones -------------------------------------------------------------------------------


def codes_of(engine, seed):
    texts = engine(*laws.world(), [*laws.PROMPT], 5000, laws.LENGTH, T, seed)
    return texts @ laws.TOKENS ** np.arange(laws.LENGTH)[::-1]


@pytest.mark.parametrize("engine", mistaken.FAULTY)
def test_a_foreign_mistake_is_named_or_unknown_and_half_of_it_is_not_visible(engine) -> None:
    found = audit(engine)
    name = f"looks like {NAMES[engine]}" if engine in NAMES else audits.UNKNOWN
    assert found.causes == (name,)
    assert found.p_value < 1e-12
    assert found.distances[audits.OWN] > 0.06 + found.chance
    codes = np.concatenate([codes_of(engine, seed) for seed in range(4)])
    counts = np.bincount(codes, minlength=len(laws.TEXTS))
    kl = (audits.divergence(counts, laws.own(T)) - 40) / counts.sum()  # chance adds (k - 1) / 2
    n = math.ceil(165 / kl)  # with which the whole mistake is just seen
    assert audit(engine, n).biased
    half = audit(mistaken.half(engine), n)
    assert not half.biased
    assert f"not visible with {n:,} texts" in str(half)


def with_one_uniform(target, draft, prompt, n, max_tokens, temperature, seed):
    rng, buf, at, end = mistaken.start(prompt, n, max_tokens, seed)
    for _ in range(max_tokens):
        p, q = (mistaken.next_probs(m, buf, at, end, temperature) for m in (target, draft))
        u = rng.random(n)
        token = (u[:, None] >= q.cumsum(axis=1)[:, :-1]).sum(axis=1)
        kept = u < mistaken.of_token(p, token) / mistaken.of_token(q, token)
        other = mistaken.pick(rng, mistaken.residual(p, q))
        mistaken.put(buf, at, np.where(kept, token, other))
        at = at + 1
    return mistaken.texts_of(buf, prompt, end)


def with_one_draw(target, draft, prompt, n, max_tokens, temperature, seed):
    rng, buf, at, end = mistaken.start(prompt, n, max_tokens, seed)
    for _ in range(max_tokens):
        p, q = (mistaken.next_probs(m, buf, at, end, temperature) for m in (target, draft))
        both = q, mistaken.residual(p, q)
        u = rng.random((n, 1))
        token, other = ((u >= each.cumsum(axis=1)[:, :-1]).sum(axis=1) for each in both)
        kept = rng.random(n) < mistaken.of_token(p, token) / mistaken.of_token(q, token)
        mistaken.put(buf, at, np.where(kept, token, other))
        at = at + 1
    return mistaken.texts_of(buf, prompt, end)


def with_one_gumbel(target, draft, prompt, n, max_tokens, temperature, seed):
    rng, buf, at, end = mistaken.start(prompt, n, max_tokens, seed)
    for _ in range(max_tokens):
        p, q = (mistaken.next_probs(m, buf, at, end, temperature) for m in (target, draft))
        noise = rng.gumbel(size=p.shape)
        token = (np.log(q) + noise).argmax(axis=1)
        kept = rng.random(n) < mistaken.of_token(p, token) / mistaken.of_token(q, token)
        with np.errstate(divide="ignore"):
            other = (np.log(mistaken.residual(p, q)) + noise).argmax(axis=1)
        mistaken.put(buf, at, np.where(kept, token, other))
        at = at + 1
    return mistaken.texts_of(buf, prompt, end)


def in_batches(size):
    """Rows that share all their random numbers with the others of a batch."""

    def engine(target, draft, prompt, n, max_tokens, temperature, seed):
        few = plain(target, draft, prompt, -(-n // size), max_tokens, temperature, seed)
        return np.repeat(few, size, axis=0)[:n]

    return engine


def again_and_again(target, draft, prompt, n, max_tokens, temperature, seed):
    """Each batch of 500 begins with the same random numbers."""
    few = plain(target, draft, prompt, 500, max_tokens, temperature, seed)
    return np.resize(few, (n, max_tokens))


def one_seed(target, draft, prompt, n, max_tokens, temperature, seed):
    """A right engine, but for its seed, which it forgets."""
    return plain(target, draft, prompt, n, max_tokens, temperature, 0)


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (with_one_uniform, laws.NOISE),
        (with_one_draw, laws.NOISE),
        (with_one_gumbel, laws.NOISE),
        (in_batches(2), audits.ROWS),
        (in_batches(64), audits.ROWS),
        (again_and_again, audits.ROWS),
        (one_seed, audits.ROWS),
    ],
)
def test_shared_noise_is_named(engine, name) -> None:
    assert audit(engine).causes == (f"looks like {name}",)


def scoring(heat, off=0.0):
    def engine(target, draft, prompt, n, max_tokens, temperature, seed):
        texts = plain(target, draft, prompt, n, max_tokens, temperature, seed)
        whole = np.concatenate([np.tile(prompt, (n, 1)), texts], axis=1)
        logs = [np.log(target.probs(whole[:, : len(prompt) + t], heat)) for t in range(max_tokens)]
        told = [mistaken.of_token(log, texts[:, t]) for t, log in enumerate(logs)]
        return texts, np.stack(told, axis=1) + off

    return engine


@pytest.mark.parametrize("heat", [1.0, T * T, 0.3, 5.0])
def test_log_probabilities_at_another_temperature_are_named_with_it(heat) -> None:
    found = audit(scoring(heat), 2000)
    (cause,) = found.causes
    assert cause == f"looks like log-probabilities at another temperature ({heat:.3g}, not 0.6)"
    assert found.p_value == 1
    assert not audit(scoring(heat), 2000, logprobs_at=heat).biased


def test_other_wrong_log_probabilities_have_no_known_cause() -> None:
    for off in (0.01, -0.2, np.nan):
        (cause,) = audit(scoring(T, off), 400).causes
        assert cause.startswith("log-probabilities wrong by up to")
        assert cause.endswith("cause unknown")
    assert not audit(scoring(T, 5e-4), 400).biased


# --- the door ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "refusal", "said"),
    [
        ({"engine": 3}, BadType, "engine must be callable"),
        ({"engine": "vllm"}, BadValue, "engine must be lablib, mlx-lm or module:function"),
        ({"engine": "nowhere:engine"}, BadValue, "can't be imported"),
        ({"engine": "math:nothing"}, BadValue, "can't be imported"),
        ({"n": 15}, BadValue, "n must be at least 16"),
        ({"n": 20.0}, BadType, "n must be an int"),
        ({"temperature": 0}, BadValue, "temperature must be between 0.01 and 100"),
        ({"seed": -1}, BadValue, "seed must be at least 0"),
        ({"logprobs_at": 0}, BadValue, "logprobs_at must be between"),
    ],
)
def test_a_bad_argument_is_refused_before_any_text_is_drawn(wanted, refusal, said) -> None:
    def never(*_):
        raise AssertionError

    with pytest.raises(refusal, match=re.escape(said)):
        audit(**{"engine": never, **wanted})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda n: np.zeros((n - 1, 4), int), "engine must return 4 texts of 4 token ids"),
        (lambda n: np.zeros((n, 3), int), "engine must return 4 texts of 4 token ids"),
        (lambda n: np.zeros((n, 4)), "of 4 token ids from 0 to 2, got float64"),
        (lambda n: np.full((n, 4), 3), "of 4 token ids from 0 to 2, got 3 to 3"),
        (lambda n: [[0] * 4] * (n - 1) + [[0] * 3], "got some of other lengths"),
        (lambda n: None, "engine must return"),
        (lambda n: (np.zeros((n, 4), int), np.zeros((n, 3))), "log-probabilities must be (4, 4)"),
    ],
)
def test_an_answer_that_is_no_texts_is_refused(answer, said) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(said)):
        audit(lambda *arguments: answer(arguments[3]), 16)


def test_an_audit_is_the_same_again_and_calls_the_engine_four_times() -> None:
    calls = []

    def watched(target, draft, prompt, n, max_tokens, temperature, seed):
        calls.append((prompt, n, max_tokens, temperature, seed))
        return plain(target, draft, prompt, n, max_tokens, temperature, seed)

    found = audit(watched, 402, seed=5)
    assert found == audit(plain, 402, seed=5) != audit(plain, 402, seed=6)
    assert [call[1] for call in calls] == [100, 101, 100, 101]
    assert [call[4] for call in calls] == [20, 21, 22, 23]
    assert {(tuple(call[0]), *call[2:4]) for call in calls} == {(laws.PROMPT, 4, T)}


def test_the_command_prints_the_verdict_and_its_status_says_whether_it_is_biased(
    monkeypatch, tmp_path, capsys
) -> None:
    assert __main__.main(["audit", "lablib", "--texts", "400"]) == 0
    assert capsys.readouterr().out.startswith("No bias seen (p ≤ 1): one below 0.444 in")
    (tmp_path / "my_engine.py").write_text("from mistaken import *\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = "my_engine:wrong_temperature_twice"
    assert __main__.main(["audit", name, "--seed", "3"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("Biased (p < 1e-300): looks like temperature applied twice.\n")
    assert re.search(r"temperature applied twice +0\.0\d\d █", printed)
    assert __main__.main(["audit", "my_engine"]) == 2


def test_a_notebook_gets_a_picture_of_the_distances(monkeypatch, capsys) -> None:
    shown = []
    monkeypatch.setattr(chart.Still, "_ipython_display_", lambda still: shown.append(still))
    found = audit(mistaken.wrong_temperature_twice)
    found._ipython_display_()
    assert capsys.readouterr().out == f"{found}\n"
    (picture,) = shown
    (panel,) = picture.chart(None).marks
    lengths = [mark["bar"][1] for mark in panel if "bar" in mark]
    names = [name for _, name in picture.chart(None).panels[0]["y"]["ticks"]]
    bars = found.distances | {"chance alone": found.chance}
    assert dict(zip(names, lengths, strict=True)) == bars
    assert picture.caption(None) == found.verdict


# --- the page ------------------------------------------------------------------------------------


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)


class Server(BaseHTTPRequestHandler):
    """Serves the target's completions, as the engine of the lab writes them."""

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        how = {"max_tokens": wanted["max_tokens"], "temperature": wanted["temperature"]}
        rows = lablib.speculative_sample_n(
            *laws.world(), wanted["prompt"], wanted["n"], seed=wanted["seed"], stop_tokens=(), **how
        )
        both = zip(rows.tokens, rows.logprobs, strict=True)
        keys = "tokens", "token_logprobs"
        choices = [
            {"logprobs": dict(zip(keys, ([*map(str, ids)], logs), strict=True))}
            for ids, logs in both
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": choices}).encode())

    def log_message(self, *_) -> None:
        pass


def test_the_adapters_of_the_page_run(capsys) -> None:
    _, plain_of_mlx_lm, hugging_face, served = blocks()
    names = {"lablib": lablib}
    exec(plain_of_mlx_lm.replace("plain, 1000", "plain, 60"), names)
    assert capsys.readouterr().out.startswith("No bias seen")
    compile(hugging_face, str(PAGE), "exec")  # torch is no dependency
    exec(served, names)
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        names["URL"] = f"http://127.0.0.1:{server.server_port}/v1/completions"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        report = audit(names["served"], 400, logprobs_at=1)
        assert not report.biased
        assert report == audit(lambda *how: names["served"](*how)[0], 400)
        server.shutdown()


def test_the_page_says_what_so_many_texts_show() -> None:
    stated = re.findall(r"([\d,]+)(?: texts show a bias of| one of) (0\.\d+)", PAGE.read_text())
    assert len(stated) == 2
    for n, far in stated:
        assert float(far) == round(audits.visible(int(n.replace(",", ""))), len(far) - 2)
