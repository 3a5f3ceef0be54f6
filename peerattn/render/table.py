"""One table, four faces from the same rows: text for a terminal, HTML for a page, LaTeX and Markdown for a paper."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

import pandas as pd

from peerattn.exceptions import expect
from peerattn.render.cells import Cell, formatted, frame_cell, padded, side_of, text_width, with_minus
from peerattn.render.escape import escape, latex_text, markdown_text, printable
from peerattn.render.files import File, write_atomic

Rows = list[list[str]]
_GAP = "  "
_LONG, _WIDE = 40, 18  # characters of a cell and of a head; longer ones are broken into lines in a page


@dataclass(frozen=True)
class Table:
    """A table of text and numbers.

    Parameters
    ----------
    title : str
        Shown above; may be empty.
    columns : sequence of str
        Heads, one for each column.
    rows : sequence of sequences of str, float, int or None
        The cells. NaN is shown as ``n/a``, None as nothing, infinities as ``inf``.
    alignment : str, optional
        One letter for each column: ``l`` or ``r``. By default columns with a number in them go right.
    formats : sequence of str, optional
        A format specification for the floats of each column, such as ``".3f"`` (the default) or ``".1%"``.
    footnotes : sequence of str, default ()
        Shown below, one a line.

    Raises
    ------
    InputError
        When a row, ``alignment`` or ``formats`` has not one entry for each column.

    Examples
    --------
    >>> table = Table("Fit", ("Model", "R2"), (("SIC peers", 0.0312), ("OLS", float("nan"))))
    >>> print(table.text())
    Fit
    <BLANKLINE>
    Model         R2
    ----------------
    SIC peers  0.031
    OLS          n/a
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    alignment: str = ""
    formats: Sequence[str] = ()
    footnotes: Sequence[str] = ()

    def __post_init__(self) -> None:
        columns = tuple(map(str, self.columns))
        rows = tuple(map(tuple, self.rows))
        n = len(self.columns)
        for row in rows:
            expect(len(row) == n, "rows", f"{n} cells in each row", f"{len(row)}: {row!r}")
        alignment = self.alignment or "".join(map(side_of, zip(*rows))) or "l" * n
        fits = len(alignment) == n and set(alignment) <= {"l", "r"}
        expect(fits, "alignment", f"{n} letters, each 'l' or 'r'", repr(self.alignment))
        formats = tuple(self.formats) or (".3f",) * n
        expect(len(formats) == n, "formats", f"{n} entries", len(formats))
        notes = tuple(self.footnotes)
        vars(self).update(columns=columns, rows=rows, alignment=alignment, formats=formats, footnotes=notes)

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, *, title: str = "", formats: Mapping[str, str] | None = None, footnotes: Sequence[str] = ()
    ) -> Table:
        """Make a table of a frame's rows.

        Parameters
        ----------
        frame : pandas.DataFrame
            The rows; labels such as periods are shown as briefly as they can be.
        title, footnotes
            As in :class:`Table`.
        formats : mapping of str to str, optional
            Column name to format specification; others take ``".3f"``.

        Returns
        -------
        Table
            With one row for each row of the frame.

        Examples
        --------
        >>> frame = pd.DataFrame({"peer": ["IBM"], "weight": [0.25]})
        >>> Table.from_frame(frame, formats={"weight": ".1%"}).rows
        (('IBM', 0.25),)
        """
        names = [str(name) for name in frame.columns]
        rows = [tuple(map(frame_cell, row)) for row in frame.itertuples(index=False, name=None)]
        specs = [(formats or {}).get(name, ".3f") for name in names]
        return cls(title, names, rows, formats=specs, footnotes=footnotes)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a frame, numbers unrounded.

        Returns
        -------
        pandas.DataFrame
            One column for each column of the table.
        """
        return pd.DataFrame([list(row) for row in self.rows], columns=list(self.columns))

    def cells(self) -> list[list[str]]:
        """Return the cells as the text shows them: numbers formatted, nothing escaped.

        Returns
        -------
        list of lists of str
            One list for each row.
        """
        return [[printable(formatted(*pair)) for pair in zip(row, self.formats)] for row in self.rows]

    def text(self, width: int | None = None) -> str:
        """Return the table as plain text.

        Parameters
        ----------
        width : int, optional
            Widest line allowed. A wider table has its heads broken at spaces, and is shown in blocks of columns, the first
            column repeated, where that is not enough.

        Returns
        -------
        str
            Without a line break at the end.
        """
        cells = [[printable(column) for column in self.columns], *self.cells()]
        heads, widths = _broken_heads(cells[0], cells[1:], width)
        blocks = [self._block(block, heads, cells[1:], widths) for block in _column_blocks(widths, width)]
        # notes are as wide as the table, and never narrower than a paragraph
        room = width or max(72, *(text_width(line) for block in blocks for line in block.splitlines()))
        notes = "\n".join(textwrap.fill(printable(note), room) for note in self.footnotes)
        return "\n\n".join(filter(None, [printable(self.title), *blocks, notes]))

    def _block(self, block: list[int], heads: Rows, cells: Rows, widths: list[int]) -> str:
        def line(row: list[str]) -> str:
            return _GAP.join(padded(row[j], widths[j], self.alignment[j]) for j in block).rstrip()

        titles = [text for text in map(line, heads) if text]  # the heads of other blocks may take more lines
        return "\n".join([*(titles or [""]), "-" * _total(widths[j] for j in block), *map(line, cells)])

    def html(self) -> str:
        """Return the table as an HTML fragment, every name escaped.

        Returns
        -------
        str
            A ``div`` that scrolls sideways when the table is wider than the page.
        """
        (heads, *cells) = self._escaped(escape)
        title = escape(self.title)
        long = [any(len(row[j]) > _LONG for row in self.cells()) for j in range(len(heads))]
        sides = [side + " long" * (side == "l" and wraps) for side, wraps in zip(self.alignment, long)]
        tops = [side + " wide" * (len(column) > _WIDE) for side, column in zip(self.alignment, self.columns)]
        head = "".join(f'<th scope="col" class="{top}">{displayed}</th>' for top, displayed in zip(tops, heads))
        body = ""
        for row in cells:
            tags = "".join(f'<td class="{side}">{cell}</td>' for side, cell in zip(sides, row))
            body += f"<tr>{tags}</tr>"
        # what is empty has no element
        caption = f"<caption>{title}</caption>" * bool(title)
        label = f' aria-label="{title}"' * bool(title)
        paragraphs = "".join(f"<p>{escape(note)}</p>" for note in self.footnotes)
        notes = f'<div class="notes">{paragraphs}</div>' * bool(paragraphs)
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="peerattn-table"><div class="scroll" tabindex="0" role="region"{label}>{table}</div>{notes}</div>'

    def to_latex(self, path: File | None = None, *, label: str = "") -> str:
        r"""Return the table as a LaTeX environment with booktabs' rules, every name escaped, notes below; write it, too.

        Parameters
        ----------
        path : path-like, optional
            Where to write it.
        label : str, optional
            For ``\ref``.

        Returns
        -------
        str
            It needs ``\usepackage{booktabs}``.

        Examples
        --------
        >>> print(Table("", ("Model", "R²"), (("R&D peers", 0.0312),)).to_latex())
        % needs \usepackage{booktabs}
        \begin{table}[htbp]
        \centering
        \begin{tabular}{@{}lr@{}}
        \toprule
        Model & R$^2$ \\
        \midrule
        R\&D peers & 0.031 \\
        \bottomrule
        \end{tabular}
        \end{table}
        <BLANKLINE>
        """
        notes = " ".join(map(latex_text, self.footnotes))
        lines = [r"% needs \usepackage{booktabs}", r"\begin{table}[htbp]", r"\centering"]
        if self.title:
            lines.append(rf"\caption{{{latex_text(self.title)}}}")
        if label:
            lines.append(rf"\label{{{label}}}")
        lines += [rf"\begin{{tabular}}{{@{{}}{self.alignment}@{{}}}}", r"\toprule"]
        head, *rows = (" & ".join(row) + r" \\" for row in self._escaped(_latex_cell))
        lines += [head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
        if notes:
            lines += [r"\par\medskip", rf"\begin{{minipage}}{{\linewidth}}\footnotesize {notes}\end{{minipage}}"]
        return _written("\n".join([*lines, r"\end{table}"]) + "\n", path)

    def to_markdown(self, path: File | None = None) -> str:
        r"""Return the table as GitHub's Markdown, its title in bold above, its notes below; write it where a path is given.

        Examples
        --------
        >>> print(Table("", ("Model", "R2"), (("a|b", 0.0312),)).to_markdown())
        | Model | R2 |
        | :--- | ---: |
        | a\|b | 0\.031 |
        <BLANKLINE>
        """
        rule = [{"r": "---:", "l": ":---"}[side] for side in self.alignment]
        heads, *rows = self._escaped(lambda cell: markdown_text(cell) or " ")
        lines = ["| " + " | ".join(row) + " |" for row in (heads, rule, *rows)]
        parts = ["\n".join(lines), *map(markdown_text, self.footnotes)]
        if self.title:
            parts.insert(0, f"**{markdown_text(self.title)}**")
        return _written("\n\n".join(parts) + "\n", path)

    def _escaped(self, escape: Callable[[str], str]) -> list[list[str]]:
        """Return the heads and the cells, with real minus signs, as one format writes them."""
        cells = [map(with_minus, *pair) for pair in zip(self.cells(), self.rows)]
        return [[escape(cell) for cell in row] for row in (self.columns, *cells)]

    _repr_html_ = html
    __str__ = text


class Shown:
    """A result that prints as a table, in a terminal and in a notebook: the one that a method of its own gives."""

    _displayed: ClassVar[str] = "table"

    def __str__(self) -> str:
        return str(getattr(self, self._displayed)().text())

    def _repr_html_(self) -> Any:
        return getattr(self, self._displayed)().html()


def _written(text: str, path: File | None) -> str:
    if path is not None:
        write_atomic(path, text)
    return text


def _latex_cell(text: str) -> str:
    """Return a cell in LaTeX: after a line break a bracket would be its option, a star its variant."""
    displayed = latex_text(text)
    return "{}" * displayed.startswith(("[", "*")) + displayed


def _total(widths: Iterable[int]) -> int:
    """Return the width of columns with the gaps between them."""
    return sum(width + len(_GAP) for width in widths) - len(_GAP)


def _broken_heads(heads: list[str], cells: Rows, limit: int | None) -> tuple[Rows, list[int]]:
    """Return the lines of the heads, broken at spaces where the table is too wide, and the widths of the columns."""
    # cells are never broken, heads may be
    bodies = [max([text_width(row[j]) for row in cells], default=0) for j in range(len(heads))]
    parts = [[head] for head in heads]
    if limit is not None and _total(map(max, bodies, map(text_width, heads))) > limit:
        parts = [textwrap.wrap(head, max(w, 8), break_long_words=False) for head, w in zip(heads, bodies)]
    widths = [max([body, *map(text_width, part)]) for body, part in zip(bodies, parts)]
    # heads of several lines end on the same line
    upwards = zip_longest(*(reversed(part) for part in parts), fillvalue="")
    return [list(line) for line in upwards][::-1], widths


def _column_blocks(widths: list[int], limit: int | None) -> list[list[int]]:
    """Columns of each block: all in one, or as many as fit beside the first."""
    if limit is None or len(widths) < 3:
        return [list(range(len(widths)))]
    # the first column names the rows: it begins each block
    blocks: list[list[int]] = []
    for column in range(1, len(widths)):
        if not blocks or _total(widths[j] for j in [*blocks[-1], column]) > limit:
            blocks.append([0])
        blocks[-1].append(column)
    return blocks
