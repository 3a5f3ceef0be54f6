"""`import peerattn` is light, and every public name is there when asked for."""

import subprocess
import sys

import pytest

import peerattn

HEAVY = {
    "torch",
    "sklearn",
    "pandas",
    "numpy",
    "scipy",
    "matplotlib",
    "statsmodels",
    "pyarrow",
    "typer",
    "rich",
    "jinja2",
}


#: What a fresh Python runs one after the other, by name.
STATEMENTS = {
    "package": "import peerattn",
    "command line": "import peerattn.cli",
    "network": "import peerattn.network; peerattn.network.PeerNetwork",
    "panel": "import peerattn.panel; peerattn.panel.PanelEncoder; peerattn.panel.read_panel; peerattn.read_panel",
}


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """Names of top-level modules that are loaded after each statement and those before it."""
    show = "print(*{name.split('.')[0] for name in sys.modules})"
    script = "\n".join(["import sys", *(f"{statement}; {show}" for statement in STATEMENTS.values())])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return {name: set(line.split()) for name, line in zip(STATEMENTS, done.stdout.splitlines(), strict=True)}


def test_import_is_light(loaded):
    assert loaded["package"] & HEAVY == set()
    assert loaded["command line"] & (HEAVY - {"typer"}) == set()


def test_the_probe_sees_what_is_loaded(loaded):
    assert "numpy" in loaded["panel"] - loaded["command line"]


def test_network_needs_neither_torch_nor_sklearn(loaded):
    assert "pandas" in loaded["network"] and loaded["network"] & {"torch", "sklearn"} == set()
    assert "torch" not in loaded["panel"]


@pytest.mark.parametrize("name", peerattn.__all__)
def test_public_name_resolves(name):
    assert getattr(peerattn, name) is not None
    assert name in dir(peerattn)


def test_lists_agree():
    assert set(peerattn.__all__) == {*peerattn._HOMES, "__version__"}
    for name, home in peerattn._HOMES.items():
        value = getattr(peerattn, name)
        assert value.__module__.startswith(home), f"{name} lives in {value.__module__}, not under {home}"


def test_what_a_researcher_needs_first_is_on_one_screen():
    assert len(dir(peerattn)) <= 35


@pytest.mark.parametrize("name", peerattn._LOADED_ON_USE)
def test_subpackage_is_an_attribute(name):
    assert getattr(peerattn, name).__name__ == f"peerattn.{name}"


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'PeerAttention'"):
        _ = peerattn.PeerAttention


def test_typing_sees_what_runs():
    """The imports under TYPE_CHECKING name the same homes as the lazy table."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(peerattn.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("peerattn")
        for alias in node.names
    }
    assert typed.keys() == peerattn._HOMES.keys()
    for name, home in peerattn._HOMES.items():
        assert typed[name] in (home, f"{home}.{name}")
