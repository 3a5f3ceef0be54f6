"""Escaping: names come from other people's files and go into pages, terminals, papers and spreadsheets."""

import csv
import html
import re

import pandas as pd

_SPACE = re.compile("[\t-\r\x1c-\x1f\x85\u2028\u2029]")
_UNSEEN = re.compile(  # control characters, direction marks, halves of characters, what XML excludes
    "[\0-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "`": r"\textasciigrave{}", "–": r"\textendash{}",
    "—": r"\textemdash{}", "…": r"\ldots{}", "²": r"$^2$", "†": r"$\dagger$", "−": r"$-$", "×": r"$\times$",
    "≤": r"$\leq$", "≥": r"$\geq$", "→": r"$\rightarrow$", "\u00a0": "~",
}  # fmt: skip
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>()#+\-.!|~$&@:]")


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
        White space becomes a space, every other control or direction-changing character ``\ufffd``: text that any
        terminal, page or XML file can hold.

    Examples
    --------
    >>> printable("two\nlines")
    'two lines'
    """
    return _UNSEEN.sub("\ufffd", _SPACE.sub(" ", str(text)))


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
    # character by character: an escape is not escaped again
    escaped = "".join(_LATEX.get(character, character) for character in printable(text))
    return re.sub(r"([-'])(?=\1)", r"\1{}", escaped)  # not a dash of two hyphens, nor a quotation mark


def markdown_text(text: object) -> str:
    r"""Return text in which no character is Markdown or HTML.

    Examples
    --------
    >>> print(markdown_text("a|b *c* <d> www.x.y"))
    a\|b \*c\* \<d\> www\.x\.y
    """
    return re.sub(_MARKDOWN, r"\\\g<0>", printable(text))


def figure_text(text: object, length: int | None = None) -> str:
    r"""Return text for a figure, cut to a length, in which no dollar sign begins a formula of matplotlib.

    Examples
    --------
    >>> figure_text("US$ 5_% $"), figure_text("International Business Machines", 12)
    ('US\\$ 5_% \\$', 'Internation…')
    """
    displayed = printable(text)
    if length is not None and len(displayed) > length:
        displayed = displayed[: length - 1] + "…"
    return displayed.replace("$", r"\$")


_FORMULA = "[=+\\-@\t\r\n＝＋－＠]"  # what begins a formula in some spreadsheet


def csv_text(text: object) -> str:
    r"""Return text for a CSV cell that no spreadsheet runs as a formula: an apostrophe precedes ``= + - @``.

    Examples
    --------
    >>> csv_text('=HYPERLINK("x")'), csv_text("IBM")
    ('\'=HYPERLINK("x")', 'IBM')
    """
    return re.sub(f"^(?='*{_FORMULA})", "'", str(text))


def csv_label(text: str) -> str:
    """Return the text of which :func:`csv_text` made this.

    Examples
    --------
    >>> csv_label("'=A"), csv_label("'A")
    ('=A', "'A")
    """
    return re.sub(f"^'('*{_FORMULA})", r"\1", text)


def csv_of(frame: pd.DataFrame) -> str:
    r"""Return a frame as the text of a CSV file, in which no cell or head is a formula and no label breaks a line.

    Examples
    --------
    >>> csv_of(pd.DataFrame({"firm": ["=A", "B"], "x": [-1.5, 2.0]}))
    "firm,x\n'=A,-1.5\nB,2.0\n"
    """
    texts = frame.select_dtypes(exclude=["number", "bool", "datetime", "datetimetz"])
    # numbers may begin with a minus: only text can be a formula
    safe = frame.assign(**{str(name): texts[name].map(csv_text, na_action="ignore") for name in texts})
    safe = safe.rename(columns=csv_text)
    # only from Python 3.13 on does a carriage return put a cell between quotation marks
    broken = any("\r" in str(cell) for name in [*texts] for cell in (name, *texts[name].unique()))
    return str(safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC if broken else csv.QUOTE_MINIMAL))
