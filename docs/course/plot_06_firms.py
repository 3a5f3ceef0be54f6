"""
6. Back to firms: can it find a network that is known?
=======================================================

In data nobody knows the true peers. In a simulation we do: outcomes are made from a known directed network,
and the estimator sees characteristics and outcomes only.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from peerattn import (
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    Reference,
    WalkForward,
    compare,
    ladder,
    simulate_panel,
)
from peerattn.evaluation import models_for
from peerattn.network import heat_map, network_correlation
from peerattn.nn import attention_weights
from peerattn.render import PALETTE, figure_style

panel = simulate_panel(40, 36, 3, n_industries=4, sharpness=3.0, random_state=0)
X, y = panel.X, panel.y
print(panel)

# %%
# **Fit, on two years, and look at the third.** One head is allowed here, to keep the page quick; the
# default allows two and lets later periods decide what enters.

past = X.index.get_level_values("period") < "2002-01"
attention = PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0)
model = attention.fit(X[past], y[past])
print(model.evidence_.round(3).T)

found = model.peer_network(X[~past])
truth = panel.network.subset(periods=found.periods)
print(f"correlation of found and true weights: {network_correlation(found, truth):.3f}")

with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.2))
    for ax, network, title in zip(axes, (truth, found), ("True network", "Found network")):
        heat_map(network, "2002-06", ax=ax)
        ax.set(xticks=[], yticks=[], title=f"{title}, June 2002")

# %%
# **Against fixed peers.** The same panel, out of sample in the third year. Industries mean nothing in this
# simulation. The kernel averages the past outcomes of like firms: that is a smooth function of own
# characteristics, and no peer effect. The controls at the end have no peers at all; compare adds them
# always.

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
# What the head looks for, beside the truth that made the data. (W_Q and W_K apart cannot be known, their
# product can; a constant for each focal firm cannot.)

names = ["x1", "x2", "x3"]
sd = X[past][names].std().to_numpy()
truth_M = panel.parameters.query[0] @ panel.parameters.key[0].T * np.outer(sd, sd)
found_M = model.search_profile().matrices[0].loc[names, names].to_numpy()
with figure_style():
    figure, ax = plt.subplots(figsize=(4.2, 3.6))
    ax.scatter(truth_M, found_M, color=PALETTE[0])
    ax.axline((0, 0), slope=1, color="#8b9096", linewidth=0.8, linestyle=":")
    for (i, j), true in np.ndenumerate(truth_M):
        if true > 0.8:
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
# **Fixed, cross, self: one ladder.** Private firms have no price, and learn from listed ones. Here 40 firms are
# listed, and the outcome of 30 private ones depends on what the listed firms that each looks to have. In
# *cross-attention* the private firms search the listed (``reference=``); in *self-attention* they search each
# other. Fixed peers, the industry mean and the kernel, are the rungs below.

universe = simulate_panel(70, 36, 3, n_industries=4, sharpness=3.0, d_head=2, random_state=1)
listed = universe.X.index.get_level_values("firm") <= "F040"
X_listed, X_private, truth = universe.X[listed], universe.X[~listed], universe.parameters


def seen(private):
    """What the listed firms that a private firm looks to have, in one period."""
    pool = X_listed[names].xs(private.index[0][1], level="period")
    looking, shown = private[names] @ truth.query[0], pool @ truth.key[0]
    weights = attention_weights(torch.tensor(looking.to_numpy()), torch.tensor(shown.to_numpy()), scale=1.0)
    return pd.Series(weights.numpy() @ (pool @ truth.information[0]), index=private.index)


peer_term = pd.concat([seen(rows) for _, rows in X_private.groupby(level="period")])
noise = np.random.default_rng(0).normal(size=len(X_private))
y_private = X_private[names].sum(axis=1) + (2 * peer_term / peer_term.std() + noise).reindex(X_private.index)

progression = models_for("forecast", industry="industry", cross=True)
del progression["Attention of two layers"]  # page 7
for name in ("Cross-attention", "Softmax attention"):
    progression[name].set_params(n_heads=1, d_head=2)  # quick; the default allows two heads
steps = ladder(
    X_private,
    y_private.rename("outcome"),
    reference=Reference(X_listed),
    industry="industry",
    progression=progression,
    cv=WalkForward(test_periods=12, refit_every=12),
    verbose=False,
)
print(steps)

# %%
# The gain comes with cross-attention. Self-attention, the next rung, has the wrong pool here and falls back. The
# report of :func:`peerattn.compare` draws the same rungs, with ``reference=`` (:doc:`/guide/cross-attention`).

# %%
# Where to go from here: your own file (:doc:`/guide/panel`), what the weights mean and what they do not
# (:doc:`/background/weights`), and figures for a paper (:doc:`/gallery/index`).
