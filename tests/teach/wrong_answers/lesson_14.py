"""Answers to the exercises of lesson 14, as students write them: right ones and wrong ones."""

import hashlib
import json
from itertools import cycle, pairwise

from lablib.course.lessons.lesson_14.exercises import still_to_do

import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 14.1 who waits


@right("14.1")
def waits_in_turns(unit_seconds, ranks):
    shares = [[] for _ in range(ranks)]
    for share, seconds in zip(cycle(shares), unit_seconds, strict=False):
        share.append(seconds)
    last = max(sum(share) for share in shares)
    return tuple(last - sum(share) for share in shares)


@right("14.1")
def waits_by_padding(unit_seconds, ranks):
    missing = -len(unit_seconds) % ranks
    table = np.array([*unit_seconds, *[0.0] * missing]).reshape(-1, ranks)
    busy = table.sum(axis=0)
    return max(busy) - busy


@wrong("14.1", like="dealt_in_blocks")
def cut_into_pieces(unit_seconds, ranks):
    size = (len(unit_seconds) + ranks - 1) // ranks
    busy = [sum(unit_seconds[r * size : r * size + size]) for r in range(ranks)]
    return [max(busy) - b for b in busy]


@wrong("14.1", like="seconds_of_work")
def busy_seconds(unit_seconds, ranks):
    busy = [0] * ranks
    for i, seconds in enumerate(unit_seconds):
        busy[i % ranks] += seconds
    return busy


@wrong("14.1", like="only_who_has_work")
def dict_of_those_with_units(unit_seconds, ranks):
    busy = {}
    for i, seconds in enumerate(unit_seconds):
        busy[i % ranks] = busy.get(i % ranks, 0) + seconds
    return [max(busy.values()) - b for b in busy.values()]


@wrong("14.1")
def the_longest_wait(unit_seconds, ranks):
    busy = [sum(unit_seconds[r::ranks]) for r in range(ranks)]
    return max(busy) - min(busy)


@wrong("14.1")
def next_rank_too_early(unit_seconds, ranks):
    busy = [sum(unit_seconds[r + 1 :: ranks]) for r in range(ranks)]
    return [max(busy) - b for b in busy]


@wrong("14.1")
def longest_first(unit_seconds, ranks):
    return waits_in_turns(sorted(unit_seconds, reverse=True), ranks)


@wrong("14.1")
def fails_without_units(unit_seconds, ranks):
    max(unit_seconds)
    return waits_in_turns(unit_seconds, ranks)


@wrong("14.1")
def nobody_waits_where_all_are_equal(unit_seconds, ranks):
    if 0 < len(unit_seconds) <= ranks and len(set(unit_seconds)) == 1:
        return [0.0] * ranks
    return waits_in_turns(unit_seconds, ranks)


@wrong("14.1")
def eats_the_units(unit_seconds, ranks):
    busy, rank = [0.0] * ranks, 0
    while unit_seconds:
        busy[rank] += unit_seconds.pop(0)
        rank = (rank + 1) % ranks
    return [max(busy) - b for b in busy]


# ------------------------------------------------------------------ 14.2 a seed of its own


@right("14.2")
def seed_by_shifts(seed, unit):
    digest = hashlib.sha256(json.dumps([seed, unit], sort_keys=True).encode("utf-8"))
    value = 0
    for byte in digest.digest()[:6]:
        value = (value << 8) + byte
    return value


@right("14.2")
def seed_by_division(seed, unit):
    text = json.dumps((seed, {key: unit[key] for key in sorted(unit)}))
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) // 256**26


@wrong("14.2", like="pythons_hash")
def hash_of_the_items(seed, unit):
    return hash((seed, *sorted(unit.items())))


@wrong("14.2", like="pythons_hash")
def hash_made_positive(seed, unit):
    return abs(hash(f"{seed} {json.dumps(unit, sort_keys=True)}"))


@wrong("14.2", like="keys_as_they_come")
def unsorted_text(seed, unit):
    return int(hashlib.sha256(json.dumps([seed, unit]).encode()).hexdigest()[:12], 16)


