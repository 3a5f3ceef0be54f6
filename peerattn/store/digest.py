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
    yield from _text(found)
    if isinstance(found, type):
        for base in found.__bases__:
            yield from _sources(base, seen)
    for function in _functions(found):
        closed = inspect.getclosurevars(function).nonlocals
        known = {**function.__globals__, **closed}
        used = {name for code in _codes(function.__code__) for name in code.co_names}
        for name in sorted(known.keys() & (used | closed.keys())):
            value = known[name]
            if isinstance(value, type | FunctionType | ModuleType):
                yield from _sources(value, seen)
            elif isinstance(value, bool | int | float | str | bytes | tuple | None):
                yield f"{name}={value!r}"


def _text(found: Any) -> list[str]:
    """Return the source, or (a class of a notebook, a function made at run time) the compiled code."""
    try:
        return [inspect.getsource(found)]
    except (OSError, TypeError):
        return [_compiled(code) for function in _functions(found) for code in _codes(function.__code__)]


def _compiled(code: CodeType) -> str:
    constants = [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


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
    return (*(os.path.realpath(path) + os.sep for path in paths), f"{_package()}{os.sep}")


def _is_installed(module: ModuleType) -> bool:
    """Whether a module belongs to Python, an installed package or to this one."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ != "__main__"
    return os.path.realpath(file).startswith(_installed())


def _package() -> Path:
    return Path(__file__).resolve().parents[1]


@functools.cache
def package_digest() -> str:
    """Return the SHA-256 of this package's own source."""
    digest = hashlib.sha256()
    for path in sorted(_package().rglob("*.py")):
        digest.update(str(path.relative_to(_package())).encode() + path.read_bytes())
    return digest.hexdigest()


def code_version() -> str:
    """Return what figures depend on besides data and options: this package's source, and the versions of its dependencies."""
    versions = [version(name) for name in ("torch", "scikit-learn", "numpy", "pandas")]
    return "|".join([package_digest(), *versions])
