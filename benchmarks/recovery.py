"""Is the true directed network found? Simulated panels, default settings, beside a single head.

Run: ``python benchmarks/recovery.py [--seeds 3] [--designs 20] [--only small ...]``. Every finished fit is stored at
once in ``benchmarks/results/recovery/``; a run that was stopped goes on where it stopped.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import LinearRegression

from peerattn.datasets import SimulatedPanel, simulate_panel
from peerattn.models import PeerAttentionRegressor
from report import RESULTS, options, publish, stored

TEST_PERIODS = 15
COMPARED_PERIODS = 3  # of the held-out ones, whose networks are stored to compare seeds


@dataclass(frozen=True)
class Design:
    """One simulated panel."""

    share: float
    n_firms: int
    n_periods: int
    p: int
    d: int
    n_networks: int = 1
    truth: str = "directed"
    seed: int = 0

    @property
    def name(self) -> str:
        """What the table calls it."""
        kind = "none" if self.share == 0 else f"{self.n_networks} {self.truth}"
        return f"{self.share:g}, {self.n_firms} x {self.n_periods}, p={self.p}, {kind}"

    def simulate(self) -> SimulatedPanel:
        """Return the panel; its last periods are held out."""
        return simulate_panel(
            self.n_firms,
            self.n_periods + TEST_PERIODS,
            self.p,
            signal_share=self.share,
            d_head=self.d,
            n_networks=self.n_networks,
            truth=self.truth,  # type: ignore[arg-type]
            n_industries=10 if self.truth == "industry" else 0,
            random_state=1000 + self.seed,
        )


SHAPES = ((150, 60, 8, 4, 1), (200, 60, 6, 3, 1), (120, 80, 10, 5, 1), (300, 60, 8, 4, 2))
SHARES = (0.9, 0.5, 0.3, 0.1, 0.03)
DESIGNS = [
    Design(share, n, T, p, d, k, seed=10 * a + b) for a, share in enumerate(SHARES) for b, (n, T, p, d, k) in enumerate(SHAPES)
]
SMALL = [Design(0.9, n, T, 5, 3, seed=200 + k) for n, T in ((20, 60), (40, 21)) for k in range(10)]
LARGE = [Design(0.5, 1000, 30, 5, 3, seed=300 + k) for k in range(3)]
OTHERS = [
    Design(0.5, 150, 60, 8, 4, truth="symmetric", seed=100),
    Design(0.5, 150, 60, 8, 4, truth="industry", seed=101),
    Design(0.0, 150, 60, 8, 4, seed=102),
]


def split(panel: SimulatedPanel) -> tuple[np.ndarray, pd.Index]:
    """Return which rows are training rows, and the held-out periods."""
    periods = panel.X.index.get_level_values("period")
    ordered = periods.unique().sort_values()
    return np.asarray(periods < ordered[-TEST_PERIODS]), ordered[-TEST_PERIODS:]


def off_diagonal_correlation(W: np.ndarray, truth: np.ndarray) -> float:
    """Return the correlation of two weight matrices over pairs of different firms; 0 for a flat network."""
    off = ~np.eye(len(W), dtype=bool)
    a, b = W[off], truth[off]
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else 0.0


def correlation(heads: Callable[[object], list[np.ndarray]], panel: SimulatedPanel, periods: pd.Index) -> float:
    """Return the median over held-out periods of the correlation with the truth; heads are matched to truths by assignment."""
    scores = []
    for period in periods:
        firms = panel.networks[0].matrix(period).index
        truths = [net.matrix(period).loc[firms, firms].to_numpy() for net in panel.networks]
        found = heads(period)
        table = np.array([[off_diagonal_correlation(W, truth) for W in found] for truth in truths]).reshape(len(truths), -1)
        rows, columns = linear_sum_assignment(-table)
        matched = np.zeros(len(truths))
        matched[rows] = table[rows, columns]
        scores.append(matched.min())
    return statistics.median(scores)


def ours(panel: SimulatedPanel, seed: int) -> tuple[dict[str, float], np.ndarray]:
    """Fit the estimator at its defaults; return its figures, and its network in some held-out periods."""
    train, periods = split(panel)
    start = time.process_time()
    model = PeerAttentionRegressor(random_state=seed).fit(panel.X[train], panel.y[train])
    seconds = time.process_time() - start
    test = panel.X[~train]
    kept = model.heads_.index.tolist()
    single = len(panel.networks) == 1
    whole = model.peer_network(test)
    networks = [whole] if single else [model.peer_network(test, head=h) for h in kept]
    found = (
        correlation(lambda t: [net.matrix(t).to_numpy() for net in networks], panel, periods) if panel.networks else float("nan")
    )
    numbers = panel.X.select_dtypes("number")
    own = LinearRegression().fit(numbers[train], panel.y[train])
    figures = {
        "correlation": found,
        "seconds": seconds,
        "heads": len(kept),
        "r2": model.score(test, panel.y[~train]),
        "r2_ols": own.score(numbers[~train], panel.y[~train]),
    }
    return figures, np.array([whole.matrix(t).to_numpy(dtype=np.float32) for t in periods[:COMPARED_PERIODS]])


def _stacked(panel: SimulatedPanel, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a balanced panel as (T, n, p) and (T, n)."""
    X = panel.X.drop(columns="industry", errors="ignore")[rows].sort_index(level=["period", "firm"])
    n = X.index.get_level_values("firm").nunique()
    y = panel.y[rows].reindex(X.index).to_numpy().reshape(-1, n)
    return torch.tensor(X.to_numpy().reshape(-1, n, X.shape[1]), dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def single_head(panel: SimulatedPanel, seed: int, steps: int = 800) -> dict[str, float]:
    """Train own term plus one head of ``torch.nn.MultiheadAttention`` alike: Adam, one cycle, as many steps."""
    train, periods = split(panel)
    x, y = _stacked(panel, train)
    y = (y - y.mean()) / y.std()
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.random.manual_seed(seed)
        head = torch.nn.MultiheadAttention(x.shape[2], 1, batch_first=True)
        own, out = torch.nn.Linear(x.shape[2], 1), torch.nn.Linear(x.shape[2], 1)
    own_row = torch.eye(x.shape[1], dtype=torch.bool)
    optimizer = torch.optim.Adam([*head.parameters(), *own.parameters(), *out.parameters()], lr=5e-3)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    start = time.process_time()
    for _ in range(steps):
        at = torch.randint(len(x), (6,), generator=generator)
        mixed, _ = head(x[at], x[at], x[at], attn_mask=own_row, need_weights=False)
        loss = ((own(x[at]) + out(mixed))[..., 0] - y[at]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cycle.step()
    seconds = time.process_time() - start
    test, _ = _stacked(panel, ~train)
    with torch.no_grad():
        weights = [head(z[None], z[None], z[None], attn_mask=own_row)[1][0].numpy() for z in test]
    return {
        "correlation": correlation(lambda t: [weights[periods.get_loc(t)]], panel, periods),
        "seconds": seconds,
    }


CONTROLS = {"single head": single_head}


def stored_at(design: Design, method: str, seed: int) -> Path:
    """Return the file of one fit."""
    key = "-".join(str(value) for value in asdict(design).values())
    return RESULTS / "recovery" / f"{key}-{method.replace(' ', '_')}-{seed}.json"


def measure(design: Design, method: str, seed: int) -> dict[str, float]:
    """Return one fit's figures, stored in a file of its own; our networks lie beside it."""
    path = stored_at(design, method, seed)

    def make() -> dict[str, float]:
        if method != "ours":
            return CONTROLS[method](design.simulate(), seed)
        figures, networks = ours(design.simulate(), seed)
        np.save(path.with_suffix(".npy"), networks)
        return figures

    return dict(stored(path, make))


def agreement(design: Design, seeds: range) -> float:
    """Return the lowest correlation of the networks of two seeds, each the median over held-out periods."""
    found = [np.load(stored_at(design, "ours", seed).with_suffix(".npy")) for seed in seeds]
    pairs = [
        statistics.median(off_diagonal_correlation(A, B) for A, B in zip(a, b, strict=True)) for a, b in combinations(found, 2)
    ]
    return min(pairs, default=float("nan"))


def summary(designs: list[Design], seeds: range) -> list[dict[str, str | float]]:
    """Return one row per signal share and method."""
    rows: list[dict[str, str | float]] = []
    for share in sorted({d.share for d in designs}, reverse=True):
        group = [d for d in designs if d.share == share]
        for method in ("ours", *CONTROLS):
            ours_here = method == "ours"
            results = [measure(d, method, s) for d in group for s in (seeds if ours_here else seeds[:1])]
            scores = [r["correlation"] for r in results]
            agreements = [agreement(d, seeds) for d in group] if ours_here and len(seeds) > 1 else []
            rows.append(
                {
                    "signal share": share,
                    "method": method,
                    "median": statistics.median(scores),
                    "worst": min(scores),
                    "above 0.95": sum(s > 0.95 for s in scores) / len(scores),
                    "seeds agree, median": statistics.median(agreements) if agreements else "",
                    "seeds agree, worst": min(agreements) if agreements else "",
                    "fits": len(scores),
                    "CPU seconds, median": statistics.median(r["seconds"] for r in results),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run all designs and publish the tables."""
    parts = {"small": SMALL, "large": LARGE, "directed": DESIGNS, "others": OTHERS}
    arguments = options(__doc__, seeds=3, designs=len(DESIGNS), threads=2, only=parts)
    torch.set_num_threads(arguments.threads)
    if "small" in arguments.only:
        one_seed_each("recovery_small", "Small panels with a strong network, signal share 0.9", SMALL)
    if "large" in arguments.only:
        one_seed_each("recovery_large", "A thousand firms, signal share 0.5", LARGE)
    if "directed" in arguments.only:
        directed(arguments.seeds, arguments.designs)
    if "others" in arguments.only:
        other_truths(arguments.seeds)


def directed(seeds: int, n_designs: int) -> None:
    """Publish how well directed networks are found, in the first designs of each share."""
    per_share = max(1, n_designs // len(SHARES))
    designs = [d for share in SHARES for d in [x for x in DESIGNS if x.share == share][:per_share]]
    rows = summary(designs, range(seeds))
    notes = [
        "Correlation with the true weights over pairs of different firms, median of 15 held-out periods; with two "
        "networks heads are matched to truths and the worse one counts.",
        "single head: torch.nn.MultiheadAttention with an own term, trained alike.",
        "seeds agree: lowest correlation of the networks of two seeds of a design; median and worst over designs.",
    ]
    publish("recovery", "Recovery of the true network, default settings", rows, notes)


def other_truths(seeds: int) -> None:
    """Publish how well a symmetric network and that of industries are found, and whether one is found where none is."""
    others = []
    for design in OTHERS:
        for seed in range(seeds):
            r = measure(design, "ours", seed)
            others.append({"truth": design.name, "seed": seed, **{k: float(v) for k, v in r.items()}})
            print(others[-1], flush=True)
    publish("recovery_others", "Symmetric, industry and no network", others)


def one_seed_each(name: str, title: str, designs: list[Design]) -> None:
    """Publish how often the networks of these panels are found, one seed each."""
    rows: list[dict[str, str | float]] = []
    for n, T in sorted({(d.n_firms, d.n_periods) for d in designs}):
        found = [measure(d, "ours", 0) for d in designs if (d.n_firms, d.n_periods) == (n, T)]
        scores = [r["correlation"] for r in found]
        rows.append(
            {
                "firms x periods": f"{n} x {T}",
                "panels": len(found),
                "above 0.95": sum(score > 0.95 for score in scores),
                "median": statistics.median(scores),
                "worst": min(scores),
                "CPU seconds, median": statistics.median(r["seconds"] for r in found),
            }
        )
    publish(name, title, rows)


if __name__ == "__main__":
    main()
