"""
How much does an edge move?
===========================

The strongest edges of one period in refits on resampled blocks of periods; the true weights, known here,
beside them. Refits keep the heads that were found: their spread is no confidence interval.
"""

import matplotlib.pyplot as plt

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.evaluation import bootstrap_network
from peerattn.render import PALETTE, figure_style

panel = simulate_panel(30, 24, 3, sharpness=2.0, random_state=0)
model = PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0).fit(panel.X, panel.y)
last = panel.X[panel.X.index.get_level_values("period") == panel.X.index.get_level_values("period").max()]
spread = bootstrap_network(model, panel.X, panel.y, at=last, n_draws=39, random_state=0).spread(0.9)
strongest = spread.nlargest(15, "weight").iloc[::-1]
true = panel.network.matrix("2001-12")

with figure_style():
    figure, ax = plt.subplots(figsize=(6.0, 4.4))
    for at, edge in enumerate(strongest.itertuples()):
        ax.plot(
            [edge.lower, edge.upper],
            [at, at],
            color=PALETTE[0],
            linewidth=2.4,
            alpha=0.45,
            solid_capstyle="butt",
        )
        ax.plot(
            edge.weight,
            at,
            "o",
            color=PALETTE[0],
            label="estimate, nine tenths of the refits" if at == 0 else None,
        )
        ax.plot(
            true.loc[edge.firm, edge.peer],
            at,
            "x",
            color=PALETTE[1],
            label="true weight" if at == 0 else None,
        )
    ax.set_yticks(range(len(strongest)), [f"{e.firm} → {e.peer}" for e in strongest.itertuples()])
    ax.set(xlabel="weight", xlim=(0, None))
    ax.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
