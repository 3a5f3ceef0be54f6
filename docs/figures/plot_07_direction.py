"""
One-sided pairs, and popularity
===============================

Both directions of every pair on log scales, the larger across. Points far below the line are one-sided: one
firm attends to the other, which hardly attends to it. A symmetric kernel has such points too, because its rows
are normalised; they disappear once popularity is taken out.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from peerattn import simulate_panel
from peerattn.network import asymmetry
from peerattn.render import PALETTE, figure_style

networks = {
    kind: simulate_panel(60, 4, 4, truth=kind, sharpness=2.5, random_state=1).network
    for kind in ("directed", "symmetric")
}

with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.2), sharex=True, sharey=True)
    for ax, (kind, network) in zip(axes, networks.items()):
        weights = network.matrix("2000-01").to_numpy()
        there, back = weights[np.triu_indices(len(weights), 1)], weights.T[np.triu_indices(len(weights), 1)]
        ax.loglog(np.maximum(there, back), np.minimum(there, back), ".", color=PALETTE[0], alpha=0.5)
        ax.axline((1e-4, 1e-4), (1, 1), color="#8b9096", linewidth=0.8)
        ax.set(xlim=(1e-6, 1.5), ylim=(1e-9, 1.5), title=f"{kind} scores")
        ax.set(xlabel="larger weight of the pair", ylabel="smaller weight of the pair")

# %%
# The split of log w_ij − log w_ji, whose mean squares add up; mean over periods:

parts = pd.DataFrame(
    {
        kind: (asymmetry(net).to_frame()[["popularity", "direction"]] ** 2).mean()
        for kind, net in networks.items()
    }
)
with figure_style():
    figure, ax = plt.subplots(figsize=(5.6, 2.2))
    left = 0.0
    for part, color in zip(parts.index, PALETTE):
        ax.barh(parts.columns, parts.loc[part], left=left, color=color, label=part)
        left = left + parts.loc[part].to_numpy()
    ax.set(xlabel="mean square of log w_ij − log w_ji")
    ax.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