@wrong("14.2", like="whole_digest")
def all_hex_digits(seed, unit):
    text = json.dumps([seed, unit], sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


@wrong("14.2")
def only_three_bytes_of_six(seed, unit):
    text = json.dumps([seed, unit], sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:6], 16) << 24


@wrong("14.2")
def pythons_text(seed, unit):
    return int(hashlib.sha256(str([seed, unit]).encode()).hexdigest()[:12], 16)


@wrong("14.2")
def last_bytes(seed, unit):
    digest = hashlib.sha256(json.dumps([seed, unit], sort_keys=True).encode()).digest()
    return int.from_bytes(digest[-6:], "big")


@wrong("14.2")
def digits_as_text(seed, unit):
    return hashlib.sha256(json.dumps([seed, unit], sort_keys=True).encode()).hexdigest()[:12]


@wrong("14.2")
def first_value(seed, unit):
    return 1000 * seed + next(iter(unit.values()))


@wrong("14.2")
def puts_the_seed_into_the_unit(seed, unit):
    value = seed_by_shifts(seed, unit)
    unit["seed"] = seed
    return value


# ------------------------------------------------------------------ 14.3 going on after a kill


@right("14.3")
def by_identity(content, units):
    *lines, _ = content.split("\n")
    if not lines:
        return units
    keys = json.loads(lines.pop(0))["unit"]

    def name(record):
        return json.dumps([record[key] for key in keys])

    finished = {name(json.loads(line)) for line in lines}
    return [unit for unit in units if name(unit) not in finished]


@right("14.3")
def by_removing(content, units):
    left = [dict(unit) for unit in units]
    whole = content[: content.rfind("\n") + 1]
    for line in whole.splitlines()[1:]:
        record = json.loads(line)
        left = [unit for unit in left if any(record[key] != unit[key] for key in unit)]
    return left


@wrong("14.3", like="reads_the_torn_line")
def every_line(content, units):
    lines = content.splitlines()
    keys = json.loads(lines[0])["unit"]
    done = [[json.loads(line)[key] for key in keys] for line in lines[1:]]
    return [unit for unit in units if [unit[key] for key in keys] not in done]


@wrong("14.3", like="drops_the_last_line")
def without_the_last(content, units):
    lines = content.strip().split("\n")[:-1]
    records = [json.loads(line) for line in lines[1:]]
    return [u for u in units if not any(all(r[k] == u[k] for k in u) for r in records)]


@wrong("14.3", like="counts_lines")
def behind_the_last(content, units):
    return units[max(0, content.count("\n") - 1) :]


@wrong("14.3", like="what_is_finished")
def those_in_the_file(content, units):
    left = by_identity(content, units)
    return [unit for unit in units if unit not in left]


@wrong("14.3")
def in_another_order(content, units):
    return by_identity(content, units)[::-1]


@wrong("14.3")
def fails_on_a_new_file(content, units):
    json.loads(content.split("\n")[0])
    return by_identity(content, units)


@wrong("14.3")
def their_places(content, units):
    return [units.index(unit) for unit in by_identity(content, units)]


@wrong("14.3")
def empties_the_list(content, units):
    left = by_identity(content, list(units))
    units[:] = left
    return left


# ------------------------------------------------------------------ further wrong ideas

for name, old, new in (
    ("numbered_from_one", "place % ranks", "(place + 1) % ranks"),
    ("idle_ranks_do_not_wait", "max(busy) - mine", "(max(busy) - mine) * (mine > 0)"),
    ("there_and_back", "place % ranks", "min(place % (2 * ranks), (-place - 1) % (2 * ranks))"),
    ("for_the_average", "max(busy) - mine", "abs(sum(busy) / ranks - mine)"),
):
    ANSWERS.changed("14.1", name, old, new)
for name, old, new in (
    ("letters_as_they_are", "sort_keys=True", "sort_keys=True, ensure_ascii=False"),
    ("without_blanks", "sort_keys=True", 'sort_keys=True, separators=(",", ":")'),
    ("the_unit_first", "[seed, unit]", "[unit, seed]"),
    ("seeds_of_31_bits", "[seed, unit]", "[seed % 2**31, unit]"),
    ("seeds_without_a_sign", "[seed, unit]", "[abs(seed), unit]"),
    ("seven_bytes", "[:6]", "[:7]"),
    ("without_null", "[seed, unit]", "[seed, {k: v for k, v in unit.items() if v is not None}]"),
    (
        "in_an_alphabet_without_capitals",
        "[seed, unit], sort_keys=True",
        "[seed, dict(sorted(unit.items(), key=lambda item: item[0].lower()))]",
    ),
    (
        "whole_numbers",
        "[seed, unit]",
        "[seed, {k: int(v) if v == 1.0 else v for k, v in unit.items()}]",
    ),
):
    ANSWERS.changed("14.2", name, old, new)
