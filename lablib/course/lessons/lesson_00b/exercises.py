"""Exercises of lesson 00b: a new word in learned pieces, blocks that add, the row that counts."""

from collections.abc import Callable, Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import difference
from lablib.course.lessons.edges import further

import numpy as np

# ------------------------------------------------------------------ 00b.1 a word in pieces


def merge(pieces, pair):
    """Return the pieces, those two made one wherever they stand side by side."""
    made = []
    for piece in pieces:
        if made and (made[-1], piece) == pair:
            made[-1] += piece
        else:
            made.append(piece)
    return made


def pieces_of(word, merges):
    """Return the pieces of a word: its letters, after each learned merge in turn.

    word: a string.   merges: pairs of pieces, in the order in which they were learned.
    """
    pieces = list(word)
    for pair in merges:
        pieces = merge(pieces, pair)
    return pieces


def pieces_by_index(word, merges):
    pieces = [*word]
    for first, second in merges:
        i = 0
        while i < len(pieces) - 1:
            if pieces[i] == first and pieces[i + 1] == second:
                pieces[i : i + 2] = [first + second]
            i += 1
    return pieces


def only_one_a_merge(word, merges):
    pieces = [*word]
    for first, second in merges:
        for i in range(len(pieces) - 1):
            if (pieces[i], pieces[i + 1]) == (first, second):
                pieces[i : i + 2] = [first + second]
                break
    return pieces


def longest_from_the_left(word, merges):
    known = {first + second for first, second in merges}
    pieces, start = [], 0
    while start < len(word):
        size = next(
            n for n in range(len(word) - start, 0, -1) if n == 1 or word[start:][:n] in known
        )
        pieces.append(word[start : start + size])
        start += size
    return pieces


def _words(rng: np.random.Generator) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    learned = [("h", "e"), ("a", "t"), ("t", "he")]
    yield "the", learned
    yield "that", learned
    yield "hat", learned
    yield "cathe", learned
    yield "hathe", learned
    yield "ran", learned
    yield "the", [("t", "he"), ("h", "e")]  # learned the other way round it is another word
    yield "banana", [("a", "n"), ("an", "a")]
    yield "aaaa", [("a", "a"), ("aa", "aa")]
    yield "aaa", [("a", "a")]
    yield "abc", [("b", "c"), ("a", "b")]  # 'ab' is known, and its b is gone
    yield "abab", [("a", "b")]
    yield "a", learned
    yield "tea", []
    for _ in range(4):
        word = "".join(rng.choice([*"abc"], size=9))
        pairs = [tuple(str(c) for c in rng.choice([*"abc"], size=2)) for _ in range(3)]
        yield word, [*dict.fromkeys(pairs)]


PIECES_OF = Exercise(
    id="00b.1",
    title="A new word in learned pieces",
    task=(
        "A tokenizer has learned merges, in an order. Cut a new word by them: begin with its "
        "letters, then do each merge in turn, wherever it fits. You may use `merge` from above."
    ),
    stars=2,
    minutes=5,
    reference=pieces_of,
    alternatives=[pieces_by_index],
    wrong={
        changed(pieces_of, "last_merge_first", "in merges", "in merges[::-1]"): (
            "you do the last merge first. A later merge needs the pieces that earlier ones made."
        ),
        changed(
            pieces_of, "always_from_letters", "merge(pieces, pair)", "merge(list(word), pair)"
        ): ("you begin with the letters again at each merge. Go on with the pieces so far."),
        changed(pieces_of, "returns_too_early", "\n    return pieces", "\n        return pieces"): (
            "you return after the first merge: is your return inside the loop?"
        ),
        changed(pieces_of, "one_piece", "list(word)", "[word]"): (
            "you begin with the whole word as one piece, where no pair is to be found. Begin with "
            "its letters."
        ),
        only_one_a_merge: (
            "you do each merge once. A pair may stand in a word several times: merge all of them."
        ),
        longest_from_the_left: (
            "you take the longest known piece from the left. The order of the merges decides: one "
            "that was learned earlier may have used up a letter."
        ),
    },
    cases=_words,
    hints=[
        "list('the') is ['t', 'h', 'e'].",
        "One loop over the merges: pieces = merge(pieces, pair), each time with what is there.",
    ],
    next="The shipped tokenizer does exactly this with 413 merges. The next cell shows it.",
)

# ------------------------------------------------------------------ 00b.2 blocks that add


def through_blocks(x, blocks):
    """Return the vectors behind the last block: each block reads the stream and adds to it.

    x: an array of shape (tokens, width), one vector for each token; leave it as it is.
    blocks: a list of functions; block(x) returns what is to be added, of the same shape.
    """
    for block in blocks:
        x = x + block(x)
    return x


def through_blocks_by_recursion(x, blocks):
    if not blocks:
        return x
    return through_blocks_by_recursion(np.add(x, blocks[0](x)), blocks[1:])


def in_place(x, blocks):
    for block in blocks:
        x += block(x)
    return x


def all_read_the_first(x, blocks):
    return x + sum(block(x) for block in blocks)


def only_the_additions(x, blocks):
    y = x
    for block in blocks:
        y = y + block(y)
    return y - x


def _double(x: np.ndarray) -> np.ndarray:
    return x * 2.0


def _turn(x: np.ndarray) -> np.ndarray:
    return x[:, ::-1] + 1.0


def _mean_so_far(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x, axis=0) / np.arange(1, len(x) + 1)[:, None]


