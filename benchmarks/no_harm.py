"""Does attention at its defaults ever cost anything? Every shared firm panel, both tasks, beside controls (noise: ``nulls.py``).

Run: ``python benchmarks/no_harm.py [--seeds 3] [--only NAME ...] [--stage panels|time ...]``. Every fit is stored
at once in ``benchmarks/results/no_harm/``; a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import statistics
import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from peerattn.exceptions import PeerAttnWarning
from peerattn.models import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    StackedPeerRegressor,
    make_model,
)
from report import RESULTS, SHARED, options, publish, stored

STORE = RESULTS / "no_harm"
OTHER_CODES = ("sic", "sic2", "ff12", "ff48", "ff49")


@dataclass(frozen=True)
class Task:
    """One outcome of one panel: its file, its code, how many last periods are the test, and bounds of the outcome."""

    file: str
    outcome: str
    code: str | None
    test_periods: int
    clip: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.file.split('_')[2]} {self.outcome}"

    def load(self) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
        """Return X (numbers as they are, and the code), y, and which rows are training rows."""
        frame = pd.read_parquet(SHARED / "firm" / f"{self.file}.parquet")
        time_column = next(c for c in ("year", "fyear", "date", "month", "period") if c in frame)
        frame = frame.rename(columns={time_column: "period"}).set_index(["firm", "period"])
        left_out = {*OTHER_CODES, self.code}
        numbers = [c for c in frame.select_dtypes("number") if not c.endswith("_next") and c not in left_out]
        X = frame[numbers].astype(float)
        if self.code:
            X[self.code] = frame[self.code].astype("str")
        y = frame[self.outcome].astype(float)
        y = y if self.clip is None else y.clip(*self.clip)
        periods = X.index.get_level_values("period")
        known = np.sort(periods[y.notna()].unique())
        return X, y, np.asarray(periods < known[-self.test_periods])


TASKS = [
    Task("us_annual_grunfeld", "invest_next", None, 5),
    Task("uk_annual_empluk", "dlemp_next", "sector", 2),
    Task("uk_annual_empluk", "lemp_next", "sector", 2),
    Task("us_annual_tobinq", "ikn_next", "ff49", 10),
    Task("us_annual_tobinq", "qn_next", "ff49", 10),
    Task("us_annual_r3000", "ebit_ta_next", "ff49", 1, (-0.6, 0.6)),
    Task("us_annual_r3000", "ni_ta_next", "ff49", 1, (-0.6, 0.6)),
    Task("us_annual_r3000", "sales_growth_next", "ff49", 1, (-1.0, 2.0)),
    Task("us_annual_r3000", "ret_fy_next", "ff49", 1, (-1.0, 2.0)),
    Task("us_monthly_2000_2012", "ret_next", "ff49", 35, (-0.5, 1.0)),
]


def attention(task: str, seed: int, **options: Any) -> StackedPeerRegressor:
    """Return the estimator at its defaults."""
    return StackedPeerRegressor(task=task, random_state=seed, **options)


def of_own_lag(X: pd.DataFrame, y: pd.Series, train: np.ndarray, task: str) -> dict[str, float]:
    """Return the error of boosting with the firm's last outcome, which explanations may read."""
    if task == "forecast":
        return {}
    last = y.sort_index(level=1).groupby(level=0).shift(1).reindex(X.index)
    return {"gradient boosting, own lag": mse(boosting(), X.assign(own_lag=last), y, train, "forecast")}


def boosting() -> HistGradientBoostingRegressor:
    """Return gradient boosting without early stopping (it would hold out random rows)."""
    return HistGradientBoostingRegressor(
        learning_rate=0.05, max_iter=150, max_leaf_nodes=15, early_stopping=False, random_state=0
    )


def controls(task: str, code: str | None) -> dict[str, Any]:
    """Return the controls of the same information."""
    found: dict[str, Any] = {"OLS": make_model("ols"), "gradient boosting": boosting()}
    if task == "nowcast":
        found |= {
            "cross-sectional ridge": CrossSectionalRidge(),
            "mean of all others": IndustryPeerRegressor(),
        }
        if code:
            found["industry mean, shrunk"] = IndustryPeerRegressor(industry=code, shrinkage="leave_one_out")
    return found


def mse(model: Any, X: pd.DataFrame, y: pd.Series, train: np.ndarray, task: str) -> float:
    """Fit on training rows; return the mean squared error of the later ones, given those of their peers in a nowcast."""
    known = y.notna()
    if isinstance(model, HistGradientBoostingRegressor):
        X = X.assign(**{c: X[c].astype("category") for c in X if X[c].dtype != float})
        predicted = pd.Series(model.fit(X[train & known], y[train & known]).predict(X[~train]), index=X[~train].index)
    elif task == "nowcast" and getattr(model, "reads_outcomes", False):
        predicted = model.fit(X[train], y[train]).predict(X[~train], outcomes=y[~train])
    else:
        predicted = model.fit(X[train & known], y[train & known]).predict(X[~train])
    error = (y[~train] - np.asarray(predicted))[known[~train]]
    return float((error**2).mean())


