"""Write docs/api.md, the reference, from the docstrings of every public name.

python docs/make_api.py            writes it
python docs/make_api.py --check    only says whether it is up to date (exit code 1 if not)
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("api.md")
PARTS = (
    "models",
    "evaluation",
    "network",
    "panel",
    "datasets",
    "sequence",
    "nn",
    "training",
    "render",
    "loading",
    "exceptions",
)
HEAD = """# API reference

Made from the docstrings by `python docs/make_api.py`. Names are imported from the module that heads their part;
those marked ★ from `peerattn` itself.
"""


def reference() -> str:
    """Return the whole page as Markdown."""
    return "\n".join([HEAD, *(line for part in PARTS for line in _part(part))]).rstrip() + "\n"


def _part(part: str) -> Iterator[str]:
    module = importlib.import_module(f"peerattn.{part}")
    names = _public(module)
    yield f"## peerattn.{part}\n"
    yield f"{inspect.getdoc(module)}\n"
    yield from (line for name in names for line in _entry(name, getattr(module, name)))


def _public(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=str.lower)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


def _entry(name: str, value: Any) -> Iterator[str]:
    import peerattn

    yield f"### {name}{' ★' if name in peerattn.__all__ else ''}\n"
    if not callable(value):  # a constant
        yield f"{', '.join(f'`{key}`' for key in value) if isinstance(value, dict) else f'`{value!r}`'}\n"
        return
    if not (inspect.isclass(value) and issubclass(value, Exception)):
        yield f"```python\n{name}{_signature(value)}\n```\n"
    yield from _docstring(value)
    for method, function in _methods(value):
        yield f"#### {name}.{method}\n"
        if not isinstance(function, property):
            static = isinstance(inspect.getattr_static(value, method), staticmethod)
            yield f"```python\n{method}{_signature(function, bound=not static)}\n```\n"
        yield from _docstring(function)


def _signature(value: Any, bound: bool = False) -> str:
    """Return the signature without types, which the parameters' list gives, and without what a method is bound to."""
    try:
        signature = inspect.signature(value)
    except ValueError:  # built in C
        return "(...)"
    bare = [
        p.replace(annotation=inspect.Parameter.empty) for p in list(signature.parameters.values())[bound:]
    ]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r"<([\w.]+)[^<>]*>", r"\1", text)  # no addresses


def _methods(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class of ours, or a base of ours, defines with a docstring."""
    if not inspect.isclass(value):
        return
    for name in sorted(
        {n for base in value.__mro__ if _ours(base) for n in vars(base) if not n.startswith("_")}
    ):
        raw = inspect.getattr_static(value, name)
        function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else getattr(raw, "func", raw)
        if isinstance(raw, cached_property):
            function = property(raw.func)
        if (inspect.isfunction(function) or isinstance(function, property)) and function.__doc__:
            yield name, function


def _ours(base: type) -> bool:
    return base.__module__.startswith("peerattn")


def _docstring(value: Any) -> Iterator[str]:
    """Turn numpydoc into Markdown: bold sections, lists of parameters, examples as code."""
    text = inspect.cleandoc(value.__doc__ or "")
    first, *sections = re.split(r"\n([A-Z][A-Za-z ]+)\n-{3,}\n", "\n" + text)
    yield f"{_prose(first)}\n"
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        yield f"**{title}**\n"
        if title == "Examples":
            yield f"```python\n{body.strip()}\n```\n"
        elif title in {"Parameters", "Returns", "Yields", "Raises", "Attributes"}:
            yield f"{_items(body)}\n"
        else:
            yield f"{_prose(body)}\n"


def _prose(text: str) -> str:
    """Keep prose, and show displayed equations and indented blocks as they stand."""
    text = re.sub(r":(?:func|class|meth|attr|mod|math):`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    text = re.sub(r"\.\. math::[ \t]*\n?((?:\n?[ \t]+[^\n]+)+)", lambda m: _fenced(m.group(1)), text)
    return text.strip()


def _fenced(block: str) -> str:
    return f"```text\n{inspect.cleandoc(block)}\n```"


def _items(body: str) -> str:
    """Make each ``name : type`` with its indented text one item of a list."""
    items: list[str] = []
    for line in body.strip("\n").splitlines():
        if line and not line.startswith(" "):
            name, colon, kind = line.partition(" : ")
            items.append(
                f"- `{name}`: {_prose(kind)}." if colon else f"- `{name}`"
            )  # what follows is indented
        elif line.strip() and items:
            items[-1] += f"{':' if items[-1].endswith('`') else ''} {_prose(line)}"
    return "\n".join(items)


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit code."""
    page = reference()
    if "--check" in arguments:
        return 0 if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == page else 1
    TARGET.write_text(page, encoding="utf-8")
    print(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
