"""Finished fits of a comparison on disk, so that one that was killed goes on where it stopped."""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from peerattn.digest import code_version, hash_of
from peerattn.evaluation.running.entries import Entry
from peerattn.exceptions import InputError, PeerAttnWarning, warn_user
from peerattn.models.saving import decoded, encoded
from peerattn.network import PeerNetwork
from peerattn.render import UNSEALED, check_writable, read_sealed, seal, write_atomic

_KEY, _VERSION = "peerattn.piece", 2
Kept = TypeVar("Kept")


class DamagedPieceWarning(PeerAttnWarning):
    """A stored fit was changed or damaged, and is made again."""


class FoldStore:
    """A folder with one file for each finished (model, fold), and one for its network.

    A result is found again by what it was made from: the panel, the rows of the fold, the model with all its settings, the source
    of its class and of what that refers to, the task, this package's own source, and the versions of the packages that compute.
    Failures are not kept: they are tried again.

    A file is Parquet (predictions) with JSON in its metadata (all else) and a seal: no pickle, nothing of it is run, and one that
    was changed is refused with a warning and made again.

    Parameters
    ----------
    folder : path-like
        Made where it is missing.
    digest : str
        Of the panel; see :func:`panel_digest`.
    """

    def __init__(self, folder: str | os.PathLike[str], digest: str) -> None:
        self.folder = check_writable(folder, argument="store")
        self._common = "|".join([str(_VERSION), digest, code_version()])

    def key(self, entry: Entry, train: np.ndarray, test: np.ndarray, with_network: bool) -> str:
        """Return the name under which a result is kept."""
        try:
            made_from = hash_of((entry.model, entry.reference))
        except Exception as error:  # what cannot be hashed fails in as many ways as there are objects
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
        """Return what is kept under a key; None where there is nothing, or, with a warning, where its file is damaged."""
        path = self.folder / f"{key}.parquet"
        if not path.exists():
            return None
        try:
            found = self._read(path, key)
            if not isinstance(found, kind):
                raise InputError(f"path: {str(path)!r} holds a {type(found).__name__}.")
        except InputError as error:
            said = str(error).removeprefix("path: ").removesuffix(" Write it again.")
            warn_user(DamagedPieceWarning(f"store: {said} The fit is made again."))
            return None
        return found

    def save(self, key: str, result: Any) -> None:
        """Keep a result, whole or not at all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        network, predicted = getattr(result, "network", None), getattr(result, "predicted", None)
        if predicted is not None:
            result = replace(result, network=None, predicted=None)
        if network is not None:
            network.to_parquet(self._network(key))
        arrays: dict[str, np.ndarray] = {}
        tree = encoded(result, arrays, type(result).__name__)
        spec = {
            "version": _VERSION,
            "key": key,
            "result": tree,
            "arrays": {name: [a.dtype.str, list(a.shape), a.tolist()] for name, a in arrays.items()},
            "network": network is not None,
            "predicted": predicted is not None,
            "seal": UNSEALED,
        }
        table = pa.table({"prediction": np.asarray([] if predicted is None else predicted, dtype=np.float64)})
        content = io.BytesIO()
        with pq.ParquetWriter(content, table.schema) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({_KEY: json.dumps(spec)})
        write_atomic(self.folder / f"{key}.parquet", seal(content.getvalue()))

    def _read(self, path: Path, key: str) -> Any:
        import pyarrow.parquet as pq

        content = read_sealed(path, "a fit that compare stored")
        try:
            file = pq.ParquetFile(io.BytesIO(content))
            spec = json.loads(file.metadata.metadata[_KEY.encode()])
            predicted = file.read()["prediction"].to_numpy()
            made = spec["version"], spec["key"]
            arrays = {
                name: np.array(v, dtype=dtype).reshape(shape)
                for name, (dtype, shape, v) in spec["arrays"].items()
            }
            has_network, has_predicted, tree = spec["network"], spec["predicted"], spec["result"]
        except Exception as error:  # sealed by someone else: parsers raise anything
            raise InputError(f"path: {str(path)!r} is no fit that this version of compare stored.") from error
        if made != (_VERSION, key):
            raise InputError(f"path: {str(path)!r} has another name or version than it was stored with.")
        found = decoded(tree, arrays)
        if has_predicted:
            network = PeerNetwork.from_parquet(self._network(key)) if has_network else None
            found = replace(found, predicted=predicted, network=network)
        return found

    def _network(self, key: str) -> Path:
        return self.folder / f"{key}.network.parquet"
