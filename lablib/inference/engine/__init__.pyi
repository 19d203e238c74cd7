# Made from the table in __init__.py by tests/stubs.py.
from lablib.inference.engine.continuous_batch import ContinuousBatch as ContinuousBatch
