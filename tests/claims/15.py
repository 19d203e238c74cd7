"""What checks the sentences of lesson 15 · Bug hunts."""

from dataclasses import replace

from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import find
from lablib.course.lessons.lesson_15 import exercises_batch, exercises_drafts, exercises_seeds

# %% after by-hand-answer
weights = chances / np.exp(kept)
claim("Here is what was kept of three tokens.", len(kept) == 3)
claim('None is."', (abs(weights - 1) > 1).all())
claim("Chances that sum to 0.38 are none.", round(float(np.exp(kept).sum()), 2) == 0.38)

# %% after by-hand-walked
sums = [np.exp(each).sum() for each in (log_softmax(scores), kept, log_softmax(scores / 0.5))]
claim(
    "The second line is it: the temperature belongs to the scores, before the softmax.",
    np.allclose(sums[::2], 1) and abs(sums[1] - 1) > 0.5,
)
claim(
    "A test at temperature 1 passes.",
    np.allclose(log_softmax(scores) / 1, log_softmax(scores / 1)),
)

# %% after library-equal
assert sampled([8])[0] == sampled([7, 8])[1] == sampled([9, 7, 8])[2]
assert len(plain) > 5
assert drafted.stats["total_drafted"] > 0

# %% after predict-judged-answer
grid = np.array(judged.kept["a vague one"])
sure = np.array(judged.kept["the target itself"])
with SpeculativeTokenIterator(vague, vague, prompt, rule="match", **options) as iterator:
    with_drafts = [token.id for token in iterator]
claim(
    "The texts are the target's: what must be equal is equal. Only theory sees this bug.",
    with_drafts == [token.id for token in TokenIterator(vague, prompt, **options)]
    and iterator.stats["alpha"] < 0.2,
)
claim("All could: both models want the same.", np.allclose(grid[:, 1], 1))
claim(
    "But two draws from one distribution meet with the chance Σ p² only.",
    np.isclose(grid[10, 0], (softmax(unsure, axis=1) ** 2).sum(axis=1).mean()),
)
claim(
    "At temperature 0 that is 1; for a model that is unsure it falls fast, and at 0.7 hardly any "
    "draft stays.",
    grid[0, 0] == 1 and grid[7, 0] < 0.05,
)
claim(
    "Choose the target itself: a model that is mostly sure hides the bug.",
    sure[10, 0] > 0.7 and sure[10, 1] == 1,
)

# %% after theory-answer
apart = theory[1] - theory[0]
claim("At each place of nine texts we draw drafts from q.", 3 * len(TASKS) == 9)
exact = [
    ((softmax(p, axis=1) * softmax(q, axis=1)).sum(axis=1).mean()),
    np.minimum(softmax(p, axis=1), softmax(q, axis=1)).sum(axis=1).mean(),
]
claim(
    "Two draws should keep Σ p·q of them, min(1, p/q) Σ min(p, q).",
    np.allclose(theory[:, temperatures.index(1.0)], exact),
)
total = len(p) * each
bands = [
    [wilson_interval(round(mean * total), total, level=1 - 1e-6) for mean, _, _ in rows]
    for rows in measured.values()
]
low, high = np.moveaxis(np.array(bands), 2, 0)
claim(
    "Both rules lie on their curves, and the distance grows with the temperature: at 1.5 one draft "
    "in seven is refused that could stay.",
    ((low < theory) & (theory < high)).all()
    and (np.diff(apart) > 0).all()
    and 1 / 8 < apart[-1] < 1 / 6,
)
agree, _ = shares(unsure, unsure, 1.0)
claim(
    "These models are sure of most tokens; of the vague one's drafts nearly all are lost.",
    np.median(softmax(p, axis=1).max(axis=1)) > 0.9 and most - agree > 0.9,
)

# %% after was-15-1
claim(
    "Beside one key with the score −3 it takes 95 % of the weight, beside one with +3 it is 5 %.",
    [round(1 / (1 + np.exp(score)), 2) for score in (-3, 3)] == [0.95, 0.05],
)

