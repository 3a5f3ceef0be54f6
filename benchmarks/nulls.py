"""How often do peers enter, and does ``compare`` say Yes, where no firm affects any other? 40 firms, 24 periods, defaults.

Run: ``python benchmarks/nulls.py [--panels 40] [--only NAME ...] [--stage enter|verdict]``. Every fit is stored at once in
``benchmarks/results/nulls/``; a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import torch

from peerattn import compare, simulate_panel
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import StackedPeerRegressor
from report import RESULTS, options, publish, stored

N, T, P = 40, 24, 3
NETWORK, MOVING = "a network, share .5", "common shocks"
VERDICT_NOTES = [
    "compare() at its defaults: attention beside the controls that it adds, forecasts and explanations in turn; the network is "
    "simulate_panel's, forecast.",
]
Noise = tuple[np.random.Generator, np.ndarray]


def independent(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a line in own characteristics, and noise."""
    return x[..., 0] + rng.normal(size=x.shape[:2])


def square(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a square."""
    return x[..., 0] ** 2 + rng.normal(size=x.shape[:2])


def interaction(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a product of two characteristics."""
    return 1.5 * x[..., 0] * x[..., 1] + rng.normal(size=x.shape[:2])


def firm_effect(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return persistent differences between firms."""
    return x[..., 0] + rng.normal(size=(N, 1)) + rng.normal(size=x.shape[:2])


def autoregression(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return own dynamics of autocorrelation .9."""
    y = rng.normal(size=x.shape[:2]) / np.sqrt(1 - 0.81)
    for t in range(1, T):
        y[:, t] = 0.9 * y[:, t - 1] + rng.normal(size=N)
    return x[..., 0] + y


def factor(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a common shock on which firms load by a characteristic (explanations may use it: others' outcomes show it)."""
    return x[..., 0] + x[..., 1] * rng.normal(size=(1, T)) + rng.normal(size=x.shape[:2])


def shocks(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a shock that all firms of a period share; their characteristics move together, too (``MOVING``)."""
    return x[..., 0] + rng.normal(size=(1, T)) + rng.normal(size=x.shape[:2])


def trend(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a level that rises from period to period, for all firms alike."""
    return x[..., 0] + np.arange(T) / 10 + rng.normal(size=x.shape[:2])


NULLS: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "independent": independent,
    "square": square,
    "interaction": interaction,
    "firm effect": firm_effect,
    "AR(.9)": autoregression,
    "factor": factor,
    MOVING: shocks,
    "trend": trend,
}


def panel(name: str, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return characteristics, half persistent, and the outcome."""
    rng = np.random.default_rng([seed, list(NULLS).index(name)])
    x = (rng.normal(size=(N, 1, P)) + rng.normal(size=(N, T, P))) / np.sqrt(2)
    if name == MOVING:
        x = x + rng.normal(size=(1, T, P)) / 2
    index = pd.MultiIndex.from_product([range(N), range(2000, 2000 + T)], names=["firm", "period"])
    X = pd.DataFrame(x.reshape(-1, P), index, columns=[f"x{k + 1}" for k in range(P)])
    return X, pd.Series(NULLS[name](rng, x).ravel(), index, name="y")


def entered(name: str, task: str, seed: int) -> dict[str, object]:
    """Return what entered in one panel."""
    X, y = panel(name, seed)
    start = time.process_time()
    model = StackedPeerRegressor(task=task, random_state=seed).fit(X, y)
    row = model.evidence_.loc["peers"]
    found = {"factor": float(row["factor"]), "t": float(row["t"]), "entered": str(row["entered"])}
    return found | {"seconds": time.process_time() - start}


def verdict(name: str, task: str, seed: int) -> dict[str, object]:
    """Return what a default comparison answers on one panel; ``NETWORK`` has a true network of half the variance."""
    if name == NETWORK:
        simulated = simulate_panel(N, T, P, signal_share=0.5, random_state=seed)
        X, y = simulated.X, simulated.y
    else:
        X, y = panel(name, seed)
    start = time.process_time()
    claims = compare(
        {"attention": StackedPeerRegressor(task=task, random_state=seed)}, X, y, task=task
    ).claims
    p = None if claims.p is None else float(claims.p)
    return {"answer": claims.answer, "why": claims.why, "p": p, "seconds": time.process_time() - start}


def verdicts(names: list[str], panels: int) -> None:
    """Compare on all panels, forecasts and explanations in turn, and publish the answers."""
    rows: list[dict[str, str | float]] = []
    for name in names:
        found = []
        for k in range(panels):
            task = "forecast" if name == NETWORK or k % 2 == 0 else "nowcast"
            path = RESULTS / "nulls" / f"verdict-{name}-{task}-{k}.json"
            found.append(stored(path, partial(verdict, name, task, k)))
        answers = [str(f["answer"]) for f in found]
        rows.append(
            {
                "panel": name,
                "comparisons": len(found),
                "Yes": answers.count("Yes") / len(found),
                "answers": ", ".join(f"{a} {answers.count(a)}" for a in sorted(set(answers))),
                "CPU seconds, median": float(np.median([float(f["seconds"]) for f in found])),
            }
        )
        print(rows[-1], flush=True)
    publish("nulls_verdict", "What compare answers at its defaults", rows, VERDICT_NOTES)


def main() -> None:
    """Fit all panels and publish the table."""
    asked = options(__doc__, panels=40, only=NULLS, stage="enter")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    if asked.stage == "verdict":
        return verdicts([*asked.only, NETWORK], asked.panels)
    rows: list[dict[str, str | float]] = []
    for name in asked.only:
        for task in ("forecast", "nowcast"):
            found = [
                stored(RESULTS / "nulls" / f"{name}-{task}-{k}.json", partial(entered, name, task, k))
                for k in range(asked.panels)
            ]
            shares = np.array([float(str(f["factor"])) for f in found])
            rows.append(
                {
                    "no peers, but": name,
                    "task": task,
                    "panels": len(found),
                    "peers enter": float(np.mean([bool(f["entered"]) for f in found])),  # in a period's mean, too
                    "largest weight": float(shares.max()),
                    "CPU seconds, median": float(np.median([float(str(f["seconds"])) for f in found])),
                }
            )
            print(rows[-1], flush=True)
    notes = ["Defaults; the seed is the panel's number."]
    publish("nulls", "How often peers enter where there are none", rows, notes)


if __name__ == "__main__":
    main()
