"""Text that others wrote, names in their files above all: nothing of it commands a terminal."""

import re

#: Characters that command a terminal or turn the direction of text, and halves of characters, which no file holds.
UNSAFE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Return text of one or more lines in which nothing commands a terminal.

    >>> visible("size\x1b[2J, lev")
    'size\ufffd[2J, lev'
    """
    return UNSAFE.sub("\ufffd", text)


class VisibleText:
    """What is printed by :func:`visible`: errors and warnings, which name columns."""

    def __str__(self) -> str:
        return visible(super().__str__())
