"""Are peers of peers found? Panels in which a firm's outcome depends on what its peers' peers have, and not on its peers.

Run: ``python benchmarks/peers_of_peers.py [--seeds 30 31 32]``. Stacked attention (``n_layers=2``) and one layer, at their
defaults, on the same panels; and on panels whose links are direct, where two layers have nothing to add.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import torch
from recovery import off_diagonal_correlation
from sklearn.linear_model import LinearRegression

from peerattn.datasets import SimulatedPanel, simulate_panel
from peerattn.evaluation import diebold_mariano
from peerattn.models import PeerAttentionRegressor
from peerattn.network import PeerNetwork, rollout
from report import options, publish

TEST_PERIODS = 40
#: True layers, signal share, firms, training periods.
DESIGNS = ((2, 0.9, 40, 30), (2, 0.5, 40, 60), (1, 0.9, 40, 30), (1, 0.5, 40, 60))
N_CHARACTERISTICS, D_HEAD, PERSISTENCE = 3, 2, 0.5
NOTES = (
    f"{N_CHARACTERISTICS} characteristics of autocorrelation {PERSISTENCE}, scores of rank {D_HEAD} and sharpness 5. Both "
    f"models at their defaults, random_state=0; MSE on the last {TEST_PERIODS} periods, held out: the noise is 1 - share.",
    "correlation: of the weights with the true ones over pairs of different firms, median of held-out periods; of two layers "
    "the product of both (rollout with residual=0), true and estimated; where the truth has one layer, of the last one.",
    "p of two better: Diebold and Mariano's test by period, one-sided; nan: equal losses, or too persistent for the test.",
    "layers kept: of the starts that entered; chains may enter beside heads of one layer, 0 where no head was kept.",
)


def correlation(network: PeerNetwork, truth: PeerNetwork, periods: pd.Index) -> float:
    """Return the median over periods of the correlation of weights over pairs of different firms."""
    found = []
    for period in periods:
        W = network.matrix(period)
        found.append(off_diagonal_correlation(W.to_numpy(), truth.matrix(period).loc[W.index, W.columns].to_numpy()))
    return float(np.median(found))


def fitted(panel: SimulatedPanel, train: np.ndarray, n_layers: int, true_layers: int) -> tuple[dict[str, float], pd.Series]:
    """Fit at defaults; return its figures on held-out periods, and its squared errors there."""
    start = time.process_time()
    model = PeerAttentionRegressor(n_layers=n_layers, random_state=0).fit(panel.X[train], panel.y[train])
    seconds = time.process_time() - start
    X, y = panel.X[~train], panel.y[~train]
    reported = [model.peer_network(X, layer=k) for k in range(n_layers)]
    network = rollout(reported, residual=0) if true_layers == 2 else reported[-1]
    errors = (y - model.predict(X)) ** 2
    periods = X.index.get_level_values("period").unique()
    kept = max((member.spec.n_layers for member in model.members_), default=0)
    return {
        "MSE": float(errors.mean()),
        "correlation": correlation(network, panel.network, periods),
        "layers kept": kept,
        "CPU seconds": seconds,
    }, errors


def measure(layers: int, share: float, n_firms: int, n_periods: int, seed: int) -> dict[str, str | float]:
    """Return the row of one panel."""
    panel = simulate_panel(
        n_firms,
        n_periods + TEST_PERIODS,
        N_CHARACTERISTICS,
        signal_share=share,
        d_head=D_HEAD,
        n_layers=layers,
        persistence=PERSISTENCE,
        random_state=seed,
    )
    period = panel.X.index.get_level_values("period")
    train = np.asarray(period < period.unique().sort_values()[-TEST_PERIODS])
    one, errors_one = fitted(panel, train, 1, layers)
    two, errors_two = fitted(panel, train, 2, layers)
    own = LinearRegression().fit(panel.X[train], panel.y[train])
    test = diebold_mariano(errors_two, errors_one, period[~train], model="two layers", baseline="one layer")
    if test.p_value is None:
        p = float("nan")
    else:
        p = test.p_value / 2 if two["MSE"] < one["MSE"] else 1 - test.p_value / 2
    return {
        "true layers": layers,
        "signal share": share,
        "firms x periods": f"{n_firms} x {n_periods}",
        "seed": seed,
        "own only, MSE": float(((panel.y[~train] - own.predict(panel.X[~train])) ** 2).mean()),
        "one layer, MSE": one["MSE"],
        "two layers, MSE": two["MSE"],
        "two / one": two["MSE"] / one["MSE"],
        "p of two better": p,
        "one layer, correlation": one["correlation"],
        "two layers, correlation": two["correlation"],
        "layers kept": two["layers kept"],
        "one layer, CPU s": one["CPU seconds"],
        "two layers, CPU s": two["CPU seconds"],
    }


def main() -> None:
    """Run all designs and publish the table, row by row."""
    arguments = options(__doc__, seeds=[30, 31, 32])
    torch.set_num_threads(1)
    rows = []
    for seed in arguments.seeds:
        for design in DESIGNS:
            rows.append(measure(*design, seed))
            ordered = sorted(rows, key=lambda r: (-r["true layers"], -r["signal share"], r["seed"]))  # type: ignore[operator]
            publish("peers_of_peers", "Peers of peers: one layer and two", ordered, NOTES)


if __name__ == "__main__":
    main()
