"""Lets mlx-lm be imported where a process may open few files.

It asks for 4,096 on import, and a process that may not have so many gets an error: in a container
with ``--ulimit nofile=1024``, say.
"""

MANY = 4096


def ask_for_no_more() -> None:
    """Let who asks for more open files than this process may have, have what there is."""
    try:
        import resource
    except ImportError:  # Windows has no limits
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not 0 <= most < MANY:  # Linux writes -1 where there is no limit
        return
    setrlimit = resource.setrlimit

    def at_most(which: int, wanted: tuple[int, int]) -> None:
        if which == resource.RLIMIT_NOFILE:
            wanted = min(wanted[0], most), min(wanted[1], most)
        setrlimit(which, wanted)

    resource.setrlimit = at_most
