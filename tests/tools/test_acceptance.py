"""The recording behind the acceptance dashboard: read as the engine reads, counted as it counts."""

import math

from lablib import __main__, models
from lablib.course.replay.recording import (
    DRAFT,
    DRAFTERS,
    GAMMA,
    HEAD,
    LOOKUP,
    MAX_TOKENS,
    probabilities,
    stored_acceptance,
)
from lablib.course.replay.sampled import RULES, expect
from lablib.course.tasks import TASKS
from lablib.course.theory.estimators import wilson_interval
from lablib.inference.speculation import Head
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.models.head import load_head
from lablib.tools.acceptance import Plan, measure_acceptance, read

import mlx.core as mx
import numpy as np
import pytest

TINY = Plan(temperatures=(0.0, 1.0), problems=2, repeats=1, seed=3)


@pytest.fixture(scope="module")
def shipped():
    target, tokenizer = models.load("target", dtype=mx.float32)
    draft, _ = models.load("draft", dtype=mx.float32)
    return target, draft, load_head("target-head", target), tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("acceptance")
    lines = []
    measure_acceptance(folder, plan=TINY, say=lines.append)
    assert len(lines) == len(TASKS) * 2
    return folder


@pytest.mark.slow
@pytest.mark.thorough
def test_at_temperature_0_theory_is_the_engines_count(folder):
    recording = stored_acceptance(folder)
    for task in recording.tasks:
        for drafter in DRAFTERS:
            texts, some = recording.along(task, drafter), recording.of(0.0)
            for rule in RULES:
                parts = texts.chances(rule), texts.offered, texts.lengths
                found = expect(*(part[some] for part in parts), GAMMA)
                counts = recording.counted(task, 0.0, rule, drafter)
                assert found.kept.sum() == pytest.approx(counts["rounds"], abs=1e-9)
                assert found.reached.sum() == pytest.approx(counts["reached"], abs=1e-9)
                accepted = found.kept.sum(axis=0) @ np.arange(GAMMA + 1)
                assert accepted == pytest.approx(counts["accepted"], abs=1e-9)
                assert found.tokens.sum() == counts["tokens"]


@pytest.mark.parametrize("name", [DRAFT, HEAD])
def test_kept_drafts_have_the_q_that_the_engine_drew_them_from(name, shipped):
    target, draft, head, tokenizer = shipped
    drafter = draft if name == DRAFT else Head(head)
    for task in TASKS.values():
        prompt = tokenizer.encode(task.problems(4, 1)[0].prompt)
        engine = SpeculativeTokenIterator(
            target, drafter, prompt, temperature=0.9, seed=2, draft_tokens=5, trace=True,
            max_tokens=MAX_TOKENS, stop_tokens=tokenizer.eos_token_ids,
        )  # fmt: skip
        tokens = [token.id for token in engine]
        p, by_draft, by_head = read(target, draft, head, [(prompt, tokens)], 0.9)
        place, compared = 0, 0
        for each in engine.rounds:
            for d in range(each.accepted):
                pair = by_draft[place + d] if name == DRAFT else by_head[place, d]
                # float32 logits of one token and of many differ in the last digits (design, 4)
                assert p[place + d] == pytest.approx(each.p[d], abs=1e-4)
                assert pair[0] == pytest.approx(each.q[d], abs=1e-4)
                compared += 1
            place += len(each.tokens)
        assert compared > 8


def test_both_draw_a_token_as_often_as_the_races_say(shipped):
    target, draft, head, tokenizer = shipped
    prompt = tokenizer.encode("On a sunny day, Mia finds")
    logits = [np.array(model(mx.array([prompt]))[0, -1]) for model in (target, draft)]
    p, q = (probabilities(each, 1.5) for each in logits)
    for token in np.argsort(-p)[:4].tolist():
        _, pairs, _ = read(target, draft, head, [(prompt, [token])], 1.5)
        wanted = 1 / np.maximum(p / p[token], q / q[token]).sum()
        assert pairs[0, 1] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.slow
@pytest.mark.thorough
def test_what_was_stored_is_what_was_measured(folder):
    recording = stored_acceptance(folder)
    assert recording.temperatures.tolist() == [0.0, 1.0]
    assert recording.tasks == tuple(TASKS)
    assert len(recording.tokens) == len(TASKS) * 2 * TINY.problems
    assert recording.at(0.9) == 1
    prompt, tokens = recording.written("edits", 1.0)
    assert (prompt, tokens) == recording.tokens[-TINY.problems]
    texts = recording.along("edits", LOOKUP)
    assert texts.lengths[2] == len(tokens)
    assert set(np.unique(texts.q)) <= {0.0, 1.0}
    with pytest.raises(ValueError, match="evaluate --acceptance"):
        stored_acceptance(folder / "nowhere")


def test_softmax_is_certain_at_temperature_0_and_of_minus_infinity():
    assert probabilities([[1.0, 3.0, 2.0]], 0.0).tolist() == [[0, 1, 0]]
    half = probabilities([0.0, -math.inf, 0.0], 2.0)
    assert half.tolist() == [0.5, 0, 0.5]


def test_the_shipped_recording_agrees_with_the_engine():
    recording = stored_acceptance()
    for task in recording.tasks:
        for drafter in DRAFTERS:
            texts = recording.along(task, drafter)
            for rule in RULES:
                chances = texts.chances(rule)
                for temperature in recording.temperatures:
                    some = recording.of(temperature)
                    parts = chances[some], texts.offered[some], texts.lengths[some]
                    counts = recording.counted(task, temperature, rule, drafter)
                    given = counts["accepted"], counts["reached"], 1 - 1e-6 / 252
                    low, high = wilson_interval(*given)
                    # one false alarm in 1e6 recordings; 0.05: theory has texts of its own, and
                    # places of one text resemble each other
                    assert low - 0.05 < expect(*parts, GAMMA).alpha < high + 0.05


def test_the_command_measures_only_acceptance(monkeypatch, tmp_path):
    called = {}
    monkeypatch.setattr(
        "lablib.tools.acceptance.measure_acceptance", lambda *a, **k: called.update(k, out=a[0])
    )
    assert __main__.main(["evaluate", "--acceptance", "--out", str(tmp_path)]) == 0
    assert called["out"] == tmp_path
