"""The product with stored weights: within its bound, as defined, a row the same in any company."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import lablib  # noqa: F401
from lablib.machine import few_rows, stored_weights

import mlx.core as mx
import numpy as np
import pytest
from oracles import stored
from oracles.fresh import run

ROOT = Path(__file__).parents[2]
ORACLE = ROOT / "tests/oracles/stored.py"
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it is for Linux"),
    pytest.mark.skipif(few_rows.compiler() is None, reason="no C compiler"),
]
PLANTED = {
    "a code is counted twice": ("k + PAIR * n);", "k + PAIR * (n / 2 * 2));"),
    "a sum is left out": ("sums[0][half][i] + sums[1][half][i]", "sums[0][half][i]"),
    "the minimum is forgotten": ("y[half][i] += minimum * sum", "y[half][i] -= minimum * sum"),
    "rows share a step": ("scale * step[(size_t)i * groups + g]", "scale * step[g]"),
    "a column too many": ("left < LANES ? left : LANES", "LANES"),
    "the last strip is another": ("strip * COLUMNS < p->columns", "strip < p->columns / COLUMNS"),
    "rounded down": ("(near + 0x1.8p23f) - 0x1.8p23f", "near"),
    "8 bits of x": ("LARGEST = 32767", "LARGEST = 127"),
}


def kinds() -> dict[str, tuple[str, list[str]]]:
    """The kernels that this machine can run."""
    flags = Path("/proc/cpuinfo").read_text()
    needed = {"x86-64-v3": " avx2 ", "x86-64-v4": " avx512vl "}
    plain = [each for each in few_rows.processors() if needed.get(each, "") in flags]
    own = {each: stored_weights.flags_of(each) for each in plain}
    bare = {each: (each, []) for each in plain if not own[each] or each == "x86-64-v4"}
    return bare | {each + "".join(more): (each, more) for each, more in own.items()}


def built(kind: str, path: Path, source: Path = stored_weights.SOURCE) -> Path:
    processor, more = kinds()[kind]
    few_rows.build(path / "made.so", processor, source, more)
    return path / "made.so"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ctypes.CDLL]:
    """Return a kind's library; the compiler takes seconds, and is asked once."""
    return cache(lambda kind: ctypes.CDLL(str(built(kind, tmp_path_factory.mktemp(kind)))))


