"""Finished fits of a comparison on disk, so that one that was killed goes on where it stopped."""

from typing import TypeVar

import numpy as np

from peerattn.evaluation.running.entries import Entry
from peerattn.exceptions import InputError, PeerAttnWarning, warn_user
from peerattn.render import File, check_writable
from peerattn.store.digest import code_version, hash_of
from peerattn.store.objects import decoded, encoded
from peerattn.store.sealed import read_state, write_state

_KIND = "fit"
_VERSION = 3
Kept = TypeVar("Kept")


class DamagedPieceWarning(PeerAttnWarning):
    """A stored fit was changed or damaged, and is made again."""


class FoldStore:
    """A folder with one file for each finished (model, fold), and one for its network.

    A result is found again by what it was made from: the panel, the rows of the fold, the model with all its settings, the source
    of its class and of what that refers to, the task, this package's own source, and the versions of the packages that compute.
    Failures are not kept: they are tried again.

    A file is sealed and named in its seal: no pickle, nothing of it is run, and one that was changed, or copied over another, is
    rejected with a warning and made again.

    Parameters
    ----------
    folder : path-like, optional
        Made where it is missing. None: nothing is kept, and every key is empty.
    digest : str
        Of the panel; see :func:`panel_digest`.
    """

    def __init__(self, folder: File | None = None, digest: str = "") -> None:
        self.folder = None
        if folder is not None:
            self.folder = check_writable(folder, argument="store")
            self._of = "|".join([str(_VERSION), digest, code_version()])

    def key(self, entry: Entry, train: np.ndarray, test: np.ndarray, with_network: bool) -> str:
        """Return the name under which a result is kept."""
        if self.folder is None:
            return ""
        try:
            # a change of any of these makes the fit again
            return hash_of((self._of, entry, with_network, train, test))
        except Exception as error:  # what cannot be hashed fails in as many ways as there are objects
            why = f"model {entry.name!r} cannot be stored ({type(error).__name__}: {error})"
            raise InputError(f"store: {why}. Define its class at the top of a module, or compare without store=.") from error

    def load(self, key: str, kind: type[Kept]) -> Kept | None:
        """Return what is kept under a key; None where there is nothing, or, with a warning, where its file is damaged."""
        if self.folder is None or not (path := self.folder / f"{key}.fit").exists():
            return None
        try:
            arrays, spec = read_state(path, _KIND, place=key)
            found = decoded(spec.get("result"), arrays)
            if not isinstance(found, kind):
                raise InputError(f"path: {str(path)!r} holds a {type(found).__name__}.")
        except InputError as error:
            wording = str(error).removeprefix("path: ").removesuffix(" Write it again.")
            warn_user(DamagedPieceWarning(f"store: {wording} The fit is made again."))
            return None
        return found

    def save(self, key: str, result: object) -> None:
        """Keep a result, its network within, whole or not at all."""
        if self.folder is not None:
            arrays: dict[str, np.ndarray] = {}
            tree = encoded(result, arrays, type(result).__name__)
            write_state(self.folder / f"{key}.fit", arrays, {"result": tree}, _KIND, place=key)
