"""The plan of a bench: measurements, their amount, their models."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lablib.course import tasks
from lablib.models import LanguageModel, llama_config, zoo
from lablib.models.files import CODES
from lablib.tools.saving import save

# Beside other engines.
WHAT = ("decode", "speculation", "votes", "many", "async", "best_of_n", "stored")
# Parts of lablib beside a plainer way, and particles beside a peer's: only if asked for by name.
PARTS = ("drafters", "sampler", "sharing", "products", "grammar", "smc")
LABLIB, MLX_LM, GENLM, LMXLAB = "lablib", "mlx-lm", "genlm-backend", "lmxlab"
LLAMA_CPP = "llama_cpp"
OLD = "the old checkout"
NO_FEW_ROWS = "lablib, OpenBLAS alone"
FOREIGN = "lablib, mlx-lm's model"
HEAD = "lablib, with its head"
# Whose environment has to be named.
PEERS = {"async": GENLM, "smc": GENLM, "best_of_n": LMXLAB, "stored": LLAMA_CPP}
PLAIN = "no drafts"
QUEUE = {"n": 8, "max_tokens": 32, "rows": 32}
SMC = {"n": 64, "max_tokens": 32, "ess": 0.5, "cost": 0.5}
_PENALTIES = {"repeat_penalty": 1.2, "presence_penalty": 0.1, "frequency_penalty": 0.1}
_CUTS = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05}
SAMPLERS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "temperature": {"temperature": 0.8},
    **{name: {"temperature": 0.8, name: _CUTS[name]} for name in ("min_p", "top_k", "top_p")},
    "penalties": {"temperature": 0.8} | _PENALTIES,
    "every cut": _CUTS,
    "everything": _CUTS | _PENALTIES,
}
# Columns and depth of the weights of the shipped target and of a model of 100M parameters.
SHAPES = [(448, 192), (192, 448), (1024, 384), (576, 576), (1536, 576), (576, 1536)]
GRAMMARS: dict[str, dict[str, Any]] = {
    "a date": {"regex": "[0-9]{4}-[0-9]{2}-[0-9]{2}"},
    "any letters": {"regex": "[a-z ]*"},
    "sums in brackets": {
        "lark": 'start: term | start "+" term\nterm: /[0-9]+/ | "(" start ")"',
    },
}
MASKS = ("masked", "mask alone", "free")
_VOCABULARY = 8192


def drafters(temperature: int) -> list[str]:
    """Return the kinds of drafts that are compared, rules among them where they differ."""
    rules = ["match", "rejection", "block"] if temperature else []
    return ["draft", "head", "trained block", "look-up", "early exit", "tree", *rules]


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
        stored: tokens that a GGUF file's model writes; it reads the ``prompts``, too.
        queue: prompts of 16 to 512 tokens that are completed eight times each, 32 rows at a time.
        sampler: (rows, vocabulary) of a sampler's step.
        sharing: (rows, tokens of the prompt) of texts that share it or hold it each.
        products: rows that are multiplied with the weights of models.
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
    stored: int = 64
    queue: int = 25
    sampler: tuple[tuple[int, int], ...] = ((1, 512), (64, 512), (1, 32_000), (64, 32_000))
    sharing: tuple[tuple[int, int], ...] = ((2, 768), (4, 768), (8, 64), (16, 64), (64, 256))
    products: tuple[int, ...] = (1, 2, 4, 8, 16)
    seed: int = 23


QUICK = Plan(
    turns=3, decode=(("target", 8),), texts=1, most=12, lengths=(2, 4), voters=("target",), rows=4,
    new=4, prompts=(16,), particles=((4, 4, 2),), cold=4, trunk=16, stored=4, queue=2,
    sampler=((1, 512), (4, 512)), sharing=((4, 64),), products=(1,),
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
        what: one of ``WHAT`` or ``PARTS``.
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
    return [*_one_text(plan), *_many_texts(plan), *_parts(plan)]


def against(cases: Iterable[Case]) -> list[Case]:
    """Return the cases with lablib's runs alone, each beside the old checkout's."""
    found = []
    for case in cases:
        for label, (side, name) in case.runs.items():
            if side == LABLIB and label != "forecast":
                told = case.name if label == LABLIB else f"{case.name}: {label}"
                runs = {LABLIB: (LABLIB, name), OLD: (OLD, name)}
                found.append(case._replace(name=told, runs=runs, base=OLD))
    return found


def _one_text(plan: Plan) -> Iterator[Case]:
    for model, _ in plan.decode:
        name = f"decode, {model}"
        runs = {side: (side, name) for side in (LABLIB, MLX_LM)}
        runs[FOREIGN] = LABLIB, f"{name}, {MLX_LM}"
        yield Case("decode", model, runs, exact=f"{name}, exactly", model=model)
    name = "decode, text"
    runs = {side: (side, name) for side in (LABLIB, MLX_LM)}
    yield Case("decode", "target, as text", runs, exact=f"{name}, exactly")
    for task in tasks.TASKS:
        for temperature in (0, 1):
            name = f"{task}, temperature {temperature}"
            runs = {"forecast": (LABLIB, f"forecast, {name}")}
            for side in (LABLIB, MLX_LM):
                runs |= {side: (side, name), f"{side}, plain": (side, f"plain, {name}")}
            runs[HEAD] = LABLIB, f"head, {name}"
            exact = None if temperature else f"{task}, exactly"
            yield Case("speculation", name, runs, exact=exact)


def _many_texts(plan: Plan) -> Iterator[Case]:
    for model in plan.voters:
        for length in plan.prompts:
            name = f"{model}, prompt of {length}"
            runs = {side: (side, f"votes, {name}") for side in (LABLIB, MLX_LM)}
            yield Case("votes", name, runs, model=model)
    runs = {side: (side, "many") for side in (LABLIB, MLX_LM)}
    yield Case("many", f"{plan.queue} prompts × {QUEUE['n']}", runs)
    names = [f"{plan.cold} cold prompts"]
    for rows, steps, every in plan.particles:
        names.append(f"{rows} particles × {steps}" + f", resampled every {every}" * bool(every))
    for name in names:
        runs = {side: (side, f"async, {name}") for side in (LABLIB, GENLM)}
        runs[FOREIGN] = LABLIB, f"async, {name}, {MLX_LM}"
        yield Case("async", name, runs, GENLM)
    runs = {side: (side, "best of n") for side in (LABLIB, LMXLAB)}
    yield Case("best_of_n", f"best of {plan.rows}", runs, LMXLAB)
    for name in ("decode", *(f"prompt of {length}" for length in plan.prompts)):
        runs = {side: (side, f"stored, {name}") for side in (LABLIB, LLAMA_CPP)}
        yield Case("stored", f"SmolLM2, {name}", runs, LLAMA_CPP)


def _parts(plan: Plan) -> Iterator[Case]:
    for task in tasks.TASKS:
        for temperature in (0, 1):
            name = f"{task}, temperature {temperature}"
            runs = {PLAIN: (LABLIB, f"plain, {name}")}
            runs |= {kind: (LABLIB, f"drafts, {kind}, {name}") for kind in drafters(temperature)}
            exact = None if temperature else f"{task}, exactly"
            yield Case("drafters", name, runs, PLAIN, exact)
    for rows, size in plan.sampler:
        for kind in SAMPLERS:
            name = f"{rows} × {size}, {kind}"
            runs = {LABLIB: (LABLIB, f"sampler, {name}")}
            if "repeat_penalty" not in SAMPLERS[kind]:  # mlx-lm has them as logits processors
                runs[MLX_LM] = MLX_LM, f"sampler, {name}"
            yield Case("sampler", name, runs, MLX_LM if MLX_LM in runs else LABLIB)
        if rows > 1:
            name, loop = f"{rows} × {size}, mixed", "row by row"
            runs = {label: (LABLIB, f"sampler, {name}, {label}") for label in (LABLIB, loop)}
            yield Case("sampler", name, runs, loop)
    for rows, length in plan.sharing:
        name, each = f"{rows} rows, prompt of {length}", "each its own"
        runs = {label: (LABLIB, f"sharing, {name}, {label}") for label in ("shared", each)}
        yield Case("sharing", name, runs, each)
    for columns, depth in SHAPES:
        for rows in plan.products:
            name = f"{rows} × {depth} × {columns}"
            runs = {side: (side, f"products, {name}") for side in (LABLIB, NO_FEW_ROWS)}
            yield Case("products", name, runs, NO_FEW_ROWS)
    for name in GRAMMARS:
        runs = {label: (LABLIB, f"grammar, {name}, {label}") for label in MASKS}
        yield Case("grammar", name, runs, "free")
    runs = {side: (side, "smc") for side in (LABLIB, GENLM)}
    yield Case("smc", f"{SMC['n']} particles × {SMC['max_tokens']}", runs, GENLM)


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
    stories = " ".join(each.prompt + each.answer for each in tasks.stories.problems(5, 400))
    prompts = {str(n): prompt_of(n) for n in (plan.prompt, *plan.prompts, plan.trunk)}
    text = tasks.stories.problems(plan.seed, 1)[0].prompt
    paths: dict[str, Any] = {"models": shipped | made, "file": None}
    if (real := zoo.fetched("smollm2")) is not None and (real / CODES).is_file():
        paths["file"] = str(real / CODES)
    return paths | {
        "plan": asdict(plan), "texts": texts, "stop": stop, "prompts": prompts, "text": text,
        "stories": tokenizer.encode(stories).ids, "queue": QUEUE, "smc": SMC,
    }  # fmt: skip