def measured(model: StackedPeerRegressor, *data: Any) -> dict[str, Any]:
    """Return error, CPU seconds, factors and what peers gain: the error without them less that with them, over the former."""
    start = time.process_time()
    X, y, train, task = data
    known = y[~train].notna()
    outcomes = {"outcomes": y[~train]} if task == "nowcast" else {}
    steps = model.fit(X[train], y[train]).predict_steps(X[~train], **outcomes)
    without, error = (float((y[~train] - steps.iloc[:, k])[known].pow(2).mean()) for k in (-2, -1))
    factors = {name: round(float(f), 3) for name, f in model.evidence_["factor"].items()}
    seconds = time.process_time() - start
    return {"mse": error, "gain of peers": 1 - error / without, "seconds": seconds, "factors": factors}


def panels(tasks: list[Task], seeds: int) -> list[dict[str, str | float]]:
    """Return one row for each outcome, task and seed: the error over that of the best control."""
    rows: list[dict[str, str | float]] = []
    for task in tasks:
        for kind in ("forecast", "nowcast"):
            X, y, train = task.load()

            def of_controls(kind: str = kind, X: Any = X, y: Any = y, train: Any = train, task: Task = task) -> dict[str, Any]:
                return {name: mse(model, X, y, train, kind) for name, model in controls(kind, task.code).items()} | of_own_lag(
                    X, y, train, kind
                )

            beside = stored(STORE / f"{task.name} {kind} controls.json", of_controls)
            best = min(beside, key=beside.__getitem__)
            for seed in range(seeds):
                key = f"{task.name} {kind} seed {seed}"
                fit = partial(measured, attention(kind, seed), X, y, train, kind)
                ours = stored(STORE / f"{key}.json", fit)
                rows.append(
                    {
                        "panel and outcome": task.name,
                        "task": kind,
                        "seed": seed,
                        "over OLS": ours["mse"] / beside["OLS"],
                        "best control": best,
                        "over best control": ours["mse"] / beside[best],
                        "weight of peers": ours["factors"]["peers"],
                        "gain of peers": ours["gain of peers"],
                        "factors": ", ".join(f"{name} {f:g}" for name, f in ours["factors"].items()),
                        "CPU seconds": ours["seconds"],
                    }
                )
    return rows


def times() -> list[dict[str, str | float]]:
    """Return CPU seconds of a default fit beside gradient boosting, in one run."""
    rows: list[dict[str, str | float]] = []
    for n, T, p in ((50, 20, 5), (100, 100, 10), (300, 60, 8), (2500, 100, 12)):
        for kind in ("forecast", "nowcast"):

            def run(n: int = n, T: int = T, p: int = p, kind: str = kind) -> dict[str, Any]:
                rng = np.random.default_rng(0)
                index = pd.MultiIndex.from_product([range(n), range(T)], names=["firm", "period"])
                X = pd.DataFrame(rng.normal(size=(n * T, p)), index=index).rename(columns=lambda k: f"x{k}")
                y = pd.Series(X["x0"] + rng.normal(size=n * T), index=index)
                start = time.process_time()
                attention(kind, 0).fit(X, y)
                between = time.process_time()
                boosting().fit(X, y)
                return {"ours": between - start, "boosting": time.process_time() - between}

            found = stored(STORE / f"seconds {n} x {T} x {p} {kind}.json", run)
            rows.append(
                {
                    "firms x periods x columns": f"{n} x {T} x {p}",
                    "task": kind,
                    "rows": f"{n * T:,}",
                    "CPU seconds": found["ours"],
                    "boosting": found["boosting"],
                }
            )
    return rows


def main() -> None:
    """Run the stages and publish their tables."""
    outcomes = {task.outcome: task for task in TASKS}
    arguments = options(__doc__, seeds=3, only=outcomes, stage={"panels": panels, "time": times})
    torch.set_num_threads(1)
    threadpool_limits(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    tasks = [task for task in TASKS if task.outcome in arguments.only]
    if "panels" in arguments.stage:
        rows = panels(tasks, arguments.seeds)
        ratios = [float(row["over best control"]) for row in rows]
        above = sum(ratio > 1.01 for ratio in ratios)
        notes = [
            f"Median {statistics.median(ratios):.4f}, largest {max(ratios):.4f}; above 1.01: {above} of {len(ratios)} cells.",
            "Defaults; mean squared error of the last periods after one fit. Gain of peers: the fall of that error by the last "
            "group, given all others; where the weight of peers is 0, what is gained over the control is not theirs.",
            "Best control: forecasts OLS, gradient boosting; nowcasts these, cross-sectional ridge, mean of all others, "
            "shrunk industry mean, and gradient boosting with the firm's last outcome.",
        ]
        publish("no_harm", "Attention at its defaults over the best control", rows, notes)
    if "time" in arguments.stage:
        publish("no_harm_time", "CPU seconds of a default fit, one thread", times())


if __name__ == "__main__":
    main()
