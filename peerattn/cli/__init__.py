"""The command line: ``peerattn compare | fit | predict | network | audit | simulate | describe``.

Exit code 0 = done, 2 = bad input, 1 = a bug.
"""

from peerattn.cli import audit, compare, describe, fit, network, predict, simulate  # noqa: F401 - each adds its command
from peerattn.cli.app import main, run

__all__ = ["main", "run"]
