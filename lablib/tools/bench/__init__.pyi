# Made from the table in __init__.py by tests/stubs.py.
from lablib.tools.bench.plan import Plan as Plan
from lablib.tools.bench.plan import QUICK as QUICK
from lablib.tools.bench.run import bench as bench
from lablib.tools.bench.turns import SideError as SideError
