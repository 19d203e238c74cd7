"""Pictures of the lesson on many sequences: who sits in which slot, and what a batch buys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import TINTS, WARM, axis, lines, panel
from lablib.course.plots.explorer import Explorer, Player, choice
from lablib.course.theory.slots import CONTINUOUS, WHOLE, schedule

EMPTY = "#D55E00"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # one stands in one step, a number of two digits would not


class SlotTimeline(Explorer):
    """A picture of slots over time: several queues, two ways of filling a free slot.

    Args:
        queues: name -> how many steps each sequence takes, in the order in which they wait.
        slots: how many sequences are served at a time.
    """

    called = "Which sequence is in which slot, and when nobody is"

    def __init__(self, queues: Mapping[str, Sequence[int]], slots: int) -> None:
        self.queues, self.slots = dict(queues), slots
        most = max(_end(schedule(queue, slots, WHOLE)) for queue in queues.values())
        across = axis(0, most + 1, "steps", range(0, most + 1, 10))
        names = [(-slot, f"slot {slot}") for slot in range(slots)]
        down = axis(0.5 - slots, 0.9, "", names, bare=True)  # words stand above
        keys = [[TINTS[0], "a sequence, by its letter"], [EMPTY, "nobody"]]
        self.constants = {"panels": [panel("", across, down, high=40 * slots + 16)], "keys": keys}
        super().__init__(
            queue=choice(next(iter(queues)), list(queues)),
            mode=choice(WHOLE, [WHOLE, CONTINUOUS], label="a free slot"),
            step=Player(most, 0, most, label="step"),  # all is served
        )

    def ends(self, queue: str, mode: str, step: int) -> dict[str, float]:
        """Return that the steps end when all is served."""
        return {"step": _end(schedule(self.queues[queue], self.slots, mode))}

    def compute(self, queue: str, mode: str, step: int | None = None) -> dict:
        """Return the stays, the number of steps and the share of slot-steps that did work.

        Of a stay that is not over at ``step``, the part until then; None is after the last step.
        """
        lengths = self.queues[queue]
        stays = schedule(lengths, self.slots, mode)
        steps = _end(stays)
        busy = sum(lengths) / (steps * self.slots)
        now = steps if step is None else min(step, steps)
        stays = [
            replace(stay, length=min(stay.length, now - stay.start))
            for stay in stays
            if stay.start < now
        ]
        whole = _end(schedule(lengths, self.slots, WHOLE))
        found = {"stays": stays, "now": now, "steps": steps, "busy": busy, "whole": whole}
        return {"queue": queue, "mode": mode, **found}

    def draw(self, data: dict) -> dict:
        """Draw one line for each slot, red where it is empty, and each sequence in it."""
        marks, now = [], data["now"]
        for slot in range(self.slots):
            idle = now - sum(stay.length for stay in data["stays"] if stay.slot == slot)
            note = f"Slot {slot} was empty for {idle} of {now} steps."
            bar = [0, now, -slot - 0.36, -slot + 0.36]
            marks.append({"bar": bar, "fill": EMPTY, "note": note})
        for stay in data["stays"]:
            end = stay.start + stay.length
            bar = [stay.start, end, -stay.slot - 0.36, -stay.slot + 0.36]
            name = LETTERS[stay.sequence % len(LETTERS)]
            note = f"Sequence {name} is in slot {stay.slot} from step {stay.start} to {end}."
            marks.append({"bar": bar, "fill": TINTS[0], "text": name, "note": note})
        marks.append({"rule": {"x": now}})
        if data["mode"] == CONTINUOUS:
            name = f"whole batches: {data['whole']}"
            marks.append({"rule": {"x": data["whole"]}, "dash": "5 3", "text": name})
        return {"panels": [{"marks": marks}]}

    def caption(self, data: dict) -> str:
        """Say how long it took and how busy the slots were."""
        fewer = data["whole"] - data["steps"]
        gain = f", {fewer} fewer than in whole batches" if fewer else ", as in whole batches"
        gain *= data["mode"] == CONTINUOUS
        busy = f"the {self.slots} slots busy {data['busy']:.0%} of the time"
        whole = f"{data['steps']} steps{gain}, {busy}"
        if data["now"] < data["steps"]:
            whole = f"step {data['now']} of {data['steps']}"
        return f"Queue “{data['queue']}”, {data['mode']}: {whole}."


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
    series |= {"theory: each row adds its price": theory, "if a step cost the same": sizes}
    name = "tokens a second (one row = 1)"
    chart = lines(sizes, series, "rows in the batch (doubling)", name, logx=True, logy=True)
    _, priced, same = chart.marks[0]
    priced |= {"r": 0}  # only what was measured has points
    same |= {"r": 0, "colour": WARM, "wide": 1.5}
    return chart
