"""A widget of the lesson on the async model: who waits for whom, and who shares which forward."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from lablib.cache.trie import TokenTrie, common_length
from lablib.course.lessons.lesson_11.widgets import Words
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import COLOURS, TINTS, WARM, axis, curves, panel
from lablib.course.plots.explorer import slider
from lablib.course.plots.marks import REST
from lablib.inference.async_lm.plan import choose_forward, plan_runs
from lablib.validation import BadValue

import numpy as np

# A toy device: what one forward takes, in milliseconds.
FORWARD_MS = 4.0
PLACE_MS = 0.5  # for each place of a row: all rows are as long as the longest
STEP = 2048  # tokens of one forward
RUN, SHARED, FOUND = "run here", "run in another row", "found in the tree"
PADDING = "padding"
LOOKS = {  # what is paid for is filled
    RUN: {"fill": COLOURS[0]},
    PADDING: {"fill": TINTS[1]},
    SHARED: {"fill": "#FFFFFF", "edge": COLOURS[0]},
    FOUND: {"fill": "#FFFFFF", "edge": WARM},
}
KEYS = [
    ("#000000", "asked"),
    (COLOURS[0], "a token that is run"),
    (TINTS[1], "padding, run too"),
    (COLOURS[0], SHARED, True),
    (WARM, FOUND, True),
    ("#333333", "waits for company", "2 2"),
    (REST, "waits for its turn, or its batch's end"),
]


@dataclass(frozen=True)
class Stretch:
    """Tokens ``start`` to ``stop`` of ``prompt``, computed once for all who begin with them."""

    prompt: Words
    start: int
    stop: int

    def serves(self, prompt: Words) -> int:
        """Return how many of these tokens are tokens of ``prompt`` too."""
        return max(min(common_length(self.prompt, prompt), self.stop) - self.start, 0)


@dataclass(frozen=True)
class TimedForward:
    """One call of the model: pieces side by side, padded to one length; times in milliseconds."""

    batch: int
    began: float
    pieces: tuple[Stretch, ...]

    @property
    def run(self) -> int:
        """Return how many tokens it computes."""
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def longest(self) -> int:
        """Return how many places each row has: tokens, and padding for the rest."""
        return max(piece.stop - piece.start for piece in self.pieces)

    @property
    def places(self) -> int:
        """Return how many places all rows have."""
        return self.longest * len(self.pieces)

    @property
    def ended(self) -> float:
        """Return when all of it was there."""
        return self.began + FORWARD_MS + PLACE_MS * self.places


@dataclass
class Call:
    """One query: asked, flushed and answered, in ms, by which batch; None if it was known."""

    prompt: Words
    asked: float
    flushed: float  # until when it waited for company
    answered: float = 0.0
    batch: int | None = None


@dataclass
class Timeline:
    """The fates of some queries."""

    calls: list[Call]
    forwards: list[TimedForward] = field(default_factory=list)

    @property
    def run(self) -> int:
        """Return how many tokens were forwarded."""
        return sum(forward.run for forward in self.forwards)

    @property
    def waits(self) -> list[float]:
        """Return the time from question to answer, for each query."""
        return [call.answered - call.asked for call in self.calls]


def follow(queries: Sequence[tuple[float, Words]], batch_size: int, timeout: float) -> Timeline:
    """Follow queries through the queue of ``AsyncMlxLM`` on a device of known speed.

    The rules are those of ``inference/async_lm/queue.py``, and the plan of each batch is the
    library's own. Only the clock is made up.

    Args:
        queries: when each is asked, in milliseconds, and for what; in order of time.
        batch_size: how many waiting queries make a batch, and the most prompts in one.
        timeout: milliseconds after the last arrival until a smaller batch runs.
    """
    line = Timeline([Call(prompt, when, when) for when, prompt in queries])
    arriving = deque(line.calls)
    known, answered = TokenTrie(1 << 20), set()
    asked: dict[Words, list[Call]] = {}
    gathering: list[Words] = []
    due: list[Words] = []
    running: list[Words] = []
    done = timer = float("inf")
    arrived = batch = 0
    while arriving or asked:
        now = min(done, arriving[0].asked if arriving else float("inf"), timer)
        if now == done:
            for prompt in running:
                known.insert(prompt)
                answered.add(prompt)
                for call in asked.pop(prompt):
                    call.answered, call.batch = now, batch
            running, done = [], float("inf")
        elif arriving and now == arriving[0].asked:
            call = arriving.popleft()
            if call.prompt in answered:
                call.answered = now
            else:
                if call.prompt not in asked:
                    gathering.append(call.prompt)
                asked.setdefault(call.prompt, []).append(call)
                arrived, timer = arrived + 1, now + timeout
        if arrived >= batch_size or now == timer:
            for prompt in gathering:
                for call in asked[prompt]:
                    call.flushed = now
            due += gathering
            gathering, arrived, timer = [], 0, float("inf")
        more = arriving and arriving[0].asked == now  # the event loop hears them all first
        if due and not running and not more:
            running, due = due[:batch_size], due[batch_size:]
            batch += 1
            line.forwards += _forwards(batch, running, known, now)
            done = line.forwards[-1].ended
    return line


def _forwards(
    batch: int, prompts: list[Words], known: TokenTrie, now: float
) -> Iterator[TimedForward]:
    held = {prompt: known.match(prompt).matched for prompt in prompts}
    runs = plan_runs((prompt, held[prompt], prompt[: held[prompt]]) for prompt in prompts)
    while chosen := choose_forward(runs, STEP, vocab_size=1):
        pieces = tuple(Stretch(row.prompt, row.done, stop) for row, stop in chosen)
        forward = TimedForward(batch, now, pieces)
        yield forward
        now = forward.ended
        for row, stop in chosen:
            row.done = stop


class BatchTimeline(ChartExplorer):
    """Queries as lines, forwards as boxes: who waits, and who shares what.

    Args:
        queries: when each is asked, in milliseconds, and for what; in order of time.
        batch_size: how many waiting queries make a batch at first; at most 6.
    """

    def __init__(self, queries: Sequence[tuple[float, Sequence[str]]], batch_size: int = 4) -> None:
        self.queries = [(float(when), tuple(prompt)) for when, prompt in queries]
        times = [when for when, _ in self.queries]
        if not times or times != sorted(times) or not all(prompt for _, prompt in self.queries):
            raise BadValue(f"queries must be (when, prompt) in order of time, got {queries!r}")
        most = 6
        every = product(range(1, most + 1), range(11))
        lines = [follow(self.queries, *each) for each in every]
        self._end = max(call.answered for line in lines for call in line.calls)
        forwards = [forward for line in lines for forward in line.forwards]
        self._deep = max(piece.start + f.longest for f in forwards for piece in f.pieces)
        self._padded = any(forward.places > forward.run for forward in forwards)
        super().__init__(
            batch_size=slider(batch_size, 1, most, label="batch size"),
            timeout=slider(1.0, 0.0, 10.0, 1.0, label="timeout in ms"),
        )

    def compute(self, batch_size: int, timeout: float) -> Timeline:
        """Return what became of every query."""
        return follow(self.queries, batch_size, timeout)

    @staticmethod
    def boxes(data: Timeline) -> list[tuple[int, int, int, str]]:
        """Return of each query's tokens, and of padding: forward, query, place, what it is."""
        boxes, begun, run = [], set(), set()
        for (i, forward), (y, call) in product(enumerate(data.forwards), enumerate(data.calls)):
            for piece in forward.pieces:
                stop = piece.start + piece.serves(call.prompt)
                if call.batch != forward.batch or stop == piece.start:
                    continue
                if y not in begun:
                    boxes += [(i, y, place, FOUND) for place in range(piece.start)]
                    begun.add(y)
                fate = SHARED if piece.prompt != call.prompt or piece in run else RUN
                places = range(piece.start, stop)
                if fate == SHARED:  # what was found stays so if another row runs it again
                    places = [place for place in places if (i, y, place, FOUND) not in boxes]
                boxes += [(i, y, place, fate) for place in places]
                if fate == RUN:
                    run.add(piece)
                    end = piece.start + forward.longest
                    boxes += [(i, y, place, PADDING) for place in range(stop, end)]
        ends = [forward.ended for forward in data.forwards]  # who asks later has no box in it
        return [box for box in boxes if data.calls[box[1]].asked < ends[box[0]]]

    def chart(self, data: Timeline) -> Chart:
        """Draw a line for each query, a column for each forward, and a box for each token."""
        marks: list[dict[str, Any]] = []
        asked: list[dict[str, Any]] = []  # above the boxes
        low, high = 0.25 - len(data.calls), 3.2
        for forward in data.forwards:
            column = [forward.began, forward.ended, low, high]
            marks.append({"bar": column, "fill": "#EEEEEE"})
        names = [(2.85, "batch"), (1.9, "forward"), (1, "4 ms + ½ a box")]
        boxes = self.boxes(data)
        for y, call in enumerate(data.calls):
            prompt = " ".join(call.prompt)
            names.append((-y, prompt))
            busy = [data.forwards[i] for i in sorted({box[0] for box in boxes if box[1] == y})]
            starts = [call.flushed, *(forward.ended for forward in busy)]
            stops = [*(forward.began for forward in busy), call.answered]
            spans = [(call.asked, call.flushed, {"dash": "2 2"})]
            spans += [(*span, {"colour": REST}) for span in zip(starts, stops, strict=True)]
            for start, stop, look in spans:
                if start < stop:
                    line = [[start, -y], [stop, -y]]
                    marks.append({"key": f"l{y}.{start}", "line": line, "wide": 3, **look})
            note = f"{prompt}: asked at {call.asked:g} ms, answered at {call.answered:g}."
            asked.append({"dot": [call.asked, -y], "colour": "#000000", "r": 2.6, "note": note})
            own = [each.began for each in data.forwards if each.batch == call.batch]
            if min(own, default=-1) < call.asked:
                said = "known, at once" if call.batch is None else f"joins batch {call.batch}"
                beside = [call.answered + self._end / 22, -y - 0.15]
                asked.append({"key": f"k{y}", "text": said, "at": beside})
        for batch in range(1, data.forwards[-1].batch + 1):
            marks += _bracket(batch, data)
        for number, forward in enumerate(data.forwards, 1):
            marks += _price(number, forward)
        boxes.sort(key=lambda box: "edge" in LOOKS[box[3]])  # outlines lie on what is filled
        slice_high = 0.86 / self._deep
        for i, y, place, fate in boxes:  # a text's tokens lie one below the other
            forward, call = data.forwards[i], data.calls[y]
            top = -y + (len(call.prompt) / 2 - place) * slice_high
            bar = [max(forward.began, call.asked), forward.ended, top - slice_high, top]
            word = "" if fate == PADDING else f"“{call.prompt[place]}”: "
            note = f"{word}{fate}, forward {i + 1}."
            marks.append({"key": f"b{i}.{y}.{place}", "bar": bar, "note": note, **LOOKS[fate]})
        x = axis(-0.5, self._end + 0.5, "milliseconds", range(0, int(self._end) + 1, 10), grid=True)
        y = axis(low, high, "", names, bare=True)
        title = "each box is a token, a text's first one on top; a column runs at once"
        view = panel(title, x, y, high=36 * len(names), side=118)
        keys = [key for key in KEYS if self._padded or key[0] != TINTS[1]]
        return Chart([view], [[*marks, *asked]], keys)

    def caption(self, data: Timeline) -> str:
        """Say how many forwards and batches ran, what they cost and how long the queries waited."""
        batches = data.forwards[-1].batch
        alone = sum(len(call.prompt) for call in data.calls)  # one by one, without a cache
        places = sum(forward.places for forward in data.forwards)
        return (
            f"{len(data.calls)} queries share {len(data.forwards)} forwards, in {batches} "
            f"batches, and each waits {np.mean(data.waits):.1f} ms on average. Of {alone} "
            f"tokens {data.run} are run{f', {places} with padding' * self._padded}."
        )


