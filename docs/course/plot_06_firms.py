"""
6. Back to firms: can a known network be found?
===============================================

In data nobody knows the true peers. In a simulation we do: outcomes are made from a known directed network,
and the estimator sees characteristics and outcomes only.
"""

import matplotlib.pyplot as plt
import numpy as np

from peerattn import (
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    WalkForward,
    compare,
    simulate_panel,
)
from peerattn.network import heat_map, network_correlation
from peerattn.render import PALETTE, figure_style

panel = simulate_panel(40, 60, 3, n_industries=4, sharpness=3.0, random_state=0)
X, y = panel.X, panel.y
print(panel)

# %%
# **Fit on four years, and look at the fifth.** One head keeps the page quick; the default is two.

past = X.index.get_level_values("period") < "2004-01"
attention = PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0)
model = attention.fit(X[past], y[past])
print(model.evidence_.loc["peers", ["factor", "t", "loss_reduction", "periods", "tested"]].to_string())

found = model.peer_network(X[~past])
truth = panel.network.subset(periods=found.periods)
print(f"correlation of found and true weights: {network_correlation(found, truth):.3f}")

with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.2))
    for ax, network, title in zip(axes, (truth, found), ("True network", "Found network")):
        heat_map(network, "2004-06", ax=ax)
        ax.set(xticks=[], yticks=[], title=f"{title}, June 2004")

# %%
# The network is found: held-out periods support the heads (``t``), and their weights agree with the true ones. That takes
# data: fitted on the first two years alone, heads are not selected, and the network is empty.
#
# **Against fixed peers.** The same panel, out of sample in the fifth year. Industries are irrelevant in this
# simulation. In a forecast the kernel is a smooth function of own characteristics, and no peer effect. The controls
# at the end have no peers; ``compare`` always adds them.

result = compare(
    {
        "Industry peers": IndustryPeerRegressor(industry="industry"),
        "Kernel": NadarayaWatsonRegressor(),
        "Attention": attention,
    },
    X,
    y,
    cv=WalkForward(test_periods=12, refit_every=12),
    verbose=False,
)
print(result)

# %%
# The estimated M = W_Q W_K′ (page 5) beside the true one. (W_Q and W_K separately are not identified, nor is a constant for
# each focal firm.)

names = ["x1", "x2", "x3"]
sd = X[past][names].std().to_numpy()
truth_M = panel.parameters.query[0] @ panel.parameters.key[0].T * np.outer(sd, sd)
found_M = model.search_profile().matrices[0].loc[names, names].to_numpy()
with figure_style():
    figure, ax = plt.subplots(figsize=(4.2, 3.6))
    ax.scatter(truth_M, found_M, color=PALETTE[0])
    ax.axline((0, 0), slope=1, color="#8b9096", linewidth=0.8, linestyle=":")
    ax.margins(0.15)
    for (i, j), true in np.ndenumerate(truth_M):
        if abs(true) > 1.0:
            at = (true, found_M[i, j])
            ax.annotate(
                f"{names[i]} → {names[j]}", at, xytext=(5, -9), textcoords="offset points", fontsize=8
            )
    ax.set(
        xlabel="true M (score per sd of each)",
        ylabel="found M (score per sd of each)",
        title="Search profile",
    )

# %%
# Next: your own file (:doc:`/guide/panel`), what the weights mean and what they do not
# (:doc:`/background/weights`), and figures for a paper (:doc:`/gallery/index`).
