"""Do drafts pay in company? The engine's rounds of 1 to 32 rows, plain and with drafts, in turns.

    python -m lablib.course.lessons.lesson_14.company 10

measures until there are ten visits and writes ``stored/company.json`` after each. A visit asks all
numbers of rows, in an order of its own. For each of them two engines write the same texts, one with
four drafts a row that cost nothing and one without; they take their turns one after the other, by
one clock: processor time, where it can, held steady by a ``Metronome``.
"""

import argparse
import json
from collections.abc import Sequence
from statistics import median
from typing import Any

import lablib
from lablib.course.lessons.lesson_14.load import on_a_line, table
from lablib.course.lessons.lesson_14.runs import STORED, Estimate, keep, ratio_of
from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import axis, curves, panel
from lablib.course.plots.pictures import COLOURS
from lablib.course.replay.arrivals import Clocked, Metronome
from lablib.inference.engine.job import Drafting, Job
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.costs import expected_tokens
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.proposal import Proposal

import mlx.core as mx
import numpy as np

COMPANY = STORED.with_name("company.json")
COMMAND = "python -m lablib.course.lessons.lesson_14.company"
ROWS = (1, 2, 4, 8, 16, 32)
DRAFTS, RIGHT = 4, 0.8  # a row and round; the chance of each
PROMPT, TURNS, BESIDE = 12, 12, 3  # tokens; turns with drafts; plain ones beside each of them
LONGEST = (DRAFTS + 1) * (TURNS + 4)  # tokens of a text, more than are written

Record = dict[str, Any]


class Knowing(Drafter):
    """Drafts what a text will say, each token with a chance of its own: it costs next to nothing.

    Args:
        right: the chance that a draft is the text's next token.
        seed: of the coins.
    """

    def __init__(self, right: float, seed: int) -> None:
        self.right, self.rng = right, np.random.default_rng(seed)
        self.known: dict[tuple[int, ...], list[int]] = {}

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Guess how texts go on whose first ``PROMPT`` tokens are known."""
        guesses = []
        for text, n in zip(texts, limits, strict=True):
            says = self.known[tuple(text[:PROMPT])][len(text) :][:n]
            luck = self.rng.random(len(says)) < self.right
            guesses.append([x if y else (x + 1) % 512 for x, y in zip(says, luck, strict=True)])
        return Proposal.of(guesses)


class Drafted(Clocked):
    """An engine on a clock of its own, whose texts are drafted for."""

    def __init__(self, model: Any, most: int, metronome: Metronome, drafter: Drafter) -> None:
        super().__init__(model, most, metronome=metronome, draft_model=drafter)

    def job(self, prompt: int, tokens: int) -> Job:
        """Return a request that wants ``DRAFTS`` drafts a round."""
        plain = super().job(prompt, tokens)
        return Job(plain.row, plain.request, Drafting(DRAFTS, "match", False))


def of_rows(model: Any, rows: int, beats: Metronome, seed: int) -> Record:
    """Return what rounds of so many rows take, in milliseconds, and the tokens of a drafted one."""
    drafters = {"drafted": Knowing(RIGHT, seed), "refused": Knowing(0.0, seed)}
    servers = {"plain": Clocked(model, rows, metronome=beats)}
    servers |= {name: Drafted(model, rows, beats, each) for name, each in drafters.items()}
    for server in servers.values():
        prompts = [server.ask(PROMPT, LONGEST).row.prompt for _ in range(rows)]
    cold = [lablib.SamplerOptions(temperature=0.0)] * rows
    texts = lablib.sample_many(model, prompts, cold, max_tokens=LONGEST, stop_tokens=())
    for prompt, text in zip(prompts, texts, strict=True):
        for each in drafters.values():
            each.known[tuple(prompt)] = [*prompt, *text.tokens[0]]
    for server in servers.values():
        while server.batch.stats["running"] < rows:
            server.turn()
        server.turn()
    took, before = {name: [] for name in servers}, servers["drafted"].batch.stats["tokens"]
    for _ in range(TURNS):
        for name, server in servers.items():
            turns = BESIDE if name == "plain" else 1
            took[name] += [server.turn()[1] for _ in range(turns)]
    written = servers["drafted"].batch.stats["tokens"] - before
    found = {name: 1e3 * median(times) for name, times in took.items()}
    found["tokens"] = written / TURNS / rows
    return {"rows": rows, **{name: float(f"{value:.4g}") for name, value in found.items()}}


# ------------------------------------------------------------------ what was found
def stored() -> list[Record]:
    """Return the visits."""
    return json.loads(COMPANY.read_text("utf-8"))["records"]


def command() -> str:
    """Return what made them."""
    return json.loads(COMPANY.read_text("utf-8"))["about"]["command"]


def _values(name: str) -> np.ndarray:
    """Return what all visits say ``(visits, rows)``."""
    return np.array([[each[name] for each in visit["of rows"]] for visit in stored()])


def milliseconds(name: str) -> dict[int, float]:
    """Return of each number of rows the usual milliseconds of a round, "plain" for example."""
    return dict(zip(ROWS, np.median(_values(name), axis=0).tolist(), strict=True))


def gains(name: str = "drafted") -> dict[int, Estimate]:
    """Return how many times as many tokens a second drafts bring, for each number of rows.

    Of "refused" rounds: if a drafted one took no longer than where no row keeps any.
    """
    gain = _values("tokens") * _values("plain") / _values(name)
    return {rows: ratio_of(gain[:, i].tolist()) for i, rows in enumerate(ROWS)}


def predicted(rows: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return the gain if a token of a row costs what a row does: 3.4 (a + b n) / (a + 5 b n)."""
    a, b = on_a_line(milliseconds("plain"))
    n = np.asarray(rows, dtype=float)
    return expected_tokens(RIGHT, DRAFTS) * (a + b * n) / (a + (DRAFTS + 1) * b * n)


