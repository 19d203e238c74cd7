"""Explanations that students write beside a function: a teacher reads them, no program."""

from lablib.course.checks.exercises import find

ASKED = (
    "Explain {id} in three or four sentences: which line it was, why that gives the report, and\n"
    "which two things, equal by right, show it. A teacher reads it beside the mark.\n"
    'Write in the cell: explain("{id}", """..."""); or go on without.'
)
LONGEST = 2000  # letters that a teacher sees


def explain(exercise: str, text: object = ...) -> None:
    """Take your explanation of an exercise: ``grade`` shows it to a teacher beside the mark.

    Nothing judges it, and nothing is kept but in the notebook.

    Args:
        exercise: its id, for example ``"15.1"``.
        text: yours, up to 2,000 letters; ``...`` is none yet, and shows what to write.

    Raises:
        ValueError, TypeError: there is no such exercise, or ``text`` is no text.
    """
    id_ = find(exercise).id
    if text is ...:
        print(ASKED.format(id=id_))
        return
    if not isinstance(text, str):
        raise TypeError(f"text must be a text in quotes, got {type(text).__name__}")
    cut = f", of which a teacher sees the first {LONGEST:,} letters" * (len(text) > LONGEST)
    print(f"Your explanation of {id_}: {len(text.split())} words{cut}.")
