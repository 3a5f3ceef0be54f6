"""Hard input: random frames, options, files and commands must end in finite figures or in the package's own error.

python benchmarks/hard_input.py --log hard_input.jsonl [--cases 10000]

Each case is made from its number alone. The log has a line for each finished case, which is not run again. `--only N` runs one
case and shows the traceback.
"""

from __future__ import annotations

import contextlib
import io
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

import peerattn
from peerattn import cli
from peerattn.exceptions import InputError
from peerattn.models import FamaMacBethRegressor, FirmMeanRegressor, LastValueRegressor

LIMIT = 30  # seconds a case may take
Rng = np.random.Generator


class Hang(BaseException):
    """A case took longer than the limit."""


class NotFinite(Exception):
    """A figure that came out is NaN or infinite."""


# --------------------------------------------------------------------------- frames


def panel(rng: Rng) -> tuple[pd.DataFrame, pd.Series]:
    """Return a small ragged panel."""
    n, t = int(rng.choice([1, 2, 3, 8, 12])), int(rng.choice([1, 2, 4, 8]))
    firms, names = [f"F{i}" for i in range(n)], ["firm", "period"]
    index = pd.MultiIndex.from_product([firms, range(2001, 2001 + t)], names=names)
    if len(index) > 4:
        index = index[np.sort(rng.choice(len(index), max(4, int(0.9 * len(index))), replace=False))]
    p = int(rng.choice([0, 1, 2, 3], p=[0.05, 0.25, 0.4, 0.3]))
    X = pd.DataFrame(rng.normal(size=(len(index), p)), index, [f"x{k}" for k in range(p)])
    y = pd.Series(rng.normal(size=len(index)) + (X.sum(axis=1) if p else 0.0), index, name="y")
    if rng.random() < 0.6:
        X["sic"] = rng.choice(["0100", "2834", "3711", None], len(X), p=[0.4, 0.3, 0.2, 0.1])
    return X, y


def magnitude(rng: Rng) -> float:
    """Return a factor between the smallest and the largest float."""
    sign, powers = rng.choice([1.0, -1.0]), [-320, -300, -160, -100, -20, 5, 18, 50, 99, 155, 200, 300, 308]
    return float(sign * 10.0 ** rng.choice(powers))


def one_of(rng: Rng, kinds: list[Any]) -> Any:
    """Return one of a list, or what it makes."""
    return kinds[int(rng.integers(len(kinds)))]


def changed_column(rng: Rng, X: pd.DataFrame, y: pd.Series) -> tuple[Any, Any]:
    """Give one column other values or another dtype."""
    if not X.shape[1]:
        return X, y
    n, name = len(X), one_of(rng, list(X.columns))
    numbers = rng.normal(size=n)
    kinds: list[Callable[[], Any]] = [
        lambda: numbers * magnitude(rng),
        lambda: np.full(n, np.nan),
        lambda: np.where(rng.random(n) < 0.7, np.nan, numbers),
        lambda: np.where(rng.random(n) < 0.2, rng.choice([np.inf, -np.inf]), numbers),
        lambda: np.full(n, magnitude(rng)),
        lambda: np.where(rng.random(n) < 0.1, magnitude(rng), numbers),
        lambda: numbers > 0,
        lambda: pd.array(np.where(rng.random(n) < 0.3, None, 1), dtype="Int64"),
        lambda: pd.array(np.where(rng.random(n) < 0.3, None, True), dtype="boolean"),
        lambda: numbers.astype(rng.choice(["float32", "float16", "int8", "uint64", "complex128"])),
        lambda: pd.array(numbers, dtype="double[pyarrow]"),
        lambda: pd.arrays.SparseArray(numbers),
        lambda: [Decimal(str(v)) for v in numbers.round(3)],
        lambda: pd.Categorical(rng.choice(["a", "b"], n)),
        lambda: pd.Categorical(rng.integers(0, 3, n), categories=[2, 0, 1], ordered=True),
        lambda: pd.date_range("2001-01-01", periods=n, tz=rng.choice(["UTC", "Asia/Tokyo", None])),
        lambda: pd.timedelta_range("1D", periods=n),
        lambda: pd.period_range("2001-01", periods=n, freq="M"),
        lambda: pd.interval_range(0, n),
        lambda: rng.choice(np.array(["a\ud800", "\x00", "", "=1+1", "漢字"], dtype=object), n),
        lambda: rng.choice(np.array([1, "a", None, 2.5, b"x"], dtype=object), n),
        lambda: rng.choice(np.array([10**400, -(10**30), 1], dtype=object), n),
        lambda: pd.Series([[1], {}] * n, dtype=object).to_numpy()[:n],
        lambda: np.zeros(n),
        lambda: rng.integers(-(2**63), 2**63 - 1, n),
    ]
    X = X.copy()
    try:
        made = one_of(rng, kinds)()
        objects = isinstance(made, np.ndarray) and made.dtype == object
        X[name] = pd.Series(made, X.index, dtype=object) if objects else made
    except (ValueError, TypeError, OverflowError, pd.errors.OutOfBoundsDatetime):
        return X, y  # pandas itself cannot make it
    return X, y