def _bracket(batch: int, data: Timeline) -> list[dict[str, Any]]:
    """Return a batch's number above the forwards that it takes, and who is in it."""
    own = [forward for forward in data.forwards if forward.batch == batch]
    began, ended = own[0].began, own[-1].ended
    texts = dict.fromkeys(" ".join(call.prompt) for call in data.calls if call.batch == batch)
    note = f"Batch {batch}: {', '.join(texts)}."
    if own[1:]:
        note += f" {len(own)} forwards: a row waits for tokens that another one runs."
    clear = {"fill": "transparent", "edge": "transparent", "note": note}
    return [
        {"key": f"s{batch}", "bar": [began + 0.2, ended - 0.2, 2.42, 2.52], "fill": WARM},
        {"key": f"o{batch}", "bar": [began, ended, 2.35, 3.15], **clear},
        {"text": str(batch), "at": [(began + ended) / 2, 2.7], "anchor": "middle"},
    ]


def _price(number: int, forward: TimedForward) -> list[dict[str, Any]]:
    """Return a forward's number, and what its time is made of: a price, and one for each place."""
    begin, middle = forward.began + FORWARD_MS, (forward.began + forward.ended) / 2
    note = (
        f"Forward {number}: {FORWARD_MS:g} ms, and {PLACE_MS:g} for each of {forward.run} "
        f"tokens and {forward.places - forward.run} of padding."
    )
    fixed = {"bar": [forward.began, begin, 0.7, 1.3], "fill": "#C8C8C8", "text": "4", "note": note}
    marks = [
        {"key": f"n{number}", "text": str(number), "at": [middle, 1.75], "anchor": "middle"},
        {"key": f"p{number}", **fixed},
    ]
    for place in range(forward.places):
        left = begin + PLACE_MS * place
        bar = [left, left + PLACE_MS, 0.7, 1.3]
        look = LOOKS[RUN if place < forward.run else PADDING]
        marks.append({"key": f"p{number}.{place}", "bar": bar, **look})
    return marks


