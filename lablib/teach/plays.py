"""Plays a capstone with a student's function, in a process of its own behind the walls.

It is asked case by case: it sees neither the seeds nor the answers, nor what others handed in.
"""

import pickle
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import lablib
from lablib.course.checks.running import Accident, Gone, TimeUp
from lablib.course.lessons.lesson_16 import drafts
from lablib.course.lessons.lesson_16.board import CAPSTONES
from lablib.course.lessons.lesson_16.scores import Foul, Score
from lablib.teach.handed_in import code_of, read_cells, unreadable
from lablib.teach.process import Function, Limits, NotStarted, Process
from lablib.teach.submission import offered

CAPSTONE = "16.0"  # no exercise: ``check`` knows none of that number


class Missing(Exception):
    """A file has no such function; the message says why, for a row of the table."""


def play(capstone: str, world: str, paths: Sequence[str], limits: Limits) -> dict[str, Any]:
    """Return the score of a student's files, as its fields, or a note that says why there is none.

    ``world`` is the file of what is played; the first of ``paths`` that has the function counts.
    """
    game, worlds, notes = CAPSTONES[capstone], _worlds(world), []
    for path in map(Path, paths):
        try:
            return {"score": [*vars(_played(game, worlds, path, limits)).values()]}
        except Missing as missing:
            notes.append(str(missing))
        except Accident as accident:
            return {"note": "not attempted" if accident.unwritten else f"it raised {accident.text}"}
        except TimeUp:
            return {"note": f"it ran longer than {limits.seconds:g} s"}
        except (Foul, Gone) as problem:
            return {"note": str(problem)}
        except NotStarted:
            raise
        except Exception as error:  # an answer that even the game does not expect
            return {"note": f"could not be scored: {type(error).__name__}: {error}"}
    return {"note": next(filter(None, notes), f"no function {game.FUNCTION}")}


@cache
def _worlds(path: str) -> Any:
    lablib.load("target")  # what takes its time is not the student's
    drafts.call_seconds()  # while nothing of a student's can slow it down, and with it prices
    return pickle.loads(Path(path).read_bytes())  # the judge's own


def _played(game: Any, worlds: list[Any], path: Path, limits: Limits) -> Score:
    """Return a function's score.

    Raises:
        Missing: there is none; says nothing when nothing went wrong on the way.
    """
    try:
        code = code_of(read_cells(path))
    except Exception as error:  # whatever is in the file, it gets a row
        raise Missing(unreadable(error, path, path.name)) from None
    with Process(limits) as process:
        found, problems = offered(process, code, {CAPSTONE: game.FUNCTION})
        told = next(iter(found.get(CAPSTONE) or []), {})
        if told.get("callable") is not True:
            unsaid = f"NameError: name '{game.FUNCTION}' is not defined"
            said = (text for text in problems.values() if text and text != unsaid)
            raise Missing(next((f"its cell raised {text}" for text in said), ""))
        function = Function(process, told, (CAPSTONE, 0), limits.seconds)
        return Score.together([game.play(function, world) for world in worlds])
