"""Shared by every test: lablib comes first, so that the fast BLAS is in place before MLX loads."""

import lablib  # noqa: F401
