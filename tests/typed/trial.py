"""The trial of an engineer who knows mlx-lm and Hugging Face, from public names only.

It runs without a warning (``tests/lab/test_public_trial.py``), and every type checker accepts it.
"""

import asyncio
import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import Any

import lablib

import mlx.core as mx
from mlx_lm.generate import generate as mlx_lm_generate
from mlx_lm.models import gemma3_text, llama, qwen3

SUM = "sum 3 1 4 1 5 9:"
STORY = "On a sunny day, Mia finds"
CALLERS = 200


def readme(model: Any, tokenizer: Any, draft: Any) -> None:
    """Run the lines of the README."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for text in lablib.stream(model, tokenizer, STORY, temperature=0.7, seed=1):
            print(text, end="")
    assert shown.getvalue()
    both = lablib.generate(model, tokenizer, [STORY, SUM], stop=[".", "#"])
    assert len(both) == 2
    assert not any("." in each or "#" in each for each in both)
    prompt: list[int] = tokenizer.encode(SUM)
    samples = lablib.sample_n(model, prompt, n=64, seed=0)
    assert len(samples) == 64
    assert all(samples.finished)  # a loaded model knows its stop tokens
    options = [lablib.SamplerOptions(seed=0)] * 2
    queue = lablib.sample_many(model, [prompt, prompt[:6]], options, n=8)
    assert queue[0].tokens == samples.tokens[:8]
    answer = lablib.on_text(tokenizer, lambda text: text.rpartition("#")[2])
    votes = lablib.majority_vote(model, prompt, n=32, temperature=1.0, extract=answer, seed=0)
    assert votes.winner == "3"  # 23 modulo 10: README's vote elects the right one
    with lablib.TokenIterator(model, prompt, temperature=0.0) as tokens:
        found = [(token.id, token.logprob) for token in tokens]
        assert found[-1][0] in tokenizer.eos_token_ids
        assert tokens.stats["tokens_per_second"] > 0
    story = lablib.generate(model, tokenizer, STORY, draft_model=draft)
    assert story.stats["acceptance_rate"] > 0
    head = lablib.Head(lablib.load_head("target-head", model))
    ids, stats = lablib.speculative_decode(model, head, prompt)
    assert stats["acceptance_rate"] > 0
    assert ids.shape[1] > len(prompt)
    with lablib.by_definition():
        again, _ = lablib.speculative_decode(model, head, prompt)
    assert again.tolist() == ids.tolist()
    told = lablib.forecast(model, draft, tokenizer, [STORY], max_tokens=8, repeats=1)
    assert told.why in str(told)
    many = lablib.AsyncMlxLM(model, tokenizer, batch_size=64)
    logprobs = many.next_token_logprobs_sync(prompt)
    assert mx.allclose(mx.exp(logprobs).sum(), mx.array(1.0), atol=1e-3)


def foreign() -> Iterator[Any]:
    """Make a tiny random model by each of three of mlx-lm's own classes."""
    mx.random.seed(7)
    size: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5,
        "vocab_size": 512,
    }
    yield qwen3.Model(
        qwen3.ModelArgs(
            model_type="qwen3", num_hidden_layers=2, head_dim=16, max_position_embeddings=256,
            tie_word_embeddings=True, rope_theta=10_000.0, **size,
        )
    )  # fmt: skip
    yield gemma3_text.Model(
        gemma3_text.ModelArgs(
            model_type="gemma3_text", num_hidden_layers=3, head_dim=16, sliding_window=8,
            sliding_window_pattern=2, query_pre_attn_scalar=16, **size,
        )
    )  # fmt: skip
    yield llama.Model(llama.ModelArgs(model_type="llama", num_hidden_layers=2, **size))


def is_mlx_lms_text(model: Any, tokenizer: Any) -> None:
    """At temperature 0 a foreign model's text is mlx-lm's own, drafted or not."""
    wanted: str = mlx_lm_generate(model, tokenizer, prompt=STORY, max_tokens=12)
    how: Any = {"max_tokens": 12, "temperature": 0.0}
    plain = lablib.generate(model, tokenizer, STORY, **how)
    assert plain.strip() == wanted.strip()
    assert lablib.generate(model, tokenizer, [STORY, STORY], **how) == [plain, plain]
    drafted = lablib.generate(model, tokenizer, STORY, draft_model=lablib.NGram(), **how)
    assert drafted == plain
    ids: list[int] = tokenizer.encode(STORY)
    assert lablib.sample_n(model, ids, 3, max_tokens=12, seed=1).lengths
    assert len(lablib.best_of_n(model, ids, 3, max_tokens=4)[0]) > len(ids)


