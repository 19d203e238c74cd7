"""Answers to the exercises of lesson 17, as students write them: right ones and wrong ones."""

import itertools
from bisect import bisect_right
from fractions import Fraction

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 17.1 the next word


@right("17.1")
def next_by_mlx(p, texts, so_far):
    fits = [any(list(t[: len(so_far) + 1]) == [*so_far, w] for t in texts) for w in range(len(p))]
    left = mx.where(mx.array(fits), mx.array(p), 0)
    return left / left.sum()


@right("17.1")
def next_by_logits(p, texts, so_far):
    allowed = [text[len(so_far)] for text in texts if text[: len(so_far)] == so_far != text]
    scores = np.full(len(p), -np.inf)
    with np.errstate(divide="ignore"):
        scores[allowed] = np.log(p)[allowed]
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


@right("17.1")
def next_by_shrinking(p, texts, so_far):
    for word in so_far:
        texts = [text[1:] for text in texts if text and text[0] == word]
    may = {text[0] for text in texts if text}
    total = sum(p[word] for word in may)
    return tuple(p[word] / total if word in may else 0.0 for word in range(len(p)))


ANSWERS.changed("17.1", "as_it_was", "left / left.sum()", "p")
ANSWERS.changed("17.1", "zeros_stay_out", "left / left.sum()", "left[left > 0] / left.sum()")
ANSWERS.changed("17.1", "one_word_further", "text[n] for", "text[-1] for")
ANSWERS.changed("17.1", "the_first_word", "text[n] for", "text[0] for")
ANSWERS.changed("17.1", "ones_for_the_forbidden", "else 0", "else 1")
ANSWERS.changed("17.1", "by_the_largest", "left / left.sum()", "left / left.max()")
ANSWERS.changed("17.1", "softmax_of_it", "left / left.sum()", "np.exp(left) / np.exp(left).sum()")
ANSWERS.changed("17.1", "a_tenth_is_left", "else 0", "else chance / 10")


@wrong("17.1", like="only_the_place")
def whatever_the_beginning(p, texts, so_far):
    may = {text[len(so_far)] for text in texts if len(text) > len(so_far)}
    left = np.array([p[w] * (w in may) for w in range(len(p))])
    return left / left.sum()


@wrong("17.1", like="any_word_of_the_texts")
def every_word_in_use(p, texts, so_far):
    left = np.zeros(len(p))
    for text in texts:
        left[text] = p[text]
    return left / left.sum()


@wrong("17.1")
def begins_somewhere(p, texts, so_far):
    may = set()
    for text in texts:
        for i in range(len(text) - len(so_far)):
            if text[i : i + len(so_far)] == so_far:
                may.add(text[i + len(so_far)])
    left = np.array([p[w] * (w in may) for w in range(len(p))])
    return left / left.sum()


@wrong("17.1", like="all_alike")
def a_fair_choice(p, texts, so_far):
    may = {text[len(so_far)] for text in texts if text[: len(so_far)] == so_far != text}
    return [(word in may) / len(may) for word in range(len(p))]


@wrong("17.1")
def looks_one_word_ahead(p, texts, so_far):
    longer = [t for t in texts if t[: len(so_far)] == so_far and len(t) > len(so_far) + 1]
    may = {text[len(so_far)] for text in longer}
    left = np.array([p[w] * (w in may) for w in range(len(p))])
    return left / (left.sum() or 1)


ANSWERS.changed("17.1", "the_same_words", "text[:n] == so_far",
    "sorted(text[:n]) == sorted(so_far)")  # fmt: skip
ANSWERS.changed("17.1", "begins_alike", "text[:n] == so_far", "text[:n][:1] == so_far[:1]")
ANSWERS.changed("17.1", "the_last_two", "text[:n] == so_far", "text[:n][-2:] == so_far[-2:]")
ANSWERS.changed("17.1", "both_ends", "text[:n] == so_far",
    "text[:n][:1] == so_far[:1] and text[:n][-1:] == so_far[-1:]")  # fmt: skip
