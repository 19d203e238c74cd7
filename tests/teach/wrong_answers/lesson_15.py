"""Answers to the hunts of lesson 15, as students write them: right ones and wrong ones."""

import hashlib
import random

from lablib.course.checks.changed import changed
from lablib.course.lessons.lesson_15 import exercises_batch as batch
from lablib.course.lessons.lesson_15 import exercises_drafts as drafts

import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


def is_right(exercise, reference, name, old, new):
    right(exercise)(changed(reference, name, old, new))


# ------------------------------------------------------------------ 15.1 only the neighbour

MASK, EXP = batch.MASK, "np.exp(scores - scores.max(axis=1, keepdims=True))"
is_right("15.1", batch.read, "very_low", MASK, "np.where(cache['there'], scores, -1e30)")
is_right("15.1", batch.read, "low_enough", MASK, "np.where(cache['there'], scores, -1e9)")
is_right("15.1", batch.read, "added", MASK, "scores + np.where(cache['there'], 0, -np.inf)")
is_right(
    "15.1", batch.read, "weights_of_what_stays", EXP,
    f"{EXP} * cache['there']",
)  # fmt: skip


@right("15.1")
def in_lists(rounds, kept, spread):
    of_query, of_key, of_value = np.random.default_rng(0).normal(size=(3, 10, 2))
    texts = [
        [t for r, k in zip(rounds, kept, strict=True) for t in r[b][: k[b]]]
        for b in range(len(rounds[0]))
    ]
    out = []
    for text in texts:
        s = [float(of_key[t] @ of_query[text[-1]]) * spread / 2**0.5 for t in text]
        w = [np.exp(x - max(s)) for x in s]
        out.append((sum(x * of_value[t] for x, t in zip(w, text, strict=True)) / sum(w)).tolist())
    return [out, [len(text) for text in texts]]


for name, new, like in (
    ("minus_ten", "np.where(cache['there'], scores, -10)", None),
    ("half_precision_s_least", "np.where(cache['there'], scores, -65504)", None),
    ("where_not_zero", "np.where(scores != 0, scores, -1e4)", None),
    ("scores_multiplied", "scores * cache['there']", "read_as_found"),
    ("weights_too_late", "scores", "read_as_found"),
    ("mask_as_a_number", "scores + cache['there']", None),
    ("last_places_of_the_row", "np.where(cache['there'][:, ::-1], scores, -np.inf)", None),
):
    ANSWERS.changed("15.1", name, MASK, new, like=like)
ANSWERS.changed("15.1", "no_value_left_out", MASK, "np.where(cache['there'], scores, 0)",
                like="read_as_found")  # fmt: skip
is_right("15.1", batch.read, "never_cut", "start + max(stay)", "start + width")
ANSWERS.changed("15.1", "lengths_of_the_rectangle", 'cache["there"].sum(axis=1)',
                "[cache['there'].shape[1]] * rows")  # fmt: skip

# ------------------------------------------------------------------ 15.2 the same prompt twice

ONE_BY_ONE = f"{batch.LOOP}\n            turned[i] = turn(flat[i], angles[0])"
EACH_ROW = """for row in range(len(vectors)):
            part = slice(row * heads, (row + 1) * heads)
            turned[part] = turn(flat[part], angles[0])"""
is_right("15.2", batch.write, "rows_times_heads", batch.LOOP,
         "for i in range(len(vectors) * heads):")  # fmt: skip
is_right("15.2", batch.write, "all_at_once", ONE_BY_ONE, "turned[:] = turn(flat, angles[0])")
is_right("15.2", batch.write, "each_row", ONE_BY_ONE, EACH_ROW)


@wrong("15.2")
def one_text_only(prompts, new):
    return np.tile(batch.write(prompts[:1], new), (len(prompts), 1))


ANSWERS.changed("15.2", "two_heads_more", batch.LOOP, "for i in range(2 * heads):")
ANSWERS.changed("15.2", "all_but_the_last", batch.LOOP, "for i in range(len(flat) - 1):")
ANSWERS.changed("15.2", "from_position_0", "start + np.arange(count)", "np.arange(count)")
ANSWERS.changed("15.2", "one_position_late", "start + np.arange(count)",
                "start + np.arange(count) + (count == 1)")  # fmt: skip
ANSWERS.changed("15.2", "queries_only", "rotate(query, start), rotate(key, start)",
                "rotate(query, start), key")  # fmt: skip
