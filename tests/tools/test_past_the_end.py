"""What follows the end of a document: read back, judged and counted."""

from lablib.course import tasks
from lablib.tools import past_the_end
from lablib.tools.completions import Plan
from lablib.tools.past_the_end import Document, documents, has_a_prompt, read_document

import pytest

END = 2


def test_every_document_is_read_back() -> None:
    for name, task in tasks.TASKS.items():
        for problem in task.problems(1, 150):
            found, completion = read_document(problem.prompt + problem.answer)
            assert (found.task, found.prompt, found.data) == (name, problem.prompt, problem.data)
            assert completion == problem.answer
            assert task.check(found, completion)
        if name != "sums":  # its documents hold the annotator's mistakes
            assert all(task.check(*read_document(d)) for d in task.documents(1, 150))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sum 1 2 3 4 5:1+2=3;",
        "sum 1 2 3 4 5 6 7:1",
        "edit: bat | bat -> owl: owl",
        "edit:" + " bat" * 16 + " | bat -> owl:" + " owl" * 16,
        "On a sunny day, Tom finds red kite in the park.",
        "On a sunny day, Tom finds a red kite in the bridge.",
        "On a foggy day, Tom finds a red kite in the park.",
    ],
)
def test_what_is_no_prompt_is_not_read(text: str) -> None:
    assert read_document(text) is None


def test_a_list_that_holds_a_word_twice_has_the_form_of_a_prompt_and_is_none() -> None:
    problem = tasks.edits.problems(4, 1)[0]
    listed, _, new = problem.data
    twice = " ".join(["edit:", listed[1], *listed[1:], "|", listed[1], "->", f"{new}:"])
    assert has_a_prompt(twice)
    assert read_document(twice) is None
    assert has_a_prompt(problem.prompt)
    assert not has_a_prompt(problem.prompt.replace(f" {listed[3]}", " cheese"))
    assert not has_a_prompt(problem.prompt.replace(f" {listed[3]}", ""))
    assert not has_a_prompt("")


def test_past_the_end_counts_documents() -> None:
    tokenizer = tasks.load_tokenizer()

    def encode(text: str) -> list[int]:
        return [*tokenizer.encode(text).ids, END]

    good = [encode(p.prompt + p.answer) for t in tasks.TASKS.values() for p in t.problems(2, 1)]
    wrong = encode("sum 1 1 1 1 1 1:1+1=2;2+1=3;3+1=4;4+1=5;5+1=6;#7")
    rows = [
        [7, END, *good[0], *good[1], *good[2], 1, 40],  # three documents and the start of a fourth
        [7, END, *wrong, *good[0][1:], 7, END],  # a wrong one, one without <s>, and junk
        [7, END, *encode("edit:" + " bat" * 16 + " | bat -> owl:" + " owl" * 16)],
        [7] * 20,  # never ends
    ]
    found = past_the_end.past_the_end(rows, Plan(long_rows=4, long_tokens=120), 0.5)
    assert (found["samples"], found["documents"]) == (4, 7)
    assert found["ended"] == 3 / 4
    assert found["begun"] == 5 / 7
    assert found["posed"] == 4 / 7
    assert found["valid"] == 3 / 7
    assert found["late_valid"] == 1 / 2  # two start after token 80, and the junk is one of them
    assert (found["stories_valid"], found["sums_valid"], found["edits_valid"]) == (1.0, 0.5, 1.0)


def test_an_unfinished_document_counts_neither_way() -> None:
    tokenizer = tasks.load_tokenizer()
    problem = tasks.sums.problems(2, 1)[0]
    whole = [*tokenizer.encode(problem.prompt + problem.answer).ids, END]
    (found,) = documents([7, END, *whole], late=1)
    assert found == Document(begun=True, task="sums", valid=True, late=False)
    assert list(documents([7, END, *whole[:-1]], late=1)) == []
    assert list(documents([7, END, *whole, *whole[:-1]], late=0)) == [found._replace(late=True)]
    assert list(documents([7] * 9, late=0)) == []


def test_texts_past_the_end_begin_with_unseen_problems_of_every_task() -> None:
    tokenizer = tasks.load_tokenizer()
    asked = [tokenizer.encode(problem.prompt).ids for problem in past_the_end.problems(Plan())]
    read = [read_document(text)[0] for text in tokenizer.decode_batch(asked)]
    counts = [sum(problem.task == task for problem in read) for task in tasks.TASKS]
    assert (sum(counts), max(counts) - min(counts)) == (200, 1)
    found = past_the_end.past_the_end([[END]] * 200, Plan(), 1.0)
    assert found["documents"] == found["stories_valid"] == found["begun"] == 0
