"""Cells as text: labels as a reader writes them, numbers with their formats, widths in a terminal."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from unicodedata import combining, east_asian_width

import pandas as pd

Cell = object
MINUS = "\u2212"


def with_minus(cell: str, raw: Cell) -> str:
    """A number's hyphen becomes a minus sign."""
    if is_number(raw) and cell.startswith("-"):
        return cell.replace("-", MINUS, 1)
    return cell


def show_label(label: object) -> str:
    """Return a firm or period label as a reader writes it: dates without an empty clock time, whole numbers as such.

    Parameters
    ----------
    label : object
        Any label, or a tuple of them; ``None`` (an undated cross-section) gives an empty string.

    Returns
    -------
    str
        The shown label.

    Examples
    --------
    >>> show_label(pd.Timestamp("2012-06-30")), show_label(pd.Period("2012-06", "M")), show_label(5.0)
    ('2012-06-30', '2012-06', '5')
    >>> show_label(("F00", pd.Timestamp("2012-06-30")))
    '(F00, 2012-06-30)'
    """
    if label is None:
        return ""
    if isinstance(label, tuple):
        return f"({', '.join(map(show_label, label))})"
    if isinstance(label, pd.Timestamp) and label == label.normalize():
        return label.strftime("%Y-%m-%d")
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def frame_cell(value: object) -> Cell:
    """Return a value of a frame as a cell: nothing, a number, or a label's text."""
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if is_number(value):
        return value
    return show_label(value)


def is_number(value: object) -> bool:
    """Return whether a cell is a number (a truth value is none)."""
    return isinstance(value, Real) and not isinstance(value, bool)


def side_of(column: Sequence[Cell]) -> str:
    """Return ``"r"`` for a column with a number in it, else ``"l"``."""
    return "r" if any(is_number(cell) for cell in column) else "l"


def formatted(cell: Cell, spec: str) -> str:
    """Return a cell as text: floats by their specification, integers with commas from 10,000 on, NaN as n/a."""
    if cell is None:
        return ""
    if not is_number(cell):
        return str(cell)
    if isinstance(cell, Integral):
        if abs(int(cell)) < 10_000:
            return str(int(cell))
        return f"{int(cell):,}"
    number = float(cell)  # type: ignore[arg-type]
    if math.isnan(number):
        return "n/a"
    displayed = format(number, spec).removesuffix(".")  # "#.4g" keeps zeros, and leaves a point behind 1234
    # scientific notation is for very large and very small numbers
    if "e+0" in displayed and abs(number) < 1e7:  # 1.29e+03 is 1,290
        displayed = f"{float(displayed):,.0f}"
    if displayed.startswith("-") and not any(c in "123456789inf" for c in displayed):
        return displayed[1:]
    return displayed


def text_width(text: str) -> int:
    """Return the number of terminal columns ``text`` takes (wide East Asian characters take two).

    Parameters
    ----------
    text : str
        One line.

    Returns
    -------
    int
        Columns.

    Examples
    --------
    >>> text_width("Sony"), text_width("東芝")
    (4, 4)
    """
    spacing = [character for character in text if not combining(character)]
    return len(spacing) + sum(east_asian_width(character) in "WF" for character in spacing)


def padded(text: str, width: int, side: str) -> str:
    """Return text filled with blanks up to a width, at its side."""
    space = " " * (width - text_width(text))
    return space + text if side == "r" else text + space
