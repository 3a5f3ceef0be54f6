"""The one file format: arrays as safetensors, the rest as JSON in its header, and a seal. No pickle; damaged files are errors.

The seal is the SHA-256 of the file, inside the file, so that no changed bit goes unseen; beside it is what the file is for,
so that no file is read in the place of another.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from peerattn.exceptions import InputError, expect, reworded
from peerattn.render import write_atomic
from peerattn.render.files import File

KEY = "peerattn"
VERSION = 1
#: Kinds of arrays that safetensors does not know (text, dates, durations), and the numbers that represent them.
_AS_NUMBERS = {"U": "<u4", "M": "<i8", "m": "<i8"}

Arrays = dict[str, np.ndarray]
_MARK = b"peerattn-sha256:"
#: Text to put somewhere into a file before it is sealed.
UNSEALED = _MARK.decode() + 64 * "0"
#: Of a file that someone else sealed, which may hold anything.
FOREIGN = "path: the file holds what this version of peerattn does not write"


def seal(content: bytes) -> bytes:
    """Return a file's content with its digest in place of the zeros of ``UNSEALED``.

    The digest is the SHA-256 of the whole content with these zeros. It protects against damage, not against forgery.
    """
    n = content.count(UNSEALED.encode())
    expect(n == 1, "content", f"the text {UNSEALED!r} once", f"it {n} times")
    return content.replace(UNSEALED.encode(), _MARK + hashlib.sha256(content).hexdigest().encode())


def read_sealed(path: File, what: str) -> bytes:
    """Return the content of a file that :func:`seal` sealed; ``what`` an error names what was expected.

    Raises
    ------
    InputError
        When there is no such file, it has no seal (a file of another origin, a pickle for example, or one that is cut off), or
        any bit of it was changed after it was written.
    """
    where = repr(os.fspath(path))
    with reworded(f"path: cannot read {where}", kinds=(OSError, ValueError)):  # ValueError: a path with a zero byte
        content = Path(path).read_bytes()
    at = content.find(_MARK) + len(_MARK)
    expect(at >= len(_MARK), "path", what, f"{where}, which is of another origin, cut off or damaged")
    # the digest was taken with zeros in its own place
    unsealed = content[:at] + 64 * b"0" + content[at + 64 :]
    if hashlib.sha256(unsealed).hexdigest().encode() != content[at : at + 64]:
        raise InputError(f"path: {where} was changed or damaged after it was written. Write it again.")
    return content


def write_state(path: File, arrays: Mapping[str, np.ndarray], spec: Mapping[str, Any], kind: str, *, place: str = "") -> None:
    """Write arrays and a specification to one file, atomically.

    Parameters
    ----------
    path : path-like
        The file to write. Its folder must exist.
    arrays : dict of str to ndarray
        Numbers, booleans, text, dates or durations, of any shape.
    spec : dict
        Whatever JSON holds; tuples come back as lists.
    kind : str
        What the file holds, for example the name of a class; `read_state` requires the same.
    place : str
        What the file is for, where it has a place among others; `read_state` requires the same.

    Raises
    ------
    InputError
        When an array holds Python objects, the specification holds what JSON cannot, or the file cannot be written.

    Notes
    -----
    The header has the format's version and the seal of the file. Equal content gives equal bytes.
    """
    stored, header = with_header(arrays, spec, kind, place)
    write_atomic(path, seal(save(stored, metadata={KEY: header})))


def with_header(arrays: Mapping[str, np.ndarray], spec: Mapping[str, Any], kind: str, place: str) -> tuple[Arrays, str]:
    """Return arrays as safetensors holds them and the header of a file, not yet sealed; arguments as in :func:`write_state`."""
    stored = dict[str, np.ndarray]()
    dtypes = dict[str, str]()
    for name in sorted(arrays):
        # contiguous makes a scalar a row: back to its shape
        array = np.ascontiguousarray(arrays[name]).reshape(np.shape(arrays[name]))
        came = f"dtype {array.dtype} in {name!r}"
        remedy = "Convert it, or put it into spec."
        expect(array.dtype.kind in "biufUMm", "arrays", "numbers, booleans, text or dates", came, remedy)
        if array.dtype.kind in _AS_NUMBERS:
            dtypes[name] = array.dtype.newbyteorder("<").str
            array = array.astype(dtypes[name])[..., None].view(_AS_NUMBERS[array.dtype.kind])
        stored[name] = array
    header = {"version": VERSION, "kind": kind, "place": place, "spec": spec, "dtypes": dtypes}
    with reworded("spec: expected what JSON holds, numbers, text and lists", kinds=(TypeError, ValueError, RecursionError)):
        return stored, json.dumps(header | {"seal": UNSEALED}, sort_keys=True)


def read_state(path: File, kind: str, *, place: str = "") -> tuple[Arrays, dict[str, Any]]:
    """Read the arrays and the specification that `write_state` wrote.

    Parameters
    ----------
    path : path-like
    kind, place : str
        What the file must hold, and be for.

    Returns
    -------
    arrays : dict of str to ndarray
    spec : dict

    Raises
    ------
    InputError
        When there is no such file; when it is of another origin (a pickle, for example), truncated or changed since it was
        written; when it holds another kind, or was written by a newer version.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_state(f"{folder}/a", {"firm": np.array(["XOM"]), "x": np.ones(2)}, {"alpha": 0.5}, "Model")
    ...     read_state(f"{folder}/a", "Model")
    ({'firm': array(['XOM'], dtype='<U3'), 'x': array([1., 1.])}, {'alpha': 0.5})
    """
    content = read_sealed(path, "a file that save() of this package wrote")
    with reworded(FOREIGN):
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"][KEY]
        return without_header(load(content), header, path, kind, place)


def without_header(stored: Arrays, text: str | bytes, path: File, kind: str, place: str | None) -> tuple[Arrays, dict[str, Any]]:
    """Return what :func:`with_header` was given, from a file; None: whatever its place is."""
    header = json.loads(text)
    where = repr(os.fspath(path))
    version, found, meant, dtypes = (header[name] for name in ("version", "kind", "place", "dtypes"))
    if version != VERSION:
        raise InputError(f"path: {where} has format version {version}, and this one reads version {VERSION}. Upgrade peerattn.")
    expect(found == kind, "path", f"a saved {kind}", f"a saved {found} in {where}")
    if place not in (None, meant):
        raise InputError(f"path: {where} is a copy of another file: it is for {meant!r}, not for {place!r}. Write it again.")
    arrays = dict(sorted(stored.items()))
    arrays |= {name: arrays[name].view(dtype)[..., 0] for name, dtype in dtypes.items()}
    return arrays, dict(header["spec"])
