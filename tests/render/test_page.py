from __future__ import annotations

import re
from html.parser import HTMLParser

import matplotlib
import pytest
from matplotlib.figure import Figure

from peerattn.render import INK, Picture, Section, Table, figure_style, page, svg, weight_colours

EVIL = "<script>alert(1)</script>\"'"


def _drawing() -> Figure:
    with figure_style():
        figure = Figure(figsize=(2, 1))
        axes = figure.subplots()
        axes.plot([1, 2], label="<b>")
        axes.imshow([[0.0, 1.0]], cmap=weight_colours())
        axes.set_title("<b>bold</b>")
    return figure


class _Balanced(HTMLParser):
    void = {"meta", "img", "br", "link", "hr"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_escaped_and_asks_for_nothing_outside() -> None:
    table = Table(EVIL, (EVIL,), [(EVIL,)])
    sections = [Section(EVIL, [EVIL, table, Picture(svg(_drawing(), description=EVIL), EVIL)])] * 4
    text = page(EVIL, sections, lead=EVIL, facts={EVIL: EVIL}, footer=EVIL)
    assert "<script" not in text and "<b>" not in text
    outside = re.findall(r'(?:src|href)="(?!#|data:|f[0-9a-f]{8})[^"]*"|url\((?!#)[^)]*\)|@import', text)
    assert outside == []
    parser = _Balanced()
    parser.feed(text)
    assert parser.open == []
    anchors = re.findall(r'<section id="([^"]+)"', text)
    assert len(set(anchors)) == 4
    assert [f'href="#{anchor}"' in text for anchor in anchors] == [True] * 4


def test_wide_tables_have_a_shadow_where_they_go_on() -> None:
    table = Table("t", ("a",), [("1",)])
    style = page("t", [Section("one", [table])])
    assert style.count("no-repeat local") == 2 and 'class="scroll"' in style


def test_svg_is_repeatable_follows_the_page_and_does_not_clash() -> None:
    first, again = svg(_drawing()), svg(_drawing())
    assert first == again
    other = _drawing()
    other.axes[0].set_title("other")
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (first, svg(other))]
    assert ids[0] and not ids[0] & ids[1]
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', first))
    assert used <= ids[0]
    assert INK not in first and "currentColor" in first
    assert not re.search(r'<svg[^>]*\swidth="', first)


def test_style_ends_with_the_block() -> None:
    before = dict(matplotlib.rcParams)
    with pytest.raises(RuntimeError), figure_style():
        raise RuntimeError
    assert dict(matplotlib.rcParams) == before


def test_signed_colours_are_clear_at_zero() -> None:
    colours = weight_colours(signed=True)
    assert colours(0.5)[3] < 0.01
    assert colours(0.0)[0] > colours(0.0)[2] and colours(1.0)[2] > colours(1.0)[0]
