"""Does attention at its defaults ever cost anything? Every shared firm panel, both tasks, beside controls; then pure noise.

Run: ``python benchmarks/no_harm.py [--seeds 3] [--only NAME ...] [--stage panels|own|noise|seeds|time ...]``. Every fit is stored
at once in ``benchmarks/results/no_harm/``; a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from peerattn.exceptions import PeerAttnWarning
from peerattn.models import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    PeerAttentionRegressor,
    make_model,
)
from report import RESULTS, publish

SHARED = Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")) / "firm"
STORE = RESULTS / "no_harm"
OTHER_CODES = ("sic", "sic2", "ff12", "ff48", "ff49")
SEEDS = 5  # of which networks are compared


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
        return f"{self.file.split('_')[-1]} {self.outcome}"

    def load(self) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
        """Return X (numbers as they are, and the code), y, and which rows are training rows."""
        frame = pd.read_parquet(SHARED / f"{self.file}.parquet")
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


def attention(task: str, seed: int, **options: Any) -> PeerAttentionRegressor:
    """Return the estimator at its defaults."""
    values = "outcomes" if task == "explain" else "characteristics"
    return PeerAttentionRegressor(values=values, random_state=seed, **options)


def boosting() -> HistGradientBoostingRegressor:
    """Return gradient boosting without early stopping (it would hold out random rows)."""
    return HistGradientBoostingRegressor(
        learning_rate=0.05, max_iter=150, max_leaf_nodes=15, early_stopping=False, random_state=0
    )


def controls(task: str, code: str | None) -> dict[str, Any]:
    """Return the controls of the same information."""
    own = {"OLS": PeerAttentionRegressor(n_heads=0, own_penalty=0.0)} if False else {"OLS": make_model("ols")}
    if task == "forecast":
        return own
    shown = {"cross-sectional ridge": CrossSectionalRidge(), "mean of all others": IndustryPeerRegressor()}
    if code:
        shown["industry mean"] = IndustryPeerRegressor(industry=code, shrinkage="leave_one_out")
    return own | shown
