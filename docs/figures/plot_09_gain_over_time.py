"""
When does a model gain?
=======================

Cumulative squared error saved against a control (Welch and Goyal 2008). A line that climbs steadily is
worth more than one jump: a single period can decide an average.
"""

import matplotlib.pyplot as plt

from peerattn import NadarayaWatsonRegressor, PeerAttentionRegressor, WalkForward, compare, simulate_panel
from peerattn.render import PALETTE, figure_style

panel = simulate_panel(40, 36, 3, sharpness=3.0, random_state=0)
models = {
    "Kernel": NadarayaWatsonRegressor(),
    "Self-attention": PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0),
}
cv = WalkForward(test_periods=18, refit_every=18)
result = compare(models, panel.X, panel.y, cv=cv, decomposition=False, verbose=False)
control = "Own characteristics (OLS)"
losses = result.losses[[*models, "Gradient boosting", control]]
saved = losses.rsub(losses[control], axis=0).cumsum().drop(columns=control)

with figure_style():
    figure, ax = plt.subplots(figsize=(6.6, 3.2))
    for name, color in zip(saved, PALETTE):
        ax.plot(saved.index, saved[name], color=color, label=name)
    ax.axhline(0, color="#8b9096", linewidth=0.8)
    ax.set(
        ylabel="cumulative squared error saved\n(units of the outcome, squared)", title=f"Against {control}"
    )
    ax.legend(loc="upper left")
    ax.figure.autofmt_xdate(rotation=0, ha="center")
