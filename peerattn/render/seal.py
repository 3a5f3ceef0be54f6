"""A seal on every file that is read back: the SHA-256 of the file, inside the file, so that no changed bit goes unseen."""

from __future__ import annotations

import hashlib
import os

from peerattn.exceptions import InputError

_MARK = b"peerattn-sha256:"
#: Text to put somewhere into a file before it is sealed.
UNSEALED = _MARK.decode() + 64 * "0"


def seal(content: bytes) -> bytes:
    """Return a file's content with its digest in place of the zeros of ``UNSEALED``.

    The digest is the SHA-256 of the whole content with these zeros. It protects against damage, not against forgery.
    """
    if content.count(UNSEALED.encode()) != 1:
        raise InputError(f"content: expected the text {UNSEALED!r} once.")
    return content.replace(UNSEALED.encode(), _MARK + hashlib.sha256(content).hexdigest().encode())


def read_sealed(path: str | os.PathLike[str], what: str) -> bytes:
    """Return the content of a file that :func:`seal` sealed; ``what`` says in an error what was expected.

    Raises
    ------
    InputError
        When there is no such file, it has no seal (a file of another origin, a pickle for example, or one that is cut off), or
        any bit of it was changed after it was written.
    """
    where = repr(os.fspath(path))
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise InputError(f"path: cannot read {where}: {error.strerror}.") from error
    at = content.find(_MARK) + len(_MARK)
    if at < len(_MARK):
        raise InputError(
            f"path: expected {what}, got {where}, which is of another origin, cut off or damaged."
        )
    digest = hashlib.sha256(memoryview(content)[:at])
    digest.update(64 * b"0")
    digest.update(memoryview(content)[at + 64 :])
    if digest.hexdigest().encode() != content[at : at + 64]:
        raise InputError(f"path: {where} was changed or damaged after it was written. Write it again.")
    return content
