"""Are peers found beside a curve of own characteristics? Simulated panels to which a square of one characteristic is added.

Run: ``python benchmarks/own_curves.py [--seeds 0 1] [--stage tested full]``. Attention with each own part and the stack, at their
other defaults, and attention in full (``kappa=None``); the last eight periods are held out. Share 0 is the control: a curve, and
no peers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import numpy as np
from recovery import off_diagonal_correlation

from peerattn.datasets import SimulatedPanel, simulate_panel
from peerattn.models import PeerAttentionRegressor, StackedPeerRegressor
from report import options, publish

TEST_PERIODS = 8
#: Firms, training periods, characteristics, signal share.
DESIGNS = ((40, 24, 3, 0.6), (60, 30, 5, 0.4), (60, 30, 10, 0.5), (60, 30, 5, 0.0))
SIZES = (0.0, 0.5, 1.0)
TESTED = {
    "attention, own curves": lambda: PeerAttentionRegressor(own="curves", random_state=0),
    "attention, own linear": lambda: PeerAttentionRegressor(own="linear", random_state=0),
    "stack": lambda: StackedPeerRegressor(random_state=0),
}
IN_FULL = {
    "in full, own curves": lambda: PeerAttentionRegressor(own="curves", kappa=None, random_state=0),
    "in full, own linear": lambda: PeerAttentionRegressor(own="linear", kappa=None, random_state=0),
}
MODELS = TESTED | IN_FULL
NOTES = (
    "curve: standard deviation of the square of the first characteristic that is added, over that of the simulated outcome.",
    "t: of what heads (or peers of the stack) predict of held-out training periods beyond the firm itself; weight: theirs.",
    "correlation: of the weights with the true ones over pairs of different firms, mean of held-out periods; blank: no peers.",
    "R2, own part: of the outcome in held-out periods, and the same of the model before its peers.",
)


def measure(panel: SimulatedPanel, size: float, name: str) -> dict[str, str | float]:
    """Return the figures of one model on one panel."""
    square = panel.X.iloc[:, 0] ** 2
    y = panel.y + size * panel.y.std() * square / square.std()
    period = panel.X.index.get_level_values("period")
    held_out = period.unique().sort_values()[-TEST_PERIODS:]
    test = np.asarray(period.isin(held_out))
    start = time.process_time()
    model = MODELS[name]().fit(panel.X[~test], y[~test])
    seconds = time.process_time() - start
    steps = model.predict_steps(panel.X[test])
    errors = steps.rsub(y[test], axis=0) ** 2
    r2 = 1 - errors.mean() / y[test].var(ddof=0)
    evidence = model.evidence_.loc["peers"]
    found: dict[str, str | float] = {"t": evidence["t"], "correlation": ""}
    if evidence["factor"] > 0:
        network = model.peer_network(panel.X[test])
        pairs = [(network.matrix(each), panel.network.matrix(each)) for each in held_out]
        found["correlation"] = float(np.mean([off_diagonal_correlation(W.to_numpy(), truth.to_numpy()) for W, truth in pairs]))
    return found | {"weight": evidence["factor"], "R2": r2["peers"], "own part": r2["common shocks"], "CPU seconds": seconds}


def table(models: Collection[str], seeds: Sequence[int]) -> list[dict[str, str | float]]:
    """Return the figures of these models on every panel."""
    rows = []
    for n_firms, n_periods, p, share in DESIGNS:
        for size in SIZES:
            for seed in seeds:
                panel = simulate_panel(n_firms, n_periods + TEST_PERIODS, p, signal_share=share, random_state=seed)
                design = {"firms x periods, p": f"{n_firms} x {n_periods}, {p}", "share": share, "curve": size, "seed": seed}
                rows += [{**design, "model": name, **measure(panel, size, name)} for name in models]
                print(*rows[-len(models) :], sep="\n", flush=True)
    return rows


def main() -> None:
    """Fit every model to every panel and publish the tables."""
    arguments = options(__doc__, seeds=[0, 1], stage={"tested": TESTED, "full": IN_FULL})
    if "tested" in arguments.stage:
        publish("own_curves", "Peers beside a curve of own characteristics", table(TESTED, arguments.seeds), NOTES)
    if "full" in arguments.stage:
        title = "Heads in full beside a curve of own characteristics"
        publish("own_curves_full", title, table(IN_FULL, arguments.seeds), NOTES)


if __name__ == "__main__":
    main()
