"""Bad arguments at every public function of the package, of its panels, networks and evaluation: what do they end in?

python benchmarks/front_doors.py [--calls 10000]

Each call has the arguments of a right one (which is tried first), but for one that is wrong: of another type, empty, of other
length, huge, NaN, unknown; or the right one spoiled (rows cut off or twice, values missing, infinite or text, other labels). It
ends in a result (it was not wrong), in this package's error, in that of another library (foreign), or hangs (twenty CPU seconds).
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from peerattn.exceptions import InputError

ROOMS = ("peerattn", "peerattn.panel", "peerattn.network", "peerattn.evaluation")
# twenty seconds of work, or a minute and a half in which nothing comes back
TIMERS = ((signal.ITIMER_PROF, signal.SIGPROF, 20), (signal.ITIMER_REAL, signal.SIGALRM, 90))
BAD: tuple[Any, ...] = (
    None, "x", "", 3, -1, 0, 2.5, 10**18, 10**30, float("nan"), float("inf"), True, b"bytes", [], [1, 2, 3], {}, {"a": 1}, (),
    set(), object(), pd.DataFrame(), pd.Series(dtype=float), np.zeros(3), np.zeros((2, 2, 2)), lambda: None, int, ["no such"],
    "no such\x00", pd.NaT, complex(1, 2), range(3), pd.DataFrame({"a": ["x"]}), np.array(["x"], dtype=object), [None],
    [[1, 2], [3]],
)  # fmt: skip


def right_ones(folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return right values by the names that arguments have, and by the room or function where it wants others."""
    import peerattn
    from peerattn.models import CrossSectionalRidge, IndustryPeerRegressor, NadarayaWatsonRegressor

    panel = peerattn.simulate_panel(10, 26, 2, n_industries=3, sharpness=2.0, signal_share=0.9, random_state=0)
    last = panel.y.index.get_level_values("period") >= panel.network.periods[-6]
    X, y, whole = panel.X[last], panel.y[last], panel.network
    codes, numbers, predicted = X["industry"], X.select_dtypes("number"), y + np.sin(np.arange(len(y)))
    firms, periods = (X.index.get_level_values(name) for name in ("firm", "period"))
    firm, peer, period = whole.firms[0], whole.firms[1], whole.periods[-1]
    network = whole.subset(periods=[period])
    few = peerattn.PeerNetwork.from_edges(network.edges(top_k=2), row_normalized=False)
    frame = X.assign(y=y).reset_index()
    frame.to_parquet(folder / "panel.parquet")
    network.to_csv(folder / "network.csv")
    network.to_parquet(folder / "network.parquet")
    network.to_graphml(folder / "network.graphml")
    ridge = CrossSectionalRidge(codes=["industry"]).fit(X, y)
    ridge.save(folder / "ridge.model")
    kernel = NadarayaWatsonRegressor(bandwidth=1.0).fit(numbers, y)
    industry = IndustryPeerRegressor(industry="industry").fit(X, y)
    attention = peerattn.PeerAttentionRegressor(n_heads=1, d_head=2, kappa=None, random_state=0)
    recent = panel.y.index.get_level_values("period") >= panel.network.periods[-14]
    many, their_y = panel.X[recent].select_dtypes("number"), panel.y[recent]
    attention.fit(many, their_y)  # of six periods heads add nothing, and their refits do not converge
    latest = periods == period
    heads = peerattn.evaluation.head_importance(attention, numbers, y)
    models = {"ridge": ridge, "industry": industry}
    shared = pd.DataFrame({"market": np.sin(np.arange(26)) / 10}, whole.periods)
    logs, cv = panel.y.rename("log_y"), peerattn.WalkForward(20, 20)
    compared = peerattn.compare(models, panel.X, logs, codes=["industry"], cv=cv, verbose=False)
    losses = pd.DataFrame({"a": (panel.y + 1) ** 2, "b": panel.y**2}).groupby("period").mean()
    given = {
        "X": X, "y": y, "outcome": y, "outcomes": y, "prediction": predicted, "baseline_prediction": 0 * y,
        "series": losses["b"],
        "loss": (y - predicted) ** 2, "baseline_loss": y**2, "losses": losses, "cluster": firms, "returns": losses["b"],
        "firm": firms, "period": periods, "model": industry, "against": "industry", "estimator": industry, "models": models,
        "codes": codes, "groups": codes, "column": codes, "network": network, "first": network, "second": network,
        "links": network, "layers": [network, network], "regressors": {"same": peerattn.network.SameCode(codes)},
        "sic": ["3711"], "formula": "y ~ x1 + x2", "frame": frame, "source": frame, "name": "industry",
        "path": folder / "written", "firms": whole.firms, "periods": whole.periods, "fitting": True, "task": "forecast",
        "results": {"(1)": peerattn.evaluation.calibration(y, predicted, periods, firm=firms)}, "by": "period",
        "compared": compared, "comparison": compared, "benchmark": "b", "n_trials": 3, "trial_variance": 0.1, "quantile": 0.5,
        "schemes": {"industry": codes}, "keep": heads.index, "importance": heads, "profile": pd.DataFrame(np.eye(2)),
        "edges": network.edges(), "matrices": {None: network.matrix()}, "graphs": network.to_networkx(), "measure": "paths",
        "position": 0, "side": "rows", "parts": [{"weight": [0.5]}], "other": network, "peer": peer, "random_state": 0,
        "n_draws": 2, "n_bootstrap": 9, "n_permutations": 9, "n_placebo": 2, "n_refits": 2, "n_batches": 2, "verbose": False,
    }  # fmt: skip
    columns = {"codes": ["industry"], "outcome": "y", "firm": "firm", "period": "period"}
    panels = columns | {"y": y, "outcome": None, "industry": None}
    label, named = {"firm": firm, "period": period}, {"model": "ridge", "against": "industry"}
    own = {
        "peerattn": panels | {"cv": peerattn.WalkForward(2, 2)},
        "peerattn.panel": panels,
        "peerattn.network": label,
        "PeerNetwork": label,
        "Comparison": named,
        "Comparison.gain_by": named | {"groups": panel.X["industry"]},
        "Comparison.gain_by_firm": named,
        "peerattn.load": {"path": folder / "ridge.model"},
        "peerattn.read_panel": columns,
        "peerattn.nowcast_score": {"estimator": kernel, "X": numbers},
        "peerattn.panel.from_formula": {"codes": ()},
        "peerattn.panel.scan_panel": columns | {"source": folder / "panel.parquet"},
        "peerattn.panel.find_firm": {"label": firm},
        "peerattn.panel.find_period": {"label": period},
        "peerattn.network.validate": {"links": few},
        "peerattn.evaluation.bootstrap_network": {"model": attention, "X": many, "y": their_y, "n_draws": 3},
        "peerattn.evaluation.head_importance": {"model": attention, "X": numbers},
        "peerattn.evaluation.prune": {"model": attention},
        "peerattn.evaluation.pruning_curve": {"model": attention, "X": numbers},
        "peerattn.evaluation.influence": {"model": kernel, "X": numbers, "outcomes": y},
        "peerattn.evaluation.marginal_effects": {"model": kernel, "X": numbers, "outcomes": y[latest]},
        "peerattn.evaluation.factor_adjusted": {"y": panel.y, "factors": shared},
        "peerattn.evaluation.pricing_errors": {"n_draws": 9},
        "peerattn.evaluation.gain_by": named | {"groups": panel.X["industry"]},
        "peerattn.evaluation.gain_by_firm": named,
        "Comparison.to_excel": {"path": folder / "written.xlsx"},
        "PeerNetwork.from_csv": {"path": folder / "network.csv"},
        "PeerNetwork.from_edge_file": {"path": folder / "network.csv", "firm": "firm", "period": "period"},
        "PeerNetwork.from_graphml": {"path": folder / "network.graphml"},
        "PeerNetwork.from_parquet": {"path": folder / "network.parquet"},
    }
    return given, own