def rows_of_steps(asked: Sequence[int], run: Sequence[int], drawn: Sequence[int]) -> Chart:
    """Draw how many sentences ask in each step, and for how many different ones a row is run.

    Args:
        asked: sentences that ask in each step.
        run: different ones among them.
        drawn: the steps after which all were drawn anew.
    """
    most = max(asked)
    marks = curves(range(1, len(asked) + 1), {"asked": asked, "different: rows run": run})
    for number, step in enumerate(drawn):
        said = "drawn anew" if number == 0 else ""
        marks.append({"rule": {"x": step + 0.5}, "dash": "5 3", "colour": WARM, "text": said})
    full = sum(count == most for count in asked)  # steps before the first sentence ends
    words = (
        ("asked", COLOURS[0], [0.15 * len(asked), 1.03 * most]),
        ("sentences end", WARM, [full + 1, 1.03 * most]),
        ("different ones: rows run", "#8A5A00", [0.27 * len(asked), 0.2 * most]),
    )
    for word, colour, at in words:
        look = {"colour": colour, "bold": colour != WARM, "room": 0.45 * len(asked)}
        marks.append({"text": word, "at": at, **look})
    x, y = axis(1, len(asked), "step"), axis(0, 1.25 * most, "", (0, most / 2, most))
    return Chart([panel("rows of a step", x, y, high=240)], [marks])
