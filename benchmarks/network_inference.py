"""Do intervals of edges cover the truth, does the test of direction keep its size, do placebo networks give nothing?

python benchmarks/network_inference.py --panels 100
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.evaluation import bootstrap_network
from peerattn.network import PeerNetwork, placebo
from report import publish

FIRMS, PERIODS, REFITS = 30, 40, 49


def one_panel(seed: int, truth: str) -> dict[str, float | str]:
    """Fit, bootstrap and compare with the truth in the last period."""
    panel = simulate_panel(FIRMS, PERIODS, 4, truth=truth, sharpness=2.0, random_state=seed)
    start = time.perf_counter()
    model = PeerAttentionRegressor(random_state=seed).fit(panel.X, panel.y)
    fitted = time.perf_counter()
    last = panel.X[panel.X.index.get_level_values("period") == panel.network.periods[-1]]
    found = bootstrap_network(model, panel.X, panel.y, at=last, n_draws=REFITS, top_k=None, random_state=seed)
    done = time.perf_counter()
    edges = found.intervals()
    true = panel.network.matrix(panel.network.periods[-1]).stack()
    true = true.reindex(pd.MultiIndex.from_frame(edges[["firm", "peer"]])).to_numpy()
    inside = (edges["lower"] <= true) & (true <= edges["upper"])
    return {
        "truth": truth,
        "seed": seed,
        "heads": len(model.members_[0].kept),
        "correlation": float(np.corrcoef(true, edges["weight"])[0, 1]) if len(edges) else np.nan,
        "coverage": float(inside.mean()) if len(edges) else np.nan,
        "width": float((edges["upper"] - edges["lower"]).median()) if len(edges) else np.nan,
        "p": found.p_value,
        "fit seconds": fitted - start,
        "refit seconds": done - fitted,
    }


def gain(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Rise of the within-period R² of least squares when the peers' average characteristics are added."""
    p = x.shape[2]
    both = np.concatenate([x, weights @ x], axis=2)
    design = (both - both.mean(axis=1, keepdims=True)).reshape(-1, 2 * p)
    target = (y - y.mean(axis=1, keepdims=True)).ravel()
    rests = [
        np.sum((target - part @ np.linalg.lstsq(part, target, rcond=None)[0]) ** 2)
        for part in (design[:, :p], design)
    ]
    return float((rests[0] - rests[1]) / np.sum(target**2))


def stacked(network: PeerNetwork) -> np.ndarray:
    """All periods' weights, firms in the order of their labels, (T, n, n)."""
    return np.stack([network.matrix(period).sort_index().sort_index(axis=1) for period in network.periods])


def placebo_panel(seed: int, permutations: int = 99) -> dict[str, float]:
    """P values of the true and of placebo networks against permuted labels."""
    panel = simulate_panel(FIRMS, PERIODS, 4, sharpness=2.0, random_state=seed)
    x = panel.X.sort_index(level=["period", "firm"]).to_numpy().reshape(PERIODS, FIRMS, -1)
    y = panel.y.sort_index(level=["period", "firm"]).to_numpy().reshape(PERIODS, FIRMS)
    true, rng = stacked(panel.network), np.random.default_rng(seed)
    chance = []
    for _ in range(permutations):
        order = np.stack([rng.permutation(FIRMS) for _ in range(PERIODS)])
        relabelled = np.take_along_axis(np.take_along_axis(true, order[:, :, None], 1), order[:, None, :], 2)
        chance.append(gain(relabelled, x, y))
    networks = {
        "true": true,
        "relabelled": stacked(placebo(panel.network, "relabelled", random_state=seed + 10_000)),
        "rewired": stacked(placebo(panel.network, "rewired", random_state=seed + 20_000)),
    }
    return {
        name: (1 + sum(c >= gain(weights, x, y) for c in chance)) / (1 + permutations)
        for name, weights in networks.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=100)
    parser.add_argument("--symmetric", type=int, help="panels of symmetric truth; default as --panels")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument(
        "--log",
        type=Path,
        help="append every panel's row to this JSON-lines file; rows there are not run again",
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    symmetric = options.panels if options.symmetric is None else options.symmetric
    rows = (
        [json.loads(line) for line in options.log.read_text().splitlines()]
        if options.log and options.log.exists()
        else []
    )
    known = {(row["truth"], row["seed"]) for row in rows}
    for seed in range(options.first, options.first + max(options.panels, symmetric)):
        for truth, count in (("directed", options.panels), ("symmetric", symmetric)):
            if seed - options.first < count and (truth, seed) not in known:
                rows.append(one_panel(seed, truth))
                if options.log:
                    with options.log.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    show(pd.DataFrame(rows), pd.DataFrame([placebo_panel(seed) for seed in range(max(options.panels, 20))]))


def show(found: pd.DataFrame, placebos: pd.DataFrame) -> None:
    table = []
    for truth, group in found.groupby("truth"):
        one = group[group["heads"] == 1]
        test = "power" if truth == "directed" else "size"
        figures = {
            "coverage of 95 % intervals, mean over edges and panels": (group, group["coverage"].mean()),
            "coverage, median panel": (group, group["coverage"].median()),
            "coverage where one head was kept": (one, one["coverage"].mean()),
            f"direction test at 5 % rejects ({test})": (group, (group["p"] <= 0.05).mean()),
            "correlation of weights with the truth, median": (group, group["correlation"].median()),
        }
        for what, (panels, figure) in figures.items():
            table.append({"what": f"{truth} truth: {what}", "panels": len(panels), "figure": float(figure)})
    for name in placebos:
        what = f"{name} network: gain beyond 95 % of permuted labels"
        table.append(
            {"what": what, "panels": len(placebos), "figure": float((placebos[name] <= 0.05).mean())}
        )
    publish(
        "network_inference",
        f"Inference on learned networks, {FIRMS} firms × {PERIODS} periods, {REFITS} refits",
        table,
        [
            f"Mean seconds a panel: fit {found['fit seconds'].mean():.1f}, "
            f"{REFITS} refits {found['refit seconds'].mean():.1f} (one thread).",
            "Coverage: edges of the last period. Figures to reach: coverage 0.88 to 0.99, size near 0.05, rewired near 0.05.",
            f"Heads kept: {found['heads'].value_counts().sort_index().to_dict()}; the truth has one.",
        ],
    )


if __name__ == "__main__":
    main()
