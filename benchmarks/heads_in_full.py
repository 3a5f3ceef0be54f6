"""Heads in full (``kappa=None``), which no test on held-out periods keeps out: do they cost anything, and are networks the same?

Run: ``python benchmarks/heads_in_full.py [--seeds 2] [--only NAME ...]``. Each panel and task of the table, on its last periods:
the error over that of the own part alone (curves and own codes), and how alike the networks of two seeds are. Every fit
is stored at once in ``benchmarks/results/heads_in_full/``; a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from no_harm import TASKS

from peerattn.datasets import load_multiples, load_russell
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import IndustryPeerRegressor, PeerAttentionRegressor
from peerattn.network import PeerNetwork, common_peers, network_correlation
from report import RESULTS, options, publish, stored

STORE = RESULTS / "heads_in_full"
#: X, y, and which rows are training rows
Split = tuple[pd.DataFrame, pd.Series, np.ndarray]


@dataclass(frozen=True)
class Cell:
    """One panel and outcome: how it is loaded, its tasks, and the code of the control."""

    load: Callable[[], Split]
    tasks: tuple[str, ...]
    code: str | None


def shared(outcome: str) -> Callable[[], Split]:
    """Return what loads a panel and outcome of the shared data."""
    (task,) = (task for task in TASKS if task.outcome == outcome)
    return task.load


def embedded(load: Callable[[], Any], last: str) -> Split:
    """Return a panel that ships with the package; its last period is the test, and later ones are left out."""
    panel = load()
    period = panel.X.index.get_level_values("period").astype(str)
    kept = np.asarray(period <= last)
    return panel.X[kept], panel.y[kept], np.asarray(period < last)[kept]


CELLS = {
    "Grunfeld": Cell(shared("invest_next"), ("forecast", "nowcast"), None),
    "UK employment growth": Cell(shared("dlemp_next"), ("forecast", "nowcast"), "sector"),
    "US investment rate": Cell(shared("ikn_next"), ("forecast", "nowcast"), "ff49"),
    "UK log employment": Cell(shared("lemp_next"), ("forecast", "nowcast"), "sector"),
    "US Tobin's q": Cell(shared("qn_next"), ("forecast", "nowcast"), "ff49"),
    "Russell 3000, EBIT over assets": Cell(shared("ebit_ta_next"), ("forecast", "nowcast"), "ff49"),
    "Russell 3000, net income over assets": Cell(shared("ni_ta_next"), ("forecast", "nowcast"), "ff49"),
    "Russell 3000, sales growth": Cell(shared("sales_growth_next"), ("forecast", "nowcast"), "ff49"),
    "Russell 3000, return": Cell(shared("ret_fy_next"), ("forecast", "nowcast"), "ff49"),
    "Russell profitability": Cell(partial(embedded, load_russell, "2016"), ("nowcast",), "industry"),
    "S&P price to book": Cell(partial(embedded, load_multiples, "2017-03-31"), ("nowcast",), "sub_industry"),
}


def measured(model: Any, X: pd.DataFrame, y: pd.Series, train: np.ndarray, task: str) -> tuple[dict[str, float], Any]:
    """Return the error and R² on the rows that are not trained on and the seconds of the fit, and the fitted model."""
    start = time.process_time()
    model.fit(X[train], y[train])
    seconds = time.process_time() - start
    observed = {"outcomes": y[~train]} if task == "nowcast" else {}
    predicted = np.asarray(model.predict(X[~train], **observed))
    known = y[~train].notna().to_numpy()
    outcome = y[~train].to_numpy()[known]
    error = float(np.mean((outcome - predicted[known]) ** 2))
    return {"mse": error, "r2": 1 - error / float(outcome.var()), "seconds": seconds}, model


def heads(cell: str, task: str, seed: int) -> dict[str, Any]:
    """Return the figures of heads in full, and the path of their network in the last period."""
    X, y, train = CELLS[cell].load()
    model = PeerAttentionRegressor(task=task, kappa=None, random_state=seed)
    figures, fitted = measured(model, X, y, train, task)
    period = X.index.get_level_values("period")
    last = np.asarray(period == period[~train & y.notna()].max())
    observed = {"outcomes": y[last]} if task == "nowcast" else {}
    network = fitted.peer_network(X[last], **observed)
    network.to_parquet(STORE / f"{cell} {task} {seed}.parquet".replace(" ", "_"))
    return figures


def controls(cell: str, task: str) -> dict[str, float]:
    """Return the error of the own part, and of the shrunk mean of the industry, which uses the same outcomes, in a nowcast."""
    X, y, train = CELLS[cell].load()
    own = PeerAttentionRegressor(task=task, n_heads=0, kappa=None, random_state=0)
    found = {"own": measured(own, X, y, train, task)[0]["mse"]}
    code = CELLS[cell].code
    if task == "nowcast" and code is not None:
        mean = IndustryPeerRegressor(industry=code, shrinkage="leave_one_out")
        found["industry mean"] = measured(mean, X, y, train, task)[0]["mse"]
    return found


def agreement(cell: str, task: str, seeds: int) -> tuple[float, float]:
    """Return the lowest correlation of the networks of two seeds, and the lowest share of top-5 peers in common."""
    paths = [STORE / f"{cell} {task} {seed}.parquet".replace(" ", "_") for seed in range(seeds)]
    networks = [PeerNetwork.from_parquet(path) for path in paths]
    pairs = list(combinations(networks, 2))
    return min(network_correlation(*pair) for pair in pairs), min(common_peers(*pair) for pair in pairs)


def rows_of(cell: str, seeds: int) -> list[dict[str, str | float]]:
    """Return one row for each task of a panel."""
    rows: list[dict[str, str | float]] = []
    for task in CELLS[cell].tasks:
        beside = stored(STORE / f"{cell} {task} controls.json", partial(controls, cell, task))
        found = [stored(STORE / f"{cell} {task} seed {seed}.json", partial(heads, cell, task, seed)) for seed in range(seeds)]
        ratios = [each["mse"] / beside["own"] for each in found]
        correlation, top = agreement(cell, task, seeds)
        mean = beside.get("industry mean")
        rows.append(
            {
                "panel and outcome": cell,
                "task": task,
                "heads / own part": statistics.median(ratios),
                "largest": max(ratios),
                "industry mean / own part": "" if mean is None else mean / beside["own"],
                "R²": statistics.median(each["r2"] for each in found),
                "networks of two seeds": correlation,
                "top 5 in common": top,
                "CPU seconds": statistics.median(each["seconds"] for each in found),
            }
        )
    return rows


def main() -> None:
    """Run the cells and publish their table."""
    arguments = options(__doc__, seeds=2, only=CELLS)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    STORE.mkdir(parents=True, exist_ok=True)
    rows = [row for cell in arguments.only for row in rows_of(cell, arguments.seeds)]
    notes = [
        f"Mean squared error on the last periods over that of the own part alone, curves and own codes; {arguments.seeds} "
        "seeds: median and largest. A ratio above 1: the heads cost something where no test on held-out periods keeps them out.",
        "Industry mean: leave-one-out mean of the other firms' outcomes, shrunk; in a nowcast it uses the same outcomes.",
        "Networks of two seeds: correlation of the weights, and of the five largest peers in common, last known period.",
    ]
    publish("heads_in_full", "Heads in full: error over the own part, and agreement of networks", rows, notes)


if __name__ == "__main__":
    main()