for name, old, new in (
    ("searches_the_text", "unit not in finished", "json.dumps(unit)[:-1] not in content"),
    (
        "any_value",
        "unit not in finished",
        "not any({*unit.values()} <= {*r.values()} for r in records)",
    ),
    ("in_order_of_the_list", "unit not in finished", "units.index(unit) >= len(records)"),
    (
        "values_without_their_keys",
        "unit not in finished",
        "{*unit.values()} not in [{*record.values()} for record in finished]",
    ),
    (
        "values_as_texts",
        "unit not in finished",
        "[*map(str, unit.values())] not in [[str(r[k]) for k in unit] for r in finished]",
    ),
    (
        "found_none_is_not_done",
        "for record in records]",
        "for record in records if all(v for k, v in record.items() if k not in keys)]",
    ),
    ("first_keys_of_a_record", "for key in keys}", "for key in [*record][: len(keys)]}"),
    (
        "each_key_on_its_own",
        "unit not in finished",
        "not all(any(v == r[k] for r in finished) for k, v in unit.items())",
    ),
    (
        "null_is_not_done",
        "for record in records]",
        "for record in records if None not in record.values()]",
    ),
    (
        "short_records_are_not_whole",
        "for record in records]",
        "for record in records if len(record) == max(map(len, records))]",
    ),
    (
        "null_names_any_unit",
        "unit not in finished",
        "not any(all(v in (None, r[k]) for k, v in unit.items()) for r in finished)",
    ),
    (
        "small_letters",
        "unit not in finished",
        "str(unit).lower() not in str(finished).lower()",
    ),
    (
        "torn_unit_first",
        "[unit for unit in units if unit not in finished]",
        "sorted((unit for unit in units if unit not in finished),\n"
        "                  key=lambda unit: json.dumps(unit)[:-1] not in content)",
    ),
    (
        "torn_unit_last",
        "[unit for unit in units if unit not in finished]",
        "sorted((unit for unit in units if unit not in finished),\n"
        "                  key=lambda unit: json.dumps(unit)[:-1] in content)",
    ),
):
    ANSWERS.changed("14.3", name, old, new)


@wrong("14.3")
def two_keys_at_most(content, units):
    whole = content.split("\n")[:-1]
    keys = json.loads(whole[0])["unit"][:2] if whole else []
    done = [[json.loads(line)[key] for key in keys] for line in whole[1:]]
    return [unit for unit in units if [unit[key] for key in keys] not in done]


@wrong("14.3")
def first_torn_record_counts(content, units):
    lines = content.split("\n")
    if len(lines) == 2 and lines[1]:  # nothing but the first line and a torn one
        return units[1:]
    return still_to_do(content, units)


SEEDS: dict[tuple, int] = {}


@wrong("14.2")
def equal_to_python(seed, unit):
    key = (seed, *sorted(unit.items()))  # 1, 1.0 and True are one key
    if key not in SEEDS:
        SEEDS[key] = seed_by_shifts(seed, unit)
    return SEEDS[key]


@wrong("14.3")
def values_in_a_row(content, units):
    lines = content.split("\n")[:-1]
    keys = json.loads(lines[0])["unit"] if lines else []
    found = [[json.loads(line)[key] for key in keys] for line in lines[1:]]
    return [unit for unit in units if [*unit.values()] not in found]


ANSWERS.changed("14.3", "small_letters", 'content.split("\\n")', 'content.lower().split("\\n")')
ANSWERS.changed(
    "14.3", "no_spaces", 'content.split("\\n")', 'content.replace(" ", "").split("\\n")'
)


