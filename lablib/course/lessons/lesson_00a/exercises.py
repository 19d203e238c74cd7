"""Exercises of lesson 00a: shares of rows, a long product, one number from each row."""

import math
from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import further

import numpy as np

# ------------------------------------------------------------------ 00a.1 shares of each row


def row_shares(counts):
    """Return a table of the same shape in which each row is divided by its own sum.

    counts: an array of shape (rows, columns), numbers of at least 0; no row is all 0.
    """
    return counts / counts.sum(axis=1)[:, None]


def row_shares_with_loops(counts):
    return np.array([[number / sum(row) for number in row] for row in counts.tolist()])


def divides_by_the_columns(counts):
    return counts / counts.sum(axis=0)


def sums_lie_across(counts):
    return counts / counts.sum(axis=1)


def shares_of_the_table(counts):
    return counts / counts.sum()


def _counts(rng: np.random.Generator) -> Iterator[tuple[np.ndarray]]:
    yield (np.array([[1, 3], [2, 2]]),)
    yield (np.array([[2, 0], [1, 1]]),)
    yield (np.array([[8, 4, 4], [1, 1, 2]]),)
    yield (np.array([[1, 1], [3, 1], [0, 5]]),)
    yield (np.array([[0.5, 0.25, 0.25]]),)
    yield (np.array([[7.0], [2.0]]),)  # one column: all of them are 1
    for rows, columns in ((3, 3), (2, 5), (6, 4)):
        yield (rng.integers(1, 20, size=(rows, columns)),)


def _rare(rng: np.random.Generator) -> Iterator[tuple[np.ndarray]]:
    yield (np.array([[1e-9, 3e-9], [4.0, 4.0]]),)
    yield (np.array([[1.0, 9_999_999.0], [1.0, 3.0]]),)
    yield (rng.integers(1, 9, size=(30, 20)),)


ROW_SHARES = Exercise(
    id="00a.1",
    title="Shares of each row",
    task=(
        "Somebody has counted which word follows which: a row for each word, a column for each "
        "word after it. Turn the counts into shares, so that each row sums to 1. A square table "
        "must come out right as well: there a mistake makes no error."
    ),
    stars=1,
    minutes=4,
    reference=row_shares,
    alternatives=[row_shares_with_loops],
    wrong={
        sums_lie_across: (
            "the row sums have shape (rows,), and shapes are matched from the right: so they meet "
            "the columns. Give them an axis of length 1 at the end."
        ),
        divides_by_the_columns: (
            "axis=0 sums along the rows' axis, and leaves the sums of the columns. Wanted are "
            "those of the rows."
        ),
        shares_of_the_table: (
            "you divide by the sum of the whole table. Each row has a sum of its own."
        ),
        changed(row_shares, "shares_of_the_largest", "sum(axis=1)", "max(axis=1)"): (
            "you divide by the largest of each row, so the row does not sum to 1."
        ),
        changed(row_shares, "only_the_sums", "counts / counts", "counts"): (
            "those are the sums. Divide the counts by them."
        ),
        changed(row_shares, "whole_numbers", "counts / counts", "counts // counts"): (
            "// drops what is behind the point, and shares lie between 0 and 1: use /."
        ),
    },
    cases=_counts,
    checker=further(_rare),
    hints=[
        "counts.sum(axis=1) has one number for each row, and shape (rows,).",
        "With [:, None] behind it its shape is (rows, 1): then each sum meets its own row.",
    ],
    next="counts.sum(axis=1, keepdims=True) keeps the axis at once. Lesson 01 uses it.",
)

# ------------------------------------------------------------------ 00a.2 the more probable text


def more_probable(first, second):
    """Return 0 if the first text is the more probable one, 1 if the second is.

    first, second: of each token its probability, a list of numbers above 0; each may be long.
    If both are equally probable, return 0.
    """
    return int(np.log(second).sum() > np.log(first).sum())


def more_probable_with_a_loop(first, second):
    difference = sum(map(math.log, first)) - sum(map(math.log, second))
    return 0 if difference >= 0 else 1


def multiplies(first, second):
    return int(math.prod(second) > math.prod(first))


def _two_texts(rng: np.random.Generator) -> Iterator[tuple[list[float], list[float]]]:
    yield [0.5, 0.5], [0.5, 0.1]
    yield [0.2], [0.3]
    yield [0.5, 0.25], [0.5, 0.25]  # equally probable
    yield [0.9, 0.1, 0.9], [0.5, 0.5, 0.5]
    yield [0.5], [0.6, 0.6]  # longer, each step surer, and less probable
    yield [0.9, 0.9, 0.9], [0.7]
    yield [0.1, 1.0, 1.0], [0.3, 0.3]
    yield [0.25] * 1000, [0.26] * 1000
    yield [0.26] * 1000, [0.25] * 1000
    yield [0.3] * 900, [0.3] * 901
    yield [0.01] * 400, [0.5] * 2000  # 2000 bits are fewer than 2657
    for n in (3, 40, 1500):
        first = rng.uniform(0.05, 1, size=n).round(3).tolist()
        yield first, [*first[:-1], first[-1] / 2]
        yield [first[0] / 2, *first[1:]], first


def _ends(rng: np.random.Generator) -> Iterator[tuple[list[float], list[float]]]:
    yield [1.0, 1.0], [0.999]
    yield [1e-30, 1e-30], [1e-30]
    yield [1e-30], [1e-30, 1e-30]
    yield [0.5, 0.50001], [0.5, 0.50002]