ANSWERS.changed("15.2", "as_it_was", batch.LOOP, "for i in range(of_query.shape[0]):",
                like="write_as_found")  # fmt: skip

# ------------------------------------------------------------------ 15.3 closed twice

BACK, APPEND = drafts.BACK, "        depths.append(step(depths[-1], own))"
is_right(
    "15.3", drafts.obey, "cut_by_slicing", BACK, "        depths = depths[: start + kept + 1]\n"
)
is_right("15.3", drafts.obey, "popped", BACK,
         "        for _ in range(len(drafts) - kept):\n            depths.pop()\n")  # fmt: skip
is_right("15.3", drafts.obey, "by_the_text", BACK, "        del depths[len(text) :]\n")
is_right(
    "15.3", drafts.obey, "counted_anew", BACK + APPEND,
    "        depths = [0]\n"
    "        for s in text:\n            depths += [step(depths[-1], s)]",
)  # fmt: skip
ANSWERS.changed("15.3", "from_where_it_stands", BACK + APPEND,
                "        depths.append(step(depths[start], own))")  # fmt: skip
ANSWERS.changed("15.3", "last_one_only", BACK, "        depths.pop()\n")
is_right(
    "15.3", drafts.obey, "read_anew", BACK, "        del depths[start + kept + 1 :], read[:]\n"
)
ANSWERS.changed("15.3", "if_none_was_kept", BACK,
                "        if not kept:\n            del depths[start + 1 :]\n")  # fmt: skip
ANSWERS.changed("15.3", "without_drafts", "min(ahead, room)", "0", like="one_a_round")
ANSWERS.changed("15.3", "nothing_appended", APPEND + "\n", "")


@wrong("15.3")
def text_alone(prompt, length, ahead):
    return drafts.obey(prompt, length, ahead)[0]


# ------------------------------------------------------------------ 15.4 all of them alike

PICK, JUDGED = drafts.PICK, drafts.JUDGED
is_right("15.4", drafts.speak, "q_is_certain", "drafts.append(last)",
         "drafts.append(last)\n            q[-1] = np.eye(3)[last]")  # fmt: skip


@right("15.4")
def with_numpy_s_choice(texts, length, ahead, temperature, seed):
    rng = np.random.default_rng(seed)
    target = np.array([[0.3, 0.5, 0.2], [0.4, 0.2, 0.4], [0.3, 0.3, 0.4]])
    draft = np.array([[0.2, 0.6, 0.2], [0.6, 0.2, 0.2], [0.25, 0.15, 0.6]])
    if temperature == 0:
        p, q = (np.eye(3)[each.argmax(axis=1)] for each in (target, draft))
    else:
        p, q = (each ** (1 / temperature) for each in (target, draft))
        p, q = (each / each.sum(axis=1, keepdims=True) for each in (p, q))
    found, drafted, kept = [], 0, 0
    for _ in range(texts):
        text, last = [], 0
        while len(text) < length:
            said, before = [], last
            for _ in range(min(ahead, length - len(text) - 1)):
                before = int(rng.choice(3, p=q[before]))
                said.append(before)
            drafted += len(said)
            for token in said:
                if rng.random() < min(1, p[last, token] / q[last, token]):
                    kept += 1
                    text.append(token)
                    last = token
                    continue
                rest = np.maximum(p[last] - q[last], 0)
                last = int(rng.choice(3, p=rest / rest.sum()))
                text.append(last)
                break
            else:
                last = int(rng.choice(3, p=p[last]))
                text.append(last)
        found.append(np.array(text))
    return found, kept / max(drafted, 1)


ANSWERS.changed("15.4", "kept_half_as_often", "rng.random() * q[i][token]",
                "2 * rng.random() * q[i][token]")  # fmt: skip
ANSWERS.changed("15.4", "upside_down", "rng.random() * q[i][token] >= p[token]",
                "rng.random() * p[token] >= q[i][token]")  # fmt: skip
ANSWERS.changed("15.4", "all_kept", "rng.random() * q[i][token] >= p[token]", "False")
ANSWERS.changed("15.4", "rest_of_q", "np.maximum(p - q[i], 0)", "np.maximum(q[i] - p, 0)")
ANSWERS.changed("15.4", "best_of_p", "pick(np.maximum(p - q[i], 0))", "int(p.argmax())")
ANSWERS.changed("15.4", "from_p_instead", "pick(np.maximum(p - q[i], 0))", "pick(p)")
ANSWERS.changed("15.4", "q_of_temperature_one", "q.append(chances(draft[last]))",
                "q.append(np.exp(draft[last]))\n            last = pick(chances(draft[last]))\n"
                "            drafts.append(last)\n            continue")  # fmt: skip
