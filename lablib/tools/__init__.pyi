# Made from the table in __init__.py by tests/stubs.py.
from lablib.tools import bench as bench
from lablib.tools import site as site
from lablib.tools import sweep as sweep
from lablib.tools.evaluation import evaluate as evaluate
from lablib.tools.results import stored as stored
from lablib.tools.results import stored_sums as stored_sums
