"""How much memory there is, and an error before the work where it would not do."""

from pathlib import Path

from peerattn.exceptions import InputError

_LIMIT = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")


def available_memory() -> int | None:
    """Return the bytes that this process may still take, on Linux; None elsewhere.

    What the kernel calls available, or what the control group of the process leaves, where that is less.
    """
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    # a container may have less than the machine
    try:
        return min(free, max(0, int(_LIMIT.read_text()) - int(_USED.read_text())))
    except (OSError, ValueError):  # no limit
        return free


def check_memory(needed: float, what: str, advice: str) -> None:
    """Raise where ``needed`` bytes are more than there are; ``advice`` is what would fit."""
    free = available_memory()
    sizes = f"about {_size(needed)} of memory, and {_size(free or 0)} are free"
    if free is not None and needed > free:
        raise InputError(f"{what} would take {sizes}: {advice}")


def _size(n_bytes: float) -> str:
    """Return a number of bytes in words.

    >>> _size(2.5 * 2**30), _size(2**20)
    ('2.5 GiB', '1 MiB')
    """
    if n_bytes >= 2**30:
        return f"{n_bytes / 2**30:.1f} GiB"
    return f"{n_bytes / 2**20:.0f} MiB"
