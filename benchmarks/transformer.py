"""A transformer over firms where peers enter nonlinearly: R² beside the truth, the same network without attention, and boosting.

40 firms, four characteristics, outcome = f(weighted mean of peers, own) + noise, tested on the last 60 periods. Run:
``python benchmarks/transformer.py [--draws 3] [--periods 240 80]``. Every fit is stored at once in
``benchmarks/results/transformer/``; a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from peerattn import PeerTransformerRegressor
from peerattn.exceptions import PeerAttnWarning
from report import RESULTS, options, publish, stored

N, P, TEST, NOISE = 40, 4, 60, 0.235  # noise variance over that of the signal: the truth has R² of about .81
SHAPES = {
    "mean": lambda m, own: m,
    "own x mean": lambda m, own: own * m,
    "max(mean - own/2, 0)": lambda m, own: np.maximum(m - own / 2, 0),
    "absolute mean": lambda m, own: np.abs(m),
}


def panel(shape: str, periods: int, seed: int) -> tuple[pd.DataFrame, pd.Series, np.ndarray]:
    """Return characteristics, outcome and signal; weights are softmax of a directed score of characteristics."""
    g = np.random.default_rng(seed)
    Q, K = g.normal(size=(2, P, 3))
    gamma = g.normal(size=P)
    x, rows, means = g.normal(size=(N, P)), [], []
    for _ in range(periods + TEST):
        x = 0.9 * x + np.sqrt(0.19) * g.normal(size=(N, P))
        score = 2 * (x @ Q) @ (x @ K).T / np.sqrt(3 * P)
        np.fill_diagonal(score, -np.inf)
        w = np.exp(score - score.max(1, keepdims=True))
        rows.append(x)
        means.append(w / w.sum(1, keepdims=True) @ (x @ gamma))
    m = np.array(means)
    signal = SHAPES[shape]((m - m.mean()) / m.std(), np.array(rows)[..., 0])
    signal = (signal - signal.mean()) / signal.std()
    index = pd.MultiIndex.from_product([range(periods + TEST), range(N)], names=["period", "firm"])
    X = pd.DataFrame(np.concatenate(rows), index, columns=["a", "b", "c", "d"])
    y = pd.Series((signal + np.sqrt(NOISE) * g.normal(size=signal.shape)).ravel(), index, name="y")
    return X, y, signal.ravel()


def with_means(X: pd.DataFrame) -> pd.DataFrame:
    """Return own characteristics and the means of the other firms of the period."""
    groups = X.groupby(level="period")
    others = (groups.transform("sum") - X) / (groups.transform("size").to_numpy()[:, None] - 1)
    return X.join(others.add_suffix("_peers"))


def one(shape: str, periods: int, seed: int) -> dict[str, float]:
    """Return R² on the last periods of each model, and the CPU seconds of the transformer's fit."""
    X, y, signal = panel(shape, periods, seed)
    early = X.index.get_level_values("period") < periods

    def r2(predicted: np.ndarray) -> float:
        left = y[~early] - predicted
        return float(1 - (left**2).sum() / ((y[~early] - y[~early].mean()) ** 2).sum())

    start = time.process_time()
    model = PeerTransformerRegressor(random_state=seed).fit(X[early], y[early])
    seconds = time.process_time() - start
    control = PeerTransformerRegressor(attention=False, random_state=seed).fit(X[early], y[early])
    Z = with_means(X)
    boosting = HistGradientBoostingRegressor(early_stopping=False, random_state=0).fit(Z[early], y[early])
    return {
        "truth": r2(signal[~early]),
        "transformer": r2(model.predict(X[~early])),
        "without attention": r2(control.predict(X[~early])),
        "boosting": r2(boosting.predict(Z[~early])),
        "least squares": r2(np.column_stack([np.ones(len(X)), X])[~early] @ np.linalg.lstsq(
            np.column_stack([np.ones(len(X)), X])[early], y[early], rcond=None)[0]),
        "seconds": seconds,
    }  # fmt: skip


def main() -> None:
    """Fit all draws and publish the table."""
    asked = options(__doc__, draws=3, only=SHAPES)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", PeerAttnWarning)
    rows: list[dict[str, str | float]] = []
    for periods in (240, 80):
        for shape in asked.only:
            name = shape.replace("/", " over ")
            draws = [
                stored(
                    RESULTS / "transformer" / f"{name}-{periods}-{k}.json", partial(one, shape, periods, k)
                )
                for k in range(asked.draws)
            ]
            means = pd.DataFrame(draws).mean().round(3).to_dict()
            rows.append({"outcome": shape, "periods": periods, "draws": len(draws), **means})
            print(rows[-1], flush=True)
    notes = [
        "R² on the last 60 periods, mean over draws, defaults; boosting on own characteristics and means of the others."
    ]
    publish("transformer", "A transformer over firms where peers enter nonlinearly", rows, notes)


if __name__ == "__main__":
    main()
