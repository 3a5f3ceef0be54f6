"""Finished stages of a fit on disk, so that a fit that was killed goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from peerattn.exceptions import InputError
from peerattn.processes import from_first, process
from peerattn.render import check_writable, unfinished
from peerattn.store.sealed import read_state, write_state

_KIND = "checkpoint"
_END = ".checkpoint"
_HEAD = "fit.checkpoint"


class Checkpoint:
    """A folder with one file for each finished stage of a fit.

    A fit is a fixed sequence of stages. A stage that is on disk is read instead of made; what lies between stages is
    computed again. Every file is sealed, written whole or not at all, and holds arrays and JSON: no
    pickle, nothing of it is run. Of several processes the first reads and writes, and shows the others what it has read.

    Parameters
    ----------
    folder : path-like
        New, empty, or of the same fit.
    made_from : mapping of str to str
        What the fit depends on, by name: a digest of its data, its options, the version of the code.

    Raises
    ------
    InputError
        When the folder cannot be written, holds something else, is damaged, or belongs to a fit on other data, with other
        options, or by other code. The message says which.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(folder, {"data": "a1"})
    ...     with checkpoint.stage():
    ...         checkpoint.finish({"x": np.ones(2)}, {})
    ...     again = Checkpoint(folder, {"data": "a1"})
    ...     with again.stage():
    ...         found = again.load()
    >>> found
    ({'x': array([1., 1.])}, {})
    """

    def __init__(self, folder: str | os.PathLike[str], made_from: Mapping[str, str]) -> None:
        self.folder = check_writable(folder, argument="checkpoint")
        self._number = 0
        self._made_from = dict(made_from)
        if process() or self._read(_HEAD, "Delete the folder to start anew.") is not None:
            return
        for held in sorted(path.name for path in {*self.folder.iterdir()} - {*unfinished(self.folder)}):
            wanted = "checkpoint: expected a new or empty folder, or one that a fit has written"
            raise InputError(f"{wanted}, got {str(self.folder)!r}, which holds {held!r}.")
        self._write(_HEAD, {}, None)

    @contextmanager
    def stage(self) -> Iterator[None]:
        """Enter the next stage: :meth:`load` and :meth:`finish` are about it."""
        self._number += 1
        yield

    def load(self) -> tuple[dict[str, np.ndarray], Any] | None:
        """Return what was saved of the stage; None where nothing was."""
        advice = "Delete this file: its stage is made again."
        return from_first(None if process() else self._read(f"{self._number}{_END}", advice))

    def finish(self, arrays: Mapping[str, np.ndarray], spec: Any) -> None:
        """Keep the result of the stage."""
        if not process():
            self._write(f"{self._number}{_END}", arrays, spec)

    def _read(self, name: str, advice: str) -> tuple[dict[str, np.ndarray], Any] | None:
        if not (self.folder / name).exists():
            return None
        with _about_checkpoint(advice):
            arrays, spec = read_state(self.folder / name, _KIND, place=name)
        of = spec.get("made_from")
        held: dict[str, Any] = of if isinstance(of, dict) else {}
        other = [key for key in self._made_from | held if held.get(key) != self._made_from.get(key)]
        of_other = f"checkpoint: {str(self.folder)!r} is of a fit with other {', '.join(other)}"
        if other:
            raise InputError(f"{of_other}. Repeat that fit as it was, or choose another folder.")
        return arrays, spec.get("spec")

    def _write(self, name: str, arrays: Mapping[str, np.ndarray], spec: Any) -> None:
        with _about_checkpoint():
            whole = {"made_from": self._made_from, "spec": spec}
            write_state(self.folder / name, arrays, whole, _KIND, place=name)


@contextmanager
def _about_checkpoint(advice: str = "") -> Iterator[None]:
    """Let errors of a file name the checkpoint, and say what to do."""
    try:
        yield
    except InputError as error:
        wording = str(error).removeprefix("path: ").removesuffix(" Write it again.")
        raise InputError(f"checkpoint: {wording} {advice}".rstrip()) from error


def remove_checkpoint(folder: str | os.PathLike[str]) -> None:
    """Delete the files of a checkpoint, and its folder where nothing else is in it."""
    path = Path(folder)
    files = [*path.glob(f"*{_END}"), *unfinished(path)]
    # the head last: a killed removal leaves a checkpoint
    for file in sorted(files, key=lambda file: file.name == _HEAD):
        file.unlink(missing_ok=True)
    if not any(path.iterdir()):
        path.rmdir()
