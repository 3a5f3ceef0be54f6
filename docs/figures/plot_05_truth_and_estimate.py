"""
A known network, found
======================

Outcomes are simulated from a directed network; the estimator sees characteristics and outcomes. Each dot is
a pair of firms in one period.
"""

import matplotlib.pyplot as plt
import numpy as np

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.network import heat_map, network_correlation
from peerattn.render import PALETTE, figure_style

panel = simulate_panel(40, 36, 3, sharpness=3.0, random_state=0)
model = PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0).fit(panel.X, panel.y)
found, month = model.peer_network(panel.X), "2002-12"

with figure_style():
    figure, axes = plt.subplots(1, 3, figsize=(12.4, 4.0), width_ratios=(1.15, 1.15, 1))
    for ax, network, title in zip(axes, (panel.network, found), ("a  True weights", "b  Estimated weights")):
        heat_map(network, month, ax=ax)
        ax.set(xticks=[], yticks=[], title=title)
    true, estimate = panel.network.matrix(month).to_numpy(), found.matrix(month).to_numpy()
    pairs = ~np.eye(len(true), dtype=bool)
    axes[2].loglog(true[pairs], estimate[pairs], ".", color=PALETTE[0], markersize=2, alpha=0.4)
    axes[2].axline((1e-4, 1e-4), (1, 1), color="#8b9096", linewidth=0.8, linestyle=":")
    correlation = network_correlation(found, panel.network)
    axes[2].set(xlim=(1e-5, 1.2), ylim=(1e-5, 1.2), xlabel="true weight", ylabel="estimated weight")
    axes[2].set_title(f"c  Correlation {correlation:.2f}")
