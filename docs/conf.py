"""Sphinx configuration of the documentation site; `make docs` builds it into build/docs, without network."""

from __future__ import annotations

import inspect
import re
import unicodedata
from functools import partial
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx_gallery.directives import imgsgnode, visit_imgsg_html
from sphinx_gallery.scrapers import matplotlib_scraper

import peerattn

project = "peerattn"
author = "The peerattn developers"
copyright = "The peerattn developers"  # noqa: A001 - Sphinx's name
version = release = peerattn.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["course/*.rst", "core_course/*.rst", "figures/*.rst"]
templates_path = ["_templates"]
nitpicky = False

# Markdown pages
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Reference: a page an object
add_module_names = False
toc_object_entries_show_parents = "hide"  # the narrow list on the right has room for names of methods alone
autodoc_typehints = "none"  # the docstring's list gives the types
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
# Every check but those that ask for a section where a sentence does, and those that our grouping of parameters breaks.
numpydoc_validation_checks = {
    "all",
    *("ES01", "EX01", "SA01"),  # extended summary, examples, see also
    *("PR01", "PR02", "PR03", "PR04", "PR07", "PR08"),  # "query, key : as in ..." documents several at once
    *("RT01", "RT02", "RT03", "YD01", "SS05"),
}
numpydoc_validation_exclude = {r"\.Schedule$", r"\.forecasts$"}  # an alias of a type; a constant

# Executed pages: the course and the gallery. Pictures are vectors, with text as outlines: the same on every machine.
sphinx_gallery_conf = {
    "examples_dirs": ["course", "core_course", "figures"],
    "gallery_dirs": ["learn", "learn_core", "gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": (partial(matplotlib_scraper, format="svg", bbox_inches="tight"),),
    "only_warn_on_example_error": False,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "capture_repr": ("_repr_html_",),
    "min_reported_time": 3600,  # a page is the same however busy the machine was
    "write_computation_times": False,
    "nested_sections": False,
    "parallel": True,
}

# Page
html_theme = "pydata_sphinx_theme"
html_title = f"peerattn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
# pages without others beneath them need no list of these
html_sidebars: dict[str, list[str]] = {"index": [], "install": [], "tutorial": []}
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {
        part: ["page-toc"] for part in ("guide/*", "examples/*", "core/*", "background/**", "reference/**")
    }
    | {"background/coming-from": []},  # two columns of code take its place
}
html_context = {"default_mode": "light"}


ACCENTS = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303"}


def _composed(accented: re.Match[str]) -> str:
    """Return an accented letter as one character, where there is one: without a font for mathematics accents overlap letters."""
    composed = unicodedata.normalize("NFC", accented["letter"] + ACCENTS[accented["accent"]])
    return composed if len(composed) == 1 else accented[0]


def _math(source: str, *, block: bool) -> str:
    """Return a formula as MathML, which browsers show without a script; bridge what docutils' converter lacks."""
    source = re.sub(r"\\(?P<accent>hat|bar|tilde) ?(?P<brace>\{)?(?P<letter>[A-Za-z])(?(brace)\})", _composed, source)
    source = re.sub(r"(\\[bB]ig)(?![a-z])", r"\1l", source.strip().replace("\\textstyle", ""))
    source = re.sub(r"(\\(?:wide)?(?:hat|bar|tilde)(?: ?[A-Za-z]|\\[a-z]+|\{\w+\}))(?=[_^])", r"\1{}", source)
    source = re.sub(r"frac(\d)(\d)", r"frac{\1}{\2}", source)
    if "&" in source and "\\begin" not in source:
        source = rf"\begin{{aligned}}{source}\end{{aligned}}"
    try:
        return tex2mathml(source, as_block=block)
    except Exception as error:  # the converter's own errors do not name the formula
        raise ValueError(f"docutils cannot show the formula {source!r} as MathML") from error


def _inline_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(_math(node.astext(), block=False))
    raise nodes.SkipNode


def _displayed_math(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{_math(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def _gallery_figure(translator: Any, node: imgsgnode) -> None:
    """Put a figure of the gallery into a paragraph, which scrolls on a phone (site.css)."""
    translator.body.append("<p>")
    visit_imgsg_html(translator, node)
    translator.body.append("</p>")


def _only_ours(_app: Any, _what: str, _name: str, value: Any, skip: bool, _options: Any) -> bool:
    """Leave out what a class inherits from scikit-learn, torch or Python."""
    raw = getattr(value, "fget", value) or value
    home = getattr(inspect.unwrap(raw) if callable(raw) else raw, "__module__", None)
    return skip or bool(home and not str(home).startswith("peerattn"))


def setup(app: Any) -> None:
    """Register how formulas are shown and which members are listed."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_displayed_math, None))
    app.config.html_math_renderer = "mathml"
    app.add_node(imgsgnode, override=True, html=(_gallery_figure, lambda *_: None))
    app.connect("autodoc-skip-member", _only_ours)
