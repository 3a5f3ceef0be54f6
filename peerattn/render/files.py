"""Writing results: whole or not at all, and with errors before the work rather than after it."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peerattn.exceptions import expect, reworded

File = str | os.PathLike[str]


@contextmanager
def atomic_path(path: File) -> Iterator[Path]:
    """Give a temporary path beside ``path``; on success it takes the place of ``path``, on failure it goes.

    Parameters
    ----------
    path : path-like
        The file to write. Its folder must exist.

    Yields
    ------
    pathlib.Path
        A fresh, empty file in the same folder.

    Raises
    ------
    InputError
        When the folder does not exist or cannot be written, or the disk is full.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    target = Path(path)
    # in the same folder: a rename across disks is a copy, and not atomic
    temporary = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}.part"
    wording = f"path: cannot write {str(target)!r}"
    with reworded(wording, kinds=(OSError, ValueError)):  # ValueError: a path with a zero byte
        expect(not target.is_dir(), "path", "the name of a file", f"the folder {str(target)!r}")
        temporary.touch(exist_ok=False)
    try:
        with reworded(wording, " The previous file, if any, is unchanged.", OSError):  # a full disk, for one
            yield temporary
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def unfinished(folder: File) -> list[Path]:
    """Return what killed processes left in a folder of files that :func:`atomic_path` was writing."""
    return sorted(Path(folder).glob(".*.part"))


def write_atomic(path: File, content: str | bytes) -> Path:
    """Write ``content`` to ``path``: a reader sees the old file or the whole new one, never half of it.

    Parameters
    ----------
    path : path-like
        The file to write. Its folder must exist.
    content : str or bytes
        Text is written as UTF-8 with its line ends as they are.

    Returns
    -------
    pathlib.Path
        The file written.

    Raises
    ------
    InputError
        When the folder does not exist or cannot be written.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomic(Path(folder) / "a.txt", "α").read_text(encoding="utf-8")
    'α'
    """
    with atomic_path(path) as temporary:
        if isinstance(content, str):
            content = content.encode("utf-8")
        temporary.write_bytes(content)
    return Path(path)


def check_writable(folder: File, *, argument: str = "out") -> Path:
    """Make ``folder`` where it is missing and try to write in it, so that long work does not end in an error.

    Parameters
    ----------
    folder : path-like
        Where results will be written.
    argument : str, default "out"
        Name of the argument in the error.

    Returns
    -------
    pathlib.Path
        The folder, which exists.

    Raises
    ------
    InputError
        When it is a file, or cannot be made or written.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     check_writable(Path(parent) / "new").name
    'new'
    """
    with reworded(f"{argument}: expected the path of a folder", kinds=TypeError):
        path = Path(folder)
    with reworded(f"{argument}: expected a folder you may write in, got {str(path)!r}", kinds=(OSError, ValueError)):
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    return path