ANSWERS.changed("15.4", "greedy_once_in_a_while", PICK,
                "last = pick(q[-1]) if len(q) > 1 else int(q[-1].argmax())")  # fmt: skip
ANSWERS.changed("15.4", "as_found", PICK, "last = int(np.argmax(q[-1]))", like="speak_as_found")
ANSWERS.changed("15.4", "counts_what_is_written", "len(written) - 1", "len(written)")
ANSWERS.changed("15.4", "only_texts", "return found, kept / max(1, drafted)", "return found")

# ------------------------------------------------------------------ 15.5 Monday and Tuesday

KEPT: dict[int, np.random.Generator] = {}


def _by_number(number):
    """Make an answer of ``number(seed, step)``, from 0 to 1."""

    def serve(requests, most):
        return [[int(1000 * number(seed, t)) for t in range(length)] for seed, length in requests]

    return serve


def _note(kind, name, number, like=None):
    answer = _by_number(number)
    answer.__name__ = name
    (right("15.5") if kind == "right" else wrong("15.5", like))(answer)


def _hash(*key):
    return np.random.default_rng(key).random()


def _digest(seed, step):
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}".encode()).digest()[:8], "big") / 2**64


_note("right", "a_digest", _digest)
_note("right", "python_s_own", lambda s, t: random.Random(f"{s} {t}").random())
_note("right", "both_hashed", _hash)
_note("right", "the_other_way_round", lambda s, t: _hash(t, s))
_note("right", "far_apart", lambda s, t: _hash(s * 2**40 + t))
_note("right", "of_the_stream", lambda s, t: np.random.default_rng(s).random(t + 1)[t])
_note("wrong", "exclusive_or", lambda s, t: _hash(s ^ t), "seed_or_step")
_note("wrong", "two_texts", lambda s, t: _hash(int(f"{s}{t}")), "digits_in_a_row")
_note("wrong", "room_for_a_thousand", lambda s, t: _hash(1000 * s + t), "thousands")
_note("wrong", "room_for_a_hundred", lambda s, t: _hash(100 * s + t))
_note("wrong", "step_first", lambda s, t: _hash(1000 * t + s))
_note("wrong", "golden", lambda s, t: (0.618 * s + 0.755 * t) % 1)
_note("wrong", "added", lambda s, t: _hash(s + t), "seed_plus_step")
_note("wrong", "multiplied", lambda s, t: _hash((s + 1) * (t + 1)))
_note("wrong", "seed_modulo_ten", lambda s, t: _hash(s % 10, t))
_note("wrong", "low_half", lambda s, t: _hash(s, t) / 2)
_note("wrong", "never_the_last", lambda s, t: 0.999 * _hash(s, t))
_note("wrong", "a_byte", lambda s, t: int(256 * _hash(s, t)) / 256)
_note("wrong", "seed_as_a_float", lambda s, t: _hash(int(float(s)), t))
_note("wrong", "unseeded", lambda s, t: np.random.default_rng().random())
_note("wrong", "kept_between_calls",
      lambda s, t: KEPT.setdefault(s, np.random.default_rng(s)).random())  # fmt: skip


@wrong("15.5", like="first_seed_for_all")
def one_generator(requests, most):
    rng, texts = np.random.default_rng(requests[0][0]), [[] for _ in requests]
    active, waiting = [], list(range(len(requests)))
    while active or waiting:
        while waiting and len(active) < most:
            active.append(waiting.pop(0))
        for place in [*active]:
            if len(texts[place]) < requests[place][1]:
                texts[place].append(int(1000 * rng.random()))
            else:
                active.remove(place)
    return texts


@wrong("15.5")
def last_seed_wins(requests, most):
    rng = np.random.default_rng(requests[-1][0])
    return [[int(1000 * rng.random()) for _ in range(length)] for _, length in requests]


@wrong("15.5")
def one_token_too_few(requests, most):
    return [[0] * (length - 1) for _, length in requests]


