"""
A learned network in an equation, and a shock that spreads
==========================================================

Left: the estimated effect of peers where nobody has a peer, in 200 simulated panels (``benchmarks/learned_w.py``). A network that
was learned from the outcomes it explains has one in every panel; learned on one half of the periods and used on the other, it
has none. Right: the effect of a change of one firm on the others, by how many steps they are away from it (LeSage and Pace 2009).
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import networkx
import numpy as np
import pandas as pd

from peerattn import LinearInMeansRegressor
from peerattn.models import shock
from peerattn.render import PALETTE, figure_style

stored = Path("benchmarks", "results", "learned_w.json")
results = next((folder / stored for folder in Path.cwd().parents if (folder / stored).exists()), stored)
rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
null = pd.DataFrame(rows).query("design == 'true effect 0'").iloc[::-1]

# sixty firms, each of which attends to two others; a unit of size is worth 1, and comes back through peers
rng = np.random.default_rng(0)
firms = [f"F{k:02d}" for k in range(60)]
W = pd.DataFrame(np.argsort(rng.random((60, 60)) + np.eye(60), axis=1) < 2, firms, firms) / 2
index = pd.MultiIndex.from_product([range(2001, 2021), firms], names=["period", "firm"])
size = pd.DataFrame({"size": rng.normal(size=1200)}, index)
noise = 0.5 * rng.normal(size=(60, 20))
outcome = np.linalg.solve(np.eye(60) - 0.5 * W, size["size"].to_numpy().reshape(20, 60).T + noise)
model = LinearInMeansRegressor(network=W).fit(size, pd.Series(outcome.T.ravel(), index))
after = shock(model, size, {"size": 1.0}, firms=["F00"], n_draws=49)
graph = networkx.from_pandas_adjacency(W.T, create_using=networkx.DiGraph)  # along which a shock travels
steps = pd.Series(networkx.single_source_shortest_path_length(graph, "F00"))
by_step = after[["effect", "lower", "upper"]].groupby(steps).mean().loc[:4]

with figure_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 2.8), layout="constrained")
    for at, (mean, sd, share) in enumerate(null[["mean estimate", "sd", "rejected at 5 %"]].to_numpy()):
        ends = [mean - 1.96 * sd, mean + 1.96 * sd]
        left.plot(ends, [at, at], color=PALETTE[0], linewidth=2.4, alpha=0.5)
        left.plot(mean, at, "o", color=PALETTE[0])
        left.text(mean, at + 0.12, f"significant in {share:.0%}", ha="center")
    left.axvline(0, color="#8b9096", linewidth=0.8)
    left.set_yticks(range(len(null)), null["use"])
    left.set(
        xlabel="effect of peers' x (true: 0); 95 % of panels", xlim=(-0.3, 1.3), ylim=(-0.5, len(null) - 0.4)
    )
    error = [by_step["effect"] - by_step["lower"], by_step["upper"] - by_step["effect"]]
    right.errorbar(by_step.index, by_step["effect"], error, fmt="o", color=PALETTE[0])
    right.set(xlabel="steps from the firm that changes", ylabel="effect, per unit of size", xticks=range(5))