def changed_outcome(rng: Rng, X: Any, y: Any) -> tuple[Any, Any]:
    """Give the outcome other values, another form, or none."""
    n = len(y)
    values = np.asarray(y, dtype=float)
    kinds: list[Callable[[], Any]] = [
        lambda: y * magnitude(rng),
        lambda: y * magnitude(rng),
        lambda: y + magnitude(rng),
        lambda: y * np.nan,
        lambda: y.where(rng.random(n) < 0.3),
        lambda: y.where(rng.random(n) < 0.8, np.inf),
        lambda: y * 0.0,
        lambda: y > 0,
        lambda: y.astype(str),
        lambda: y.astype(object),
        lambda: y.astype("float32"),
        lambda: y.astype("double[pyarrow]"),
        lambda: y.astype(complex),
        lambda: y.to_frame(),
        lambda: list(values),
        lambda: values[:-1],
        lambda: values[None],
        lambda: y.reset_index(drop=True),
        lambda: y.sample(frac=1, random_state=0),
        lambda: y.rename(index=lambda v: f"{v}!", level=0),
        lambda: None,
        lambda: "y",
        lambda: pd.Series(pd.date_range("2001-01-01", periods=n), index=y.index),
    ]
    return X, one_of(rng, kinds)()


def changed_labels(rng: Rng, X: pd.DataFrame, y: Any) -> tuple[Any, Any]:
    """Give firms and periods other labels; the outcome gets the same where it has them."""
    firm, year = X.index.get_level_values(0), np.asarray(X.index.get_level_values(1))
    if year.dtype.kind != "i" or not len(year) or year.max() > 2100:
        return X, y
    stamps = pd.to_datetime([f"{v}-12-31" for v in year])
    kinds: list[Callable[[], tuple[Any, Any]]] = [
        lambda: (firm, stamps),
        lambda: (firm, stamps.tz_localize(rng.choice(["UTC", "America/New_York"]))),
        lambda: (firm, stamps.to_period("Y")),
        lambda: (firm, pd.Categorical(year, categories=np.unique(year)[::-1], ordered=True)),
        lambda: (firm, pd.Categorical([str(v) for v in year])),
        lambda: (firm, [str(v) for v in year]),
        lambda: (firm, year * 100 + 6),
        lambda: (firm, year.astype(float) + 0.5),
        lambda: (firm, np.where(rng.random(len(year)) < 0.2, np.nan, year)),
        lambda: (firm, rng.choice(np.array(["2001Q1", 2002, None], dtype=object), len(year))),
        lambda: (firm, pd.Index([f"{v}\ud800" for v in year], dtype=object)),
        lambda: (firm, np.full(len(year), 10**12)),
        lambda: (pd.Index([f"{f}\ud83d" for f in firm], dtype=object), year),
        lambda: ([f"{f}\x00\x1b[31m" for f in firm], year),
        lambda: ([None if rng.random() < 0.2 else f for f in firm], year),
        lambda: (pd.Categorical(firm), year),
        lambda: (rng.choice(np.array([1, "1", 1.0], dtype=object), len(firm)), year),
        lambda: ([(f, 1) for f in firm], year),
        lambda: (["F0"] * len(firm), year),
        lambda: (firm, np.full(len(year), 2001)),
    ]
    labels = one_of(rng, kinds)()
    try:
        index = pd.MultiIndex.from_arrays(labels, names=["firm", "period"])
    except (TypeError, ValueError, NotImplementedError):
        return X, y
    if isinstance(y, pd.Series) and y.index.equals(X.index):
        y = y.set_axis(index)
    return X.set_axis(index), y


