"""
R² of every model, with intervals
=================================

The one figure of a comparison: out-of-sample R² against the prevailing mean, with 95 % intervals from a
bootstrap of firms (conditional on the tested periods), and the best control as a line. Models that weigh chosen peers are blue,
all others orange.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from peerattn import (
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    WalkForward,
    compare,
    simulate_panel,
)
from peerattn.render import PALETTE, figure_style

panel = simulate_panel(40, 36, 3, n_industries=4, sharpness=3.0, random_state=0)
models = {
    "Industry peers": IndustryPeerRegressor(industry="industry"),
    "Kernel": NadarayaWatsonRegressor(),
    "Self-attention": PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0),
}
cv = WalkForward(test_periods=12, refit_every=12)
result = compare(models, panel.X, panel.y, cv=cv, decomposition=False, verbose=False)

# %%
# Squared errors are summed by firm, and firms are drawn again with replacement.

table = result.predictions
squares = {name: (table["outcome"] - table[name]) ** 2 for name in result.names}
base = (table["outcome"] - result.training_mean) ** 2
sums = pd.DataFrame({**squares, "base": base}).groupby(table["firm"]).sum()
draws = np.random.default_rng(0).integers(len(sums), size=(2000, len(sums)))
drawn = sums.to_numpy()[draws].sum(axis=1)
r2 = pd.DataFrame(1 - drawn[:, :-1] / drawn[:, -1:], columns=result.names)
low, high = r2.quantile(0.025), r2.quantile(0.975)
middle = 1 - sums[result.names].sum() / sums["base"].sum()
order = [name for name in middle.sort_values().index if "mean" not in name.lower()]
best_control = max(middle[name] for name in result.controls)

with figure_style():
    figure, ax = plt.subplots(figsize=(6.4, 2.8))
    for at, name in enumerate(order):
        color = PALETTE[1] if name in result.controls else PALETTE[0]
        ax.plot(
            [low[name], high[name]], [at, at], color=color, linewidth=2.4, alpha=0.5, solid_capstyle="butt"
        )
        ax.plot(middle[name], at, "o", color=color)
    ax.axvline(best_control, color=PALETTE[1], linewidth=0.8, linestyle="--", label="best control")
    ax.set_yticks(range(len(order)), order)
    ax.set(
        xlabel="out-of-sample R² against the prevailing mean",
        xlim=(min(0, low[order].min()) - 0.02, None),
    )
    ax.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