def _run_blocks(fn: Callable[..., Any]) -> None:
    """Compare on streams that blocks read: functions can't be shown as a case can."""
    rng = np.random.default_rng(0)
    blocks = [[_turn, _double], [_double], [_double, _turn, _mean_so_far], [_turn] * 4, []]
    for shape, asked in zip([(2, 2), (1, 2), (3, 4), (5, 3), (2, 2)], blocks, strict=True):
        x = rng.integers(1, 9, size=shape).astype(float)
        given, wanted = x.copy(), through_blocks(x, asked)
        answer = fn(x, asked)
        if difference(wanted, answer, 1e-5) is None:
            continue
        for name, wrong in _MISTAKES.items():
            like = wrong(given.copy(), asked)
            if len(asked) > 1 and np.shape(answer) == np.shape(like) and np.allclose(answer, like):
                raise Wrong(f"with {len(asked)} blocks the vectors are others.", like=name)
        shown = answer.tolist() if isinstance(answer, np.ndarray) else answer
        raise Wrong(
            f"{len(asked)} blocks, x = {given.tolist()}: expected {np.round(wanted, 2).tolist()}, "
            f"got {shown!r}."
        )
    if fn.changed:
        raise Wrong("the vectors are right, but x is changed.", like="in_place")


_REPLACES = changed(through_blocks, "replaces", "x + block(x)", "block(x)")
_ONLY_FIRST = changed(through_blocks, "only_the_first", "in blocks", "in blocks[:1]")
_BACKWARDS = changed(through_blocks, "from_the_last", "in blocks", "in blocks[::-1]")
_MISTAKES = {
    each.__name__: each
    for each in (_REPLACES, all_read_the_first, _ONLY_FIRST, _BACKWARDS, only_the_additions)
}

THROUGH_BLOCKS = Exercise(
    id="00b.2",
    title="Blocks that add",
    task=(
        "The residual stream in four lines: hand the vectors to the first block, *add* what it "
        "returns, hand the sum to the next block, and so on. There may be no block at all."
    ),
    stars=1,
    minutes=4,
    reference=through_blocks,
    alternatives=[through_blocks_by_recursion],
    wrong={
        _REPLACES: (
            "you keep only what the block returns, and what was in the stream is lost. A block "
            "adds: x + block(x)."
        ),
        all_read_the_first: (
            "every block reads the first vectors. The second one must read what the first has "
            "added to."
        ),
        _ONLY_FIRST: "only the first block has run: is your return inside the loop?",
        _BACKWARDS: "you begin with the last block. They come in the order of the list.",
        only_the_additions: (
            "you return what was added, without the vectors that it was added to."
        ),
        in_place: (
            "x += ... changes the array that you were given, and its caller still needs it. "
            "Write x = x + ...: that makes a new one."
        ),
    },
    checker=_run_blocks,
    hints=[
        "A loop over the blocks, and in it one line.",
        "x = x + block(x): the block reads x, and the sum is the x that the next block reads.",
    ],
    next="In the shipped model there are eight such blocks. Lesson 02 opens one of them.",
)

# ------------------------------------------------------------------ 00b.3 the row that counts


def next_token(logits):
    """Return the id of the most probable next token, after everything that was read.

    logits: an array of shape (tokens, vocabulary): row i is about the token after token i.
    """
    return int(np.argmax(logits[-1]))


def next_token_with_a_loop(logits):
    last = list(logits[len(logits) - 1])
    return last.index(max(last))


def _logits(rng: np.random.Generator) -> Iterator[tuple[np.ndarray]]:
    yield (np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]]),)
    yield (np.array([[5.0, 2.0, 1.0], [0.0, 1.0, 4.0]]),)
    yield (np.array([[0.0, 9.0], [7.0, 1.0], [6.0, 2.0]]),)
    yield (np.array([[0.5, -1.0, 2.5]]),)
    yield (np.array([[-4.0, -3.0, -5.0], [-2.0, -7.0, -3.0]]),)  # scores may all be negative
    for shape in ((4, 6), (9, 5), (3, 40)):
        yield (rng.normal(size=shape).round(2),)


def _close(rng: np.random.Generator) -> Iterator[tuple[np.ndarray]]:
    yield (np.array([[1.0, 0.0, 0.0], [1.25, 1.25001, 1.0]]),)
    yield (np.array([[800.0, 0.0], [800.0, 900.0]]),)


NEXT_TOKEN = Exercise(
    id="00b.3",
    title="The row that counts",
    task=(
        "A model has read a text and returned its logits, a row for each token that it read. "
        "Which token does it expect next? Return the id with the highest score in the right row."
    ),
    stars=1,
    minutes=3,
    reference=next_token,
    alternatives=[next_token_with_a_loop],
    wrong={
        changed(next_token, "first_row", "[-1]", "[0]"): (
            "that is the first row: what may follow the *first* token. The text goes on behind "
            "its last one."
        ),
        changed(next_token, "of_all_rows", "logits[-1]", "logits"): (
            "you look for the largest number of the whole table. Only one row is about the next "
            "token."
        ),
        changed(next_token, "last_column", "logits[-1]", "logits[:, -1]"): (
            "logits[:, -1] is the last column: one token's score at every place. Take the last row."
        ),
        changed(
            next_token,
            "one_for_each_row",
            "int(np.argmax(logits[-1]))",
            "np.argmax(logits, axis=1)",
        ): ("you return a token for each row. Wanted is the one that follows the whole text."),
        changed(next_token, "the_score", "int(np.argmax(logits[-1]))", "logits[-1].max()"): (
            "you return the score. Wanted is the token's id: the place where that score stands."
        ),
    },
    cases=_logits,
    checker=further(_close),
    hints=[
        "Row i is about the token after token i. Which row is about the one after the last?",
        "logits[-1] is the last row, and np.argmax says where its largest number stands.",
    ],
    next="Always taking this token writes a greedy text. Lesson 01 draws instead.",
)