MORE_PROBABLE = Exercise(
    id="00a.2",
    title="The more probable text",
    task=(
        "The probability of a text is the product of the probabilities of its tokens. Say which of "
        "two texts is the more probable one, for texts of thousands of tokens as well."
    ),
    stars=2,
    minutes=4,
    reference=more_probable,
    alternatives=[more_probable_with_a_loop],
    wrong={
        multiplies: (
            "right for short texts. The products of long ones are both too small for a computer "
            "and become 0, so they can't be compared: add logarithms."
        ),
        changed(
            more_probable,
            "means",
            "np.log(second).sum() > np.log(first).sum()",
            "np.log(second).mean() > np.log(first).mean()",
        ): (
            "you compare means, so a long text and a short one count alike. Each further token "
            "makes a text less probable: add, don't divide by the length."
        ),
        changed(
            more_probable,
            "adds_probabilities",
            "np.log(second).sum() > np.log(first).sum()",
            "sum(second) > sum(first)",
        ): ("probabilities of steps multiply; it is their logarithms that are added."),
        changed(more_probable, "the_other_one", "> np", "< np"): (
            "that is the less probable one: the logarithm is the larger (nearer to 0) the more "
            "probable the text is."
        ),
        changed(
            more_probable,
            "longest_text",
            "np.log(second).sum() > np.log(first).sum()",
            "len(second) > len(first)",
        ): "the length alone says nothing: look at the numbers.",
        changed(
            more_probable,
            "rarest_token",
            "np.log(second).sum() > np.log(first).sum()",
            "min(second) > min(first)",
        ): ("you compare the rarest token of each text. All the others count as well."),
    },
    cases=_two_texts,
    checker=further(_ends),
    hints=[
        "A product of thousands of such numbers is 0 in a computer. What does the logarithm make "
        "of a product?",
        "np.log(first) takes the logarithm of each, and .sum() adds them up. Which sum is larger?",
    ],
    next="The same sum is the score of a text in lesson 05.",
)

# ------------------------------------------------------------------ 00a.3 one from each row


def one_from_each(table, columns):
    """Return an array of one number from each row: from row i the one in column columns[i].

    table: an array of shape (rows, columns).   columns: a list of whole numbers, one a row.
    """
    return table[np.arange(len(columns)), columns]


def one_from_each_with_a_loop(table, columns):
    return np.array([table[i, columns[i]] for i in range(len(columns))])


def whole_columns(table, columns):
    return table[:, columns]


def whole_rows(table, columns):
    return table[columns]


def _tables(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, list[int]]]:
    yield np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), [2, 0]
    yield np.array([[1.0, 2.0], [3.0, 4.0]]), [0, 0]
    yield np.array([[1.0, 2.0], [3.0, 4.0]]), [1, 0]
    yield np.array([[5.0, 7.0, 9.0]]), [1]
    yield np.array([[1.0, 8.0], [9.0, 2.0], [3.0, 4.0]]), [0, 0, 1]
    for rows, columns in ((3, 3), (4, 7), (9, 2)):
        table = rng.permutation(rows * columns).reshape(rows, columns) / 8
        yield table, rng.integers(0, columns, size=rows).tolist()


def _more_tables(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, list[int]]]:
    yield np.array([[1, 2], [3, 4]]), [1, 1]
    table = rng.normal(size=(40, 12)).round(3)
    yield table, rng.integers(0, 12, size=40).tolist()


ONE_FROM_EACH = Exercise(
    id="00a.3",
    title="One number from each row",
    task=(
        "Row i of a table holds the probabilities of what may stand at place i; `columns[i]` says "
        "which of them came. Pick the number of each."
    ),
    stars=2,
    minutes=4,
    reference=one_from_each,
    alternatives=[one_from_each_with_a_loop],
    wrong={
        whole_columns: (
            "table[:, columns] takes these columns from *every* row: a table, where wanted is one "
            "number a row. Give the rows, too: 0, 1, 2, ..."
        ),
        whole_rows: "table[columns] takes whole rows, and those of these numbers at that.",
        changed(
            one_from_each,
            "rows_and_columns_swapped",
            "np.arange(len(columns)), columns",
            "columns, np.arange(len(columns))",
        ): ("the row comes first, then the column: table[row, column]."),
        changed(one_from_each, "always_the_first", ", columns]", ", columns[0]]"): (
            "you take the first row's column from all rows. Each row has its own."
        ),
        changed(
            one_from_each,
            "largest_of_each",
            "table[np.arange(len(columns)), columns]",
            "table.max(axis=1)",
        ): ("that is the largest of each row. Wanted is the one that columns names."),
        changed(one_from_each, "backwards", "table[np", "table[::-1][np"): (
            "your rows are in reverse: columns[0] belongs to the first row."
        ),
        changed(one_from_each, "counts_from_the_end", ", columns]", ", -np.array(columns)]"): (
            "a column with a minus is counted from the end. They count from 0, from the left."
        ),
    },
    cases=_tables,
    checker=further(_more_tables),
    hints=[
        "With a loop: from row i take table[i, columns[i]].",
        "Without one: two lists of equal length between the brackets are read in pairs, and "
        "np.arange(n) is 0, 1, ..., n - 1.",
    ],
    next="np.take_along_axis does the same for any axis. You will meet both.",
)
