"""Products of few rows: right for every call, the same alone and among others, and in use."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import lablib
from lablib.machine import backend, few_rows

import mlx.core as mx
import numpy as np
import pytest
from oracles import products
from oracles.fresh import run

BLAS = backend.blas()
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or backend.core() is None, reason="few rows are for OpenBLAS on Linux"
)
needs_compiler = pytest.mark.skipif(few_rows.compiler() is None, reason="no C compiler")
MANY = [500, pytest.param(100_000, marks=pytest.mark.slow)]
PLANTED = {
    "C is read where beta is 0": ("p->beta == 0 ?", "p->beta == 7 ?"),
    "the end of a sum is lost": ("n < p->depth; n++", "n < p->depth - 1; n++"),
    "a stride is forgotten": ("*c = p->c + row * p->ldc", "*c = p->c + row * p->columns"),
    "one number too many": ("j < WIDTH; j++) put", "j <= WIDTH; j++) put"),
    "alpha is left out": ("p->alpha * sum + p->beta", "sum + p->beta"),
    "columns beyond a strip": ("int width = p->columns - column;", "int width = WIDTH;"),
    "a height is forgotten": ("p->rows - top < HEIGHT ?", "p->rows < HEIGHT ?"),
    "A's layout is forgotten": ("trans_a == TRANS ? 1 : lda", "lda"),
}


def runnable() -> list[str]:
    """The processors whose code this machine can run."""
    flags = Path("/proc/cpuinfo").read_text()
    needed = {"x86-64-v3": " avx2 ", "x86-64-v4": " avx512vl "}
    return [each for each in few_rows.processors() if needed.get(each, "") in flags]


@needs_compiler
@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("processor", runnable())
def test_random_products_are_right(processor: str, count: int, tmp_path: Path) -> None:
    few_rows.build(tmp_path / "made.so", processor)
    made = str(tmp_path / "made.so"), BLAS.path
    assert products.wrong(products.load(*made), count, seed=count) == 0
    assert products.wrong(products.load(*made, strict=True), count // 10, count, 200) == 0


@needs_compiler
@pytest.mark.parametrize("count", [60, pytest.param(6000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("processor", runnable())
def test_in_one_order_bits_hang_on_a_row_and_a_column_only(
    processor: str, count: int, tmp_path: Path
) -> None:
    few_rows.build(tmp_path / "made.so", processor)
    library = products.load(str(tmp_path / "made.so"), BLAS.path, strict=True)
    rng = np.random.default_rng(count)
    for _ in range(count):
        rows, columns, depth = (int(rng.integers(1, most)) for most in (200, 100, 700))
        a, b = normal(rows, depth), normal(depth, columns)
        whole = product(library, a, b)
        for trans in ((True, False), (False, True), (True, True)):
            np.testing.assert_array_equal(product(library, a, b, trans), whole)
        row, column, zeros = int(rng.integers(rows)), int(rng.integers(columns)), rng.integers(9)
        is_trans = False, bool(rng.integers(2))
        part = product(library, a[row:], b[:, column:], is_trans)
        np.testing.assert_array_equal(part, whole[row:, column:])
        alone = product(library, a[row : row + 1], b, is_trans)
        np.testing.assert_array_equal(alone, whole[row : row + 1])
        wide = np.pad(a, [(0, 0), (zeros, 3)]), np.pad(b, [(zeros, 3), (0, 0)], constant_values=7)
        np.testing.assert_array_equal(product(library, *wide, is_trans), whole)
        first, last = np.split(a, [depth // 3], 1), np.split(b, [depth // 3])
        so_far = product(library, first[0], last[0]) if depth > 2 else np.zeros_like(whole)
        ends = product(library, first[1], last[1], is_trans, so_far)
        np.testing.assert_array_equal(ends, whole)  # a sum goes on where C has begun it


def product(
    library: ctypes.CDLL,
    a: np.ndarray,
    b: np.ndarray,
    is_trans: tuple[bool, bool] = (False, False),
    so_far: np.ndarray | None = None,
) -> np.ndarray:
    """Return a b, or ``so_far`` and a b, of matrices that lie in memory as ``is_trans`` says."""
    sizes = len(a), b.shape[1], len(b)
    pair = [np.ascontiguousarray(m.T if t else m) for m, t in zip((a, b), is_trans, strict=True)]
    c = np.zeros(sizes[:2], np.float32) if so_far is None else so_far
    trans = [products.TRANS if each else products.NO_TRANS for each in is_trans]
    beta = 0.0 if so_far is None else 1.0
    return products.run(
        library, products.Call(products.ROW_MAJOR, tuple(trans), sizes, 1.0, *pair, beta, c)
    )


@pytest.mark.grid(lambda bug: [*PLANTED].index(bug) % 4 == 0, rest="slow")
@pytest.mark.thorough  # a test of tests
@needs_compiler
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, tmp_path: Path, monkeypatch) -> None:
    old, new = PLANTED[bug]
    text = few_rows.SOURCE.read_text()
    assert text.count(old) == 1
    (tmp_path / "bug.c").write_text(text.replace(old, new))
    monkeypatch.setattr(few_rows, "SOURCE", tmp_path / "bug.c")
    few_rows.build(tmp_path / "bug.so", runnable()[-1])
    command = [sys.executable, ROOT / "tests/oracles/products.py", tmp_path / "bug.so", BLAS.path]
    done = subprocess.run([*command, "300"], capture_output=True, text=True, check=False)
    assert done.returncode or not done.stdout.startswith("0 wrong")


@pytest.mark.thorough
@needs_compiler
@pytest.mark.parametrize("count", ["200", pytest.param("20000", marks=pytest.mark.slow)])
def test_no_byte_beyond_a_matrix_is_touched(count: str, tmp_path: Path) -> None:
    """AddressSanitizer ends the process at the first."""
    tool, library = few_rows.compiler(), tmp_path / "watched.so"
    asked = [tool, "-print-file-name=libasan.so"]
    watcher = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(watcher):
        pytest.skip(f"{tool} has no AddressSanitizer")
    flags = ["-O1", "-fsanitize=address", "-shared", "-fPIC", "-march=native"]
    subprocess.run([tool, *flags, few_rows.SOURCE, "-o", library], check=True)
    command = [sys.executable, ROOT / "tests/oracles/products.py", library, BLAS.path, count]
    watched = os.environ | {"LD_PRELOAD": watcher, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(command, env=watched, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("0 wrong")


def in_use() -> ctypes.CDLL:
    if BLAS.few_rows is None:
        pytest.skip(BLAS.few_rows_note)
    return products.load(BLAS.few_rows, BLAS.path)


def call(x: np.ndarray, weight: np.ndarray) -> products.Call:
    sizes = len(x), len(weight), x.shape[1]
    c = np.zeros((len(x), len(weight)), np.float32)
    trans = products.NO_TRANS, products.TRANS
    return products.Call(products.ROW_MAJOR, trans, sizes, 1.0, x, weight, 0.0, c)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 16])
def test_mlx_multiplies_few_rows_by_them(rows: int) -> None:
    x, weight = normal(rows, 577), normal(301, 577)
    ours = products.run(in_use(), call(x, weight))
    np.testing.assert_array_equal(np.array(mx.array(x) @ mx.array(weight).T), ours)


@pytest.mark.parametrize(("columns", "depth"), [(301, 577), (64, 64), (7, 1200), (1536, 576)])
def test_a_row_is_the_same_alone_and_among_others(columns: int, depth: int) -> None:
    in_use()
    x, weight = mx.array(normal(16, depth)), mx.array(normal(columns, depth))
    for matrix in (weight.T, mx.contiguous(weight.T)):  # dots, and strips
        alone = mx.concatenate([x[i : i + 1] @ matrix for i in range(16)])
        for rows in range(2, 17):
            assert mx.array_equal(x[:rows] @ matrix, alone[:rows]), rows


def test_more_rows_go_to_openblas() -> None:
    x, weight = normal(17, 64), normal(32, 64)
    found = []
    other = ctypes.CFUNCTYPE(None)(lambda: found.append(1))
    library = ctypes.CDLL(in_use()._name)
    try:
        library.few_rows_start(ctypes.cast(other, ctypes.c_void_p))
        products.run(library, call(x[:16], weight))
        assert found == []
        products.run(library, call(x, weight))
        assert found == [1]
    finally:
        in_use()


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31, 32, 33, 1000])
def test_the_bench_reads_every_number_once(count: int) -> None:
    read = in_use().few_rows_read
    read.restype, read.argtypes = ctypes.c_float, (ctypes.c_void_p, ctypes.c_size_t)
    numbers = np.arange(count + 1, dtype=np.float32)
    assert read(numbers.ctypes.data, count) == sum(range(count))


# --- how it is found ---------------------------------------------------------------------------
WHICH = """
import lablib, mlx.core as mx
assert (mx.ones((2, 3)) @ mx.ones((3, 4))).tolist() == [[3] * 4] * 2
blas = lablib.machine.backend.blas()
print(blas.few_rows, blas.few_rows_note, sep="|")
"""


def test_off_leaves_all_to_openblas() -> None:
    assert run(WHICH, LABLIB_FEW_ROWS="off").stdout.strip() == "None|LABLIB_FEW_ROWS=off"
    assert run(WHICH, LABLIB_BLAS="off").stdout.strip() == "None|None"


def test_a_path_is_used_and_a_bad_one_named() -> None:
    path = in_use()._name
    assert run(WHICH, LABLIB_FEW_ROWS=path).stdout.strip() == f"{path}|None"
    for bad, why in ("no/such.so", "cannot open"), ("libm.so.6", "has no symbol few_rows_start"):
        last = run(WHICH, LABLIB_FEW_ROWS=bad).stderr.strip().splitlines()[-1]
        wanted = "LABLIB_FEW_ROWS must be 'off' or the path of a built few_rows.c"
        assert f"{wanted}, got {bad!r}" in last
        assert why in last


def with_blas(path: Path) -> dict[str, str]:
    """An empty cache, and the BLAS that is there."""
    return {"XDG_CACHE_HOME": str(path), "TMPDIR": str(path), "LABLIB_BLAS": BLAS.path}


def test_without_a_compiler_all_works_and_doctor_says_what_helps(tmp_path: Path) -> None:
    code = WHICH + "print(lablib.doctor())"
    result = run(code, PATH="/nowhere", **with_blas(tmp_path))
    assert result.stdout.splitlines()[0] == "None|no C compiler"
    assert "no C compiler, and 1 row at" in result.stdout
    assert "apt install g++" in result.stdout
    chosen = run(code, LABLIB_FEW_ROWS="off", **with_blas(tmp_path)).stdout
    assert "apt install g++" not in chosen  # who chose so needs no advice


def test_a_compiler_that_fails_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cc").write_text("#!/bin/sh\necho no room >&2; exit 1\n")
    (tools / "cc").chmod(0o755)
    (tmp_path / "cache").mkdir()
    result = run(WHICH, PATH=f"{tools}:/bin", **with_blas(tmp_path / "cache"))
    assert result.stdout.strip() == f"None|{tools}/cc failed: no room"
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


@pytest.mark.slow
@needs_compiler
def test_several_at_once_build_one(tmp_path: Path) -> None:
    environment = os.environ | with_blas(tmp_path) | {"LABLIB_FEW_ROWS": ""}
    asked = [sys.executable, "-c", WHICH]
    all_of = [subprocess.Popen(asked, env=environment, stdout=subprocess.PIPE) for _ in range(4)]
    (said,) = {process.communicate()[0] for process in all_of}
    (made,) = (tmp_path / "lablib").iterdir()
    assert made.name == Path(said.decode().split("|")[0]).name


def test_doctor_says_who_chose_the_kernels_and_what_they_cost() -> None:
    code = "import lablib; print(lablib.doctor())"
    own = backend.core()
    held = run(code, OPENBLAS_CORETYPE="Haswell")
    assert "Haswell kernels, chosen by OPENBLAS_CORETYPE" in held.stdout
    if "OPENBLAS_CORETYPE" not in os.environ and own != "Haswell":
        assert "OPENBLAS_CORETYPE=Haswell is set:" in held.stdout
        assert f"where {own} kernels reach" in held.stdout
    if "OPENBLAS_CORETYPE" not in os.environ:
        assert "OPENBLAS_CORETYPE" not in run(code).stdout
    assert lablib.doctor().facts["few rows"]
