"""Next year's profitability (EBIT over assets) of US firms: train FY2013-14, test FY2015, beside ridge, boosting and small nets.

Run: ``python benchmarks/profitability.py [--members 5]``. R² with a firm-clustered 95 % interval of the gain over boosting.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerattn import PeerAttentionRegressor, read_panel
from report import publish

SHARED = Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))


def load() -> tuple[pd.DataFrame, pd.Series]:
    """Return characteristics as within-year ranks and winsorised at 1 %, and the clipped outcome."""
    source = SHARED / "firm" / "us_annual_r3000.parquet"
    panel = read_panel(source, outcome="ebit_ta_next", period="year")
    years = panel.X.groupby(level="period")
    ranks = (years.rank(pct=True) * 2 - 1).fillna(0.0).add_suffix("_rank")
    low, high = years.transform("quantile", 0.01), years.transform("quantile", 0.99)
    clipped = panel.X.clip(low, high)
    filled = clipped.fillna(clipped.groupby(level="period").transform("median")).fillna(clipped.median())
    return pd.concat([ranks, filled], axis=1), panel.y.clip(-0.6, 0.6)


def gain_interval(
    y: np.ndarray, ours: np.ndarray, theirs: np.ndarray, draws: int = 2000
) -> tuple[float, float, float]:
    """Return the gain in R² and its 95 % interval over resampled firms (one row a firm in the test year)."""
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(draws):
        at = rng.integers(len(y), size=len(y))
        gains.append(r2_score(y[at], ours[at]) - r2_score(y[at], theirs[at]))
    low, high = np.percentile(gains, [2.5, 97.5])
    return r2_score(y, ours) - r2_score(y, theirs), float(low), float(high)


def main() -> None:
    """Fit all, publish the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    X, y = load()
    year = X.index.get_level_values("period")
    test = np.asarray((year == 2015) & y.notna())
    known = np.asarray((year <= 2014) & y.notna())
    attention = PeerAttentionRegressor(random_state=0)
    nets = [
        make_pipeline(
            StandardScaler(),
            MLPRegressor(hidden_layer_sizes=(32,), alpha=1.0, early_stopping=True, random_state=s),
        )
        for s in range(5)
    ]
    start = time.perf_counter()
    found = {
        "ridge": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 4, 11)))
        .fit(X[known], y[known])
        .predict(X[test]),
        "gradient boosting": HistGradientBoostingRegressor(max_iter=200, random_state=0)
        .fit(X[known], y[known])
        .predict(X[test]),
        "five small nets, averaged": np.mean(
            [net.fit(X[known], y[known]).predict(X[test]) for net in nets], axis=0
        ),
    }
    print(f"controls: {time.perf_counter() - start:.0f} s")
    train = np.asarray(year <= 2014)
    start = time.perf_counter()
    everyone = attention.fit(X[train], y[train]).predict(X[np.asarray(year == 2015)])
    found["peer attention"] = everyone.reindex(X[test].index).to_numpy()
    print(f"attention: {time.perf_counter() - start:.0f} s\n{attention.evidence_.round(3)}")
    truth, rows = y[test].to_numpy(), []
    for name, predicted in found.items():
        gain, low, high = gain_interval(truth, predicted, found["gradient boosting"])
        rows.append({"model": name, "R²": round(float(r2_score(truth, predicted)), 4), "gain": round(gain, 4),
                     "95 % from": round(low, 4), "to": round(high, 4)})  # fmt: skip
    notes = [
        f"{len(truth):,} firms, one test year. Gain over gradient boosting, interval over resampled firms."
    ]
    publish("profitability", "Next year's EBIT over assets, FY2015", rows, notes)


if __name__ == "__main__":
    main()
