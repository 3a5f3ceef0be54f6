"""Modules are on floors and import only from floors below theirs (inside functions too)."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "peerattn"

FLOORS = {
    "options": -1, "processes": -1, "seeds": -1,
    "nn": 0, "panel": 0, "render": 0,
    "store": 1,
    "network": 2, "training": 2,
    "datasets": 3, "models": 3, "sequence": 3,
    "evaluation": 4,
    "cli": 5, "__main__": 6,
}  # fmt: skip
EVERYBODYS = {"exceptions", "foreign_text", "kinds", "scaling", "types"}  # import nothing else of ours, imported by all

#: Outside packages that a part may use; a part that is not named may use all that the package asks for.
MAY_USE = {
    "nn": {"torch"}, "exceptions": set(), "foreign_text": set(), "kinds": {"beartype", "numpy"}, "scaling": {"numpy"},
    "types": set(),
}  # fmt: skip
MUST_NOT_USE = {
    "panel": {"torch"},
    "render": {"torch", "sklearn"},
    "network": {"torch", "sklearn"},
    "store": {"torch"},
    "training": {"pandas", "sklearn"},
}
#: Own parts that a part may use, where fewer than the floors below it.
MAY_IMPORT = {"sequence": {"nn", "options", "training", "render", "store", "seeds"}, "store": {"render"}}
IMPORT_NAMES = {"scikit-learn": "sklearn"}
BROUGHT_ALONG = {"threadpoolctl"}  # by scikit-learn


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of everything a module imports, wherever it does so."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            home = ".".join([*base, node.module] if node.module else base)
            yield from ((node.lineno, f"{home}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__"}:
                yield node.lineno, str(node.args[0].value)


def circles(sources: dict[str, tuple[str, bool]]) -> set[frozenset[str]]:
    """Return the sets of modules that need each other in a circle, imports inside functions and those for types counted."""
    graph = nx.DiGraph()
    for module, (source, is_package) in sources.items():
        for _, name in imported(ast.parse(source), module, is_package):
            target = name if name in sources else name.rpartition(".")[0]
            if target in sources and target != module:
                graph.add_edge(module, target)
    return {frozenset(found) for found in nx.strongly_connected_components(graph) if len(found) > 1}


def breaches(source: str, module: str, is_package: bool = False) -> list[str]:
    """Return one line for each import of a module that breaks the house's rules."""
    part, found = module.split(".")[1], []
    for line, name in imported(ast.parse(source), module, is_package):
        top, *rest = name.split(".")
        if top == "peerattn":
            found += [f"{module}:{line}: {why}" for why in _own(part, rest)]
        elif top not in sys.stdlib_module_names and not _outside(part, top):
            found.append(f"{module}:{line}: {part} must not use {top}")
    return found


def _own(part: str, rest: list[str]) -> list[str]:
    target = rest[0] if rest else ""
    if target == part or target in EVERYBODYS or target == "__version__":
        return []
    if part in EVERYBODYS:
        return [f"{part} imports nothing of peerattn, but imports {target}"]
    if target not in FLOORS:
        return [f"import {target or 'peerattn'!r} from the module where it lives"]
    if target not in MAY_IMPORT.get(part, {target}):
        return [f"{part} must not import {target}"]
    if FLOORS[target] >= FLOORS[part]:
        return [f"{part} (floor {FLOORS[part]}) imports {target} (floor {FLOORS[target]})"]
    return []


def _outside(part: str, top: str) -> bool:
    return top in MAY_USE[part] if part in MAY_USE else top not in MUST_NOT_USE.get(part, set())


def modules() -> list[tuple[Path, str]]:
    """Every module of the package but its front door, whose names are lazy."""
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]
    return [(path, ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")) for path in paths]


@pytest.mark.parametrize(("path", "module"), [pytest.param(*both, id=both[1]) for both in modules()])
def test_imports_keep_to_the_floors(path, module):
    assert module.split(".")[1] in FLOORS | dict.fromkeys(EVERYBODYS), f"{module} has no floor in DESIGN"
    assert breaches(path.read_text(encoding="utf-8"), module, path.name == "__init__.py") == []


def test_no_modules_need_each_other_in_a_circle():
    sources = {module: (path.read_text(encoding="utf-8"), path.name == "__init__.py") for path, module in modules()}
    assert circles(sources) == set()


def test_no_file_is_long():
    """A file holds one concept, at most 400 lines."""
    lengths = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_a_planted_circle_is_found():
    lazy = "def f():\n    from peerattn.nn.{} import x"
    sources = {f"peerattn.nn.{a}": (lazy.format(b), False) for a, b in ("ab", "bc", "ca", "da")}
    assert circles(sources) == {frozenset(f"peerattn.nn.{name}" for name in "abc")}
    typed = "if TYPE_CHECKING:\n    from peerattn.nn.b import x"
    assert circles(sources | {"peerattn.nn.a": (typed, False)}) == circles(sources)  # for types, too


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("peerattn.nn.attention", "import pandas as pd", "nn must not use pandas"),
        (
            "peerattn.nn.attention",
            "from peerattn.panel import read_panel",
            "nn (floor 0) imports panel (floor 0)",
        ),
        ("peerattn.network.measures", "def f():\n    import torch.nn", "network must not use torch"),
        (
            "peerattn.network.measures",
            "def f():\n    from peerattn.models.base import X",
            "(floor 2) imports models (floor 3)",
        ),
        ("peerattn.network.measures", "from ..evaluation import compare", "imports evaluation (floor 4)"),
        ("peerattn.network.measures", "from .. import training", "imports training (floor 2)"),
        (
            "peerattn.network.measures",
            "import importlib\nimportlib.import_module('peerattn.cli')",
            "imports cli (floor 5)",
        ),
        (
            "peerattn.sequence.base",
            "from peerattn.panel import read_panel",
            "sequence must not import panel",
        ),
        ("peerattn.models.base", "from peerattn import PeerNetwork", "from the module where it lives"),
        ("peerattn.models.base", "import peerattn", "from the module where it lives"),
        (
            "peerattn.exceptions",
            "from peerattn.render import Table",
            "exceptions imports nothing of peerattn",
        ),
    ],
)
def test_a_planted_breach_is_found(module, source, complaint):
    (found,) = breaches(source, module)
    assert complaint in found


def test_what_is_allowed_is_allowed():
    source = "import math\nimport torch\nfrom .masks import causal\nfrom peerattn.exceptions import InputError"
    assert breaches(source, "peerattn.nn.attention") == []
    assert breaches("from peerattn.network import PeerNetwork\nimport numpy", "peerattn.models.base") == []
    assert breaches("from .table import Table", "peerattn.render", is_package=True) == []


def test_every_outside_package_is_asked_for():
    """What a module imports stands in pyproject's dependencies or extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *sum(project["optional-dependencies"].values(), [])]
    names = {requirement.partition(">")[0].strip().lower() for requirement in asked}
    known = {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}
    used = {
        name.partition(".")[0]
        for path, module in modules()
        for _, name in imported(ast.parse(path.read_text(encoding="utf-8")), module, path.name == "__init__.py")
    }
    assert used - set(sys.stdlib_module_names) - {"peerattn"} - BROUGHT_ALONG - known == set()


def test_the_table_of_layers_names_every_module():
    rows = re.findall(r"^\| (−?\d) \| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    table = {name: int(floor.replace("−", "-")) for floor, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert table == {name: floor for name, floor in FLOORS.items() if name != "__main__"} | dict.fromkeys(EVERYBODYS, -1)