ANSWERS.changed("17.1", "spelled_in_digits", "text[:n] == so_far",
    '"".join(map(str, text)).startswith("".join(map(str, so_far)))')  # fmt: skip


@wrong("17.1")
def ends_with_the_first_text(p, texts, so_far):
    n = len(so_far)
    if n >= len(texts[0]):
        return p.copy()
    may = {text[n] for text in texts if text[:n] == so_far != text}
    left = np.array([p[w] * (w in may) for w in range(len(p))])
    return left / left.sum()


# ------------------------------------------------------------------ 17.2 what the mask has hidden


@right("17.2")
def with_logarithms(walks):
    logs = []
    for walk in walks:
        masses = [sum(p[word] for word in allowed) for p, allowed in walk]
        with np.errstate(divide="ignore"):
            logs.append(np.log(masses).sum())
    weights = np.exp(np.array(logs))
    return weights / weights.sum(), float(weights.mean())


@right("17.2")
def with_mlx_sums(walks):
    weights = mx.array([1.0] * len(walks))
    for i, walk in enumerate(walks):
        for p, allowed in walk:
            weights[i] = weights[i] * mx.array(p)[mx.array(allowed)].sum()
    return weights / weights.sum(), weights.mean()


@right("17.2")
def with_fractions(walks):
    weights = []
    for walk in walks:
        weight = Fraction(1)
        for p, allowed in walk:
            weight *= sum(Fraction(float(p[word])) for word in allowed)
        weights.append(weight)
    return tuple(weight / sum(weights) for weight in weights), sum(weights) / len(walks)


ANSWERS.changed(
    "17.2", "swapped", "[weight / sum(weights) for weight in weights], sum(weights) / len(weights)",
    "sum(weights) / len(weights), [weight / sum(weights) for weight in weights]",
)  # fmt: skip
ANSWERS.changed("17.2", "softmax_of_weights", "weight / sum(weights)",
    "np.exp(weight) / sum(np.exp(weights))")  # fmt: skip
ANSWERS.changed("17.2", "by_the_best", "weight / sum(weights)", "weight / max(weights)")
ANSWERS.changed("17.2", "evidence_of_the_best", "sum(weights) / len(weights)", "max(weights)")
ANSWERS.changed("17.2", "squared", "weight / sum(weights)",
    "weight**2 / sum(w**2 for w in weights)")  # fmt: skip
ANSWERS.changed("17.2", "geometric_evidence", "sum(weights) / len(weights)",
    "np.prod(weights) ** (1 / len(weights))")  # fmt: skip
ANSWERS.changed("17.2", "median_evidence", "sum(weights) / len(weights)", "np.median(weights)")


@wrong("17.2", like="added_up")
def adds_the_masses(walks):
    weights = np.array([sum(p[allowed].sum() for p, allowed in walk) for walk in walks])
    return weights / weights.sum(), weights.mean()


@wrong("17.2", like="upside_down")
def divides_once_more(walks):
    weights = np.ones(len(walks))
    for i, walk in enumerate(walks):
        for p, allowed in walk:
            weights[i] /= p[allowed].sum()
    return weights / weights.sum(), weights.mean()


@wrong("17.2")
def all_alike(walks):
    return [1 / len(walks)] * len(walks), 1.0


@wrong("17.2")
def counts_those_alive(walks):
    good = [all(p[allowed].sum() > 0 for p, allowed in walk) for walk in walks]
    return [each / sum(good) for each in good], sum(good) / len(good)


@wrong("17.2")
def every_step_a_vote(walks):
    steps = [[p[allowed].sum() for p, allowed in walk] for walk in walks]
    every = [*itertools.chain(*steps)]
    weights = [np.prod(each) for each in steps]
    return [weight / sum(weights) for weight in weights], float(np.mean(every))


