"""Damaged and planted files of every kind the package reads back: none may be read, run, or end in another library's error.

python benchmarks/damaged_files.py [--files 500]
"""

from __future__ import annotations

import pickle
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import peerattn
from peerattn.cli.model_file import SavedModel, load_model
from peerattn.evaluation.running import store as pieces
from peerattn.evaluation.running.fitting import FoldResult
from peerattn.exceptions import InputError
from peerattn.sequence.tokenizers import WordTokenizer
from peerattn.store.sealed import UNSEALED, seal

KEY = "0" * 40
PLACES = ("ridge", "kernel")
Kinds = dict[str, tuple[Path, Callable[[], object]]]
#: What somebody changes who seals a file again: a pattern, and what becomes of it.
RESEALED: dict[str, tuple[bytes, Callable[[re.Match[bytes]], bytes]]] = {
    "other numbers": (rb"\d(?=[\],}])", lambda m: b"9" if m[0] != b"9" else b"8"),
    "other names": (rb"peerattn\.[a-z]+|period=", lambda m: b"../../" + m[0][6:]),
    "another version": (rb"version\W+\d", lambda m: m[0][:-1] + b"7"),
}


class Payload:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.path, "w"))


def written(folder: Path) -> Kinds:
    """Write one file of each kind; return its path and how it is read."""
    panel = peerattn.simulate_panel(8, 6, 2, n_industries=2, random_state=0)
    X, y = panel.X.select_dtypes("number"), panel.y
    kernel = peerattn.NadarayaWatsonRegressor(bandwidth=1.0).fit(X, y)
    boosting = peerattn.models.make_model("boosting").fit(X, y)
    kernel.save(folder / "a.model")
    SavedModel(boosting, "b", "forecast", "firm", "period", "y", tuple(X), ()).save(folder / "b.model")
    WordTokenizer().fit(["one two three"]).save(folder / "c.safetensors")
    panel.network.to_parquet(folder / "n.parquet")
    for place in PLACES:
        panel.network.to_parquet(folder / f"{place}.parquet", place=place)
    kept = pieces.FoldStore(folder / "fits", "digest")
    kept.save(KEY, FoldResult("m", 0, np.arange(9.0), network=panel.network))

    def piece() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pieces.DamagedPieceWarning)
            try:
                return kept.load(KEY, FoldResult)
            except pieces.DamagedPieceWarning as damaged:
                raise InputError(str(damaged)) from damaged

    def network(path: Path, place: str | None = None) -> Callable[[], object]:
        return lambda: peerattn.PeerNetwork.from_parquet(path, place=place)

    return {
        "model": (folder / "a.model", lambda: peerattn.load(folder / "a.model")),
        "model of the command": (folder / "b.model", lambda: load_model(folder / "b.model")),
        "sequence model": (folder / "c.safetensors", lambda: peerattn.load(folder / "c.safetensors")),
        "network": (folder / "n.parquet", network(folder / "n.parquet")),
        "network of a model": (folder / "ridge.parquet", network(folder / "ridge.parquet", "ridge")),
        "piece": (folder / "fits" / f"{KEY}.fit", piece),
    }


def copies(folder: Path, kinds: Kinds) -> Iterator[tuple[str, str, str]]:
    """Yield what comes of whole files that were copied over, or swapped with, others of the same kind."""
    pieces.FoldStore(folder / "fits", "digest").save("1" * 40, FoldResult("m", 1, np.arange(9.0)[::-1]))
    pairs = {
        "piece": sorted((folder / "fits").glob("*.fit")),
        "network of a model": [folder / f"{place}.parquet" for place in PLACES],
    }
    for kind, (one, other) in pairs.items():
        first, second = one.read_bytes(), other.read_bytes()
        for name, content in {"copied": (second, second), "swapped": (second, first)}.items():
            one.write_bytes(content[0])
            other.write_bytes(content[1])
            yield kind, name, outcome(kinds[kind][1])
        one.write_bytes(first)
        other.write_bytes(second)