@pytest.mark.parametrize(
    "count",
    [
        30,
        pytest.param(100, marks=pytest.mark.thorough),
        pytest.param(100_000, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", kinds() if sys.platform == "linux" else [])
def test_random_products_are_as_defined_and_within_the_bound(
    kind: str, count: int, made: Callable[[str], ctypes.CDLL]
) -> None:
    assert stored.wrong(made(kind), count, seed=count) == 0


@pytest.mark.grid(lambda bug: [*PLANTED].index(bug) % 4 == 0, rest="slow")
@pytest.mark.thorough  # a test of tests
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path) -> None:
    old, new = PLANTED[bug]
    text = stored_weights.SOURCE.read_text()
    assert text.count(old) == 1
    (tmp_path / "bug.c").write_text(text.replace(old, new))
    library = built(list(kinds())[-1], tmp_path, tmp_path / "bug.c")
    command = [sys.executable, ORACLE, library, "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode or not done.stdout.startswith("0 wrong")


@pytest.mark.thorough
def test_no_byte_beyond_an_array_is_touched(tmp_path: Path) -> None:
    """AddressSanitizer ends the process at the first."""
    tool, library = few_rows.compiler(), tmp_path / "watched.so"
    asked = [tool, "-print-file-name=libasan.so"]
    watcher = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(watcher):
        pytest.skip(f"{tool} has no AddressSanitizer")
    flags = ["-O1", "-fsanitize=address,undefined", "-shared", "-fPIC", "-march=native", "-pthread"]
    subprocess.run([tool, *flags, stored_weights.SOURCE, "-o", library], check=True)
    watched = os.environ | {"LD_PRELOAD": watcher, "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, ORACLE, library, "300"]
    done = subprocess.run(command, env=watched, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("0 wrong"), done.stdout
    assert "runtime error" not in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_makes_its_row_none_and_no_other(
    bad: float, made: Callable[[str], ctypes.CDLL]
) -> None:
    call = stored.random_call(np.random.default_rng(1), 5)
    library = made([*kinds()][-1])
    whole = stored.run(library, call)
    call.x[1, 3] = bad
    found = stored.run(library, call)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(np.delete(found, 1, 0), np.delete(whole, 1, 0))


# --- as an operation of MLX's -------------------------------------------------------------------
def operands(seed: int = 0) -> tuple[stored.Call, tuple]:
    """A call, and the same for MLX."""
    call = stored.random_call(np.random.default_rng(seed), 20)
    arrays = map(mx.array, (call.x, *stored.packed(call)))
    return call, (*arrays, len(call.codes), call.bits, call.group())


def product() -> stored_weights.Product:
    made = stored_weights.product()
    if made is None:
        pytest.skip(stored_weights.obstacle())
    return made


@pytest.mark.parametrize("seed", range(5))
def test_mlx_gets_the_numbers_of_the_c_file(seed: int) -> None:
    call, told = operands(seed)
    found = product()(*told)
    assert stored.is_right(call, np.array(found))
    x, *others = told
    deep = product()(mx.broadcast_to(x, (2, 1, *x.shape)), *others)  # not in a row of memory
    assert mx.array_equal(deep[1, 0], found)
    turned = mx.contiguous(x.T).T, *others
    assert mx.array_equal(product()(*turned), found)
    assert mx.array_equal(mx.compile(lambda x: product()(x, *others))(x), found)
    assert product()(x[:0], *others).shape == (0, len(call.codes))


def test_arrays_that_do_not_fit_are_refused() -> None:
    multiply, (x, codes, scales, minima, columns, bits, group) = product(), operands()[1]
    good = x, codes, scales, minima, columns, bits, group
    for place, bad in [
        (0, x.astype(mx.float16)), (0, x[:, :-1]), (0, x[:, :0]), (1, codes[..., :1]),
        (1, codes.astype(mx.uint32)), (2, scales[:, :-1]), (3, minima.astype(mx.bfloat16)),
        (4, 0), (4, columns + 16), (5, 5), (5, 12 - bits), (6, 8), (6, 0), (6, 512),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="must be"):
            multiply(*good[:place], bad, *good[place + 1 :])


def test_there_is_no_gradient_and_it_says_what_has_one() -> None:
    x, *others = operands()[1]
    with pytest.raises(RuntimeError, match=r"model\.train\(\)"):
        mx.eval(mx.grad(lambda x: product()(x, *others).sum())(x))


def test_without_a_compiler_or_switched_off_it_says_so(tmp_path: Path) -> None:
    code = (
        "import lablib; from lablib.machine import stored_weights as s; "
        "print(s.product(), s.obstacle(), sep='|')"
    )
    told = {"PATH": "/nowhere", "XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    assert run(code, LABLIB_STORED="off").stdout.strip() == "None|LABLIB_STORED=off"
    found = run(code, LABLIB_BLAS="off", LABLIB_FEW_ROWS="off", **told)
    assert found.stdout.strip() == "None|no C compiler"


# --- several threads ----------------------------------------------------------------------------
@pytest.fixture
def team(made: Callable[[str], ctypes.CDLL]) -> Iterator[ctypes.CDLL]:
    library = made([*kinds()][-1])
    yield library
    library.team_threads(1)


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_change_no_number(team: ctypes.CDLL, threads: int) -> None:
    rng = np.random.default_rng(threads)
    calls = [stored.random_call(rng) for _ in range(60)]
    team.team_threads(1)
    alone = [stored.run(team, call) for call in calls]
    team.team_threads(threads)
    for call, wanted in zip(calls * 3, alone * 3, strict=True):
        np.testing.assert_array_equal(stored.run(team, call), wanted)


def test_two_that_multiply_at_once_do_not_mix(team: ctypes.CDLL) -> None:
    """One of them has the team; the other one computes alone."""
    calls = [stored.random_call(np.random.default_rng(seed), 30) for seed in range(8)]
    alone = [stored.run(team, call) for call in calls]
    team.team_threads(3)

    def again(number: int) -> bool:
        at = number % len(calls)
        return np.array_equal(stored.run(team, calls[at]), alone[at], equal_nan=True)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(again, range(400)))


def test_a_child_process_waits_for_none_of_its_parents_helpers(team: ctypes.CDLL) -> None:
    call = stored.random_call(np.random.default_rng(3), 30)
    alone = stored.run(team, call)
    team.team_threads(3)
    stored.run(team, call)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(stored.run(team, call), alone, equal_nan=True) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_number_of_threads_is_the_environments_and_then_what_is_set() -> None:
    code = """
import lablib
from lablib.machine import backend, stored_weights
told = []
backend.follow_threads(told.append)
try:
    lablib.set_threads(1)
except RuntimeError:  # this BLAS takes the number only while it loads
    told.append(1)
print(told if backend.blas().source not in ("native", "reference") else [2, 1])
"""
    result = run(code, LABLIB_THREADS="2")
    assert result.stdout.strip() == "[2, 1]", result.stderr
