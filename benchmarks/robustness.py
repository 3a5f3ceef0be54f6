"""Does an answer hold against stray rows and seeds, and does attention value firms it never saw? Defaults.

Run: ``python benchmarks/robustness.py [--stage stray|seeds|valuation ...]``. Every fit is stored at once in
``benchmarks/results/robustness/``; a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from peerattn import load_multiples, load_russell, simulate_panel
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import PeerAttentionRegressor, StackedPeerRegressor
from report import RESULTS, options, publish, stored

STORE = RESULTS / "robustness"
FIRMS, SEEDS = (0, 100, 200, 300), 20
Row = dict[str, str | float]


def with_strays(X: pd.DataFrame, y: pd.Series, firm: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the panel and five copies of a firm's first row, dated 2006 to 2010."""
    index = pd.MultiIndex.from_product([[firm], range(2006, 2011)], names=X.index.names)
    row = X.xs(firm, level="firm").iloc[[0] * 5].set_index(index)
    outcome = pd.Series(y.xs(firm, level="firm").iloc[0], index)
    return pd.concat([row, X]), pd.concat([outcome, y])


def stray(firm: int | None) -> dict[str, float | str]:
    """Return R² of 2016 with five stray rows of a firm, or with none."""
    panel = load_russell()
    X, y = panel.X, panel.y
    name = "none" if firm is None else X.index.get_level_values("firm").unique()[firm]
    if firm is not None:
        X, y = with_strays(X, y, name)
    past = X.index.get_level_values("period") < 2016
    model = StackedPeerRegressor(task="nowcast", random_state=0).fit(X[past], y[past])
    now = y[~past].dropna()
    error = (y[~past] - model.predict(X[~past], outcomes=y[~past]))[now.index]
    return {"five rows of": name, "R² of 2016": float(1 - (error**2).sum() / ((now - now.mean()) ** 2).sum())}


def seed_of(seed: int) -> dict[str, object]:
    """Return the weight of peers, and the network of the last period."""
    panel = simulate_panel(100, 21, 5, n_industries=5, sharpness=2.0, random_state=0)
    model = PeerAttentionRegressor(random_state=seed).fit(panel.X, panel.y)
    last = panel.X.index.get_level_values("period") == panel.X.index.get_level_values("period").max()
    weights = model.peer_network(panel.X[last]).matrix().to_numpy()
    return {"factor": float(model.evidence_.loc["peers", "factor"]), "network": weights.tolist()}


def seeds() -> list[Row]:
    """Return in how many seeds peers are selected, and how their networks agree."""
    found = [stored(STORE / f"seed-{k}.json", partial(seed_of, k)) for k in range(SEEDS)]
    networks = [np.array(f["network"]) for f in found if f["factor"] > 0]
    apart = ~np.eye(len(networks[0]), dtype=bool)
    agreement = np.corrcoef([W[apart] for W in networks])[np.triu_indices(len(networks), 1)]
    row: Row = {
        "seeds": SEEDS,
        "peers selected": len(networks),
        "networks of two seeds, median correlation": float(np.median(agreement)),
        "least": float(agreement.min()),
    }
    return [row]


def valuation(which: str) -> dict[str, float]:
    """Return the median absolute percentage error of boosting and of attention, 2015Q3 to 2017Q1."""
    panel = load_multiples()
    known = panel.y.notna()
    X, y = panel.X[known], panel.y[known]
    when, firm = X.index.get_level_values("period"), X.index.get_level_values("firm")
    if which == "last multiple given":
        X = X.assign(last=y.groupby(level="firm").shift(1))
    new = which == "firms never trained on"
    rng = np.random.default_rng(0)
    half = firm.isin(rng.choice(firm.unique(), firm.nunique() // 2, replace=False))
    seen = half if new else np.ones(len(X), dtype=bool)
    learned, tested = np.asarray((when < "2015") & seen), np.asarray((when >= "2015") & (when < "2018"))
    scored = tested & ~seen if new else tested
    coded = X.assign(**{name: X[name].astype("category") for name in ("sector", "sub_industry")})
    trees = HistGradientBoostingRegressor(
        learning_rate=0.05, max_iter=150, max_leaf_nodes=15, early_stopping=False, random_state=0
    )
    model = StackedPeerRegressor(task="nowcast", random_state=0).fit(X[learned], y[learned])
    quarters = [tested & (when == t) for t in when[tested].unique()]
    asked = quarters if new else [tested]  # one by one: no past of new firms is seen
    predicted = {
        "boosting": pd.Series(trees.fit(coded[learned], y[learned]).predict(coded[tested]), y[tested].index),
        "attention": pd.concat([pd.Series(model.predict(X[rows], outcomes=y[rows]), y[rows].index) for rows in asked]),
    }
    rows = y[scored].index
    return {name: float(np.expm1(p[rows] - y[rows]).abs().median()) for name, p in predicted.items()}


def main() -> None:
    """Fit what is not stored, and publish a table for each stage."""
    chosen = options(__doc__, stage={"stray": stray, "seeds": seeds, "valuation": valuation}).stage
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    if "stray" in chosen:
        rows = [stored(STORE / f"stray-{k}.json", partial(stray, k)) for k in (None, *FIRMS)]
        publish("robustness_stray", "Russell 2013 to 2015, tested 2016: five stray rows", rows)
    if "seeds" in chosen:
        publish("robustness_seeds", "One panel, twenty seeds", seeds())
    if "valuation" in chosen:
        tasks = ("firms never trained on", "last multiple given", "own characteristics")
        found = {task: stored(STORE / f"{task}.json", partial(valuation, task)) for task in tasks}
        rows = [{"median absolute percentage error": task, **errors} for task, errors in found.items()]
        publish("robustness_valuation", "Price to book of S&P 500 firms, trained to 2014", rows)


if __name__ == "__main__":
    main()
