"""How often are peers selected, and is the answer of ``compare`` Yes, where no firm affects any other? 40 firms, 24 periods.

Run: ``python benchmarks/nulls.py [--panels 40] [--only NAME ...] [--stage selected|attention|verdict]``. Stages are the stack,
attention heads alone, and the answer. Every fit is stored at once in ``benchmarks/results/nulls/``; a run that was stopped goes
on where it stopped.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch

from peerattn import compare, simulate_panel
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import PeerAttentionRegressor, StackedPeerRegressor
from report import RESULTS, options, publish, stored

N, T, P = 40, 24, 3
NETWORK = "a network, share .5"
MOVING = "common shocks"
WANDERING = "wandering level"
CROSSED = "two crossed codes"
FIRST = np.arange(N) % 5
SECOND = np.arange(N) // 5
VERDICT_NOTES = [
    "compare() at its defaults: the stack beside the controls that are always added, forecasts and nowcasts in turn; the network "
    "is simulate_panel's, forecast.",
]


@dataclass(frozen=True)
class Selections:
    """Whose selections are counted, the file and title of the results, and what the names of single fits begin with."""

    estimator: type[StackedPeerRegressor | PeerAttentionRegressor]
    file: str
    title: str
    prefix: str = ""


STAGES = {
    "selected": Selections(StackedPeerRegressor, "nulls", "How often peers are selected where no firm affects any other"),
    "attention": Selections(
        PeerAttentionRegressor,
        "nulls_attention",
        "How often attention heads alone are selected where no firm affects any other",
        "attention-",
    ),
}
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
    """Return a common shock on which firms load by a characteristic (nowcasts may use it: others' outcomes show it)."""
    return x[..., 0] + x[..., 1] * rng.normal(size=(1, T)) + rng.normal(size=x.shape[:2])


def shocks(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a shock that all firms of a period share; their characteristics move together, too (``MOVING``)."""
    return x[..., 0] + rng.normal(size=(1, T)) + rng.normal(size=x.shape[:2])


def trend(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a level that rises from period to period, for all firms alike."""
    return x[..., 0] + np.arange(T) / 10 + rng.normal(size=x.shape[:2])


def two_lags(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return own dynamics of two lags, .2 and .6."""
    return x[..., 0] + _recursion(rng, {1: 0.2, 2: 0.6})


def season(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return own dynamics of the same quarter a year before, .8."""
    return x[..., 0] + _recursion(rng, {4: 0.8})


def noisy_level(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return an own level of autocorrelation .95, measured with noise."""
    return x[..., 0] + _recursion(rng, {1: 0.95}) + 2 * rng.normal(size=x.shape[:2])


def firm_trends(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a trend of each firm."""
    time = np.arange(T) - T / 2
    return x[..., 0] + 0.15 * rng.normal(size=(N, 1)) * time + rng.normal(size=x.shape[:2])


def variances(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return noise whose log standard deviation differs between periods by .8."""
    return x[..., 0] + rng.normal(size=x.shape[:2]) * np.exp(0.8 * rng.normal(size=(1, T)))


def wandering(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return a level that all firms share and that wanders; their characteristics have a trend (``WANDERING``)."""
    return x[..., 0] + rng.normal(size=(1, T)).cumsum(axis=1) + rng.normal(size=x.shape[:2])


def crossed(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Return shocks of each period to the levels of two crossed codes, which are among the columns (``CROSSED``)."""
    shocks = rng.normal(size=(2, 8, T))
    return x[..., 0] + shocks[0][FIRST] + shocks[1][SECOND] + rng.normal(size=x.shape[:2])


def _recursion(rng: np.random.Generator, lags: dict[int, float], before: int = 40) -> np.ndarray:
    y = rng.normal(size=(N, before + T))
    for t in range(max(lags), before + T):
        y[:, t] += sum(b * y[:, t - lag] for lag, b in lags.items())
    return y[:, before:]


NULLS: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "independent": independent,
    "square": square,
    "interaction": interaction,
    "firm effect": firm_effect,
    "AR(.9)": autoregression,
    "factor": factor,
    MOVING: shocks,
    "trend": trend,
    "AR(2)": two_lags,
    "season": season,
    "AR(.95), noise": noisy_level,
    "firms' trends": firm_trends,
    "variances of periods": variances,
    WANDERING: wandering,
    CROSSED: crossed,
}


def panel(name: str, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return characteristics, half persistent, and the outcome."""
    rng = np.random.default_rng([seed, list(NULLS).index(name)])
    x = (rng.normal(size=(N, 1, P)) + rng.normal(size=(N, T, P))) / np.sqrt(2)
    if name == MOVING:
        x = x + rng.normal(size=(1, T, P)) / 2
    if name == WANDERING:
        x = x + np.arange(T)[:, None] / 10
    index = pd.MultiIndex.from_product([range(N), range(2000, 2000 + T)], names=["firm", "period"])
    X = pd.DataFrame(x.reshape(-1, P), index, columns=[f"x{k + 1}" for k in range(P)])
    if name == CROSSED:
        X = X.assign(first=np.repeat(FIRST, T).astype(str), second=np.repeat(SECOND, T).astype(str))
    return X, pd.Series(NULLS[name](rng, x).ravel(), index, name="y")


def selected(
    estimator: type[StackedPeerRegressor | PeerAttentionRegressor], name: str, task: str, seed: int
) -> dict[str, object]:
    """Return what was selected in one panel."""
    X, y = panel(name, seed)
    start = time.process_time()
    model = estimator(task=task, random_state=seed).fit(X, y)
    row = model.evidence_.loc["peers"]
    found = {"factor": float(row["factor"]), "t": float(row["t"]), "selected": str(row["selected"])}
    return found | {"seconds": time.process_time() - start}


def verdict(name: str, task: str, seed: int) -> dict[str, object]:
    """Return what a default comparison answers on one panel; ``NETWORK`` has a true network of half the variance."""
    if name == NETWORK:
        simulated = simulate_panel(N, T, P, signal_share=0.5, random_state=seed)
        X, y = simulated.X, simulated.y
    else:
        X, y = panel(name, seed)
    start = time.process_time()
    claims = compare({"stack": StackedPeerRegressor(task=task, random_state=seed)}, X, y, task=task).claims
    p = None if claims.p is None else float(claims.p)
    return {"answer": claims.answer, "why": claims.why, "p": p, "seconds": time.process_time() - start}


def verdicts(names: list[str], panels: int) -> None:
    """Compare on all panels, forecasts and nowcasts in turn, and publish the answers."""
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
    arguments = options(__doc__, panels=40, only=NULLS, stage="selected")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    if arguments.stage == "verdict":
        return verdicts([*arguments.only, NETWORK], arguments.panels)
    rows: list[dict[str, str | float]] = []
    stage = STAGES[arguments.stage]
    for name in arguments.only:
        for task in ("forecast", "nowcast"):
            found = [
                stored(
                    RESULTS / "nulls" / f"{stage.prefix}{name}-{task}-{k}.json", partial(selected, stage.estimator, name, task, k)
                )
                for k in range(arguments.panels)
            ]
            shares = np.array([float(str(f["factor"])) for f in found])
            rows.append(
                {
                    "no peers, but": name,
                    "task": task,
                    "panels": len(found),
                    "peers selected": float(np.mean([bool(f["selected"]) for f in found])),  # in a period's mean, too
                    "largest weight": float(shares.max()),
                    "CPU seconds, median": float(np.median([float(str(f["seconds"])) for f in found])),
                }
            )
            print(rows[-1], flush=True)
    notes = ["Defaults; the seed is the panel's number."]
    publish(stage.file, stage.title, rows, notes)


if __name__ == "__main__":
    main()
