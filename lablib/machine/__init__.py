"""Tunes the machine: the BLAS, its pages, how Linux schedules MLX; and reports on all of it."""