def extract(text: str) -> str | None:
    """Take what is voted on; no answer, no vote."""
    _, mark, after = text.rpartition("#")
    return after.strip() or None if mark else None


def short(sequences: mx.array, lengths: mx.array) -> mx.array:
    """Prefer short sequences."""
    return -lengths


def digits(tokenizer: Any) -> list[int]:
    """Return the ids of the tokens that are digits."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return [i for i in vocabulary.values() if tokenizer.decode([i]).strip().isdigit()]


class DigitsOnly:
    """A constraint with a state: it has a method ``copy``, so that each text has its own."""

    def __init__(self, allowed: Sequence[int], seen: int = 0) -> None:
        self.allowed = allowed
        self.seen = seen

    def copy(self) -> "DigitsOnly":
        """Return one for another text."""
        return DigitsOnly(self.allowed, self.seen)

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Give -inf to whatever is no digit."""
        assert self.seen in (0, tokens.size - 1)  # nobody's refused drafts are shown
        self.seen = tokens.size
        left = mx.full(logits.shape, -mx.inf)
        left[:, mx.array([*self.allowed])] = logits[:, mx.array([*self.allowed])]
        return left


class Parrot(lablib.Drafter):
    """A drafter of one's own: the last token comes again and again."""

    def propose(
        self, texts: Sequence[Sequence[int]], limits: Sequence[int], sampler: Any
    ) -> lablib.Proposal | None:
        """Guess."""
        return lablib.Proposal.of([[text[-1]] * n for text, n in zip(texts, limits, strict=True)])


def drafters(draft: Any) -> dict[str, lablib.Drafter | Any]:
    """Return five kinds of drafter."""
    return {
        "a model": draft,
        "look-up": lablib.NGram(),
        "early exit": lablib.EarlyExit(2),
        "a tree": lablib.Tree(draft, depth=3),
        "one's own": Parrot(),
    }


def constrained(model: Any, tokenizer: Any, draft: Any) -> None:
    """A digits-only constraint holds in every function, whoever drafts."""
    only = [DigitsOnly(digits(tokenizer))]
    ids: list[int] = tokenizer.encode(SUM)
    how: Any = {"max_tokens": 6, "seed": 1, "logits_processors": only, "stop_tokens": ()}

    def hold(texts: Sequence[str]) -> None:
        assert texts
        for text in texts:
            assert text.replace(" ", "").isdigit(), text

    plain = lablib.generate(model, tokenizer, SUM, **how)
    hold([plain, *lablib.generate(model, tokenizer, [SUM, STORY], **how)])
    hold(["".join(lablib.stream(model, tokenizer, SUM, **how))])
    decode = tokenizer.decode
    hold([decode([token.id for token in lablib.TokenIterator(model, ids, **how)])])
    hold(lablib.sample_n(model, ids, 4, **how).texts(tokenizer))
    several: Any = {name: value for name, value in how.items() if name != "seed"}
    for samples in lablib.sample_many(model, [ids], [lablib.SamplerOptions()], 2, **several):
        hold(samples.texts(tokenizer))
    for name, drafter in {"nobody": None, **drafters(draft)}.items():
        more: Any = {**how, "draft_model": drafter}
        votes = lablib.majority_vote(model, ids, 3, extract=tuple, **more)
        hold([decode(tokens) for tokens, _ in votes])
        until = lablib.vote_until(model, ids, 3, **more)
        hold([decode(tokens) for tokens, _ in until])
        best = lablib.best_of_n(model, ids, 3, score_fn=short, **more)
        hold([decode(best[0, len(ids) :].tolist())])
        if drafter is None:
            continue
        match = lablib.generate(model, tokenizer, SUM, rule="match", **more)
        assert match == plain, name
        tokens, stats = lablib.speculative_decode(model, drafter, ids, **how)
        hold([decode(tokens[0, len(ids) :].tolist())])
        assert stats["rounds"] > 0
        hold(lablib.speculative_sample_n(model, drafter, ids, 2, **how).texts(tokenizer))
        hold(lablib.speculative_batch(model, drafter, [ids, ids], **how).texts(tokenizer))


