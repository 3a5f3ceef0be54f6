"""The shell of an HTML page: self-contained, light and dark, phone and paper."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from peerattn.exceptions import extra
from peerattn.render.escape import printable
from peerattn.render.table import Table

if TYPE_CHECKING:
    import jinja2


@dataclass(frozen=True)
class Picture:
    """A figure in a page.

    Parameters
    ----------
    svg : str
        As :func:`peerattn.render.svg` returns it; it is not escaped.
    caption : str
        What the reader sees, in a sentence.
    """

    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Code:
    """Text that is shown verbatim, line by line.

    Parameters
    ----------
    text : str
    """

    text: str


@dataclass(frozen=True)
class Frame:
    """A whole interactive page inside a page, in a frame of its own.

    Parameters
    ----------
    html : str
        The inner document.
    title : str
        What it shows, for readers who cannot see it.
    scripts : sequence of str
        Digests (``sha256-...``) of the inner document's scripts: the outer page allows these and no others.
    """

    html: str
    title: str
    scripts: Sequence[str] = ()


Block = str | Table | Picture | Code | Frame


@dataclass(frozen=True)
class Section:
    """A part of a page under one heading.

    Parameters
    ----------
    title : str
        The heading.
    blocks : sequence of str, Table, Picture, Code or Frame
        Text (a paragraph each), tables, pictures, ..., in reading order.

    Examples
    --------
    >>> Section("Fit", ["One sentence.", Table("", ("Model",), (("OLS",),))]).anchor
    'fit'
    """

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """The heading as an address inside the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "section"


def page(
    title: str,
    sections: Sequence[Section],
    *,
    lead: str = "",
    opening: Sequence[Picture] = (),
    facts: Mapping[str, object] | None = None,
    footer: str = "",
) -> str:
    """Return a whole HTML page: no outside request, no script but that of a :class:`Frame`, every name escaped.

    Parameters
    ----------
    title : str
        Title of the page.
    sections : sequence of Section
        The parts, in order; from four on, a list of contents leads to them.
    lead : str, optional
        The finding in a sentence or two, under the title.
    opening : sequence of Picture, optional
        What the reader sees first, side by side where there is room.
    facts : mapping of str to object, optional
        Short facts beside their names (firms, periods, outcome).
    footer : str, optional
        The last line.

    Returns
    -------
    str
        An HTML document that opens offline, follows the reader's light or dark setting, fits a phone and prints.

    Examples
    --------
    >>> text = page("<b>Firms</b>", [Section("Fit", ["Nothing yet."])])
    >>> "&lt;b&gt;Firms&lt;/b&gt;" in text, "<script" in text
    (True, False)
    """
    used: dict[str, Section] = {}  # by anchor
    for section in sections:
        # two sections of one name need two addresses
        anchor = section.anchor
        while anchor in used:
            anchor += "-again"
        used[anchor] = section
    frames = [block for section in sections for block in section.blocks if isinstance(block, Frame)]
    scripts = sorted({f"'{digest}'" for frame in frames for digest in frame.scripts})
    style = (files("peerattn.render") / "page.css").read_text(encoding="utf-8")
    return template("peerattn.render").render(
        title=title, lead=lead, opening=opening, facts=facts or {}, sections=used, footer=footer, scripts=scripts, style=style
    )


@cache
def template(package: str) -> jinja2.Template:
    """Return a package's ``page.html``, which escapes what is put into it, on one line, and raises an error for what is missing.

    What is markup, or keeps its lines, is marked in the template (``safe``, ``escape``).
    """
    made = extra("jinja2", "html", "An HTML page")
    environment = made.Environment(
        autoescape=True,
        undefined=made.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if hasattr(value, "__html__") else printable(value),
    )
    return environment.from_string((files(package) / "page.html").read_text(encoding="utf-8"))