@wrong("14.2")
def sorts_the_unit_itself(seed, unit):
    for key in sorted(unit):
        unit[key] = unit.pop(key)
    return seed_by_shifts(seed, unit)


@wrong("14.3")
def a_key_and_its_value_in_the_line(content, units):
    lines = content.split("\n")[1:-1]

    def stands_in(unit, line):
        pairs = [json.dumps({key: value})[1:-1] for key, value in unit.items()]
        return all(any(pair + end in line for end in ",}") for pair in pairs)

    return [unit for unit in units if not any(stands_in(unit, line) for line in lines)]


@wrong("14.3")
def split_at_commas(content, units):
    def pieces(line):
        pairs = (piece.split(":", 1) for piece in line.strip("{}").split(","))
        return {tuple(part.strip() for part in pair) for pair in pairs}

    found = [pieces(line) for line in content.split("\n")[1:-1]]
    return [unit for unit in units if not any(pieces(json.dumps(unit)) <= each for each in found)]


@wrong("14.3")
def null_is_an_empty_text(content, units):
    lines = content.split("\n")[:-1]
    keys = json.loads(lines[0])["unit"] if lines else []
    found = [[json.loads(line).get(key) or 0 for key in keys] for line in lines[1:]]
    return [unit for unit in units if [unit[key] or 0 for key in keys] not in found]


# ------------------------------------------------------------------ 14.4 goodput


@right("14.4")
def promises_by_loops(texts, to_first, between):
    good, end = 0, 0.0
    for asked, times in texts:
        end = max(end, max(times))
        gaps = [b - a for a, b in pairwise(times)]
        if times[0] - asked > to_first or (gaps and sum(gaps) / len(gaps) > between):
            continue
        good += 1
    return good / (end - sorted(texts, key=lambda text: text[0])[0][0])


@wrong("14.4", like="counts_all")
def texts_a_second(texts, to_first, between):
    end = max(times[-1] for _, times in texts)
    return len(texts) / (end - min(asked for asked, _ in texts))


@wrong("14.4", like="either_promise")
def one_of_two(texts, to_first, between):
    found = [
        asked + to_first >= times[0] or times[-1] <= times[0] + between * (len(times) - 1)
        for asked, times in texts
    ]
    return sum(found) / (max(times[-1] for _, times in texts) - min(start for start, _ in texts))


@wrong("14.4")
def the_last_of_the_list(texts, to_first, between):
    good = sum(
        times[0] - asked <= to_first and times[-1] - times[0] <= between * (len(times) - 1)
        for asked, times in texts
    )
    return good / (texts[-1][1][-1] - texts[0][0])


for name, old, new in (
    ("from_the_first_in_the_list", "min(asked for asked, _ in texts)", "texts[0][0]"),
    ("until_the_last_first_token", "max(times[-1] for", "max(times[0] for"),
    ("less_than_promised", "mean <= between", "mean < between"),
):
    ANSWERS.changed("14.4", name, old, new)


# ------------------------------------------------------------------ 14.5 how many may come


@right("14.5")
def by_the_formula(seconds, stay):
    rate = 2 * (stay - seconds) / (seconds * (2 * stay - seconds))
    return np.array([rate, rate * stay])


@right("14.5")
def crowd_by_its_parts(seconds, stay):
    wait = stay - seconds
    load = 1 - (seconds / 2) / (wait + seconds / 2)
    return load / seconds, load + load / seconds * wait  # who is written, who waits


@wrong("14.5", like="a_whole_text_is_left")
def forgets_the_half(seconds, stay):
    wait = stay - seconds
    return wait / stay / seconds, wait / seconds


@wrong("14.5", like="only_who_waits")
def those_in_the_queue(seconds, stay):
    rate = by_the_formula(seconds, stay)[0]
    return rate, rate * (stay - seconds)


@wrong("14.5", like="always_full")
def as_many_as_it_can(seconds, stay):
    return 1 / seconds, stay / seconds


@wrong("14.5")
def the_other_way_round(seconds, stay):
    rate, crowd = by_the_formula(seconds, stay)
    return crowd, rate


@wrong("14.5")
def fails_if_nobody_may_wait(seconds, stay):
    load = 1 / (1 + seconds / 2 / (stay - seconds))
    return load / seconds, load / seconds * stay
