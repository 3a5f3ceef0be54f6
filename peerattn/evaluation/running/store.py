"""Finished fits of a comparison on disk, so that one that was killed goes on where it stopped."""

from __future__ import annotations

import hashlib
import os
import pickle
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import joblib
import numpy as np
import pandas as pd

from peerattn.evaluation.running.entries import Entry
from peerattn.exceptions import InputError
from peerattn.panel import Panel
from peerattn.render import check_writable, write_atomic

_FORMAT = "peerattn fold result 1"
Kept = TypeVar("Kept")


def panel_digest(panel: Panel) -> str:
    """Return the SHA-256 of all that models see: labels, characteristics, codes and outcomes, in canonical row order.

    Equal panels have equal digests whatever file they came from and in whatever order its rows stood.
    """
    digest = hashlib.sha256(f"{panel.outcome}|{list(panel.X.columns)}".encode())
    for values in (*panel.X.index.to_frame(index=False).items(), *panel.X.items(), ("", panel.y)):
        column = pd.Series(values[1]).reset_index(drop=True)
        digest.update(pd.util.hash_pandas_object(column, index=False).to_numpy(dtype=np.uint64).tobytes())
    return digest.hexdigest()


class FoldStore:
    """A folder with one file for each finished (model, fold).

    A result is found again by what it was made from: the panel, the rows of the fold, the model with all its
    settings, the task, and the versions of the packages that compute. Failures are not kept: they are tried again.

    Parameters
    ----------
    folder : path-like
        Made where it is missing. Its files are pickles: use a folder that only you can write to.
    digest : str
        Of the panel; see :func:`panel_digest`.
    """

    def __init__(self, folder: str | os.PathLike[str], digest: str) -> None:
        from peerattn import __version__

        self.folder = check_writable(folder, argument="store")
        versions = [version(name) for name in ("torch", "scikit-learn", "numpy", "pandas")]
        self._common = "|".join([_FORMAT, digest, __version__, *versions])

    def key(self, entry: Entry, train: np.ndarray, test: np.ndarray, with_network: bool) -> str:
        """Return the name under which a result is kept."""
        try:
            made_from = joblib.hash((entry.model, entry.reference), hash_name="sha1")
        except Exception as error:  # pickling fails in as many ways as there are objects
            raise InputError(
                f"store: model {entry.name!r} cannot be stored ({type(error).__name__}: {error}). Define its class at the "
                "top of a module, or compare without store=."
            ) from error
        shown = (entry.native, entry.shown_outcomes, entry.own_only, with_network)
        digest = hashlib.sha256(f"{self._common}|{entry.name}|{made_from}|{shown}".encode())
        for rows in (train, test):
            digest.update(np.ascontiguousarray(rows, dtype=np.int64).tobytes() + b"|")
        return digest.hexdigest()[:40]

    def load(self, key: str, kind: type[Kept]) -> Kept | None:
        """Return an object of a kind kept under a key; None where there is none, or the file is damaged."""
        try:
            kept = pickle.loads((self.folder / f"{key}.fit").read_bytes())
        except Exception:  # no file, or a damaged pickle, which raises anything: the fit is then made again
            return None
        return kept if isinstance(kept, kind) else None

    def save(self, key: str, result: object) -> Path:
        """Keep a result, whole or not at all."""
        return write_atomic(self.folder / f"{key}.fit", pickle.dumps(result))
