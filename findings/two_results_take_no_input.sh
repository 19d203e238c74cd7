#!/usr/bin/env bash
# MLX 0.32.4, on a CPU: an operation with one result takes the memory of an input that nobody else
# has; one with two results never does, so that it needs one more array than its results do.
#
# Expected: mx.compile(f)(x) and mx.divmod(x, 3), with two results, need one new array each, as the
# other result may lie where x lay. (With one result no new array is needed.)
# Seen: they need two. Each result of such an operation keeps the list of its inputs, so that an
# input is held twice, and `array::is_donatable` says no. Whoever writes an extension whose results
# are an updated cache and something else gets a copy of the whole cache at each step.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "mlx[cpu]==0.32.4"
"$folder/venv/bin/python" - <<'PYTHON'
import mlx.core as mx

N = 1 << 22


def new_arrays(operation):
    """Return how many arrays are there at the most beside x, in units of x's size."""
    x = [mx.zeros((N,)) + 1]
    mx.eval(x)
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    results = operation(x.pop())
    mx.eval(results)
    return max(0, round((mx.get_peak_memory() - before) / (4 * N), 2))


mx.set_default_device(mx.cpu)
one = new_arrays(mx.compile(lambda x: x * 2 + 1))
two = new_arrays(mx.compile(lambda x: (x * 2 + 1, x * 3 + 1)))
divided = new_arrays(lambda x: mx.divmod(x, 3.0))
print(f"mlx {mx.__version__}: one result {one}, two {two}, divmod {divided} new arrays")
assert (one, two, divided) == (0, 2, 2), "it has changed"
PYTHON