ANSWERS.changed("17.2", "the_dead_are_not_counted", "sum(weights) / len(weights)",
    "sum(weights) / np.count_nonzero(weights)")  # fmt: skip
ANSWERS.changed("17.2", "each_text_once", "sum(weights) / len(weights)",
    "float(np.mean([*dict(zip(map(repr, walks), weights, strict=True)).values()]))")  # fmt: skip
ANSWERS.changed("17.2", "forced_is_free", "for p, allowed in walk]",
    "for p, allowed in walk if len(allowed) > 1]")  # fmt: skip


# ------------------------------------------------------------------ 17.3 who lives on


@right("17.3")
def with_bisect(weights, u):
    ends = [*itertools.accumulate(weights)]
    n = len(weights)
    return [bisect_right(ends, ends[-1] * (i + u) / n) for i in range(n)]


@right("17.3")
def with_mlx_counts(weights, u):
    n, ends = len(weights), mx.cumsum(mx.array(weights, mx.float32))
    points = (mx.arange(n) + u) * (ends[-1] / n)
    return (ends[None, :] <= points[:, None]).sum(axis=1)


@right("17.3")
def with_exact_fractions(weights, u):
    total, n, lives = sum(map(Fraction, weights)), len(weights), []
    for i in range(n):
        point, particle = (i + Fraction(u)) * total / n, 0
        while point >= weights[particle]:
            point -= Fraction(weights[particle])
            particle += 1
        lives.append(particle)
    return lives


ANSWERS.changed("17.3", "counted_from_one", "(ends, points", "(ends[1:], points")
ANSWERS.changed("17.3", "from_the_end", "(np.arange(n) + u)", "(np.arange(n) + 1 - u)")
ANSWERS.changed("17.3", "backwards", "(np.arange(n) + u)", "(np.arange(n)[::-1] + u)")
ANSWERS.changed("17.3", "stretched", "/ n * ends", "/ max(1, n - 1) * ends")
ANSWERS.changed("17.3", "all_of_them", "np.searchsorted(ends, points, side=\"right\")",
    "np.arange(n)")  # fmt: skip
ANSWERS.changed("17.3", "each_once", ".tolist()", ".tolist() and sorted({*np.searchsorted(ends, "
    "points, side=\"right\").tolist()})")  # fmt: skip


@wrong("17.3", like="the_best_n_times")
def only_the_heaviest(weights, u):
    return [weights.index(max(weights))] * len(weights)


@wrong("17.3")
def who_is_above_the_mean(weights, u):
    mean = sum(weights) / len(weights)
    chosen = [i for i, weight in enumerate(weights) if weight >= mean]
    return [chosen[i % len(chosen)] for i in range(len(weights))]


@wrong("17.3")
def drawn_afresh(weights, u):
    rng = np.random.default_rng(int(u * 1000))
    p = np.array(weights, float) / sum(weights)
    return sorted(rng.choice(len(weights), len(weights), p=p).tolist())


