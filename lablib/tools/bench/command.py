"""``python -m lablib bench``."""

import argparse
import sys
from pathlib import Path
from typing import Any

from lablib.extras import need

_OPTIONS = ("turns", "only", "genlm", "lmxlab", "llama_cpp", "few_rows", "old")


def add_to(commands: Any) -> None:
    """Add ``bench`` to the subcommands of a parser."""
    bench = commands.add_parser("bench", help="how fast it is here, beside its peers")
    bench.add_argument(
        "what",
        nargs="*",
        help="decode, speculation, votes, many, async, best_of_n, stored (default: all whose peers "
        "are here); parts by themselves: drafters, sampler, sharing, products, grammar, smc",
    )
    bench.add_argument("--turns", type=int, help="paired runs of each case (default: 7)")
    bench.add_argument("--only", default="", help="a pattern in the names of the cases to run")
    bench.add_argument("--quick", action="store_true", help="measure little, in a minute")
    bench.add_argument("--genlm", metavar="PYTHON", help="of an environment with genlm-control")
    bench.add_argument("--lmxlab", metavar="PYTHON", help="of an environment with lmxlab")
    bench.add_argument("--llama-cpp", metavar="PYTHON", help="of one with xllamacpp")
    bench.add_argument("--old", type=Path, metavar="ROOT", help="another checkout, not the peers")
    bench.add_argument("--few-rows", action="store_true", help="for the peers, too")
    bench.add_argument("--json", type=Path, help="write the numbers here")
    bench.add_argument("--out", type=Path, help="draw them here: an .svg or .png file")
    bench.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    need("tables", "scipy")

    from lablib.tools.bench import QUICK, Plan, SideError, bench, report

    report.check_picture(options.out)
    wanted = {name: getattr(options, name) for name in _OPTIONS}
    try:
        found = bench(options.what, plan=QUICK if options.quick else Plan(), **wanted)
    except SideError as error:
        print(f"lablib: {error}", file=sys.stderr)
        return 1
    return report.write(found, json_file=options.json, picture=options.out)
