"""What a result is made from, as one digest: options and data by their content, code as a whole."""

import functools
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path
from types import FunctionType
from typing import Any

from joblib.hashing import NumpyHasher

_PACKAGE = Path(__file__).resolve().parents[1]
#: Folders whose code is not the user's.
_PATHS = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_INSTALLED = (_PACKAGE, *(Path(os.path.realpath(path)) for path in _PATHS))
#: Packages that figures depend on, by the name that is imported; some come with extras only.
_COMPUTE = {
    "torch": "torch", "sklearn": "scikit-learn", "numpy": "numpy", "pandas": "pandas", "scipy": "scipy",
    "linearmodels": "linearmodels", "pyhdfe": "pyhdfe",
}  # fmt: skip


def hash_of(value: object) -> str:
    """Return a digest of an object's content, and of the code of every class and function in it.

    The code of the user is all files of modules that are loaded and belong to no installed package, as a whole: a constant may
    reach a model in too many ways (a default argument, a container, a decorator) to follow each. Installed packages count by
    the list of their files.

    Raises
    ------
    Exception
        For what cannot be hashed: a lambda, a class inside a function, an open file, a class that no file holds (of a notebook).
    """
    return str(_Hasher("sha1").hash(value))


class _Hasher(NumpyHasher):
    """joblib's digest of pickled content, which is never loaded, with the code of each class and function."""

    def save_global(self, obj: type | FunctionType, name: str | None = None, **rest: Any) -> None:
        super().save_global(obj, name, **rest)
        # a pickle names classes only: their code is part of what a result was made from
        for found in getattr(obj, "__mro__", (obj,)):  # a class with those that it inherits from
            self._hash.update(_code_behind(found.__module__ or "builtins").encode())

    dispatch = NumpyHasher.dispatch | {type: save_global, FunctionType: save_global}


def _code_behind(module: str) -> str:
    """Return a digest of the code behind a module: of its package where that is installed, of all the user's own where not."""
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(module), "__file__", None)
    if top in (*_COMPUTE, _PACKAGE.name) or (file is None and top in sys.builtin_module_names):
        return ""  # see :func:`code_version`
    # code that cannot be read again cannot be compared
    if file is None or not Path(file).is_file():  # of a notebook, or read from standard input
        raise TypeError(f"no file holds the code of {module!r}, so that a change of it would not be noticed")
    if _is_own(file):
        return _own_code()
    return _installed_package(top)


@functools.cache
def _is_own(file: str) -> bool:
    """Whether a file belongs neither to Python nor to an installed package nor to this one."""
    return not any(Path(os.path.realpath(file)).is_relative_to(folder) for folder in _INSTALLED)


@functools.cache
def _installed_package(top: str) -> str:
    """Return the versions of the distributions that bring a package, and the digests of their files that they list."""
    names = sorted(set(packages_distributions().get(top, [])))
    listed = [str(distribution(name).read_text("RECORD")) for name in names]
    return _digest([f"{name} {version(name)}".encode() for name in names], [text.encode() for text in listed])


def _own_code() -> str:
    """Return a digest of the files of all loaded modules that belong to no installed package."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = sorted(file for file in files if file and _is_own(file))
    return _digest(file.encode() + Path(file).read_bytes() for file in own if Path(file).is_file())


@functools.cache
def code_version() -> str:
    """Return what figures depend on besides data and options: this package's source, and the versions of its dependencies."""
    files = sorted(_PACKAGE.rglob("*.py"))
    found = [_digest(str(file.relative_to(_PACKAGE)).encode() + file.read_bytes() for file in files)]
    for name in _COMPUTE.values():
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:  # one that only an extra brings
            continue
    return "|".join(found)


def _digest(*parts: Iterable[bytes]) -> str:
    """Return the SHA-256 of some contents, each by its own, so that no two sequences have one digest by chance of length."""
    digest = hashlib.sha256()
    for part in parts:
        for content in part:
            digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()
