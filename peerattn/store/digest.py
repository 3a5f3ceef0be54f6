"""What a model is made of, as one digest: its settings, and the source of the code it runs."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from joblib.hashing import NumpyHasher

_PACKAGE = Path(__file__).resolve().parents[1]


def hash_of(value: Any) -> str:
    """Return a digest of an object's content, and of the source of every class and function in it.

    Source is that of the class or function, of the classes it inherits from, and of the functions, classes, modules and plain
    values of its module that it refers to, and so on. Installed packages go by their version instead.

    Raises
    ------
    Exception
        For what cannot be hashed: a lambda, a class inside a function, an open file.
    """
    return str(_Hasher("sha1").hash(value))


class _Hasher(NumpyHasher):
    """joblib's digest of pickled content, which is never loaded, with the source of each class."""

    def save_global(self, obj: Any, name: Any = None, **rest: Any) -> None:
        super().save_global(obj, name, **rest)
        self._hash.update("\n".join(_sources(obj, set())).encode())

    dispatch = NumpyHasher.dispatch | {type: save_global, FunctionType: save_global}


def _sources(found: Any, prepared: set[int]) -> Iterator[str]:
    """Yield the source of a class, function or module and of what it refers to, each once."""
    named = getattr(found, "__module__", "")
    module = found if isinstance(found, ModuleType) else sys.modules.get(named)
    if id(found) in prepared or module is None:
        return
    prepared.add(id(found))
    if _is_installed(module):
        top = module.__name__.partition(".")[0]
        yield f"{top} {getattr(sys.modules.get(top), '__version__', '')}"
        return
    codes = [function.__code__ for function in _functions(found)]
    for code in codes:  # those inside follow
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    try:
        yield inspect.getsource(found)
    except (OSError, TypeError):  # a class of a notebook, a function made at run time
        for code in codes:
            plain = [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
            yield f"{code.co_code.hex()} {code.co_names} {plain}"
    for base in getattr(found, "__bases__", ()):
        yield from _sources(base, prepared)
    used = {name for code in codes for name in code.co_names}
    closed = {k: v for f in _functions(found) for k, v in inspect.getclosurevars(f).nonlocals.items()}
    known = {k: v for f in _functions(found) for k, v in f.__globals__.items() if k in used} | closed
    for name in sorted(known):
        value = known[name]
        if isinstance(value, type | FunctionType | ModuleType):
            yield from _sources(value, prepared)
        elif isinstance(value, bool | int | float | str | bytes | tuple | None):
            yield f"{name}={value!r}"


def _functions(found: Any) -> Iterator[FunctionType]:
    """Yield a function, or the functions of a class: methods, properties and static methods, what wraps them taken off."""
    for value in vars(found).values() if isinstance(found, type) else [found]:
        value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, FunctionType):
            yield value


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