def changed_shape(rng: Rng, X: pd.DataFrame, y: Any) -> tuple[Any, Any]:
    """Give the frame another shape, other names or another type."""
    n = len(X)
    kinds: list[Callable[[], Any]] = [
        lambda: X.reset_index(),
        lambda: X.reset_index(drop=True),
        lambda: X.to_numpy(),
        lambda: X.select_dtypes("number").to_numpy(),
        lambda: X.select_dtypes("number").to_numpy().tolist(),
        lambda: X.iloc[:0],
        lambda: X[[]],
        lambda: X.iloc[:1],
        lambda: pd.concat([X, X], axis=1),
        lambda: pd.concat([X, X]),
        lambda: X.set_axis(pd.MultiIndex.from_product([["a"], X.columns]), axis=1),
        lambda: X.set_axis(rng.permutation(X.shape[1]), axis=1),
        lambda: X.set_axis(pd.Index([f"{c}\ud800" for c in X.columns], dtype=object), axis=1),
        lambda: X.set_axis([None, *X.columns[1:]], axis=1) if X.shape[1] else X,
        lambda: X.set_axis([(1, c) for c in X.columns], axis=1),
        lambda: X.rename(columns={"x0": "y_next"}),
        lambda: X.rename(columns={"x0": "permno"}),
        lambda: X.swaplevel(),
        lambda: X.rename_axis(index=["company", "year"]),
        lambda: X.rename_axis(index=[None, None]),
        lambda: X.sample(frac=1, random_state=1),
        lambda: X.assign(**{f"more{k}": rng.normal(size=n) for k in range(30)}),
        lambda: X.iloc[:, 0] if X.shape[1] else X,
        lambda: X.to_dict(),
        lambda: None,
        lambda: "X",
    ]
    return one_of(rng, kinds)(), y


