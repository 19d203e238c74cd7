"""A widget of the lesson on the async model: who waits for whom, and who shares which forward."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

from lablib.cache.trie import TokenTrie
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
COLUMN, FIXED, INK = "#EEEEEE", "#C8C8C8", "#333333"
RUN, SHARED, FOUND = "run here", "run in another row", "found in the tree"
PADDING = "padding"
LOOKS = {RUN: (COLOURS[0], False), PADDING: (TINTS[1], False)}  # what is paid for is filled
LOOKS |= {SHARED: (COLOURS[0], True), FOUND: (WARM, True)}
KEYS = [("#000000", "asked", False), (COLOURS[0], "a token that is run", False)]
KEYS += [(TINTS[1], "padding, run too", False), (COLOURS[0], "run in another row", True)]
KEYS += [(WARM, "found in the tree", True), (INK, "waits for company", "2 2")]
KEYS += [(REST, "waits for its turn, or its batch's end", False)]


@dataclass(frozen=True)
class Stretch:
    """Tokens ``start`` to ``stop`` of ``prompt``, computed once for all who begin with them."""

    prompt: Words
    start: int
    stop: int

    def serves(self, prompt: Words) -> int:
        """Return how many of these tokens are tokens of ``prompt`` too."""
        return max(min(_common(self.prompt, prompt), self.stop) - self.start, 0)


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
    flushed: float = 0.0  # until when it waited for company
    answered: float = 0.0
    batch: int | None = None


@dataclass
class Timeline:
    """The fates of some queries."""

    calls: list[Call] = field(default_factory=list)
    forwards: list[TimedForward] = field(default_factory=list)

    @property
    def run(self) -> int:
        """Return how many tokens were forwarded."""
        return sum(forward.run for forward in self.forwards)

    @property
    def places(self) -> int:
        """Return how many places the forwards had, padding included."""
        return sum(forward.places for forward in self.forwards)

    @property
    def batches(self) -> int:
        """Return how many batches ran."""
        return len({forward.batch for forward in self.forwards})

    @property
    def alone(self) -> int:
        """Return how many tokens the queries would take one by one, without a cache."""
        return sum(len(call.prompt) for call in self.calls)

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
    arriving = deque(Call(tuple(prompt), float(when)) for when, prompt in queries)
    line = Timeline(list(arriving))
    known, answered = TokenTrie(1 << 20), set()
    asked: dict[Words, list[Call]] = {}
    gathering: list[Words] = []
    due: deque[Words] = deque()
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
            for call in chain.from_iterable(asked[prompt] for prompt in gathering):
                call.flushed = now
            due.extend(gathering)
            gathering, arrived, timer = [], 0, float("inf")
        more = arriving and arriving[0].asked == now  # the event loop hears them all first
        if due and not running and not more:
            running = [due.popleft() for _ in range(min(batch_size, len(due)))]
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
        reach = max(p.start + f.longest for line in lines for f in line.forwards for p in f.pieces)
        self._deep = max(reach, *(len(prompt) for _, prompt in self.queries))
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
                fate = SHARED if piece.prompt != call.prompt or (i, piece) in run else RUN
                if y not in begun:
                    boxes += [(i, y, place, FOUND) for place in range(piece.start)]
                boxes += [(i, y, place, fate) for place in range(piece.start, stop)]
                begun.add(y)
                if fate == RUN:
                    run.add((i, piece))
                    end = piece.start + forward.longest
                    boxes += [(i, y, place, PADDING) for place in range(stop, end)]
        ends = [forward.ended for forward in data.forwards]  # who asks later has no box in it
        return [box for box in boxes if data.calls[box[1]].asked < ends[box[0]]]

    def chart(self, data: Timeline) -> Chart:
        """Draw a line for each query, a column for each forward, and a box for each token."""
        marks: list[dict[str, Any]] = []
        asked: list[dict[str, Any]] = []  # above the boxes
        boxes = self.boxes(data)
        slice_high = 0.86 / self._deep
        for y, call in enumerate(data.calls):
            prompt = " ".join(call.prompt)
            note = f"{prompt}: asked at {call.asked:g} ms, answered at {call.answered:g}."
            dot = {"dot": [call.asked, -y], "colour": "#000000", "r": 2.6, "note": note}
            busy = [data.forwards[i] for i in sorted({box[0] for box in boxes if box[1] == y})]
            alone = max(call.asked, call.flushed)
            spans = [(call.asked, alone, INK, "2 2")]
            starts = [alone, *(forward.ended for forward in busy)]
            stops = [*(forward.began for forward in busy), call.answered]
            spans += [(*span, REST, "") for span in zip(starts, stops, strict=True)]
            for start, stop, colour, dash in spans:
                if start < stop:
                    look = {"colour": colour, "dash": dash, "wide": 3}
                    line = {"line": [[start, -y], [stop, -y]], **look}
                    marks.append({"key": f"l{y}.{start}", **line})
            asked.append({"key": f"d{y}", **dot})
            own = [each.began for each in data.forwards if each.batch == call.batch]
            if min(own, default=-1) < call.asked:
                said = "known, at once" if call.batch is None else f"joins batch {call.batch}"
                word = {"text": said, "at": [call.answered + self._end / 22, -y - 0.15]}
                asked.append({"key": f"k{y}", **word})
        low, high = 0.25 - len(data.calls), 3.2
        under = []
        for batch in dict.fromkeys(forward.batch for forward in data.forwards):
            marks += _bracket(batch, data)
        for i, forward in enumerate(data.forwards):
            began, ended = forward.began, forward.ended
            under.append({"key": f"f{i}", "bar": [began, ended, low, high], "fill": COLUMN})
            above = {"text": str(i + 1), "at": [(began + ended) / 2, 1.75], "anchor": "middle"}
            marks += [{"key": f"n{i}", **above}, *_price(i, forward)]
        boxes.sort(key=lambda box: LOOKS[box[3]][1])  # outlines lie on what is filled
        for i, y, place, fate in boxes:  # a text's tokens lie one below the other
            forward, call = data.forwards[i], data.calls[y]
            top = -y + (len(call.prompt) / 2 - place) * slice_high
            bar = [max(forward.began, call.asked), forward.ended, top - slice_high, top]
            word = "" if fate == PADDING else f"“{call.prompt[place]}”: "
            note = f"{word}{fate}, forward {i + 1}."
            fill, hollow = LOOKS[fate]
            look = {"fill": "#FFFFFF", "edge": fill} if hollow else {"fill": fill}
            marks.append({"key": f"b{i}.{y}.{place}", "bar": bar, **look, "note": note})
        names = [(-y, " ".join(call.prompt)) for y, call in enumerate(data.calls)]
        names = [(2.85, "batch"), (1.9, "forward"), (1, "4 ms + ½ a box"), *names]
        x = axis(-0.5, self._end + 0.5, "milliseconds", range(0, int(self._end) + 1, 10), grid=True)
        y = axis(low, high, "", names, bare=True)
        title = "each box is a token, a text's first one on top; a column runs at once"
        view = panel(title, x, y, high=36 * len(names), side=118)
        return Chart([view], [[*under, *marks, *asked]], KEYS)

    def caption(self, data: Timeline) -> str:
        """Say how many forwards and batches ran, what they cost and how long the queries waited."""
        return (
            f"{len(data.calls)} queries share {len(data.forwards)} forwards, in {data.batches} "
            f"batches, and each waits {np.mean(data.waits):.1f} ms on average. Of {data.alone} "
            f"tokens {data.run} are run, {data.places} with padding."
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
    number = {"text": str(batch), "at": [(began + ended) / 2, 2.7], "anchor": "middle"}
    return [
        {"key": f"s{batch}", "bar": [began + 0.2, ended - 0.2, 2.42, 2.52], "fill": WARM},
        {"key": f"o{batch}", "bar": [began, ended, 2.35, 3.15], **clear},
        {"key": f"m{batch}", **number},
    ]


def _price(number: int, forward: TimedForward) -> list[dict[str, Any]]:
    """Return what a forward's time is made of: its own price, and one for each place."""
    begin = forward.began + FORWARD_MS
    note = (
        f"Forward {number + 1}: {FORWARD_MS:g} ms, and {PLACE_MS:g} for each of {forward.run} "
        f"tokens and {forward.places - forward.run} of padding."
    )
    fixed = {"bar": [forward.began, begin, 0.7, 1.3], "fill": FIXED, "text": "4", "note": note}
    marks = [{"key": f"p{number}", **fixed}]
    for place in range(forward.places):
        fill, _ = LOOKS[RUN if place < forward.run else PADDING]
        left = begin + PLACE_MS * place
        bar = {"bar": [left, left + PLACE_MS, 0.7, 1.3], "fill": fill}
        marks.append({"key": f"p{number}.{place}", **bar})
    return marks


def rows_of_steps(asked: Sequence[int], run: Sequence[int], drawn: Sequence[int]) -> Chart:
    """Draw how many sentences ask in each step, and for how many different ones a row is run.

    Args:
        asked: sentences that ask in each step.
        run: different ones among them.
        drawn: the steps after which all were drawn anew.
    """
    most, steps = max(asked), range(1, len(asked) + 1)
    marks = curves(steps, {"asked": asked, "different: rows run": run})
    for number, step in enumerate(drawn):
        anew = {"rule": {"x": step + 0.5}, "dash": "5 3", "colour": WARM}
        marks.append({**anew, "text": "drawn anew" * (number == 0)})
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


def _common(a: Words, b: Words) -> int:
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
