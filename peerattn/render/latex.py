r"""Tables for a paper: LaTeX with booktabs, and Markdown; every name comes out as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from peerattn.render.escape import printable

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "²": r"$^2$",
    "†": r"$\dagger$",
    "−": r"$-$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "`": r"\textasciigrave{}",
    "…": r"\ldots{}",
    "\u00a0": "~",
}
_MARKDOWN = frozenset("\\`*_{}[]<>()#+-.!|~$&@:")


def latex_text(text: object) -> str:
    r"""Return text in which no character is a LaTeX command.

    Parameters
    ----------
    text : object
        Anything; ``str(text)`` is escaped.

    Returns
    -------
    str
        On one line. Letters beyond ASCII stay as they are: Greek or Chinese names need LuaLaTeX or XeLaTeX and a font that
        has them.

    Examples
    --------
    >>> print(latex_text(r"R&D_% \input{x} R²"))
    R\&D\_\% \textbackslash{}input\{x\} R$^2$
    """
    escaped = "".join(_LATEX.get(character, character) for character in printable(text))
    return re.sub(
        r"([-'])(?=\1)", r"\1{}", escaped
    )  # two hyphens would be a dash, two apostrophes a quotation mark


def latex_table(
    title: str,
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    alignment: str,
    footnotes: Sequence[str],
    label: str = "",
) -> str:
    r"""Return a table environment with booktabs' rules; notes stand below in small type.

    Parameters
    ----------
    title : str
        The caption; empty for none.
    heads, cells
        Text, not yet escaped; ``cells`` has a sequence for each row.
    alignment : str
        ``l`` or ``r`` for each column.
    footnotes : sequence of str
    label : str, optional
        For ``\ref``.

    Returns
    -------
    str
        It needs ``\usepackage{booktabs}``.
    """
    lines = [r"\begin{table}[htbp]", r"\centering"]
    lines += [rf"\caption{{{latex_text(title)}}}"] if title else []
    lines += [rf"\label{{{label}}}"] if label else []
    # a row may start with a bracket, which a line break before it would take as its option
    rows = [" & ".join(_protected(latex_text(cell)) for cell in row) + r" \\" for row in cells]
    lines += [rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}", r"\toprule"]
    lines += [" & ".join(map(latex_text, heads)) + r" \\", r"\midrule", *rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if footnotes:
        notes = " ".join(map(latex_text, footnotes))
        lines += [r"\par\medskip", rf"\begin{{minipage}}{{\linewidth}}\footnotesize {notes}\end{{minipage}}"]
    return "\n".join(["% needs \\usepackage{booktabs}", *lines, r"\end{table}"]) + "\n"


def _protected(cell: str) -> str:
    return f"{{}}{cell}" if cell.startswith(("[", "*")) else cell


def markdown_text(text: object) -> str:
    r"""Return text in which no character is Markdown or HTML.

    Examples
    --------
    >>> print(markdown_text("a|b *c* <d> www.x.y"))
    a\|b \*c\* \<d\> www\.x\.y
    """
    return "".join(f"\\{character}" if character in _MARKDOWN else character for character in printable(text))


def markdown_table(
    title: str,
    heads: Sequence[str],
    cells: Sequence[Sequence[str]],
    alignment: str,
    footnotes: Sequence[str],
) -> str:
    """Return a pipe table (GitHub's Markdown), its title in bold above and its notes below."""
    rule = ["---:" if side == "r" else ":---" for side in alignment]
    rows = [[markdown_text(cell) or " " for cell in row] for row in cells]
    lines = ["| " + " | ".join(row) + " |" for row in ([markdown_text(h) or " " for h in heads], rule, *rows)]
    parts = [f"**{markdown_text(title)}**"] if title else []
    return "\n\n".join([*parts, "\n".join(lines), *map(markdown_text, footnotes)]) + "\n"
