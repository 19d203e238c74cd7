"""What tunes the machine: the BLAS, its pages, how Linux schedules it, and a report of it all."""