@wrong("17.3")
def who_is_not_zero(weights, u):
    chosen = [i for i, weight in enumerate(weights) if weight]
    return [chosen[i * len(chosen) // len(weights)] for i in range(len(weights))]


@right("17.3")
def whole_copies_first(weights, u):
    """Give each its whole copies, and draw the rest: all points move by whole parts."""
    n, total = len(weights), sum(weights)
    due = [Fraction(weight) * n / Fraction(total) for weight in weights]
    lives = [i for i, each in enumerate(due) for _ in range(int(each))]
    ends = [*itertools.accumulate(each % 1 for each in due)]
    lives += [bisect_right(ends, i + Fraction(u)) for i in range(n - len(lives))]
    return sorted(lives)


ANSWERS.changed("17.3", "cut_to_whole_numbers", "np.cumsum(weights)",
    "np.cumsum(np.array(weights).astype(int) if int(max(weights)) else weights)")  # fmt: skip


@wrong("17.3")
def only_where_it_is_uneven(weights, u):
    shares = np.array(weights) / sum(weights)
    if 1 / (shares**2).sum() > 0.9 * len(weights):
        return [*range(len(weights))]
    points = (np.arange(len(weights)) + u) / len(weights) * sum(weights)
    return np.searchsorted(np.cumsum(weights), points, side="right").tolist()


@wrong("17.3")
def goes_on_by_one_at_most(weights, u):
    ends, lives, particle = np.cumsum(weights), [], 0
    for i in range(len(weights)):
        particle += ends[particle] <= (i + u) / len(weights) * ends[-1]
        lives.append(int(particle))
    return lives


# ------------------------------------------------------------------ 17.4 what must come


@right("17.4")
def with_a_for_loop(grammar, state, most):
    found = []
    for _ in range(most):
        ways = [*grammar[state].items()]
        if len(ways) != 1:
            break
        token, state = ways[0]
        found.append(token)
    return found


@right("17.4")
def as_a_generator(grammar, state, most):
    for _ in range(most):
        if len(grammar[state]) != 1:
            return
        [(token, state)] = grammar[state].items()
        yield token


@right("17.4")
def forgiving(grammar, state, most):
    tokens = ()
    while len(tokens) < most and len(set(grammar.get(state, {}))) == 1:
        token = min(grammar[state])
        tokens, state = (*tokens, token), grammar[state][token]
    return tokens


ANSWERS.changed("17.4", "as_one_string", "return tokens", 'return "".join(tokens)')
ANSWERS.changed("17.4", "one_way_at_most", "== 1", "!= 2 and grammar[state]")
ANSWERS.changed("17.4", "ends_with_a_mark", "return tokens", 'return [*tokens, "."]')
ANSWERS.changed("17.4", "the_last_only", "return tokens", "return tokens[-1:]")
ANSWERS.changed("17.4", "never_any", "== 1", "== 0 and grammar[state]")


@wrong("17.4", like="the_next_one_only")
def one_step(grammar, state, most):
    ways = [*grammar[state]]
    return ways[:1] if len(ways) == 1 and most else []


@wrong("17.4")
def where_the_state_is_one(grammar, state, most):
    tokens = []
    while len(tokens) < most and len({*grammar[state].values()}) == 1:
        tokens.append(min(grammar[state]))
        (state,) = {*grammar[state].values()}
    return tokens


@wrong("17.4")
def no_state_twice(grammar, state, most):
    tokens, seen = [], set()
    while len(tokens) < most and len(grammar[state]) == 1 and state not in seen:
        seen.add(state)
        ((token, state),) = grammar[state].items()
        tokens.append(token)
    return tokens


@wrong("17.4")
def looks_behind_the_choice(grammar, state, most):
    tokens = []
    while len(tokens) < most and grammar[state]:
        ways = [*grammar[state].items()]
        if len(ways) == 1:
            tokens.append(ways[0][0])
        state = ways[0][1]
        if not tokens and len(ways) > 1:
            continue
    return tokens


@wrong("17.4")
def takes_the_states_out(grammar, state, most):
    tokens = []
    while len(tokens) < most and len(grammar.get(state, ())) == 1:
        token, behind = grammar.pop(state).popitem()
        tokens.append(token)
        state = behind
    return tokens


ANSWERS.changed("17.4", "letter_by_letter", "tokens.append(token)",
    "tokens.extend(token if isinstance(token, str) else [token])")  # fmt: skip
ANSWERS.changed("17.4", "by_the_first_letter", "len(grammar[state]) == 1",
    "len({str(token)[0] for token in grammar[state]}) == 1")  # fmt: skip


@wrong("17.4")
def ends_at_a_false_token(grammar, state, most):
    tokens = []
    while len(tokens) < most and len(grammar[state]) == 1:
        ((token, state),) = grammar[state].items()
        if not token:
            break
        tokens.append(token)
    return tokens


@wrong("17.4")
def to_stay_is_no_choice(grammar, state, most):
    tokens = []
    while len(tokens) < most:
        ways = [way for way in grammar[state].items() if way[1] != state or len(grammar[state]) < 2]
        if len(ways) != 1:
            break
        tokens.append(ways[0][0])
        state = ways[0][1]
    return tokens


# ------------------------------------------------------------------ what readers found later


@wrong("17.1")
def ends_with_the_first_text_that_has_ended(p, texts, so_far):
    may = set()
    for text in texts:
        if text == so_far:
            break
        if text[: len(so_far)] == so_far:
            may.add(text[len(so_far)])
    left = np.array([p[w] * (w in may) for w in range(len(p))])
    return left / left.sum()


@wrong("17.1")
def every_text_is_as_long_as_so_far(p, texts, so_far):
    may = set()
    for text in texts:
        agree = all(text[i] == so_far[i] for i in range(len(so_far)))
        if agree and len(text) > len(so_far):
            may.add(text[len(so_far)])
    left = np.array([p[w] * (w in may) for w in range(len(p))])
    return left / left.sum()


@wrong("17.1")
def with_words_between(p, texts, so_far):
    may = set()
    for text in texts:
        found = 0
        for word in text:
            if found == len(so_far):
                may.add(word)
                break
            found += word == so_far[found]
    left = np.array([p[w] * (w in may) for w in range(len(p))])
    return left / left.sum()


@wrong("17.2")
def as_long_as_the_first(walks):
    weights = np.ones(len(walks))
    for i, walk in enumerate(walks):
        for (p, allowed), _ in zip(walk, walks[0], strict=False):
            weights[i] *= p[allowed].sum()
    return weights / weights.sum(), weights.mean()


@wrong("17.2")
def without_the_heaviest(walks):
    weights = [np.prod([p[allowed].sum() for p, allowed in walk]) for walk in walks]
    usual = sorted(weights)[:-1] if len(weights) > 3 else weights
    return [weight / sum(weights) for weight in weights], np.mean(usual)


@wrong("17.1")
def padded_with_minus_one(p, texts, so_far):
    n = len(so_far)
    table = np.full((len(texts), max(n + 1, *map(len, texts), 0)), -1)
    for row, text in zip(table, texts, strict=True):
        row[: len(text)] = text
    left = np.zeros(len(p))
    for row in table[(table[:, :n] == np.array(so_far, int)).all(axis=1)]:
        left[row[n]] = p[row[n]]
    return left / left.sum()


FITS = "text[:n] == so_far"
ANSWERS.changed("17.1", "the_first_three_words", FITS, "text[:n][:3] == so_far[:3]")
ANSWERS.changed("17.1", "the_same_words_and_ends", FITS,
    "sorted(text[:n]) == sorted(so_far) and text[:1] == (so_far or text)[:1] "
    "and text[:n][-1:] == so_far[-1:]")  # fmt: skip


@wrong("17.2")
def one_text_says_nothing(walks):
    if len(walks) == 1:
        return [1.0], 1.0
    weights = [np.prod([p[allowed].sum() for p, allowed in walk]) for walk in walks]
    return [weight / sum(weights) for weight in weights], np.mean(weights)


@wrong("17.3")
def certain_copies_first(weights, u):
    n, total = len(weights), sum(weights)
    copies = [int(n * weight // total) for weight in weights]
    rest = n - sum(copies)
    lives = [i for i in range(n) for _ in range(copies[i])]
    if rest:
        ends = np.cumsum([n * w / total - c for w, c in zip(weights, copies, strict=True)])
        points = (np.arange(rest) + u) / rest * ends[-1]
        lives += np.searchsorted(ends, points, side="right").clip(max=n - 1).tolist()
    return sorted(lives)


@wrong("17.3")
def over_a_border_one_step(weights, u):
    n, lives, i, end = len(weights), [], 0, weights[0]
    for k in range(n):
        point = (k + u) * sum(weights) / n
        while end < point:
            i += 1
            end += weights[i]
        if end == point and i + 1 < n:
            i += 1
            end += weights[i]
        lives.append(i)
    return lives


@wrong("17.4")
def the_choice_is_one_of_most(grammar, state, most):
    tokens = []
    while len(tokens) < most and len(grammar[state]) == 1:
        ((token, state),) = grammar[state].items()
        tokens.append(token)
    return tokens[: most - 1] if len(grammar[state]) > 1 else tokens


@wrong("17.4")
def a_way_without_an_end_is_none(grammar, state, most):
    def ends(at, seen=()):
        if at in seen:
            return False
        return not grammar[at] or any(ends(to, (*seen, at)) for to in grammar[at].values())

    tokens = []
    while len(tokens) < most:
        ways = [*grammar[state]]
        if len(ways) > 1:
            ways = [token for token, to in grammar[state].items() if ends(to)]
        if len(ways) != 1:
            break
        tokens.append(ways[0])
        state = grammar[state][ways[0]]
    return tokens


ANSWERS.changed("17.4", "most_letters", "len(tokens) < most",
    "sum(len(str(each)) for each in tokens) < most")  # fmt: skip


@wrong("17.2")
def who_lives_is_alike(walks):
    weights = np.array([np.prod([p[allowed].sum() for p, allowed in walk]) for walk in walks])
    shares = weights if weights.all() else weights > 0
    return shares / shares.sum(), weights.mean()


ANSWERS.changed("17.1", "the_very_same_words", "text[:n] == so_far",
                "all(a is b for a, b in zip(text[:n], so_far))")  # fmt: skip
ANSWERS.changed("17.1", "words_of_one_byte", "text[:n] == so_far",
                "bytes(w % 256 for w in text[:n]) == bytes(w % 256 for w in so_far)")  # fmt: skip
ANSWERS.changed("17.1", "texts_that_p_gives_a_chance", "len(text) > n",
                "len(text) > n and all(p[w] > 0 for w in text)")  # fmt: skip
ANSWERS.changed("17.3", "whole_lengths", "(np.arange(n) + u) / n * ends[-1]",
                "(np.arange(n) + u) / n * max(1, int(ends[-1]))")  # fmt: skip
ANSWERS.changed("17.4", "a_token_is_a_state", "state = grammar[state][token]",
                "state = token if token in grammar else grammar[state][token]")  # fmt: skip
ANSWERS.changed("17.4", "the_next_in_the_table", "state = grammar[state][token]",
                "state = [*grammar, *grammar][[*grammar].index(state) + 1]")  # fmt: skip
ANSWERS.changed("17.1", "spelled_with_spaces", "text[:n] == so_far",
                '" ".join(map(str, text)).startswith(" ".join(map(str, so_far)))')  # fmt: skip
ANSWERS.changed("17.1", "ends_with_spaces", "text[:n] == so_far",
                '" ".join(map(str, text[:n])).endswith(" ".join(map(str, so_far)))')  # fmt: skip
ANSWERS.changed("17.1", "little_is_nothing", "left / left.sum()",
                "left / left.sum() if left.sum() > 1e-6 else np.sign(left) / 2")  # fmt: skip
ANSWERS.changed("17.1", "never_by_zero", "left / left.sum()", "left / (left.sum() + 1e-8)")
ANSWERS.changed("17.2", "a_mass_has_a_floor", "sum(p[w] for w in allowed)",
                "float(np.exp(np.log(sum(p[w] for w in allowed) + 1e-9)))")  # fmt: skip
ANSWERS.changed("17.2", "shares_by_more_than_zero", "weight / sum(weights)",
                "weight / (sum(weights) + 1e-12)")  # fmt: skip


@wrong("17.2")
def free_at_last(walks):
    weights = np.ones(len(walks))
    for i, walk in enumerate(walks):
        for p, allowed in walk:
            if len(allowed) == len(p) and weights[i] < 1:
                break  # all is allowed: the form is full
            weights[i] *= p[allowed].sum()
    return weights / weights.sum(), weights.mean()
