"""Calls as an engineer writes them: every type checker accepts each of them."""

import lablib
from lablib.inference.speculation import rules
from lablib.inference.voting import majority_vote

import mlx.core as mx

model, tokenizer = lablib.load("target")
draft, _ = lablib.load("draft")
ids = tokenizer.encode("sum 7 3 9 0 4 8:")

one: lablib.Completion = lablib.generate(model, tokenizer, "Once", max_tokens=20, temperature=0.8)
print(one.upper(), one.tokens, one.logprobs, one.finish_reason)
several: list[lablib.Completion] = lablib.generate(model, tokenizer, ["Once", "Late"], seed=1)
calm = lablib.generate(model, tokenizer, messages=[], template={"enable_thinking": False})
four: list[lablib.Completion] = lablib.generate(model, tokenizer, "Once", n=4, max_batch=2)
twice: list[list[lablib.Completion]] = lablib.generate(model, tokenizer, ["Once", "Late"], n=2)
print(one.text, four[0].logprobs, twice[0][1].finish_reason)
chat: lablib.Completion = lablib.generate(
    model, tokenizer, messages=[{"role": "user", "content": "hello"}], stop=["\n"]
)
again = lablib.generate(model, tokenizer, "Once", seed=1, stream=1)  # as number 1 of several
faster = lablib.generate(model, tokenizer, ids, draft_model=lablib.NGram(), draft_tokens=3)
for piece in lablib.stream(model, tokenizer, "Once", top_p=0.9, seed=3, draft_model=draft):
    print(piece.strip())

samples = lablib.sample_n(model, ids, 4, max_tokens=10, stop_tokens={2}, min_p=0.05)
print([len(row) for row in samples.tokens])
votes = majority_vote(model, ids, 8, extract=lablib.on_text(tokenizer, str.strip), seed=1)
print(votes.winner, votes[0])
until: lablib.inference.AdaptiveVotes = lablib.vote_until(model, ids, 8, confidence=0.95)
best = lablib.best_of_n(model, ids, 4, score_fn="length_normalized", max_batch=2)
tree = lablib.SpeculativeTokenIterator(model, lablib.Tree(draft, 3), ids, rule="rejection")
tokens, stats = lablib.speculative_decode(model, draft, ids, draft_tokens=4, trace=True)
print(tokens.shape, stats["acceptance_rate"], rules.__name__)


def digits_only(seen: mx.array, logits: mx.array) -> mx.array:
    """Leave the scores of digits."""
    return logits


with lablib.TokenIterator(model, ids, logits_processors=[digits_only], top_k=40) as iterator:
    for token in iterator:
        print(token.id, token.logprob)
rows = lablib.sample_n(model, ids, 4, stop_tokens=None, logits_processors=[digits_only])
vote = lablib.majority_vote(model, ids, draft_model=draft, logits_processors=[digits_only])
texts = lablib.generate(model, tokenizer, ["Once", "Late"], logits_processors=[digits_only])
many = lablib.AsyncMlxLM(model, tokenizer, batch_size=64)
ends = lablib.sample_n(model, ids, 3, stop=["\n"], tokenizer=tokenizer, seed=[1, 2, 3])
each = lablib.generate(model, tokenizer, ["Once", "Late"], temperature=[0, 1.0], max_tokens=[3, 4])
print(ends.top_logprobs, each[0].top_logprobs, one.top_logprobs)
scores: list[float] = [found.score for found in lablib.best_of_n(model, ids, return_all=True)]
longest: tuple[int, ...] = lablib.best_of_n(model, ids, temperature=[0.1, 0.4, 0.8, 1.6]).shape
sampler = lablib.sampled_by(lambda logprobs: mx.argmax(logprobs, axis=-1))
own = lablib.generate(model, tokenizer, "Once", logits_processors=[sampler])


async def read() -> str:
    """Read a stream beside other tasks."""
    return "".join([piece async for piece in lablib.stream(model, tokenizer, "Once")])


async def serve() -> list[lablib.Completion]:
    """Serve callers."""
    async with lablib.Engine(model, tokenizer, draft, max_batch=8) as engine:
        print([piece async for piece in engine.stream("Once", seed=1, rule="match", stop=".")])
        alone: lablib.Completion = await engine.generate(prompt=[1, 2, 3])
        print(alone.finish_reason, engine.stats["running"])
        return await engine.generate("Once", n=2, temperature=[0.0, 1.0])


row: mx.array = many.next_token_logprobs_sync(ids)
said = lablib.sample_n(model, "Once", 4, tokenizer=tokenizer).texts(tokenizer)
elected = lablib.majority_vote(model, [{"role": "user", "content": "Hi"}], tokenizer=tokenizer)
queue = lablib.sample_many(model, ["Once", ids], [lablib.SamplerOptions()] * 2, tokenizer=tokenizer)
reward = lablib.on_text(tokenizer, len)
likeliest = lablib.best_of_n(
    model, ids, 4, score_fn=lambda texts: [*map(len, texts)], tokenizer=tokenizer
)
kept = lablib.best_of_n(model, ids, 4, score_fn=reward, return_all=True)
print(kept[0].score, kept.samples.logprobs, votes.samples and votes.samples.stats["tokens"])
share: float = votes[0][1]
