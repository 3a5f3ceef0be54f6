"""
8. A transformer over firms
===========================

A head of attention averages what peers have. A weighted mean is not enough if a firm responds to how unusual its peers are,
in either direction, or only once they pass a threshold. A *block* adds what is missing: after attention a feed-forward
network, residuals and normalisation (:doc:`/learn_core/plot_02_block`). Tokens are the firms of a period.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

from peerattn import PeerTransformerRegressor, load_grunfeld, nn
from peerattn.render import figure_style

# %%
# **From the block to firms.** Sixteen firms are sixteen tokens without positions: their order means nothing. A mask leaves
# the own firm out, so that what attention adds comes from peers alone. The weights are rows that sum to one.

generator = torch.Generator().manual_seed(0)
firms = torch.randn(1, 16, 3, generator=generator)  # one period, 16 firms, 3 characteristics
inputs = nn.linear(3, 32, generator=generator)
block = nn.TransformerBlock(32, 2, 64, norm="post", activation="relu", generator=generator)
output = nn.linear(32, 1, generator=generator)
others = ~torch.eye(16, dtype=torch.bool)
prediction = output(block(inputs(firms), mask=others))
shuffled = output(block(inputs(firms.flip(1)), mask=others)).flip(1)
print(prediction.shape, "order matters:", not torch.allclose(prediction, shuffled, atol=1e-5))

# %%
# :class:`~peerattn.models.PeerTransformerRegressor` is this: L such blocks, fitted to what own characteristics leave of the
# outcome, a few random starts averaged, training stopped by the last periods. What it adds has a weight from held-out periods.
#
# **A known network.** Twenty firms, 120 periods. Each firm has peers by a directed score of characteristics, and its outcome
# is the *absolute value* of their weighted mean: firms whose peers are far from normal have high outcomes.

g = np.random.default_rng(0)
n, T = 20, 120
query, key = g.normal(size=(2, 3, 2))
x = np.zeros((T, n, 3))
truth = np.zeros((T, n, n))
for t in range(T):
    x[t] = 0.9 * x[t - 1] + np.sqrt(0.19) * g.normal(size=(n, 3)) if t else g.normal(size=(n, 3))
    score = 2 * (x[t] @ query) @ (x[t] @ key).T
    np.fill_diagonal(score, -np.inf)
    truth[t] = np.exp(score - score.max(axis=1, keepdims=True))
    truth[t] /= truth[t].sum(axis=1, keepdims=True)
signal = np.abs((truth @ (x @ [1.0, -1.0, 0.5])[..., None])[..., 0])
index = pd.MultiIndex.from_product([range(T), [f"F{k:02d}" for k in range(n)]], names=["period", "firm"])
X = pd.DataFrame(x.reshape(-1, 3), index, columns=["size", "leverage", "growth"])
y = pd.Series(signal.ravel() + 0.5 * signal.std() * g.normal(size=T * n), index, name="outcome")
past = X.index.get_level_values("period") < 100

model = PeerTransformerRegressor(kappa=None, random_state=0).fit(X[past], y[past])
control = PeerTransformerRegressor(attention=False, kappa=None, random_state=0).fit(X[past], y[past])
scores = {"with attention": model.score(X[~past], y[~past]), "without": control.score(X[~past], y[~past])}
scores["the truth"] = 1 - ((y - signal.ravel())[~past] ** 2).sum() / ((y - y[~past].mean())[~past] ** 2).sum()
print(pd.Series(scores, name="R² of 20 later periods").round(2))

# %%
# The control is the same network, trained in the same way, in which no firm may attend to another. The difference in R² is
# what attention adds, *holding the rest of the network fixed*. Attention also recovers the network, which it was never given.

network = model.peer_network(X[~past])
found = np.stack([network.matrix(t).loc[X.loc[t].index, X.loc[t].index] for t in range(100, T)])
off_diagonal = ~np.eye(n, dtype=bool)
agreement = np.mean([np.corrcoef(a[off_diagonal], b[off_diagonal])[0, 1] for a, b in zip(found, truth[100:])])
print(f"correlation of attention and true weights: {agreement:.2f}")

with figure_style():
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.0), layout="constrained")
    for ax, weights, title in zip(axes, (truth[-1], found[-1]), ("True weights", "Attention, mean of heads")):
        image = ax.imshow(weights, cmap="Blues", vmin=0, vmax=truth[-1].max())
        ax.set(xticks=[], yticks=[], xlabel="peer", ylabel="firm", title=title)
    figure.colorbar(image, ax=axes, shrink=0.8, label="weight")

# %%
# Heads differ: ``heads_`` lists them, ``peer_network(head=...)`` has one alone. With several layers ``rollout`` multiplies them.

each = {head: model.peer_network(X[~past], head=int(head)).matrix(T - 1).to_numpy() for head in model.heads_.index}
fit = [np.corrcoef(weights[off_diagonal], truth[-1][off_diagonal])[0, 1] for weights in each.values()]
print(model.heads_.assign(correlation=np.round(fit, 2)))

# %%
# **Real firms.** Next year's investment of eleven American corporations, 1935 to 1953 (Grunfeld 1958). By default (``kappa=1``)
# held-out periods decide how much weight the transformer gets beside the own part, which includes the same network without
# attention.

grunfeld = load_grunfeld()
known = grunfeld.y.notna()
X_real, y_real = grunfeld.X[known], grunfeld.y[known]
chosen = PeerTransformerRegressor(random_state=0).fit(X_real, y_real)
print(chosen.evidence_.loc[["nonlinear", "peers"], ["factor", "t", "selected", "reason"]].to_string())

# %%
# With ``kappa=None`` it is used in full, without a test, and its attention can be inspected. That a network *has* weights does
# not mean that they predict anything: on later years their weight is the factor above, zero.

in_full = PeerTransformerRegressor(kappa=None, random_state=0).fit(X_real, y_real)
year = X_real.index.get_level_values("period").max()
weights = in_full.peer_network(X_real).matrix(year)
with figure_style():
    figure, ax = plt.subplots(figsize=(6.0, 4.8), layout="constrained")
    image = ax.imshow(weights, cmap="Blues", vmin=0)
    ax.set_xticks(range(len(weights)), weights.columns, rotation=60, ha="right", fontsize=7)
    ax.set_yticks(range(len(weights)), weights.index, fontsize=7)
    ax.set(xlabel="peer", ylabel="firm", title="Attention used in full (not selected above)")
    figure.colorbar(image, ax=ax, shrink=0.8, label="weight")

# %%
# ``python benchmarks/transformer.py`` compares the transformer with the same network without attention, on four simulated
# designs with nonlinear peers and on real panels. Options and a transformer of your own:
# :doc:`/guide/transformer-over-firms`.
