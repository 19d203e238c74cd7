"""The picture that a link to the site shows: a story in rounds, by the models, 1200 × 630 pixels.

It is drawn when a site is built: the text of the page's *draft* as whoever opens it first sees it,
and of the rounds that refused a guess the one that judged most whole words.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lablib
from lablib.course.plots.charts import style
from lablib.course.plots.strips import PLAIN, WIDTH, Look, add_axes, canvas, draw_strip, height
from lablib.inference.decoding.rows import Verdict

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

SIZE = 1200, 630
ALT = (
    "A story that two language models wrote together: a small one guessed, and a large one kept "
    "most guesses. Below, the guesses of one round, each with the chance that it stays."
)
PROMPT, SEED = "On a sunny day, Mia finds", 12  # as the page begins
_KEPT = Look("guessed by the small model, and kept", "#BFE5D8")
_OWN = Look("the large model’s own", "#F7C873")
_STAYS, _GOES, _OWNS, _FAINT = "#00785A", "#B3400A", "#0A4BFF", "#555555"


def write(path: Path) -> None:
    """Draw the picture into a file, a PNG."""
    target, tokenizer = lablib.load("target")
    draft, _ = lablib.load("draft")
    prompt = tokenizer.encode(PROMPT)
    options = {"max_tokens": 80, "temperature": 1.0, "seed": SEED, "rule": "rejection"}
    _, stats = lablib.speculative_decode(target, draft, prompt, trace=True, **options)
    rounds = stats["trace"]
    words = [tokenizer.decode([token]) for token in range(target.vocab_size)]
    dots = SIZE[0] / WIDTH  # an inch
    fig = canvas(SIZE[1] / dots)
    with style():
        fig.text(0.025, 0.9, "lablib", size=30, weight="bold", color=_OWNS, va="center")
        says = "two language models, live in a page: write, draft, vote"
        fig.text(0.2, 0.895, says, size=15.5, va="center")
        top = 0.86 + _draw_text(fig, prompt, rounds, words, tokenizer.eos_token_id)
        refusing = [each for each in rounds if each.accepted < len(each.drafted)]
        told = max(refusing, key=lambda each: _whole_words(each, words))
        _draw_round(fig, told, words, top)
        last = "Nothing to install. The rule that keeps a guess changes no word’s chance."
        fig.text(0.025, 0.045, last, size=12.5, color=_FAINT, va="center")
    fig.savefig(path, dpi=dots, facecolor="white")


def _draw_text(
    fig: Figure, prompt: list[int], rounds: list[Verdict], words: list[str], end: int
) -> float:
    """Draw the text, each token by who wrote it; return the inches that it takes."""
    pairs = [(words[token], PLAIN) for token in prompt[1:]]
    for verdict in rounds:
        for place, token in enumerate(verdict.tokens):
            if token != end:
                pairs.append((words[token], _KEPT if place < verdict.accepted else _OWN))
    tokens, looks = zip(*pairs, strict=True)
    high = height(tokens)
    draw_strip(add_axes(fig, 0.1, 0.78, WIDTH, high), tokens, looks, legend=(_KEPT, _OWN))
    return high


def _whole_words(verdict: Verdict, words: list[str]) -> int:
    tokens = [*verdict.drafted[: verdict.reached], verdict.tokens[-1]]
    return sum(words[token].startswith(" ") for token in tokens)


def _draw_round(fig: Figure, verdict: Verdict, words: list[str], top: float) -> None:
    """Draw a card for each guess, and for what the large model put in place of the refused one."""
    axes = add_axes(fig, 0.2, top, WIDTH - 0.4, 1.25)
    axes.set(xlim=(0, WIDTH - 0.4), ylim=(1.25, 0))
    axes.set_axis_off()
    wide = (WIDTH - 0.4) / (len(verdict.drafted) + 1)
    for number, (word, chance, says, colour) in enumerate(_cards(verdict, words)):
        left = number * wide
        look = {"facecolor": "white", "edgecolor": colour, "linewidth": 2}
        card = FancyBboxPatch((left + 0.08, 0.08), wide - 0.22, 1.09, "round,pad=0.05", **look)
        axes.add_patch(card)
        axes.text(left + 0.12, 0.3, word, size=15, weight="bold", va="center", family="monospace")
        if chance is not None:
            whole, share = wide - 0.3, (wide - 0.3) * chance
            frame = {"facecolor": "white", "edgecolor": _FAINT, "linewidth": 0.8}
            axes.add_patch(Rectangle((left + 0.12, 0.52), whole, 0.16, **frame))
            axes.add_patch(Rectangle((left + 0.12, 0.52), share, 0.16, facecolor="#7FBBAC"))
        axes.text(left + 0.12, 0.95, says, size=11.5, color=colour, va="center")


def _cards(verdict: Verdict, words: list[str]) -> Iterator[tuple[str, Any, str, str]]:
    """Yield of each card its word, the chance that it stays, what became of it, and a colour."""
    for number, token in enumerate(verdict.drafted):
        chance = min(1.0, verdict.p[number] / verdict.q[number])
        if number < verdict.accepted:
            fate = "✓ kept", _STAYS
        elif number < verdict.reached:
            fate = "✗ refused", _GOES
        else:
            fate = "thrown away", "#767676"
        yield (words[token].strip() or "␣", chance if number < verdict.reached else None, *fate)
    yield words[verdict.tokens[-1]].strip() or "␣", None, "corrected", _OWNS
