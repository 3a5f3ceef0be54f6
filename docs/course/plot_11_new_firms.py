"""
11. New firms
=============

A list of peers, drawn up by hand or learned firm by firm, cannot be applied to a firm that is not on it. A *rule* can:
:math:`W_Q` and :math:`W_K` use characteristics, and a new firm has them. Does a learned rule hold for other firms?
``NewFirms`` tests on later periods *and* on firms that were not in training.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from peerattn import NadarayaWatsonRegressor, simulate_panel
from peerattn.evaluation import NewFirms, WalkForward
from peerattn.render import PALETTE, figure_style

panel = simulate_panel(80, 14, 2, n_industries=4, random_state=0)
X, y = panel.X[["x1", "x2"]], panel.y
firm, period = (X.index.get_level_values(level) for level in ("firm", "period"))

# %%
# **The split.** Firms are split into groups. Each group is tested in periods after those of training, by a model
# that was fitted without its firms.

split = NewFirms(WalkForward(test_periods=2, refit_every=2), n_splits=4)
folds = list(split.split(X))
for train, test in folds:
    assert not set(firm[train]) & set(firm[test]) and period[train].max() < period[test].min()
tested = folds[0][1]
months = " and ".join(period[tested].unique().sort_values().strftime("%B %Y"))
print(f"{len(folds)} folds; the first tests {firm[tested].nunique()} firms in {months}")

# %%
# **Two kinds of knowledge.** A mean for each firm, learned in training, is the strongest case of a table: it identifies
# firms by name. Kernel regression is a rule, weights from characteristics. Both are tested twice: on the firms of
# training, later, and on new firms.


def r2_of(train, test):
    """R² against the mean of training: firm means, least squares, and the kernel."""
    base = y.iloc[train].mean()
    by_name = y.iloc[train].groupby(firm[train]).mean().reindex(firm[test]).fillna(base).to_numpy()
    line = LinearRegression().fit(X.iloc[train], y.iloc[train]).predict(X.iloc[test])
    rows = {"array": X.iloc[train].to_numpy()}
    kernel = NadarayaWatsonRegressor(bandwidth=0.5).fit(rows["array"], y.iloc[train].to_numpy())
    found = {"mean of each firm": by_name, "least squares": line}
    found["kernel of characteristics"] = kernel.predict(X.iloc[test].to_numpy())
    truth = y.iloc[test].to_numpy()
    return {k: 1 - np.mean((truth - p) ** 2) / np.mean((truth - base) ** 2) for k, p in found.items()}


later = [r2_of(train, test) for train, test in WalkForward(test_periods=2, refit_every=2).split(X)]
never = [r2_of(train, test) for train, test in folds]
table = pd.DataFrame(
    {"firms of training": pd.DataFrame(later).mean(), "new firms": pd.DataFrame(never).mean()}
)
print(table.round(3))

with figure_style():
    figure, ax = plt.subplots(figsize=(6.4, 2.6))
    place = np.arange(len(table))
    for k, (name, color) in enumerate(zip(table, PALETTE)):
        ax.barh(place + 0.36 * k, table[name], height=0.34, color=color, label=name)
    ax.set(yticks=place + 0.18, yticklabels=table.index, xlabel="R² against the mean of training")
    ax.invert_yaxis()
    ax.legend()

# %%
# Firm means are useless for new firms: the prediction is the mean of all. The kernel, a rule, predicts new firms nearly as
# well as those of training. Attention learns a rule of this kind; whether that holds for new firms must be tested:
# ``compare(..., cv=NewFirms(...))`` tests any model this way, with all rows of the test periods as candidate peers. A gain
# for firms of training only comes from a table of firms.
assert abs(table.loc["mean of each firm", "new firms"]) < 1e-9
assert table.loc["kernel of characteristics", "new firms"] > 0
