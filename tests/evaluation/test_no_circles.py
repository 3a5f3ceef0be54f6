"""No module of a room imports another in a circle, inside functions included (imports for types alone do not run)."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "peerattn"


def run_imports(tree):
    """Yield the modules and names that a module imports when it is loaded or its functions are called."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield from run_imports(node)


def circle(sources):
    """Return the modules of a circle among modules given with their sources; nothing where there is none."""
    graph = {
        name: {n for n in run_imports(ast.parse(text)) if n in sources} for name, text in sources.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.mark.parametrize("room", ["evaluation", "cli"])
def test_a_room_has_no_circle(room):
    paths = [path for path in (PACKAGE / room).rglob("*.py") if path.name != "__init__.py"]
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in paths}
    assert circle({name: path.read_text(encoding="utf-8") for name, path in names.items()}) == []


def test_a_planted_circle_is_found():
    lazy = "def show():\n    from room.page import page"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from room.page import page"
    assert circle({"room.data": lazy, "room.page": "from room.data import Data"})
    assert not circle({"room.data": typed, "room.page": "from room.data import Data"})
