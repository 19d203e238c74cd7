"""Whether an exercise can be trusted: everything that its checker must accept and refuse."""

from lablib.course.checks.checking import CheckResult, check
from lablib.course.checks.exercises import Exercise


def no_answer(*args):
    return None


def first_argument(*args):
    return args[0]


def zero(*args):
    return 0


def accident(*args):
    return {}["missing"]


IMPOSTORS = (no_answer, first_argument, zero, accident)


def audit(exercise: Exercise) -> list[str]:
    """Return what is wrong with the exercise, one line each; empty when it can be trusted."""
    complaints = []
    if not exercise.hints or len(exercise.alternatives) < 1 or len(exercise.wrong) < 2:
        complaints.append("needs a hint, another right answer and two wrong answers")
    for text in (exercise.title, exercise.task, *exercise.hints, *exercise.misconceptions.values()):
        if not text.strip():
            complaints.append("has an empty text")
    for right in (exercise.reference, *exercise.alternatives):
        outcome = check(exercise, right)
        if not outcome.correct:
            complaints.append(f"refuses {right.__name__}: {outcome!r}")
    for impostor in IMPOSTORS:
        if check(exercise, impostor).mark != "✗":
            complaints.append(f"does not refuse {impostor.__name__}")
    return complaints + _starter(exercise) + _wrong_answers(exercise)


def _starter(exercise: Exercise) -> list[str]:
    space = dict(exercise.reference.__globals__)
    exec(compile(exercise.starter, "<starter>", "exec"), space)
    outcome = check(exercise, space[exercise.name])
    return [] if outcome.mark == "○" else [f"starter is not neutral: {outcome!r}"]


def _wrong_answers(exercise: Exercise) -> list[str]:
    complaints, told = [], {}
    for wrong in exercise.wrong:
        name = wrong.__name__
        outcome = check(exercise, wrong)
        if outcome.mark != "✗":
            complaints.append(f"accepts {name}")
            continue
        if repr(check(exercise, wrong)) != repr(outcome):
            complaints.append(f"says different things about {name}")
        if outcome.misconception not in (None, name):
            complaints.append(f"takes {name} for {outcome.misconception}")
        verdict = _verdict(outcome)
        if verdict in told:
            complaints.append(f"says the same about {name} and {told[verdict]}")
        told[verdict] = name
    return complaints


def _verdict(outcome: CheckResult) -> str:
    return outcome.exercise.misconceptions.get(outcome.misconception, outcome.message)
