# Made from the table in __init__.py by tests/stubs.py.
from lablib.inference.async_lm.genlm import Query as Query
from lablib.inference.async_lm.lm import AsyncMlxLM as AsyncMlxLM
