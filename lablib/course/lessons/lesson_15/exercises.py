"""Exercises of lesson 15: five bugs of real systems, each a report and the code as it was found."""

from lablib.course.lessons.lesson_15.exercises_batch import READ, WRITE
from lablib.course.lessons.lesson_15.exercises_drafts import OBEY, SPEAK
from lablib.course.lessons.lesson_15.exercises_seeds import SERVE

__all__ = ["OBEY", "READ", "SERVE", "SPEAK", "WRITE"]
