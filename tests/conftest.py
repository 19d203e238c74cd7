"""Shared by every test: lablib comes first, so that the fast BLAS is in place before MLX loads."""

import signal

import lablib  # noqa: F401

from hypothesis import settings

# A shell that runs the suite in the background has it ignore Ctrl-C, and so would every process it
# starts; some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("lablib", deadline=None)  # a busy machine is no fault of an example
settings.load_profile("lablib")