def hard_frame(rng: Rng, base: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
    """Return X and y of a panel after one to three changes."""
    X, y = panel(rng) if base is None else base
    for _ in range(int(rng.integers(1, 4))):
        plain = isinstance(X, pd.DataFrame) and X.index.nlevels == 2
        plain = plain and X.columns.nlevels == 1 and X.columns.is_unique
        changes = [changed_column, changed_outcome, changed_labels, changed_shape]
        change = changes[int(rng.choice(4, p=[0.4, 0.25, 0.2, 0.15]))]
        if isinstance(y, pd.Series) and y.dtype == float if change is changed_outcome else plain:
            X, y = change(rng, X, y)
    return X, y


# --------------------------------------------------------------------------- what is done with them


def model(rng: Rng) -> Any:
    """Return a model that is fast to fit."""
    choices: list[Callable[[], Any]] = [
        lambda: peerattn.NadarayaWatsonRegressor(bandwidth=1.0),
        lambda: peerattn.NadarayaWatsonRegressor(),
        lambda: peerattn.IndustryPeerRegressor(industry=rng.choice(["sic", None])),
        lambda: peerattn.IndustryPeerRegressor(industry="sic", shrinkage="leave_one_out"),
        lambda: peerattn.CrossSectionalRidge(),
        lambda: peerattn.CrossSectionalRidge(scale="rank"),
        FamaMacBethRegressor,
        FirmMeanRegressor,
        LastValueRegressor,
        lambda: peerattn.models.make_model(str(rng.choice(["ols", "ridge", "elastic_net", "neighbors"]))),
        lambda: peerattn.models.make_model("industry_characteristics", industry="sic"),
        lambda: peerattn.PeerAttentionRegressor(
            task=str(rng.choice(["forecast", "nowcast"])), n_heads=int(rng.integers(0, 2)), random_state=0,
            scale=rng.choice(["standard", "rank", None]),
            similarity=str(rng.choice(["scaled_dot_product", "gaussian", "symmetric"])),
        ),
    ]  # fmt: skip
    weights = np.array([2, 1, 2, 1, 2, 1, 1, 1, 1, 2, 1, 1], dtype=float)
    return choices[int(rng.choice(len(choices), p=weights / weights.sum()))]()


def finite(values: Any, what: str) -> None:
    """Raise where a figure is not finite."""
    array = np.asarray(values, dtype=float)
    if not np.isfinite(array).all():
        raise NotFinite(f"{what}: {int((~np.isfinite(array)).sum())} of {array.size} are not finite")


def used(rng: Rng, estimator: Any, X: Any, y: Any, call: Any, shown: Any, folder: Path) -> None:
    """Fit, predict, save, load, and show the network."""
    weights: dict[str, Any] = {}
    if rng.random() < 0.15 and hasattr(estimator, "peer_network"):
        n = len(y) if hasattr(y, "__len__") else 1
        values = np.array([0.0, 1.0, 2.0, 0.5, magnitude(rng), 1e9, -1.0, np.nan])
        shares = [0.1, 0.5, 0.2, 0.1, 0.04, 0.04, 0.01, 0.01]
        weights["sample_weight"] = rng.choice(values, n, p=shares)
    estimator.fit(X, y, **weights)
    options = {"outcomes": shown} if getattr(estimator, "needs_outcomes", False) or rng.random() < 0.3 else {}
    options = options if hasattr(estimator, "peer_network") else {}
    finite(estimator.predict(call, **options), "predict")
    if rng.random() < 0.4 and hasattr(estimator, "peer_network"):
        network = estimator.peer_network(call, **options)
        finite(network.edges()["weight"], "peer_network")
        kind = str(rng.choice(["parquet", "csv", "graphml", "gexf", "html"]))
        write = getattr(network, "to_explorer" if kind == "html" else f"to_{kind}")
        write(folder / f"n.{kind}", **({"period": network.periods[0]} if kind in ("graphml", "gexf") else {}))
        if kind == "gexf":
            ElementTree.parse(folder / "n.gexf")
        if kind in ("parquet", "graphml"):
            getattr(peerattn.PeerNetwork, f"from_{kind}")(folder / f"n.{kind}")
    if rng.random() < 0.3:
        estimator.save(folder / "m.model")
        again = peerattn.load(folder / "m.model")
        before, after = (np.asarray(m.predict(call, **options)) for m in (estimator, again))
        if not np.array_equal(before, after):
            raise NotFinite("load: other predictions than before save")


def case_frame(rng: Rng, folder: Path) -> None:
    """Hard frames in fit, predict or both."""
    base = panel(rng)
    X, y = hard_frame(rng, base) if rng.random() < 0.7 else base
    call, shown = (X, y) if X is not base[0] else hard_frame(rng, base)
    used(rng, model(rng), X, y, call, shown, folder)


def case_options(rng: Rng, folder: Path) -> None:
    """Options of any type and size."""
    X, y = panel(rng)
    estimator = model(rng)
    names = sorted(set(estimator.get_params(deep=False)) - {"n_heads", "n_layers"})
    values = [None, True, -1, 0, 2, 10**9, 1e-300, 1e300, -0.5, float("nan"), float("inf"), "", "sic", "x0", "nobody", (),
              ["sic"], {}, [1.0], np.array([1.0, 2.0]), object(), "mean", "cv", "gaussian", np.float64(0.5), b"x"]  # fmt: skip
    for _ in range(int(rng.integers(1, 3))):
        name = str(rng.choice(names))
        value = one_of(rng, values)
        if rng.random() < 0.5:  # of the kind that is expected
            like = [v for v in values if type(v) is type(getattr(estimator, name))]
            value = one_of(rng, like) if like else value
        with contextlib.suppress(AttributeError):
            estimator.set_params(**{name: value})
    used(rng, estimator, X, y, X, y, folder)


def case_bytes(rng: Rng, folder: Path) -> None:
    """Damaged bytes of a panel, a model or a network."""
    X, y = panel(rng)
    frame = X.assign(y=y).reset_index()
    kind = str(rng.choice(["parquet", "csv", "feather", "model", "network", "graphml"]))
    path = folder / f"f.{kind}"
    if kind in ("model", "network", "graphml"):
        kernel = peerattn.IndustryPeerRegressor().fit(X, y)
        network = kernel.peer_network(X, outcomes=y)
        if kind == "model":
            kernel.save(path)
        elif kind == "network":
            network.to_parquet(path)
        else:
            network.to_graphml(path, period=network.periods[0])
    else:
        {"parquet": frame.to_parquet, "csv": frame.to_csv, "feather": frame.to_feather}[kind](path)
    whole = path.read_bytes()
    at, length = int(rng.integers(len(whole))), int(rng.integers(1, 40))
    damaged = [
        whole[:at], whole[:at] + rng.bytes(length) + whole[at + length :], whole[:at] + whole[at + length :], rng.bytes(300),
        whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :], whole.replace(b",", b";"),
        whole + whole, b"",
    ]  # fmt: skip
    path.write_bytes(one_of(rng, damaged))
    network_of = peerattn.PeerNetwork
    readers = {"model": peerattn.load, "network": network_of.from_parquet, "graphml": network_of.from_graphml}
    if kind in readers:
        readers[kind](path)
    else:
        read = peerattn.read_panel(path, outcome="y")
        used(rng, peerattn.IndustryPeerRegressor(), read.X, read.y, read.X, read.y, folder)


