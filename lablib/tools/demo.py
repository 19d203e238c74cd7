"""Twenty seconds in a terminal: a story, its surprises in colour, and a vote."""

import time
from collections import Counter

from lablib.course.tasks import stories, sums
from lablib.inference import TokenIterator, sample_n
from lablib.models import load
from lablib.tools.terminal import COLOURS, bold, escape, paint
from lablib.validation import integer

_PACE = 0.03  # seconds a token, so that the eye can follow
_SAMPLES = 64


def demo(seed: int = 0, pace: float = _PACE) -> None:
    """Stream two stories coloured by the model's certainty, then vote on a sum.

    Args:
        seed: chooses the prompts and every draw.
        pace: seconds to wait after a token; 0 is as fast as the machine.
    """
    seed = integer("seed", seed, 0)
    model, tokenizer = load("target")
    print("\n1. One token at a time. Colour is how sure the model was:", _legend())
    for number, temperature in enumerate((0.5, 1.5)):
        story = stories.problems(seed, 2)[number]
        print(f"\n   temperature {temperature}\n   {bold(story.prompt)}", end="", flush=True)
        tokens = TokenIterator(
            model,
            tokenizer.encode(story.prompt),
            max_tokens=80,
            stop_tokens=[tokenizer.eos_token_id],
            temperature=temperature,
            seed=seed,
        )
        for token in tokens:
            if token.id != tokenizer.eos_token_id:
                print(paint(tokenizer.decode([token.id]), token.logprob), end="", flush=True)
                time.sleep(pace)
        verdict = stories.explain(story, tokenizer.decode(tokens.tokens, skip_special_tokens=True))
        print(f"\n   The checker says: {verdict or 'a right story'}.")
        print(f"   {tokens.stats['tokens_per_second']:.0f} tokens a second.")
    _vote(model, tokenizer, seed, pace)
    print("\nThe lessons show how and why: python -m lablib\n")


def _vote(model: object, tokenizer: object, seed: int, pace: float) -> None:
    problem = sums.problems(seed, 1)[0]
    print(f"\n2. Ask {_SAMPLES} times and vote: {bold(problem.prompt)}")
    start = time.perf_counter()
    samples = sample_n(
        model,
        tokenizer.encode(problem.prompt),
        _SAMPLES,
        max_tokens=60,
        stop_tokens=[tokenizer.eos_token_id],
        seed=seed,
    )
    seconds = time.perf_counter() - start
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in samples.tokens]
    votes = Counter(sums.extract(text) for text in texts)
    right = sums.extract(problem.answer)
    for answer, count in votes.most_common():
        label = "   (none)" if answer is None else f"   {answer:>6}"
        mark = "  right" if answer == right else ""
        print(f"{label} {'█' * count} {count}{mark}", flush=True)
        time.sleep(4 * pace)
    total = sum(samples.lengths)
    print(f"   {total} tokens in {seconds:.1f} s, {total / seconds:.0f} a second.")


def _legend() -> str:
    names = ("sure", "likely", "possible", "surprising")
    return ", ".join(escape(name, code) for name, (_, code) in zip(names, COLOURS, strict=True))
