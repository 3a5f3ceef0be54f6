"""What a person reads is in the standard terms of econometrics and machine learning, and in short sentences."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What stood here before the standard term (in the comment), as a regular expression.
PRIVATE = [
    # attends to, puts weight on; nowcast
    *(r"look(s|ed|ing)? (to|at whom)\b", r"\bwhom\b", r"\bexplanations?\b"),
    # own characteristics (linear), nonlinear own-firm models, firm history; nested models
    *(r"(?<!model's )\bown (lines?|shape|history)\b", r"\brungs?\b", r"\bladders?\b"),
    # information set; is selected, gets weight
    *(r"\bwhat is read\b", r"\bequal information\b"),
    r"\b(heads?|peers?|candidates?|models?|nothing|none|that|what) (enter(s|ed)?|pays?)\b",
    # tested on held-out periods; observed outcomes; residuals; within-period slopes
    *(r"\b(un)?judged?\b", r"\bshown outcomes?\b", r"\boutcomes? (is|are) shown\b"),
    *(r"\bwhat is left\b", r"\btaken back\b", r"\blines? within\b"),
    # raises an error; gives, shows, uses, predicts
    r"\brefus(e|es|ed|ing)\b",
    r"\b(says?|said|tells?|told|asks?|asked|speaks?|spoke|stands|stood)\b",
]
#: Proper uses of these words.
PROPER = ["attention is not explanation", "attention is not not explanation", "instance-based explanations"]  # titles
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / name for name in ("paper/paper.md", "data/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: Docstrings and messages are held to the list, too.
MODULES = sorted((ROOT / "peerattn").rglob("*.py"))
SCRIPTS = sorted((ROOT / "docs").glob("*/plot_*.py"))


def prose(page: Path) -> str:
    """Return a page without code, formulas and addresses."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^(```|:::).*?^(```|:::)", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|<!--.*?-->", "", text, flags=re.DOTALL)


def text_of_script(path: Path) -> str:
    """Return what a page of a gallery shows as text: its docstring and its comments."""
    source = path.read_text(encoding="utf-8")
    comments = re.findall(r"^# ?(.*)$", source, flags=re.MULTILINE)
    text = "\n".join([ast.get_docstring(ast.parse(source)) or "", *comments])
    return re.sub(r":\w+:`[^`]*`|``[^`]*``", "", text)


def private_words(text: str) -> list[str]:
    """Return the private words of a text, each with what is around it."""
    flat = re.sub(r"\s+", " ", text).lower()
    for proper in PROPER:
        flat = flat.replace(proper, "")
    found = (re.finditer(word, flat) for word in PRIVATE)
    return [flat[max(0, one.start() - 40) : one.end() + 40] for each in found for one in each]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_standard_terms(page):
    assert private_words(prose(page)) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_gallery_pages_use_standard_terms(script):
    assert private_words(text_of_script(script)) == []


def texts_of_module(path: Path) -> list[str]:
    """Return docstrings, messages and other texts of several words."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [re.sub(r":\w+:`[^`]*`|``[^`]*``|>>>.*", "", text) for text in texts if " " in text]


def test_docstrings_and_messages_use_standard_terms():
    found = {path: private_words("\n".join(texts_of_module(path))) for path in MODULES}
    found.pop(ROOT / "peerattn" / "__init__.py")  # lists the names of functions
    assert {str(path): words for path, words in found.items() if words} == {}


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_sentences_are_short(name):
    text = prose(ROOT / name)
    paragraphs = [one for one in re.split(r"\n\s*\n|\n- ", text) if not one.startswith(("|", "#", "!", ":"))]
    sentences = [s for one in paragraphs for s in re.split(r"(?<=[.!?:])\s+", " ".join(one.split()))]
    long = [s for s in sentences if len(s.split()) > 35]
    assert not long


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


@pytest.mark.parametrize("page", [page for page in PAGES if "docs" in page.parts], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_begins_with_what_the_reader_gets(page):
    first = [line for line in page.read_text(encoding="utf-8").splitlines() if line and not line.startswith("# ")][0]
    assert not first.startswith(("#", "- ", "|", "$$", "```python")), first