def case_command(rng: Rng, folder: Path) -> None:
    """The command line: it must end in 0 or 2, and say nothing of a bug."""
    X, y = hard_frame(rng)
    path = folder / str(rng.choice(["p.csv", "p.parquet", "p q.csv", "p.txt"]))
    try:
        frame = (X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)).assign(y=np.asarray(y)).reset_index()
        frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    except Exception:  # pandas cannot write this frame
        path.write_text("firm,period,y\nA,2001,1\n")
    values = ["x0", "sic", "y", "nobody", "", "-1", "0", "1e300", "nan", "2001", "1,2", "é", "--", "ridge", "industry",
              "attention.n_heads=x", "industry.k=9"]  # fmt: skip
    quick = ["industry", "mean", "firm_mean", "ols", "kernel", "cross_sectional_ridge"]
    command = str(rng.choice(["describe", "fit", "fit", "audit", "simulate"]))
    asked = {
        "describe": [str(path)],
        "fit": [str(path), "--outcome", "y", "--model", str(rng.choice(quick)),
                "--industry", "sic", "--out", str(folder / "m.model")],
        "audit": [str(path), "--outcome", "y", "--model", "mean", "--test-periods", "1"],
        "simulate": ["--firms", str(rng.choice(["3", "0", "-1", "x"])), "--periods", "4", "--out", str(folder / "s.csv")],
    }[command]  # fmt: skip
    flags = "--firm --period --industry --set --until --task --characteristics --codes --seed --json".split()
    for _ in range(int(rng.integers(0, 3))):
        asked += [str(rng.choice(flags)), str(rng.choice(values))]
    runs, codes = [[command, *asked, "--quiet"]], []
    if command == "fit":
        for after, out in (("predict", "o.csv"), ("network", "n.gexf")):
            runs.append([after, str(folder / "m.model"), str(path), "--out", str(folder / out), "--quiet"])
    for arguments in runs:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.run(arguments)
        codes.append(code)
        if code not in (0, 2):
            raise RuntimeError(f"exit {code} of {arguments}: {err.getvalue()[-1500:]}")
        if code == 0 and arguments[0] == "predict":
            finite(pd.read_csv(folder / "o.csv")["prediction"], "predict --out")
    if 0 not in codes:
        raise InputError("exit code 2 in one line")


AREAS = {"frame": case_frame, "options": case_options, "bytes": case_bytes, "command": case_command}
SHARES = [0.55, 0.2, 0.15, 0.1]


def run(number: int, folder: Path) -> tuple[str, str]:
    """Run a case; return its area and its end: answered, an InputError, or what went wrong."""
    rng = np.random.default_rng([17, number])
    area = str(rng.choice(list(AREAS), p=SHARES))

    def stop(*_: Any) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            AREAS[area](rng, folder)
    except (InputError, NotFittedError):
        return area, "InputError"
    except Hang:
        return area, f"hang: over {LIMIT} seconds"
    except NotFinite as error:
        return area, f"not finite: {error}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if "sklearn/utils/" in last.filename and isinstance(error, ValueError | TypeError):
            return area, "error of scikit-learn's check of input"
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if "/peerattn/" in frame.filename]
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
        return area, f"foreign: {type(error).__name__} at {where}: {str(error)[:300]}"
    finally:
        signal.alarm(0)
    return area, "answered"


def case(number: int) -> dict[str, Any]:
    """Run a case in a fresh folder."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        area, end = run(number, Path(folder))
    return {"area": area, "end": end, "seconds": round(time.perf_counter() - start, 3)}


def cases(numbers: range) -> Iterator[tuple[int, str, str, float]]:
    """Run cases."""
    return ((number, *case(number).values()) for number in numbers)


def summary(found: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return a row for each area."""
    own = ("InputError", "error of scikit-learn's check of input")
    ends = ("answered", *own, "foreign", "not finite", "hang")
    rows = []
    for area in AREAS:
        counts = Counter(line["end"].partition(":")[0] for line in found if line["area"] == area)
        rows.append({"input": area, "cases": str(counts.total())} | {end: str(counts[end]) for end in ends})
    return rows


def main() -> None:
    from report import logged, options, publish

    arguments = options(__doc__, cases=10_000, log=Path("hard_input.jsonl"), only=int)
    if arguments.only is not None:
        rng = np.random.default_rng([17, arguments.only])
        area = str(rng.choice(list(AREAS), p=SHARES))
        with tempfile.TemporaryDirectory() as folder:
            AREAS[area](rng, Path(folder))
        print(area, "answered")
        return
    found = logged(arguments.log, [({"case": number}, partial(case, number)) for number in range(arguments.cases)])
    slowest = [f"The slowest case took {max(line['seconds'] for line in found):.1f} s."]
    publish("hard_input", f"{len(found)} cases of hard input", summary(found), slowest)


if __name__ == "__main__":
    main()