def compared() -> str:
    """Return a table of rounds, in those of a plain one of one row, and of what drafts bring."""
    plain, drafted, refused = map(milliseconds, ("plain", "drafted", "refused"))
    head = ["rows", "plain", "with drafts", "all refused", "gain", "predicted"]
    cells = []
    for n, gain in gains().items():
        times = (f"{each[n] / plain[1]:.2f}" for each in (plain, drafted, refused))
        said = f"{gain.value:.2f} ({gain.low:.2f}-{gain.high:.2f})"
        cells.append((n, *times, said, f"{predicted([n])[0]:.2f}"))
    return table(head, cells)


def picture() -> Chart:
    """Draw what drafts bring by rows, and the prediction; a dot more if no row parted."""
    n = np.geomspace(1, max(ROWS), 40)
    marks: list[Any] = [{"rule": {"y": 1}, "dash": "5 3"}]
    marks += [each | {"r": 0} for each in curves(n, {"3.4 (a + b n) / (a + 5 b n)": predicted(n)})]
    looks = {"drafted": (COLOURS[5], "the engine"), "refused": (COLOURS[2], "if no row parted")}
    for name, (colour, _) in looks.items():
        for rows, gain in gains(name).items():
            note = f"{rows} rows: {gain.value:.2f} ({gain.low:.2f} to {gain.high:.2f})."
            line = [[rows, gain.low], [rows, gain.high]]
            marks.append({"line": line, "wide": 3, "colour": colour})
            marks.append({"dot": [rows, gain.value], "r": 6, "colour": colour, "note": note})
    x = axis(0.9, 36, "rows", ROWS, log=True)
    title = "tokens a second with four drafts, times those without"
    view = panel(title, x, axis(0, 3, "", (0, 1, 2, 3)))
    return Chart([view], [marks], [*looks.values(), (COLOURS[0], "predicted")])


def main() -> None:
    """Measure visits until there are so many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("visits", type=int, help="how many there shall be")
    visits = parser.parse_args().visits
    records = stored() if COMPANY.exists() else []
    model, _ = lablib.load("target", dtype=mx.float32)
    beats = Metronome(model)
    for seed in range(len(records), visits):
        order = np.random.default_rng(seed).permutation(ROWS).tolist()
        found = {rows: of_rows(model, rows, beats, seed) for rows in order}
        records.append({"seed": seed, "of rows": [found[rows] for rows in ROWS]})
        keep(COMPANY, records, COMMAND)


if __name__ == "__main__":
    main()
