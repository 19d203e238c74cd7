"""A sweep: units of work, dealt to ranks in rounds, their records gathered into one file.

What a unit gives may depend on nothing but the unit and those that share its group: its seed comes
from what it is (:func:`seed_of`), and a group is handed out whole, so that a batch is the same
whatever the number of ranks and however often the sweep was killed. So is the file, once sorted.
"""

import hashlib
import json
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from lablib.course.theory.scaling import goes_on, round_seconds
from lablib.tools.sweep.file import Records, Unit, check_record, header, identity, line, read
from lablib.tools.sweep.ranks import Ranks, SweepError
from lablib.tools.sweep.watch import PATIENCE, Watch
from lablib.validation import BadValue, function, integer, shown

Group = Sequence[Unit]
Work = Callable[[Group], Sequence[Mapping[str, Any]]]


def seed_of(seed: int, unit: Unit) -> int:
    """Return a unit's own seed: a hash of the sweep's and of what the unit is."""
    text = f"{integer('seed', seed, 0)} {identity(unit)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


def grouped(
    units: Iterable[Unit], size: int = 1, *, like: Callable[[Unit], Hashable] = lambda unit: 0
) -> list[Group]:
    """Put units that may share a batch together: neighbours that are alike, ``size`` at most.

    The groups are a function of the list alone; a longer list may group its units in another way.
    """
    size, groups = integer("size", size, 1), []
    for _, some in groupby(units, like):
        alike = list(some)
        groups += [alike[first : first + size] for first in range(0, len(alike), size)]
    return groups


def run(
    groups: Sequence[Group], work: Work, *, out: str | Path | None = None, what: str = "sweep",
    settings: Mapping[str, Any] | None = None, patience: float = PATIENCE,
    limit: float | None = None, progress: bool = True,
) -> list[dict[str, Any]] | None:  # fmt: skip
    """Do the work of all units with all ranks, and keep what comes out.

    Every rank calls it with the same arguments. Rank 0 shows the bar and writes the file. Where
    loading may take half a minute longer at one rank, make ``ranks.Ranks()`` before: a ring gives
    up on a rank that comes so late.

    Args:
        groups: units of plain values, all with the same keys; those of a group are worked on
            together (see :func:`grouped`), and groups are begun in this order: long ones first.
        work: gets a group and returns what was found for each of its units, plain values too.
        out: the file; what it holds already is not done again. None keeps the records in memory.
        what: a name of what is swept; with one of ``lablib sweep``'s own the records must be as
            its are, or the work has failed.
        settings: all that the records depend on and the units do not say; the file keeps them.
        patience: seconds after which a rank that says nothing counts as lost.
        limit: seconds that a group may take before its rank counts as stuck; None for any time.
        progress: whether there is a bar.

    Returns:
        At rank 0 the records, in the order of the units: the unit's keys and what was found. At the
        other ranks None.

    Raises:
        BadValue: the file holds another sweep, or another process writes it, or two units are
            equal.
        SweepError: the work failed for a unit, or the ranks were asked for different things. A rank
            that dies, hangs or is stuck ends all processes, with one line that names it.
    """
    keys = _checked(groups)
    function("work", work)
    ranks = Ranks()
    first = header(what, keys, settings or {})
    advice = f"; {out} holds what was finished: the same command goes on" if out else ""
    with ExitStack() as stack:
        watch = stack.enter_context(Watch(ranks, patience, limit, advice))
        _agree(ranks, watch, [first, len(groups), *map(identity, groups[0])])
        records = _Kept(ranks, out, first, groups)
        stack.enter_context(closing(records))
        bar = stack.enter_context(_bar(groups, records.finished, what, ranks, progress))
        _rounds(ranks, watch, groups, watch.over(work), records, bar.update, first)
        return records.all() if ranks.rank == 0 else None


def _checked(groups: Sequence[Group]) -> list[str]:
    """Return the units' keys; refuse units that are equal, or of another kind."""
    units = [unit for group in groups for unit in group]
    if not units or not all(groups):
        raise BadValue("groups must hold at least one unit each")
    keys = list(units[0])
    if not all(isinstance(key, str) for key in keys):  # of others JSON would make texts
        raise BadValue(f"groups must hold units whose keys are texts, got {shown(units[0])}")
    if odd := [unit for unit in units if unit.keys() != units[0].keys()]:
        raise BadValue(f"all units must have the keys {', '.join(keys)}, got {shown(odd[0])}")
    if len({identity(unit) for unit in units}) < len(units):
        raise BadValue("groups must hold different units, and two are equal")
    return keys


def _agree(ranks: Ranks, watch: Watch, asked: Any) -> None:
    """Refuse to begin where a rank was asked for something else, or has other weights."""
    digests = ranks.gather(hashlib.blake2b(line(asked).encode(), digest_size=8).hexdigest())
    odd = [watch.name(rank) for rank, digest in enumerate(digests) if digest != digests[0]]
    if odd:
        raise SweepError(
            f"{', '.join(odd)} has other settings, units or model files than {watch.name(0)}"
        )


