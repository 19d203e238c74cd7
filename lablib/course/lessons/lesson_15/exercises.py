"""Exercises of lesson 15: five bugs of real systems, each with the code as it was found."""

from lablib.course.lessons.lesson_15.exercises_judge import JUDGE
from lablib.course.lessons.lesson_15.exercises_memory import ATTEND, TAKE_BACK
from lablib.course.lessons.lesson_15.exercises_rate import ACCEPTANCE_RATE
from lablib.course.lessons.lesson_15.exercises_seeds import DRAW_ROWS

__all__ = ["ACCEPTANCE_RATE", "ATTEND", "DRAW_ROWS", "JUDGE", "TAKE_BACK"]
