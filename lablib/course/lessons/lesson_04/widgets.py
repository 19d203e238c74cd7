"""Pictures of the lesson on many sequences: who sits in which slot, and what a batch buys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import TINTS, axis, lines, panel
from lablib.course.plots.explorer import Explorer, Player, choice
from lablib.course.theory.slots import CONTINUOUS, WHOLE, schedule

EMPTY, PAD = "#D55E00", "#D9D9D9"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # one stands in one step, a number of two digits would not


class SlotTimeline(Explorer):
    """A picture of slots over time: a queue in whole batches, and below with free slots filled.

    Args:
        queues: name -> how many steps each sequence takes, in the order in which they wait.
        slots: how many sequences are served at a time.
    """

    called = "Which sequence is in which slot, and when nobody is, in two ways of serving"

    def __init__(self, queues: Mapping[str, Sequence[int]], slots: int) -> None:
        self.queues, self.slots = dict(queues), slots
        most = max(_end(schedule(queue, slots, WHOLE)) for queue in queues.values())
        views = []
        for mode in (WHOLE, CONTINUOUS):
            below = mode == CONTINUOUS
            across = axis(0, most + 1, "steps" * below, range(0, most + 1, 10))
            down = axis(0.4 - slots, 0.6, "", [(-i, f"slot {i}") for i in range(slots)], bare=True)
            views.append(panel(mode, across, down, high=32 * slots, below=below))
        keys = [[TINTS[0], "a sequence, by its letter"], [EMPTY, "nobody"]]
        self.constants = {"panels": views, "keys": keys}
        super().__init__(
            queue=choice(next(iter(queues)), list(queues)),
            step=Player(most, 0, most, label="step"),  # all is served
        )

    def ends(self, queue: str, step: int) -> dict[str, float]:
        """Return that the steps end when all is served in whole batches, too."""
        return {"step": _end(schedule(self.queues[queue], self.slots, WHOLE))}

    def compute(self, queue: str, step: int | None = None) -> dict:
        """Return of both ways the stays, the steps that all takes, and the busy share of the slots.

        Of a stay that is not over at ``step``, the part until then; None is after the last step.
        """
        lengths, found = self.queues[queue], {}
        for mode in (WHOLE, CONTINUOUS):
            stays = schedule(lengths, self.slots, mode)
            steps = _end(stays)
            now = steps if step is None else min(step, steps)
            stays = [
                replace(stay, length=min(stay.length, now - stay.start))
                for stay in stays
                if stay.start < now
            ]
            busy = sum(lengths) / (steps * self.slots)
            found[mode] = {"stays": stays, "now": now, "steps": steps, "busy": busy}
        return {"queue": queue, **found}

    def draw(self, data: dict) -> dict:
        """Draw both ways: a line for each slot, red where it is empty, and who sits in it."""
        views = []
        for mode in (WHOLE, CONTINUOUS):
            marks, now = [], data[mode]["now"]
            for slot in range(self.slots):
                idle = now - sum(s.length for s in data[mode]["stays"] if s.slot == slot)
                note = f"Slot {slot} was empty for {idle} of {now} steps."
                bar = [0, now, -slot - 0.36, -slot + 0.36]
                marks.append({"bar": bar, "fill": EMPTY, "note": note})
            for stay in data[mode]["stays"]:
                end = stay.start + stay.length
                bar = [stay.start, end, -stay.slot - 0.36, -stay.slot + 0.36]
                name = LETTERS[stay.sequence % len(LETTERS)]
                note = f"Sequence {name} is in slot {stay.slot} from step {stay.start} to {end}."
                marks.append({"bar": bar, "fill": TINTS[0], "text": name, "note": note})
            marks.append({"rule": {"x": now}})
            views.append({"marks": marks, "title": f"{mode}: {self._said(data[mode])}"})
        return {"panels": views}

    @staticmethod
    def _said(way: dict) -> str:
        if way["now"] < way["steps"]:
            return f"step {way['now']} of {way['steps']}"
        return f"{way['steps']} steps, slots busy {way['busy']:.0%}"

    def caption(self, data: dict) -> str:
        """Say how long both take, and what is gained."""
        before, after = (data[mode]["steps"] for mode in (WHOLE, CONTINUOUS))
        gain = f"{before - after} fewer" if before > after else "no fewer"
        return (
            f"Queue “{data['queue']}”: {before} steps in whole batches; with each free slot filled "
            f"at once {after}, {gain}."
        )


def padded(rows: Sequence[Sequence[str]]) -> Chart:
    """Draw rows of tokens that end in one column: what fills the left is grey."""
    width, marks = max(map(len, rows)), []
    for down, row in enumerate(rows):
        for i, token in enumerate([""] * (width - len(row)) + [*row]):
            bar = [i + 0.04, i + 0.96, -down - 0.4, -down + 0.4]
            marks.append({"bar": bar, "fill": TINTS[0] if token else PAD, "text": token.strip()})
    x = axis(0, width, "", [(width - 0.5, "sampled")], bare=True)
    names = [(-down, f"row {down}") for down in range(len(rows))]
    view = panel("", x, axis(0.5 - len(rows), 0.5, "", names, bare=True), high=30 * len(rows))
    return Chart([view], [marks], [(TINTS[0], "a token"), (PAD, "padding, which nobody looks at")])


def _end(stays: Sequence) -> int:
    return max(stay.start + stay.length for stay in stays)


def throughput(
    sizes: Sequence[int], measured: Sequence[Sequence[float]], theory: Sequence[float]
) -> Chart:
    """Draw what a batch writes, as a multiple of what one row does; both axes double.

    Args:
        sizes: rows in the batch.
        measured: for each size, what each of several runs gave.
        theory: one number for each size.
    """
    spans = [(sorted(runs)[len(runs) // 2], min(runs), max(runs)) for runs in measured]
    series = {"measured, least to most": tuple(zip(*spans, strict=True))}
    series["theory: the larger price alone"] = theory
    name = "tokens a second (one row = 1)"
    chart = lines(sizes, series, "rows in the batch (doubling)", name, logx=True, logy=True)
    chart.marks[0][1] |= {"r": 0}  # only what was measured has points
    return chart