# %% after was-15-2
found, right = exercises_batch.WRITE_FOUND, exercises_batch.write
many = np.random.default_rng(0).integers(0, 12, (6, 4)).tolist()
claim(
    "The short way turned as many vectors as one text has heads, and left all others at 0.",
    (found(many[:1], 6) == right(many[:1], 6)).all() and (found(many, 6) != right(many, 6)).any(),
)
claim(
    "A batch of prompts doesn't take the short way; one text has no other vectors.",
    (found(many, 1) == right(many, 1)).all() and (found(many[:1], 9) == right(many[:1], 9)).all(),
)
claim(
    "A test needs both: several texts, one token each.",
    (found(many, 1) == right(many, 1)).all()
    and (found(many[:1], 9) == right(many[:1], 9)).all()
    and (found(many, 9) != right(many, 9)).any(),
)

# %% after was-15-3
found, right = exercises_drafts.OBEY_FOUND, exercises_drafts.obey
assert found("a", 30, 0) == right("a", 30, 0)
assert found("a", 30, 3) != right("a", 30, 3)

# %% after was-15-4
found, right = exercises_drafts.SPEAK_FOUND, exercises_drafts.speak
call = 2000, 3, 2, 1, 11
first = [np.mean(np.array(each(*call)[0])[:, 0] == 1) for each in (found, right)]
claim("The drafter always took its best token.", first[0] > first[1] + 0.2)
claim(
    "Its chance was 1, and was judged as if it were q: the token stays too often.",
    first[0] > first[1] + 0.2,
)
patient = replace(find("15.4"), seconds=100.0)  # a busy machine is no wrong answer
claim(
    "Draw the draft from q, or judge it with a q that is 1 for one token.",
    all(judge(patient, each).correct for each in (right, exercises_drafts.speak_of_one_best)),
)
claim(
    "Either way the texts are the target's; here drawing keeps more than twice as many drafts.",
    right(*call)[1] > 2 * exercises_drafts.speak_of_one_best(*call)[1],
)

# %% after was-15-5
found = exercises_seeds.SERVE_FOUND
claim(
    "A request needs its own, or a hash of its seed and its step, as in lablib: then no neighbour "
    "and no order plays a part.",
    found([(7, 4), (8, 4)], 2)[1] != found([(8, 4)], 1)[0]
    and sampled([8])[0] == sampled([9, 8, 7])[1],
)
starters = [exercises_batch.READ, exercises_batch.WRITE, exercises_drafts.OBEY]
starters += [exercises_drafts.SPEAK, exercises_seeds.SERVE]
starters = [len(each.starter.splitlines()) for each in starters]
claim(
    "You get what a user reported, and some dozens of lines as they were found.",
    len(starters) == 5 and min(starters) >= 24 and max(starters) < 60,
)
claim(
    "None of them raises an error.",
    len(exercises_batch.READ_FOUND([[[3, 1], [2, 4]]], [[2, 1]], 1)) == 2
    and exercises_batch.WRITE_FOUND(many, 9).shape == (6, 9)
    and len(exercises_drafts.OBEY_FOUND("a", 90, 3)[0]) == 90
    and len(exercises_drafts.SPEAK_FOUND(9, 9, 3, 1, 1)[0]) == 9
    and len(found([(seed, 9) for seed in range(9)], 4)) == 9,
)

# %% after summary
claim(
    "Each comparison has its blind spot: one text, a whole prompt, temperature 0 or 1.",
    (exercises_batch.WRITE_FOUND(many[:1], 9) == exercises_batch.write(many[:1], 9)).all()
    and (exercises_batch.WRITE_FOUND(many, 1) == exercises_batch.write(many, 1)).all()
    and exercises_drafts.SPEAK_FOUND(9, 9, 3, 0, 1) == exercises_drafts.speak(9, 9, 3, 0, 1)
    and np.allclose(log_softmax(scores) / 1, log_softmax(scores / 1)),
)
