# Made from the table in __init__.py by tests/stubs.py.
from lablib.course.theory.scaling import simulate as simulate
from lablib.tools.sweep.file import read as read
from lablib.tools.sweep.ranks import SweepError as SweepError
from lablib.tools.sweep.ranks import start as start
from lablib.tools.sweep.rounds import grouped as grouped
from lablib.tools.sweep.rounds import run as run
from lablib.tools.sweep.rounds import seed_of as seed_of
