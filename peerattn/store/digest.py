"""What a model is made of, as one digest: its settings, and the source of the code it runs."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from joblib.hashing import NumpyHasher

_PACKAGE = Path(__file__).resolve().parents[1]


def hash_of(value: Any) -> str:
    """Return a digest of an object's content, and of the source of every class and function in it.

    Source is that of the class or function, of the classes it inherits from, and of the functions, classes, modules and plain
    values of its module that it names, and so on. Installed packages go by their version instead.

    Raises
    ------
    Exception
        For what cannot be hashed: a lambda, a class inside a function, code without a source, an open file.
    """
    return str(_Hasher("sha1").hash(value))


class _Hasher(NumpyHasher):
    """joblib's digest of pickled content, which is never loaded, with the source of each class."""

    def save_global(self, obj: Any, name: Any = None, **rest: Any) -> None:
        super().save_global(obj, name, **rest)
        self._hash.update("\n".join(_sources(obj, set())).encode())

    dispatch = NumpyHasher.dispatch | {type: save_global, FunctionType: save_global}


def _sources(found: Any, seen: set[int]) -> Iterator[str]:
    """Yield the source of a class, function or module and of what it refers to, each once."""
    named = getattr(found, "__module__", "")
    module = found if isinstance(found, ModuleType) else sys.modules.get(named)
    if id(found) in seen or module is None:
        return
    seen.add(id(found))
    if _is_installed(module):
        top = module.__name__.partition(".")[0]
        yield f"{top} {getattr(sys.modules.get(top), '__version__', '')}"
        return
    text = _text(found)
    yield text
    closed = inspect.getclosurevars(found).nonlocals if isinstance(found, FunctionType) else {}
    known = {**vars(module), **closed}
    for name in sorted(known.keys() & {*re.findall(r"\w+", text), *closed}):
        value = known[name]
        if isinstance(value, type | FunctionType | ModuleType):
            yield from _sources(value, seen)
        elif isinstance(value, bool | int | float | str | bytes | tuple | None):
            yield f"{name}={value!r}"


def _text(found: Any) -> str:
    """Return the source; of a class of a notebook, which has no file, that of its methods."""
    try:
        return inspect.getsource(found)
    except (OSError, TypeError):
        if not isinstance(found, type):
            raise
        inside = (getattr(v, "fget", None) or getattr(v, "__func__", v) for v in vars(found).values())
        bases = [base.__name__ for base in found.__bases__]
        return "\n".join([*bases, *(inspect.getsource(v) for v in inside if isinstance(v, FunctionType))])


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (*(os.path.realpath(path) + os.sep for path in paths), f"{_PACKAGE}{os.sep}")


def _is_installed(module: ModuleType) -> bool:
    """Whether a module belongs to Python, an installed package or to this one."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ != "__main__"
    return os.path.realpath(file).startswith(_installed())


@functools.cache
def package_digest() -> str:
    """Return the SHA-256 of this package's own source."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(_PACKAGE)).encode() + path.read_bytes())
    return digest.hexdigest()


def code_version() -> str:
    """Return what figures depend on besides data and options: this package's source, and the versions of its dependencies."""
    versions = [version(name) for name in ("torch", "scikit-learn", "numpy", "pandas")]
    return "|".join([package_digest(), *versions])
