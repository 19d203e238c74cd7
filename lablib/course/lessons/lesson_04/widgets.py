"""Widgets of the lesson on many sequences: who sits in which slot, and when."""

from collections.abc import Sequence

from lablib.course.plots.charts import gantt
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.theory.slots import CONTINUOUS, WHOLE, schedule

from matplotlib.figure import Figure


class SlotTimeline(Explorer):
    """A picture of slots over time, for two ways of filling them.

    Args:
        lengths: how many steps each sequence takes.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = list(lengths)
        super().__init__(
            slots=slider(min(4, len(self.lengths)), 1, len(self.lengths)),
            mode=choice(WHOLE, [WHOLE, CONTINUOUS], label="a free slot"),
        )

    def compute(self, slots: int, mode: str) -> dict:
        """Return the stays, the number of steps and the share of slot-steps that did work."""
        stays = schedule(self.lengths, slots, mode)
        steps = max(stay.start + stay.length for stay in stays)
        return {
            "stays": stays,
            "slots": slots,
            "mode": mode,
            "steps": steps,
            "busy": sum(self.lengths) / (steps * slots),
        }

    def draw(self, data: dict) -> Figure:
        """Draw one line for each slot."""
        rows = {
            f"slot {slot}": [
                (stay.start, stay.length, str(stay.sequence))
                for stay in data["stays"]
                if stay.slot == slot
            ]
            for slot in range(data["slots"])
        }
        return gantt(rows, "steps", title="which sequence is in which slot", legend=False)

    def caption(self, data: dict) -> str:
        """Say how long it took and how busy the slots were."""
        return (
            f"{len(self.lengths)} sequences in {data['slots']} slots, {data['mode']}: "
            f"{data['steps']} steps, the slots busy {data['busy']:.0%} of the time."
        )
