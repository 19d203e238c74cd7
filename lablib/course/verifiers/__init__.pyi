# Made from the table in __init__.py by tests/stubs.py.
from lablib.course.verifiers.exact import Exact as Exact
from lablib.course.verifiers.exact import log_weight as log_weight
from lablib.course.verifiers.learned import Verifier as Verifier
from lablib.course.verifiers.learned import load_verifier as load_verifier
from lablib.course.verifiers.noisy import Noisy as Noisy
