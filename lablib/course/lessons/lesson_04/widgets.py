"""Pictures of the lesson on many sequences: who sits in which slot, and what a batch buys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lablib.course.plots.charts import COLOURS, figure, lines, style
from lablib.course.plots.explorer import Explorer, Player, choice
from lablib.course.theory.slots import CONTINUOUS, WHOLE, schedule

from matplotlib.figure import Figure

EMPTY = "#D9D9D9"


class SlotTimeline(Explorer):
    """A picture of slots over time: several queues, two ways of filling a free slot.

    Args:
        queues: name -> how many steps each sequence takes, in the order in which they wait.
        slots: how many sequences are served at a time.
    """

    def __init__(self, queues: Mapping[str, Sequence[int]], slots: int) -> None:
        self.queues, self.slots = dict(queues), slots
        self._most = max(_end(schedule(queue, slots, WHOLE)) for queue in queues.values())
        step = Player(self._most + 1, label="step")
        step.value = step.play.value = self._most  # all is served
        super().__init__(
            queue=choice(next(iter(queues)), list(queues)),
            mode=choice(WHOLE, [WHOLE, CONTINUOUS], label="a free slot"),
            step=step,
        )

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
        found = {"stays": stays, "now": now, "steps": steps, "busy": busy}
        return {"queue": queue, "mode": mode, **found}

    def draw(self, data: dict) -> Figure:
        """Draw one line for each slot, grey where it is empty; the axes stay as they are."""
        fig = figure(height=1.2 + 0.4 * self.slots)
        with style():
            axes = fig.subplots()
            slots = range(self.slots)
            axes.barh(slots, data["now"], 0.7, color=EMPTY, hatch="///", edgecolor="white")
            for stay in data["stays"]:
                axes.barh(
                    stay.slot, stay.length, 0.7, stay.start, color=COLOURS[4], edgecolor="white"
                )
                middle = stay.start + stay.length / 2
                axes.text(middle, stay.slot, str(stay.sequence), ha="center", va="center")
            axes.axvline(data["now"], color="black", linewidth=1)
            axes.set_yticks(slots, [f"slot {slot}" for slot in slots])
            axes.invert_yaxis()
            axes.set(xlim=(0, self._most + 1), xlabel="steps")
            axes.set_title("which sequence is in which slot; grey: nobody")
        return fig

    def caption(self, data: dict) -> str:
        """Say how long it took and how busy the slots were."""
        whole = f"{data['steps']} steps, the {self.slots} slots busy {data['busy']:.0%} of the time"
        if data["now"] < data["steps"]:
            whole = f"step {data['now']} of {data['steps']}"
        return f"{data['queue']}, {data['mode']}: {whole}."


def _end(stays: Sequence) -> int:
    return max(stay.start + stay.length for stay in stays)


def throughput(
    sizes: Sequence[int], measured: Sequence[Sequence[float]], theory: Sequence[float]
) -> Figure:
    """Draw what a batch writes, as a multiple of what one row does; both axes double.

    Args:
        sizes: rows in the batch.
        measured: for each size, what each of several runs gave.
        theory: one number for each size.
    """
    middle, low, high = zip(
        *((sorted(m)[len(m) // 2], min(m), max(m)) for m in measured), strict=True
    )
    series = {"if a step cost the same": sizes, "theory": theory, "measured": (middle, low, high)}
    fig = lines(sizes, series, "rows in the batch", "tokens a second (one row = 1)", logx=True)
    fig.axes[0].set_yscale("log", base=2)
    fig.axes[0].set_yticks(sizes, [f"{size}" for size in sizes])
    return fig
