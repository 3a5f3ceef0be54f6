"""Networks made of outcomes, each beside one that was not."""

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.labels import labels_of
from peerattn.evaluation.leak_audit.made_of_networks import network_made_of_outcomes
from peerattn.network import PeerNetwork

INDEX = pd.MultiIndex.from_product(
    [[f"F{k:02d}" for k in range(40)], range(2000, 2015)], names=["firm", "period"]
)
LABELS = labels_of(INDEX.get_level_values(0), INDEX.get_level_values(1))


def half_of_industries(y, weights, code):
    """Half of the weight on the own industry, half on weights of the period."""
    made = {}
    for t, here in y.unstack().items():
        parts = [(code[:, None] == code[None, :]).astype(float), weights(here.to_numpy())]
        for W in parts:
            np.fill_diagonal(W, 0.0)
        made[t] = (here.index, None, sum(W / W.sum(axis=1, keepdims=True) for W in parts) / 2)
    return PeerNetwork.from_matrices(made)


def test_a_network_made_of_outcomes_in_part_is_found():
    rng = np.random.default_rng(1)
    y, code = pd.Series(rng.normal(size=600), INDEX), np.arange(40) % 4
    train, tested = np.flatnonzero(LABELS[1] < 10), np.arange(10, 13)
    close = half_of_industries(y, lambda v: np.exp(-np.abs(v[:, None] - v)), code)
    assert "the closeness of outcomes" in network_made_of_outcomes(close, y, train, tested)
    other = half_of_industries(y, lambda v: rng.random((40, 40)), code)
    assert network_made_of_outcomes(other, y, train, tested) == ""


def correlations(y, lag, window=6):
    table, made = y.unstack(0), {}
    for k in range(window + lag, len(table)):
        W = table.iloc[k - lag - window + 1 : k - lag + 1].corr().clip(lower=0).to_numpy(copy=True)
        np.fill_diagonal(W, 0.0)
        made[table.index[k]] = (table.columns, None, W / W.sum(axis=1, keepdims=True))
    return PeerNetwork.from_matrices(made)


def test_a_window_of_correlations_may_end_before_the_tested_period():
    y = pd.Series(np.random.default_rng(1).normal(size=600), INDEX)
    train, tested = np.flatnonzero(LABELS[1] < 10), np.arange(10, 13)
    why = network_made_of_outcomes(correlations(y, 0), y, train, tested)
    assert "the correlation of outcomes over 6 periods, the tested one among them" in why
    assert network_made_of_outcomes(correlations(y, 1), y, train, tested) == ""
