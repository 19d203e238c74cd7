"""The plan of a bench: measurements, their amount, their models."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lablib.course import tasks
from lablib.models import LanguageModel, llama_config, zoo
from lablib.tools.saving import save

WHAT = ("decode", "speculation", "votes", "async", "best_of_n")
LABLIB, MLX_LM, GENLM, LMXLAB = "lablib", "mlx-lm", "genlm-backend", "lmxlab"
FOREIGN = "lablib, mlx-lm's model"
HEAD = "lablib, with its head"
PEERS = {"async": GENLM, "best_of_n": LMXLAB}  # whose environment has to be named
_VOCABULARY = 8192


@dataclass(frozen=True)
class Plan:
    """The amount of work.

    Attributes:
        turns: that count; one more warms up.
        decode: model -> tokens that are decoded one by one.
        prompt: tokens of their prompt.
        texts: problems of each task that speculation completes,
        most: with at most so many tokens each.
        lengths: drafts a round that each side may choose from; it takes what is best for it.
        voters: models that draw
        rows: samples of one prompt, of
        new: tokens each,
        prompts: after so many tokens.
        particles: (rows, steps, steps between resampling or 0) of callers in step;
        cold: how many callers share a prefix of
        trunk: tokens.
        seed: of the problems and the draws.
    """

    turns: int = 7
    decode: tuple[tuple[str, int], ...] = (("target", 128), ("20M", 64), ("100M", 24))
    prompt: int = 8
    texts: int = 6
    most: int = 64
    lengths: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    voters: tuple[str, ...] = ("target", "20M")
    rows: int = 64
    new: int = 32
    prompts: tuple[int, ...] = (16, 512)
    particles: tuple[tuple[int, int, int], ...] = ((16, 16, 0), (16, 32, 4), (64, 32, 0))
    cold: int = 64
    trunk: int = 64
    seed: int = 23


QUICK = Plan(
    turns=3, decode=(("target", 8),), texts=1, most=12, lengths=(2, 4), voters=("target",), rows=4,
    new=4, prompts=(16,), particles=((4, 4, 2),), cold=4, trunk=16,
)  # fmt: skip


def random_model(name: str) -> LanguageModel:
    """Return a Llama of about 20M or 100M parameters with random weights, the same each time."""
    if name == "20M":
        config = llama_config(_VOCABULARY, 384, 6, 10, d_ff=1024)
    else:  # the shape of SmolLM2-135M, but for its depth and vocabulary
        config = llama_config(_VOCABULARY, 576, 9, 27, 3, d_ff=1536)
    return LanguageModel(config, seed=0)


def prompt_of(length: int) -> list[int]:
    """Return token ids that every model here knows and that don't repeat in a short cycle."""
    return [3 + (7 * i * i + 3 * i) % 500 for i in range(length)]


class Case(NamedTuple):
    """One line of the comparison.

    Attributes:
        what: one of ``WHAT``.
        name: on what.
        runs: label -> (side, its name of the case). The label "forecast" is no side of its own.
        base: label of the side that the others are compared with.
        exact: lablib's name of what all sides must answer, or None where answers are drawn.
        model: the model that it runs.
    """

    what: str
    name: str
    runs: Mapping[str, tuple[str, str]]
    base: str = MLX_LM
    exact: str | None = None
    model: str = "target"


def cases(plan: Plan) -> list[Case]:
    """Return everything that a plan measures."""
    found = []
    for model, _ in plan.decode:
        name = f"decode, {model}"
        runs = {side: (side, name) for side in (LABLIB, MLX_LM)}
        found.append(Case("decode", model, runs, exact=f"{name}, exactly", model=model))
    name = "decode, text"
    runs = {side: (side, name) for side in (LABLIB, MLX_LM)}
    found.append(Case("decode", "target, as text", runs, exact=f"{name}, exactly"))
    for task in tasks.TASKS:
        for temperature in (0, 1):
            name = f"{task}, temperature {temperature}"
            runs = {"forecast": (LABLIB, f"forecast, {name}")}
            for side in (LABLIB, MLX_LM):
                runs |= {side: (side, name), f"{side}, plain": (side, f"plain, {name}")}
            runs[HEAD] = LABLIB, f"head, {name}"
            exact = None if temperature else f"{task}, exactly"
            found.append(Case("speculation", name, runs, exact=exact))
    for model in plan.voters:
        for length in plan.prompts:
            name = f"{model}, prompt of {length}"
            runs = {side: (side, f"votes, {name}") for side in (LABLIB, MLX_LM)}
            found.append(Case("votes", name, runs, model=model))
    names = [f"{plan.cold} cold prompts"]
    for rows, steps, every in plan.particles:
        names.append(f"{rows} particles × {steps}" + f", resampled every {every}" * bool(every))
    for name in names:
        runs = {side: (side, f"async, {name}") for side in (LABLIB, GENLM)}
        runs[FOREIGN] = LABLIB, f"async, {name}, {MLX_LM}"
        found.append(Case("async", name, runs, GENLM))
    runs = {side: (side, "best of n") for side in (LABLIB, LMXLAB)}
    found.append(Case("best_of_n", f"best of {plan.rows}", runs, LMXLAB))
    return found


def settings(plan: Plan, folder: Path, models: Iterable[str]) -> dict[str, Any]:
    """Return what every side is told; those of ``models`` that are random go into ``folder``.

    All sides get the same weights, as directories that mlx-lm opens, and prompts as token ids.
    """
    wanted = dict.fromkeys([*models, "draft", "target"])
    shipped = {name: str(zoo.CHECKPOINTS / name) for name in wanted if name in zoo.names()}
    made = {name: str(folder / name) for name in wanted if name not in shipped}
    for name, path in made.items():
        save(random_model(name), zoo.CHECKPOINTS / "target", path)
    tokenizer = tasks.load_tokenizer()
    texts = {
        name: [tokenizer.encode(each.prompt).ids for each in task.problems(plan.seed, plan.texts)]
        for name, task in tasks.TASKS.items()
    }
    stop = tokenizer.token_to_id("</s>")
    prompts = {str(n): prompt_of(n) for n in (plan.prompt, *plan.prompts, plan.trunk)}
    text = tasks.stories.problems(plan.seed, 1)[0].prompt
    paths = {"models": shipped | made}
    return paths | {
        "plan": asdict(plan), "texts": texts, "stop": stop, "prompts": prompts, "text": text
    }  # fmt: skip
