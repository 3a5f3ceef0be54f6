"""A learned network in a linear-in-means equation: size and bias of the naive use and of two sample splits.

python benchmarks/learned_w.py [draws]
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from peerattn import LinearInMeansRegressor, PeerNetwork
from peerattn.models import split_sample
from peerattn.panel import as_panel
from report import publish

N, T, KEPT = 40, 16, 3


class BestPeers(BaseEstimator):
    """For each firm the three others whose x goes along most with its y: a network that is chosen by outcomes."""

    needs_outcomes = False

    def fit(self, X, y=None):
        """Learn the network from all rows."""
        panel = as_panel(X, y)
        x, q = (s.unstack("period") for s in (panel.X["x"], panel.y))
        x, q = (frame.sub(frame.mean(axis=1), axis=0) for frame in (x, q))
        q = q - x * float((x * q).to_numpy().sum() / (x**2).to_numpy().sum())
        near = (q.to_numpy() @ x.T.to_numpy()) / np.linalg.norm(x, axis=1)
        np.fill_diagonal(near, -np.inf)
        W = (near >= np.sort(near, axis=1)[:, [-KEPT]]) / KEPT
        self.weights_ = pd.DataFrame(W, q.index, q.index)
        return self

    def peer_network(self, X):
        """Return the learned network, undated."""
        return PeerNetwork.from_matrices({None: self.weights_})


def panel_of(rng, delta):
    """Return X and y of ``y = x + δ W x + e``, W three true peers each; δ = 0: nobody has a peer."""
    index = pd.MultiIndex.from_product([range(N), range(T)], names=["firm", "period"])
    W = np.argsort(np.argsort(rng.random((N, N)) + 9 * np.eye(N), axis=1), axis=1) < KEPT
    x = rng.normal(size=(N, T))
    y = x + delta * W @ x / KEPT + rng.normal(size=(N, T))
    return pd.DataFrame({"x": x.ravel()}, index), pd.Series(y.ravel(), index, name="y")


def one(use, X, y):
    """Return the estimate of δ and its p value."""
    options = {"peer_outcome": False, "effects": ("period",)}
    if use == "naive":
        W = BestPeers().fit(X, y).weights_
        found = LinearInMeansRegressor(network=W, **options).fit(X, y).results_
    else:
        found = split_sample(BestPeers(), X, y, back=use == "there and back", **options).results_
    return found.params["peers' x"], found.pvalues["peers' x"]


def main():
    """Measure and publish."""
    draws, rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200, []
    for delta in (0.0, 0.8):
        panels = [panel_of(np.random.default_rng(seed), delta) for seed in range(draws)]
        for use in ("naive", "one split", "there and back"):
            found = np.array([one(use, X, y) for X, y in panels])
            rows.append(
                {"design": f"true effect {delta:g}", "use": use, "mean estimate": found[:, 0].mean(),
                 "sd": found[:, 0].std(), "rejected at 5 %": (found[:, 1] < 0.05).mean(), "draws": draws}
            )  # fmt: skip
    publish(
        "learned_w",
        "A learned network in a linear-in-means equation",
        rows,
        ["40 firms, 16 periods; the network: of each firm the three whose x goes along most with its y. With a true effect the "
         "learned peers are true ones in part, so estimates lie below it; what a split estimates is the effect of the learned "
         "network."],
    )  # fmt: skip


if __name__ == "__main__":
    main()
