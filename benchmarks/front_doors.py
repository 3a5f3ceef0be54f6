"""Bad arguments at every public function of the package, of its panels, networks and evaluation: what do they end in?

python benchmarks/front_doors.py [--calls 10000]

Each call has the arguments of a right one, but for one that is wrong: of another type, empty, of other length, huge, NaN,
unknown. It ends in a result (it was not wrong), in this package's error, in that of another library (foreign), or hangs (over
ten seconds).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError

ROOMS = ("peerattn", "peerattn.panel", "peerattn.network", "peerattn.evaluation")
SECONDS = 10
BAD: tuple[Any, ...] = (
    None, "x", "", 3, -1, 0, 2.5, 10**18, 10**30, float("nan"), float("inf"), True, b"bytes", [], [1, 2, 3], {}, {"a": 1}, (),
    set(), object(), pd.DataFrame(), pd.Series(dtype=float), np.zeros(3), np.zeros((2, 2, 2)), lambda: None, int, ["no such"],
    "no such\x00", pd.NaT, complex(1, 2), range(3), pd.DataFrame({"a": ["x"]}), np.array(["x"], dtype=object), [None],
    [[1, 2], [3]],
)  # fmt: skip


def right_ones() -> dict[str, Any]:
    """Return a right value for the names that arguments have."""
    import peerattn
    from peerattn.models import CrossSectionalRidge, IndustryPeerRegressor, NadarayaWatsonRegressor

    panel = peerattn.simulate_panel(12, 6, 2, n_industries=3, random_state=0)
    X, y = panel.X, panel.y
    predicted = y + 0.1
    firm, period = (X.index.get_level_values(name) for name in ("firm", "period"))
    networks = [panel.network, panel.network.subset(periods=list(panel.network.periods))]
    frame = X.assign(y=y).reset_index()
    return {
        "X": X, "y": y, "y_true": y, "y_pred": predicted, "outcome": y.to_numpy(), "outcomes": y, "predicted": predicted,
        "prediction": predicted, "predictions": predicted, "other": networks[1], "network": networks[0], "networks": networks,
        "layers": networks, "firm": firm[0], "period": None, "model": IndustryPeerRegressor(industry="industry").fit(X, y),
        "estimator": NadarayaWatsonRegressor(bandwidth=1.0).fit(X.select_dtypes("number"), y), "sic": ["3711"],
        "models": {"ridge": CrossSectionalRidge()}, "source": frame, "panel": peerattn.read_panel(frame, outcome="y"),
        "cv": peerattn.WalkForward(2), "frame": X.assign(y=y), "column": X["industry"], "label": firm[0], "name": "industry",
        "periods": pd.Index(period.unique()), "firms": pd.Index(firm.unique()), "first": y - predicted, "n_firms": 6,
        "second": y - 2 * predicted, "losses": pd.DataFrame({"a": (y - predicted) ** 2, "b": y**2}), "n_periods": 3,
        "n_draws": 9, "n_bootstrap": 9, "n_permutations": 9, "path": "no such file", "verbose": False,
        "edges": networks[0].edges(), "matrices": {None: networks[0].matrix(networks[0].periods[0])},
    }  # fmt: skip


def doors() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions, splitters and the methods of a network."""
    from peerattn import PeerNetwork

    seen = set()
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            door = getattr(module, name)
            splitter = inspect.isclass(door) and hasattr(door, "split")
            if id(door) not in seen and (inspect.isfunction(door) or splitter):
                seen.add(id(door))
                yield f"{room}.{name}", door
    for name, method in inspect.getmembers(PeerNetwork):
        if not name.startswith("_") and callable(method):
            yield f"PeerNetwork.{name}", method


def bad_calls(
    name: str, door: Callable[..., Any], right: dict[str, Any], rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Yield the arguments of calls with one that is wrong, for ever."""
    parameters = {
        key: each
        for key, each in inspect.signature(door).parameters.items()
        if each.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    }
    own = {"self": right["network"]} if "self" in parameters else {}
    base = {
        key: right.get(key)
        for key, each in parameters.items()
        if each.default is each.empty and key != "self"
    }
    base |= {
        key: right[key]
        for key in parameters
        if key in ("n_draws", "n_bootstrap", "n_permutations", "verbose")
    }
    names = [key for key in parameters if key != "self"]
    while True:
        if not names or rng.random() < 0.03:
            yield own | base | {"no_such_argument": 1}
            continue
        key = names[int(rng.integers(len(names)))]
        yield own | base | {key: BAD[int(rng.integers(len(BAD)))]}


class Hangs(BaseException):
    """A call took longer than it may."""


def _alarm(*_: Any) -> None:
    raise Hangs


def outcome(door: Callable[..., Any], arguments: dict[str, Any]) -> str:
    """Return what a call ends in."""
    arguments = dict(arguments)
    own = [arguments.pop("self")] if "self" in arguments else []
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door(*own, **arguments)
    except InputError:
        return "refused"
    except Hangs:
        return "hangs"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {' '.join(str(error).split())[:100]}"
    finally:
        signal.alarm(0)
    return "result"


def tried(calls: int, seed: int = 0) -> list[tuple[str, dict[str, Any], str]]:
    """Return (door, what was wrong, how it ended) of so many calls, spread over all doors."""
    rng, right, found = np.random.default_rng(seed), right_ones(), []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # "x" is a right path, too
        right["path"] = right["out"] = str(Path(folder) / "file")
        makers = {name: (door, bad_calls(name, door, right, rng)) for name, door in doors()}
        while len(found) < calls:
            for name, (door, arguments) in makers.items():
                wrong = next(arguments)
                found.append((name, wrong, outcome(door, wrong)))
    return found[:calls]


def main() -> None:
    from report import publish

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    found = tried(parser.parse_args().calls)
    counts = Counter(end.partition(":")[0] for _, _, end in found)
    wrong = Counter((name, end) for name, _, end in found if end.startswith(("foreign", "hangs")))
    for (name, end), count in wrong.most_common(40):
        print(count, name, end, sep=" | ")
    shares = {
        end: f"{100 * counts[end] / len(found):.2f} %" for end in ("refused", "result", "foreign", "hangs")
    }
    n_doors = len({name for name, *_ in found})
    publish("front_doors", f"Bad arguments at {n_doors} functions", [{"calls": str(len(found))} | shares], [])


if __name__ == "__main__":
    main()