ANSWERS.changed("15.1", "zero_is_cleared", MASK, "np.where(scores == 0, -np.inf, scores)")
ANSWERS.changed(
    "15.1",
    "shifted_before_it_is_spread",
    MASK,
    "scores + np.where(cache['there'], 0, -1e9) * spread",
)
ANSWERS.changed("15.3", "one_draft_at_most", "min(ahead, room)", "min(ahead, room, 1)")
ANSWERS.changed(
    "15.4", "the_best_of_the_rest", "pick(np.maximum(p - q[i], 0))", "int((p - q[i]).argmax())"
)
ANSWERS.changed("15.2", "half_of_a_vector", ONE_BY_ONE,
                "turned[:] = turn(flat, angles[0])\n"
                "        turned[heads:, size // 2 :] = flat[heads:, size // 2 :]")  # fmt: skip
ANSWERS.changed("15.4", "share_of_the_judged", "drafted + count, kept",
                "drafted + len(written), kept")  # fmt: skip
is_right("15.3", drafts.obey, "a_drafter_without_grammar",
         "best(look(draft, guessed, unread)[-1], depths[-1])",
         "signs[np.argmax(look(draft, guessed, unread)[-1])]")  # fmt: skip
_note("wrong", "seed_in_16_bits", lambda s, t: _hash(s % 2**16, t))
_note("wrong", "seed_in_32_bits", lambda s, t: _hash(s % 2**32, t))
_note("wrong", "one_first_token", lambda s, t: _hash(s, t) if t else 0.5)


@wrong("15.5")
def one_text_a_seed(requests, most):
    texts = {seed: np.random.default_rng(seed).integers(0, 1000, n) for seed, n in requests}
    return [texts[seed] for seed, _ in requests]


@wrong("15.5")
def seed_plus_length(requests, most):
    return [np.random.default_rng(s + n).integers(0, 1000, n).tolist() for s, n in requests]


_note("wrong", "seed_in_64_bits", lambda s, t: _hash(s % 2**64, t))


@wrong("15.5")
def digits_of_seed_and_length(requests, most):
    return [
        np.random.default_rng(int(f"{s}{n}")).integers(0, 1000, n).tolist() for s, n in requests
    ]


@right("15.5")
def drawn_first_and_popped(requests, most):
    texts = []
    for seed, length in requests:
        numbers = np.random.default_rng(seed).integers(0, 1000, length).tolist()
        texts.append([numbers.pop() for _ in range(length)])
    return texts


ANSWERS.changed("15.3", "brackets_counted", BACK + APPEND,
                "        depths = [text[:i].count('(') - text[:i].count(')')\n"
                "                  for i in range(len(text) + 1)]")  # fmt: skip
ANSWERS.changed("15.2", "short_way_for_one_text", "if count > 1:", "if len(vectors) > 1:")
ANSWERS.changed("15.3", "one_round_more", ":], rounds", ":], rounds + 1")
ANSWERS.changed("15.4", "always_seed_0", "default_rng(seed)", "default_rng(0)")
ANSWERS.changed("15.4", "no_seed", "default_rng(seed)", "default_rng()")
ANSWERS.changed("15.3", "asks_the_target_for_drafts", "look(draft, guessed",
                "look(target, guessed", like="target_guesses")  # fmt: skip
_note("wrong", "last_five_digits", lambda s, t: _hash(s % 10**5, t))
_note("wrong", "last_nine_digits", lambda s, t: _hash(s % 10**9, t))
_note("wrong", "modulo_a_prime", lambda s, t: _hash(s % (2**31 - 1), t))
_note("wrong", "hash_of_the_seed", lambda s, t: _hash(hash(s), t))
_note("wrong", "moved_on_by_the_seed", lambda s, t: (_hash(t) + s * 618033989 % 10**9 / 1e9) % 1)
ANSWERS.wrongs.append((
    "15.4", None,
    changed(
        changed(drafts.speak, "a_twin_draws_the_drafts", "rng = np.random.default_rng(seed)",
                "rng, twin = np.random.default_rng(seed), np.random.default_rng(seed)"),
        "a_twin_draws_the_drafts", PICK,
        "last = int(np.searchsorted(np.cumsum(q[-1]), twin.random(), 'right').clip(0, 2))",
    ),
))  # fmt: skip
ANSWERS.wrongs.append((
    "15.3", "target_guesses",  # and nothing is mended
    changed(drafts.OBEY_FOUND, "target_for_both", "look(draft, guessed", "look(target, guessed"),
))  # fmt: skip