def damages(content: bytes, rng: np.random.Generator, payload: Payload) -> Iterator[tuple[str, bytes]]:
    """Yield one file of each kind of damage, for ever."""
    planted, size = pickle.dumps(payload), len(content)
    while True:
        at, length = int(rng.integers(size)), int(rng.integers(1, 65))
        yield "cut off", content[:at]
        flipped = bytes([content[at] ^ 1 << int(rng.integers(8))])
        yield "a flipped bit", content[:at] + flipped + content[at + 1 :]
        noise = rng.bytes(length)
        if content[at : at + length] != noise[: size - at]:
            yield "overwritten", content[:at] + noise + content[at + length :]
        yield "bytes inserted", content[:at] + noise + content[at:]
        yield "oversized header", (2 ** int(rng.integers(33, 63))).to_bytes(8, "little") + content[8:]
        yield "a pickle", planted
        yield "a pickle in disguise", content[:8] + planted
        yield "a pickle inside", content[:at] + planted + content[at:]
        for what, (pattern, change) in RESEALED.items():
            yield f"sealed again, {what}", resealed(content, pattern, change)


def resealed(content: bytes, pattern: bytes, change: Callable[[re.Match[bytes]], bytes]) -> bytes:
    """Return a file changed by somebody who seals it again."""
    open_ = re.sub(rb"peerattn-sha256:[0-9a-f]{64}", UNSEALED.encode(), content)
    changed = re.sub(pattern, change, open_)
    return seal(changed) if changed != open_ and UNSEALED.encode() in changed else changed + b"?"


def newer(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield files of a newer version, sealed as they should be."""
    (folder / "newer").mkdir()
    with mock.patch("peerattn.store.sealed.VERSION", 2):
        read = written(folder / "newer")
    yield from ((name, how) for name, (_, how) in read.items())


def outcome(read: Callable[[], object]) -> str:
    """Return what reading a file ends in: accepted, an InputError, or another library's error."""
    try:
        read()
    except InputError:
        return "InputError"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {error}"
    return "accepted"


def tried(folder: Path, files: int, seed: int = 0) -> list[tuple[str, str, str]]:
    """Return (kind of file, damage, outcome) of so many damaged files, and of the planted payload."""
    rng, payload, found = np.random.default_rng(seed), Payload(folder / "it ran"), []
    kinds = written(folder)
    assert all(outcome(read) == "accepted" for _, read in kinds.values())
    found += copies(folder, kinds)
    found += [(kind, "a newer version", outcome(read)) for kind, read in newer(folder)]
    each = {kind: damages(path.read_bytes(), rng, payload) for kind, (path, _) in kinds.items()}
    while len(found) < files:
        for kind, (path, read) in kinds.items():
            whole = path.read_bytes()
            name, content = next(each[kind])
            path.write_bytes(content)
            found.append((kind, name, outcome(read)))
            path.write_bytes(whole)
    found.append(("all", "the planted payload", "it ran" if (folder / "it ran").exists() else "did not run"))
    return found


def main() -> None:
    from report import options, publish

    arguments = options(__doc__, files=500)
    with tempfile.TemporaryDirectory() as folder:
        *found, (_, _, payload) = tried(Path(folder), arguments.files)
    rows = []
    for kind in dict.fromkeys(kind for kind, _, _ in found):
        counts = Counter(end.partition(":")[0] for k, _, end in found if k == kind)
        ends = {end: str(counts[end]) for end in ("InputError", "accepted", "foreign")}
        rows.append({"file": kind, "damaged": str(counts.total())} | ends)
    for kind, damage, end in found:
        if end != "InputError":
            print(kind, damage, end, sep=" | ")
    notes = [f"The payload planted in pickles: {payload}."]
    notes += [f"Damages: {', '.join(sorted({d for _, d, _ in found}))}."]
    publish("damaged_files", f"{len(found)} damaged files", rows, notes)


if __name__ == "__main__":
    main()