def _bar(groups: Sequence[Group], finished: set[int], what: str, ranks: Ranks, shown: bool) -> Any:
    from tqdm import tqdm

    sizes = [len(group) for group in groups]
    there = sum(sizes[i] for i in finished)
    label = f"{what}, {ranks.size} rank{'s' * (ranks.size > 1)}"
    off = not shown or ranks.rank > 0
    return tqdm(total=sum(sizes), initial=there, desc=label, unit="unit", disable=off)


class _Kept:
    """The finished work: in the file or the memory of rank 0; the other ranks know the places."""

    def __init__(
        self,
        ranks: Ranks,
        out: str | Path | None,
        first: Mapping[str, Any],
        groups: Sequence[Group],
    ) -> None:
        self._out, self._groups, self._file, self._lines = out, groups, None, list[str]()
        problem = None
        if out is not None and ranks.rank == 0:
            try:
                self._file = Records(out, first, groups)
            except (BadValue, OSError) as error:  # the other ranks must hear of it
                problem = error
        found = [sorted(self._file.finished) if self._file else [], problem and str(problem)]
        self.finished, said = ranks.gather(found)[0]
        self.finished = set(self.finished)
        if problem is not None:
            raise problem
        if said is not None:
            raise SweepError(said)

    def add(self, lines: list[str]) -> None:
        if self._file is not None:
            self._file.add(lines)
        else:
            self._lines += lines

    def all(self) -> list[dict[str, Any]]:
        """Return the records in the order of the units."""
        records = read(self._out)[1] if self._out is not None else map(json.loads, self._lines)
        keys = list(self._groups[0][0])
        found = {identity({key: record[key] for key in keys}): record for record in records}
        units = [identity(unit) for group in self._groups for unit in group]
        lacking = sum(unit not in found for unit in units)
        if lacking:
            raise SweepError(
                f"{self._out} lacks {lacking} records that were written: something else wrote to "
                "it meanwhile; the same command goes on with what is there"
            )
        return [found[unit] for unit in units]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _rounds(
    ranks: Ranks, watch: Watch, groups: Sequence[Group], work: Work, kept: _Kept,
    count: Callable[[int], Any], first: Mapping[str, Any],
) -> None:  # fmt: skip
    """Work, gather, write, deal anew, until nothing is left."""
    left = [i for i in range(len(groups)) if i not in kept.finished]
    done, seconds, number = 0, 0.0, 0
    while left:
        number += 1
        mean = seconds / done if done else 0.0
        limit = round_seconds(len(left), mean, ranks.size)
        mine = _Round(partial(goes_on, mean=mean, limit=limit), partial(watch.time_is_up, number))
        for i in mine.places(left[ranks.rank :: ranks.size]):
            mine.do(groups[i], work, first)
            if ranks.rank == 0:
                count(len(groups[i]))
        found = ranks.gather(mine.report())
        gone = {i for each in found for i in each["done"]}
        done, seconds = done + len(gone), seconds + sum(each["seconds"] for each in found)
        if ranks.rank == 0:
            kept.add([text for each in found for text in each["lines"]])
            count(sum(len(groups[i]) for each in found[1:] for i in each["done"]))
        for rank, each in enumerate(found):
            if each["failed"] is not None:
                raise SweepError(f"{watch.name(rank)} failed at {each['failed']}")
        left = [i for i in left if i not in gone]


class _Round:
    """The work of this rank in one round."""

    def __init__(self, goes_on: Callable[[float], bool], up: Callable[[], bool]) -> None:
        self._goes_on, self._up = goes_on, up
        self._done: list[int] = []
        self._lines: list[str] = []
        self._failed: str | None = None
        self._start = time.perf_counter()

    def places(self, share: Iterable[int]) -> Iterator[int]:
        """Yield what to do next: at least one group, and no more when the time of all is up."""
        for i in share:
            elapsed = time.perf_counter() - self._start
            if self._done and not self._goes_on(elapsed) and self._up():
                return
            yield i
            if self._failed is not None:
                break
            self._done.append(i)
        self._up()  # nobody needs to go on for this rank

    def do(self, group: Group, work: Work, first: Mapping[str, Any]) -> None:
        """Work on a group; a failure is kept for all ranks to hear."""
        try:
            found = list(work(group))
            if len(found) != len(group):
                raise BadValue(f"work must return {len(group)} records, got {len(found)}")
            lines = [line({**u, **each}) for u, each in zip(group, found, strict=True)]
            for unit, each in zip(group, lines, strict=True):
                check_record(first, unit, each)
            self._lines += lines
        except Exception as error:
            self._failed = f"{identity(group[0])}: {type(error).__name__}: {error}"

    def report(self) -> dict[str, Any]:
        """Return what the other ranks are told."""
        seconds = time.perf_counter() - self._start
        return {
            "done": self._done, "seconds": seconds, "lines": self._lines, "failed": self._failed
        }  # fmt: skip
