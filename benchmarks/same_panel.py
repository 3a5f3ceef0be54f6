"""The same rows in memory, in one file, and in files by period of drifting types: the same bits or a named error?

python benchmarks/same_panel.py [--cases 500]
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from peerattn.exceptions import InputError
from peerattn.panel import Panel, as_panel, scan_panel
from report import options, publish

NUMBERS = ["int8", "int16", "int32", "int64", "uint16", "float32", "float64", "Int32", "null", "absent"]
CODES = ["int32", "int64", "float64", "str", "category", "null", "absent"]
STAMPS = ["datetime64[ms]", "datetime64[ns]", "datetime64[us]"]
PERIODS = [["int16", "int32", "int64"], STAMPS, ["str", "category"]]
FIRMS = [["int16", "int64"], ["str", "category"]]


def files(rng: np.random.Generator) -> list[pd.DataFrame]:
    """Return frames of one period each, their types drawn for each file."""
    periods, firms = (kinds[rng.integers(len(kinds))] for kinds in (PERIODS, FIRMS))
    drift = rng.random() < 0.8
    frames, kinds = [], {}
    for t in range(3):
        n = int(rng.integers(2, 6))
        when = 2001 + t if "int16" in periods else f"200{1 + t}-01-31"
        frame = pd.DataFrame({"firm": rng.permutation(9)[:n], "period": when})
        frame["size"], frame["lev"] = rng.integers(-99, 99, n), rng.integers(0, 99, n)
        frame["y"], frame["sic"] = rng.integers(-99, 99, n), rng.choice([3711, 2911], n)
        numbers = {"size": NUMBERS, "lev": [*NUMBERS[:7], "str", "bool"], "y": NUMBERS[:-1]}
        for name, types in ({"firm": firms, "period": periods, "sic": CODES} | numbers).items():
            if drift or name not in kinds:
                kinds[name] = types[rng.integers(len(types))]
            frame = typed(frame, name, kinds[name], rng)
        frames.append(frame)
    return frames


def typed(frame: pd.DataFrame, name: str, kind: str, rng: np.random.Generator) -> pd.DataFrame:
    """Return the frame with a column of another type; wide numbers get values that only they hold."""
    if kind == "absent":
        return frame.drop(columns=name)
    if kind == "null":
        return frame.assign(**{name: pd.Series([None] * len(frame), dtype=object)})
    values = frame[name]
    if kind in ("int64", "float64") and name in ("size", "y"):
        values = values * int(1e9) + rng.integers(0, 9, len(values))
    if kind.startswith("float") and name in ("size", "y"):
        values = values + rng.random(len(values))
    if kind == "category":
        values = values.astype(str)
    return frame.assign(**{name: values.astype(kind)})


def bits_of(how: Callable[[], Panel]) -> Any:
    """Return the bits of what was read, or the error."""
    try:
        panel = how().sorted()
    except InputError as error:
        return str(error)
    numbers = {name: column.to_numpy(float).tobytes() for name, column in panel.characteristics.items()}
    texts = panel.codes.astype(object).where(panel.codes.notna(), None)
    codes = texts.to_dict("list")
    labels = panel.firm.tolist(), [str(period) for period in panel.period]
    return labels, numbers, codes, panel.outcomes.tobytes()


def read(rng: np.random.Generator, folder: Path) -> list[Any]:
    """Return what came in memory, in files, and in one file where there can be one."""
    frames = files(rng)
    options = {"outcome": "y", "codes": ["sic"] if any("sic" in frame for frame in frames) else []}
    whole = pd.concat(frames, ignore_index=True)
    folder.mkdir()
    for t, frame in enumerate(frames):
        frame.to_parquet(folder / f"{t}.parquet", index=False)
    found = [bits_of(lambda: as_panel(whole, **options)), bits_of(lambda: scan_panel(folder, **options).mapped())]
    try:
        whole.to_parquet(folder.with_suffix(".parquet"), index=False)
    except (pa.ArrowException, TypeError):
        return found
    return [*found, bits_of(lambda: scan_panel(folder.with_suffix(".parquet"), **options).mapped())]


def compared(memory: Any, other: Any) -> str:
    """Say how what came from files is to what came from memory."""
    if not isinstance(other, str):
        return "same bits" if other == memory else "other bits"
    names = ("firm", "period", "size", "lev", "y", "sic", "outcome")
    named = any(f"{name!r}" in other or f"{name}:" in other for name in names)
    return "named error" if named else f"unnamed error: {other}"


def tried(cases: int, folder: Path, seed: int = 0) -> list[tuple[str, str]]:
    """Return (where the panel was, how it ended) of so many generated panels."""
    rng, found = np.random.default_rng(seed), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in range(cases):
            memory, *others = read(rng, folder / str(case))
            found.append(("memory", "error" if isinstance(memory, str) else "read"))
            found += zip(("files by period", "one file"), (compared(memory, other) for other in others))
    return found


def main() -> None:
    arguments = options(__doc__, cases=500)
    with tempfile.TemporaryDirectory() as folder:
        found = tried(arguments.cases, Path(folder))
    rows = []
    for place in ("files by period", "one file"):
        ends = Counter(end.partition(":")[0] for where, end in found if where == place)
        kinds = ("same bits", "named error", "other bits", "unnamed error")
        counts = {kind: str(ends[kind]) for kind in kinds}
        rows.append({"panel in": place, "cases": str(ends.total())} | counts)
    memory = Counter(end for where, end in found if where == "memory")
    note = f"Beside the same rows in memory, of which {memory['read']} were read and {memory['error']} were errors."
    more = "Rows whose columns parquet cannot hold in one type have no single file."
    publish("same_panel", f"{memory.total()} panels in files of drifting types", rows, [note, more])


if __name__ == "__main__":
    main()
