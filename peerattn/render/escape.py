"""Escaping: names come from other people's files and go into HTML pages and terminals."""

from __future__ import annotations

import html
import unicodedata


def escape(text: object) -> str:
    r"""Return ``text`` as HTML text in which no character is markup.

    Safe between tags and inside quoted attributes.

    Parameters
    ----------
    text : object
        Anything; ``str(text)`` is escaped.

    Returns
    -------
    str
        The text with ``& < > " '`` written as entities and control characters shown as ``\ufffd``.

    Examples
    --------
    >>> escape("<img src=x onerror=alert(1)>")
    '&lt;img src=x onerror=alert(1)&gt;'
    """
    return html.escape(printable(text), quote=True)


def printable(text: object) -> str:
    r"""Return ``text`` on one line, its control characters replaced (no terminal escapes, no line breaks).

    Parameters
    ----------
    text : object
        Anything; ``str(text)`` is cleaned.

    Returns
    -------
    str
        White space becomes a space, every other control or direction-changing character ``\ufffd``.

    Examples
    --------
    >>> printable("two\nlines")
    'two lines'
    """
    return "".join(map(_printable_character, str(text)))


def _printable_character(character: str) -> str:
    if character.isspace():
        return " " if ord(character) < 128 or character in "\x85\u2028\u2029" else character
    if unicodedata.category(character) in ("Cc", "Cs") or character in _DIRECTION_MARKS:
        return "\ufffd"
    return character


_DIRECTION_MARKS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