def votes_of_ones_own(model: Any, tokenizer: Any) -> None:
    """Votes take one's own extract and weight, best of N one's own score."""
    ids: list[int] = tokenizer.encode(SUM)
    own: Any = {"extract": lablib.on_text(tokenizer, extract), "seed": 2}
    counted = lablib.majority_vote(model, ids, 16, **own)
    weighed = lablib.majority_vote(model, ids, 16, weight=short, **own)
    assert counted.winner is not None
    assert abs(sum(share for _, share in weighed) - 1) < 1e-6
    until = lablib.vote_until(model, ids, 16, confidence=0.95, **own)
    assert until.reason in ("certain", "confident", "exhausted")
    found = lablib.best_of_n(model, ids, 4, score_fn=short, return_all=True, seed=2)
    assert len(found) == 4


async def ask(many: lablib.AsyncMlxLM, prompts: Sequence[list[int]]) -> list[mx.array]:
    """Let everybody ask at once."""
    return await asyncio.gather(*(many.next_token_logprobs(prompt) for prompt in prompts))


def callers(model: Any, tokenizer: Any) -> None:
    """Two hundred callers share batches and prefixes, and each is answered as if alone."""
    many = lablib.AsyncMlxLM(model, tokenizer, batch_size=64)
    ids: list[int] = tokenizer.encode(STORY)
    prompts = [[*ids, 3 + i % 97, 3 + i // 97] for i in range(CALLERS)]
    rows = asyncio.run(ask(many, prompts))
    assert len(rows) == CALLERS
    assert many.stats["forwards"] < CALLERS / 4
    alone = lablib.AsyncMlxLM(model, None).next_token_logprobs_sync(prompts[150])
    assert mx.allclose(rows[150], alone, atol=1e-3)


def half(p: mx.array, q: mx.array, drafts: mx.array) -> lablib.rules.Outcome:
    """Keep half of what rejection keeps: a rule of one's own."""
    rules = lablib.rules
    accept = mx.minimum(rules.ratio_of(p, q, drafts), 1) / 2
    rest = p - mx.minimum(p, rules.padded(q)) / 2
    return rules.Outcome(rules.one_by_one(accept), rules.scaled(rest, p))


def greedy_only(p: mx.array, q: mx.array, drafts: mx.array) -> lablib.rules.Outcome:
    """Keep every draft: a rule that loses the target's distribution."""
    right = lablib.rules.rejection(p, q, drafts)
    last = mx.arange(p.shape[-2]) == p.shape[-2] - 1
    kept = mx.broadcast_to(last, right.kept.shape).astype(p.dtype)
    return lablib.rules.Outcome(kept, right.following)


def rule_and_transform(model: Any, tokenizer: Any, draft: Any) -> None:
    """A rule and a transform of one's own run, and the enumeration says whether a rule is right."""
    assert lablib.bias(half) < 1e-9 < 0.01 < lablib.bias(greedy_only)
    ids: list[int] = tokenizer.encode(SUM)
    lablib.rules.RULE["half"] = half
    _, stats = lablib.speculative_decode(model, draft, ids, temperature=1.0, seed=1, rule="half")
    _, usual = lablib.speculative_decode(model, draft, ids, temperature=1.0, seed=1)
    del lablib.rules.RULE["half"]
    assert 0 < stats["alpha"] < usual["alpha"]
    taught = lablib.transforms.ORDER["min_p"]
    asked: list[lablib.transforms.Parameter] = []

    def mine(scores: mx.array, m: lablib.transforms.Parameter) -> mx.array:
        asked.append(m)
        return taught(scores, m)

    lablib.transforms.ORDER["min_p"] = mine
    text = lablib.generate(model, tokenizer, SUM, max_tokens=5, min_p=0.1, seed=1)
    lablib.transforms.ORDER["min_p"] = taught
    assert asked
    assert text == lablib.generate(model, tokenizer, SUM, max_tokens=5, min_p=0.1, seed=1)


def main() -> None:
    """Run the trial."""
    model, tokenizer = lablib.load("target")
    draft, _ = lablib.load("draft")
    readme(model, tokenizer, draft)
    for made in foreign():
        is_mlx_lms_text(made, tokenizer)
    votes_of_ones_own(model, tokenizer)
    constrained(model, tokenizer, draft)
    callers(model, tokenizer)
    rule_and_transform(model, tokenizer, draft)


if __name__ == "__main__":
    main()
