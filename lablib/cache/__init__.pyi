# Made from the table in __init__.py by tests/stubs.py.
