"""The command line: ``peerattn compare | fit | predict | network | audit | simulate | describe``.

Exit code 0 = done, 2 = bad input, 1 = a bug.
"""

from peerattn.exceptions import extra

extra("typer", "cli", "The command line")  # before the commands, which import it

from peerattn.cli.app import main, run  # noqa: E402

__all__ = ["main", "run"]
