"""How much do the constants of attention matter? Each halved and doubled, on panels that played no part in choosing them.

Run: ``python benchmarks/sensitivity.py [--only NAME ...]``. Every fit is stored at once in ``benchmarks/results/sensitivity/``; a
run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from linearmodels.datasets import wage_panel

from peerattn.datasets import simulate_panel
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import StackedPeerRegressor
from report import RESULTS, SHARED, options, publish, stored

STORE = RESULTS / "sensitivity"
FIRMS = 150  # of the real panels
ROOM = "peerattn.models."
Data = tuple[pd.DataFrame, pd.Series, np.ndarray]

#: Constant, module, and the two values beside the default; where half or double has no meaning, the nearest that has.
CONSTANTS: list[tuple[str, str, Any, Any]] = [
    ("kappa", "", 0.5, 2.0),
    ("SHARES", "stacking.origins", (1 / 2, 3 / 4), (3 / 4, 7 / 8)),
    ("FEW_ROWS", "stacking.origins", 25, 100),
    ("FEW_PERIODS", "stacking.weights", 2, 6),
    ("SHARP", "learners.heads.peer_module", 1.25, 5.0),
    ("KNOTS", "own.shape", 3, 10),
    ("TREES", "own.shape", 75, 300),
    ("FOREST", "own.shape", 50, 200),
    ("ROWS_OF_TREE", "own.shape", 2000, 8000),
    ("LEAF", "own.shape", (3, 10), (10, 40)),
    ("CLIP", "own.bounds", 2.0, 8.0),
    ("WINDOW", "own.history", 4, 192),
    ("RANK", "covariance.fit", 3, 12),
    ("POWER", "covariance.fit", 0.25, 1.0),
    ("MOST_STEPS", "covariance.fit", 30, 120),
    ("LEARNING_RATE", "covariance.fit", 0.03, 0.12),
]


def simulated() -> Data:
    """Return a directed network of share .5."""
    panel = simulate_panel(40, 30, 4, signal_share=0.5, d_head=3, random_state=9001)
    return panel.X, panel.y, np.asarray(panel.X.index.get_level_values("period") < panel.network.periods[24])


def wages() -> Data:
    """Return next year's log wage of young men (Vella and Verbeek 1998)."""
    frame = wage_panel.load().rename(columns={"nr": "firm", "year": "period"}).set_index(["firm", "period"])
    frame = frame[frame.index.get_level_values("firm").isin(frame.index.levels[0][:FIRMS])]
    y = frame.groupby(level="firm")["lwage"].shift(-1)
    X = frame[["lwage", "exper", "hours", "married", "union", "educ"]].astype(float)
    return X, y, np.asarray(X.index.get_level_values("period") < 1985)


def spillovers() -> Data:
    """Return log Tobin's q of the same year (Bloom, Schankerman and Van Reenen 2013), others' shown."""
    frame = pd.read_parquet(SHARED / "firm" / "bsv_spillovers.parquet").rename(columns={"year": "period"})
    columns = ["ln_rd_stock_lag", "ln_capital_lag", "ln_employment_lag", "rd_stock_to_capital_lag"]
    frame = frame.drop_duplicates(["firm", "period"]).dropna(subset=["ln_q", *columns])
    frame = frame.set_index(["firm", "period"]).sort_index()
    frame = frame[frame.index.get_level_values("firm").isin(frame.index.levels[0][:FIRMS])]
    X = frame[columns].astype(float).assign(ff49=frame["ff49"].astype(str))
    return X, frame["ln_q"], np.asarray(X.index.get_level_values("period") < 1997)


PANELS: dict[str, tuple[Callable[[], Data], str]] = {
    "simulated": (simulated, "forecast"),
    "wages": (wages, "forecast"),
    "log q": (spillovers, "nowcast"),
}


def error(data: Data, task: str, **options: Any) -> float:
    """Return the mean squared error of the held-out periods."""
    X, y, train = data
    model = StackedPeerRegressor(task=task, random_state=0, **options).fit(X[train], y[train])
    shown = {"outcomes": y[~train]} if task == "nowcast" else {}
    return float(((y[~train] - np.asarray(model.predict(X[~train], **shown))) ** 2).mean())


def with_constant(name: str, module: str, value: Any, data: Data, task: str) -> float:
    """Return the error with one constant changed, wherever in the room it was imported."""
    if name == "kappa":
        return error(data, task, kappa=value)
    default = getattr(sys.modules[ROOM + module], name)
    homes = [m for key, m in sys.modules.items() if key.startswith(ROOM) and getattr(m, name, None) is default]
    try:
        for home in homes:
            setattr(home, name, value)
        return error(data, task)
    finally:
        for home in homes:
            setattr(home, name, default)


def main() -> None:
    """Fit all and publish the table."""
    homes = {name: module for name, module, *_ in CONSTANTS}
    only = options(__doc__, only=homes).only
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    rows: list[dict[str, Any]] = [
        {"constant": name, "value": str(value)} for name, _, *values in CONSTANTS if name in only for value in values
    ]
    values = {(name, str(value)): value for name, _, *of in CONSTANTS for value in of}
    for panel, (load, task) in PANELS.items():
        data = load()
        usual = stored(STORE / f"{panel} default.json", partial(error, data, task))
        for row in rows:
            name, value = row["constant"], values[row["constant"], row["value"]]
            key = f"{panel} {name} {row['value']}".replace("/", " of ")
            changed = partial(with_constant, name, homes[name], value, data, task)
            row[panel] = stored(STORE / f"{key}.json", changed) / usual
    notes = [
        "Mean squared error of held-out periods over that with all constants at their defaults.",
        "simulated: a directed network of share .5, forecast. wages: next year's log wage of 150 men, forecast. log q: Tobin's q "
        "of 150 firms of Bloom, Schankerman and Van Reenen (2013), others' shown.",
    ]
    publish("sensitivity", "Each constant of attention halved and doubled", rows, notes)


if __name__ == "__main__":
    main()
