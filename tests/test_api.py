"""The public interface is written down: what changes must be named in the changelog.

``python tests/test_api.py`` writes ``tests/api.txt`` again, once the changelog names the change.
"""

import importlib
import inspect
from pathlib import Path

HERE = Path(__file__).parent
ROOMS = (
    "peerattn",
    *(f"peerattn.{room}" for room in "datasets evaluation models network nn panel render sequence".split()),
)


def interface():
    """One line for each public name: its parameters, without defaults' values and types."""
    lines = set()
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            value = getattr(module, name)
            try:
                parameters = inspect.signature(value).parameters.values() if callable(value) else ()
            except (TypeError, ValueError):
                parameters = ()
            shown = ", ".join(f"{p.name}{'' if p.default is p.empty else '='}" for p in parameters)
            lines.add(f"{room}.{name}({shown})" if callable(value) else f"{room}.{name}")
    return sorted(lines)


def test_every_change_of_the_interface_is_in_the_changelog():
    before = (HERE / "api.txt").read_text(encoding="utf-8").splitlines()
    changed = {line.partition("(")[0].rpartition(".")[2] for line in set(before) ^ set(interface())}
    unreleased = (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## 0")[0]
    unnamed = sorted(name for name in changed if name not in unreleased)
    assert not unnamed, (
        f"changed, and not in the changelog: {unnamed}. Name them, then run python tests/test_api.py"
    )


if __name__ == "__main__":
    (HERE / "api.txt").write_text("\n".join(interface()) + "\n", encoding="utf-8")
