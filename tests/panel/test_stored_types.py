"""The same rows in memory, in one file, and in files of other types: the same bits, or an error that names the column."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from peerattn.exceptions import InputError
from peerattn.panel import as_panel, scan_panel

NUMBERS = ["int8", "int16", "int32", "int64", "uint16", "float32", "float64", "Int32", "null", "absent"]
CODES = ["int32", "int64", "float64", "str", "category", "null", "absent"]
PERIODS = [
    ["int16", "int32", "int64"],
    ["datetime64[ms]", "datetime64[ns]", "datetime64[us]"],
    ["str", "category"],
]
FIRMS = [["int16", "int64"], ["str", "category"]]


def files(rng):
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
        for name, options in ({"firm": firms, "period": periods, "sic": CODES} | numbers).items():
            if drift or name not in kinds:
                kinds[name] = options[rng.integers(len(options))]
            frame = (
                frame.drop(columns=name) if kinds[name] == "absent" else typed(frame, name, kinds[name], rng)
            )
        frames.append(frame)
    return frames


def typed(frame, name, kind, rng):
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


def seen(read):
    try:
        panel = read().sorted()
    except InputError as error:
        return str(error)
    characteristics = {
        name: column.to_numpy(float).tobytes() for name, column in panel.characteristics.items()
    }
    codes = {
        name: column.astype(object).where(column.notna(), None).tolist()
        for name, column in panel.codes.items()
    }
    labels = panel.firm.tolist(), [str(period) for period in panel.period]
    return labels, characteristics, codes, panel.outcomes.tobytes()


@pytest.mark.filterwarnings("ignore")
def check(rng, folder):
    """Return what came in memory, in files, and in one file where there can be one."""
    frames = files(rng)
    options = {"outcome": "y", "codes": ["sic"] if any("sic" in frame for frame in frames) else []}
    whole = pd.concat(frames, ignore_index=True)
    folder.mkdir()
    for t, frame in enumerate(frames):
        frame.to_parquet(folder / f"{t}.parquet", index=False)
    found = [seen(lambda: as_panel(whole, **options)), seen(lambda: scan_panel(folder, **options).mapped())]
    try:
        whole.to_parquet(folder.with_suffix(".parquet"), index=False)
    except (pa.ArrowException, TypeError):
        return found
    return [*found, seen(lambda: scan_panel(folder.with_suffix(".parquet"), **options).mapped())]


@pytest.mark.filterwarnings("ignore")
def test_the_same_bits_or_a_named_refusal(tmp_path):
    rng, read = np.random.default_rng(0), 0
    for case in range(50):  # 500 were tried
        memory, *others = check(rng, tmp_path / str(case))
        for other in others:
            if isinstance(other, str):
                assert any(
                    f"{name!r}" in other or f"{name}:" in other
                    for name in ("firm", "period", "size", "lev", "y", "sic", "outcome")
                ), other
            else:
                assert other == memory, case
                read += 1
    assert read > 50


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("period", ["int64", "str"]), ("period", ["int64", "datetime64[ns]"]), ("y", ["float64", "str"])],
)
def test_types_that_have_nothing_in_common_are_named(tmp_path, name, kinds):
    for t, kind in enumerate(kinds):
        frame = pd.DataFrame({"firm": [1, 2], "period": 2001 + t, "size": [1.0, 2.0], "y": [1.0, 2.0]})
        frame.astype({name: kind}).to_parquet(tmp_path / f"{t}.parquet")
    with pytest.raises(InputError, match=rf"column '{name}' holds .* in .*1.parquet, .* in .*0.parquet"):
        scan_panel(tmp_path, outcome="y")