def doors(given: Mapping[str, Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions, the splitters, and the methods of a network and of a comparison."""
    known = set()
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            door = getattr(module, name)
            splitter = inspect.isclass(door) and hasattr(door, "split")
            if id(door) not in known and (inspect.isfunction(door) or splitter):
                known.add(id(door))
                yield f"{room}.{name}", door
    for key in ("network", "compared"):
        for name, method in inspect.getmembers(given[key], callable):
            if not name.startswith("_") and name != "network":
                yield f"{type(given[key]).__name__}.{name}", method


def arguments(
    name: str, door: Callable[..., Any], given: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], dict[str, Any]]:
    """Return the names of a door's arguments and those of a right call."""
    parameters = inspect.signature(door).parameters.values()
    parameters = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    special = own.get(name, {})
    values = {**given, **own.get(name.rpartition(".")[0], {}), **special}
    always = {key for key in values if key.startswith("n_") or key in ("y", "verbose")} | set(special)
    needed = [each.name for each in parameters if each.default is each.empty or each.name in always]
    return [each.name for each in parameters], {key: values.get(key) for key in needed}


def spoiled(value: Any, rng: np.random.Generator) -> Any:
    """Return a right value of which something is wrong; None where this function does not know how."""
    if isinstance(value, pd.DataFrame | pd.Series):
        ways: list[Callable[[], Any]] = [
            lambda: value.iloc[:0],
            lambda: value.iloc[: len(value) // 2],
            lambda: pd.concat([value, value]),
            lambda: value.reset_index(drop=True),
            lambda: value.to_numpy(),
            lambda: value.astype(object).where(rng.random(value.shape) < 0.5, other=np.nan),
            lambda: value.astype(str),
            lambda: value.astype(object).mask(rng.random(value.shape) < 0.3, np.inf),
            lambda: value.astype(object).mask(np.ones(value.shape, dtype=bool)),
            lambda: value.set_axis([("a", "b")] * len(value), axis=0),
            lambda: value.to_frame() if value.ndim == 1 else value.iloc[:, [0, 0]],
            lambda: value.T,
        ]
    elif isinstance(value, Mapping):
        ways = [lambda: dict(enumerate(value.values())), lambda: dict.fromkeys(value)]
        ways += [lambda: dict.fromkeys(value, "x"), lambda: {**value, "more": 3}, lambda: list(value.items())]
    elif isinstance(value, str | Path):
        text = str(value)
        ways = [lambda: f"{text}x", lambda: text[::-1], lambda: text * 300, lambda: [value], text.upper]
    elif isinstance(value, list | tuple | pd.Index):
        items = list(value)
        ways = [lambda: items * 2, lambda: [*items, None], lambda: items[:-1], lambda: [items]]
        ways.append(lambda: "".join(map(str, items)))
    else:
        return None
    return ways[int(rng.integers(len(ways)))]()


def wrong_ones(names: list[str], base: dict[str, Any], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield the arguments of calls with one that is wrong, the last, for ever."""
    while True:
        if not names or rng.random() < 0.03:
            yield base | {"no_such_argument": 1}
            continue
        key = names[int(rng.integers(len(names)))]
        bad = spoiled(base.get(key), rng) if rng.random() < 0.5 else None
        bad = BAD[int(rng.integers(len(BAD)))] if bad is None else bad
        yield {other: value for other, value in base.items() if other != key} | {key: bad}


class Hangs(BaseException):
    """A call took longer than it may."""


def _alarm(*_: Any) -> None:
    raise Hangs


def outcome(door: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """Return what a call ends in."""
    for timer, number, seconds in TIMERS:
        signal.signal(number, _alarm)
        signal.setitimer(timer, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door(**given)
    except InputError as error:
        return f"InputError: {error}"
    except Hangs:
        return "hangs"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {' '.join(str(error).split())[:100]}"
    finally:
        for timer, *_ in TIMERS:
            signal.setitimer(timer, 0)
        plt.close("all")
    return "result"


def tried(calls: int, seed: int = 0) -> list[tuple[str, dict[str, Any], str]]:
    """Return (door, the call's arguments, how it ended) of so many wrong calls, spread over all doors."""
    rng, found, makers = np.random.default_rng(seed), [], {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # "x" is a right path, too
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given, own = right_ones(Path(folder))
        for name, door in doors(given):
            names, base = arguments(name, door, given, own)
            if (end := outcome(door, base)) != "result":
                raise RuntimeError(f"the right call of {name} ends in {end}")
            makers[name] = door, wrong_ones(names, base, rng)
        while len(found) < calls:
            for name, (door, wrong) in makers.items():
                call = next(wrong)
                found.append((name, call, outcome(door, call)))
    return found[:calls]


def main() -> None:
    from report import options, publish

    found = tried(options(__doc__, calls=10_000).calls)
    counts = Counter(end.partition(":")[0] for _, _, end in found)
    wrong = Counter((name, end) for name, _, end in found if end.startswith(("foreign", "hangs")))
    for (name, end), count in wrong.most_common(40):
        print(count, name, end, sep=" | ")
    ends = ("InputError", "result", "foreign", "hangs")
    shares = {end: f"{100 * counts[end] / len(found):.2f} %" for end in ends}
    n_doors = len({name for name, *_ in found})
    publish("front_doors", f"Bad arguments at {n_doors} functions", [{"calls": str(len(found))} | shares], [])


if __name__ == "__main__":
    main()
