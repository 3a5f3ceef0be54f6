"""
Are small firms covered as often as large ones?
===============================================

Conformal intervals at 90 % on a panel whose errors are three times as wide for the smallest firms as for the largest, with a
shock that all firms of a period share: one margin for all, and a margin for each fifth by size. Each dot is the share of outcomes
of 200 new periods inside; the line is the level.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge

from peerattn.evaluation import IntervalRegressor
from peerattn.render import PALETTE, figure_style

rng = np.random.default_rng(0)
index = pd.MultiIndex.from_product([range(1700, 2000), range(100)], names=["period", "firm"])
size = np.tile(np.linspace(-1, 1, 100), 300)
shared = np.repeat(0.3 * rng.normal(size=300), 100)
X = pd.DataFrame({"size": size, "roe": rng.normal(size=30_000)}, index)
y = X["roe"] + shared + (2 - size) * 0.5 * rng.normal(size=30_000)
past = index.get_level_values("period") < 1800

inside = {}
for name, by in (("one margin", None), ("a margin for each fifth by size", "size")):
    interval = IntervalRegressor(Ridge(), level=0.9, by=by).fit(X[past], y[past]).predict_interval(X[~past])
    covered = (interval["lower"] <= y[~past]) & (y[~past] <= interval["upper"])
    inside[name] = covered.groupby(np.ceil((X.loc[~past, "size"] + 1) / 0.4).clip(1, 5)).mean()

with figure_style():
    figure, ax = plt.subplots(figsize=(5.4, 2.8))
    for (name, shares), colour, mark in zip(inside.items(), PALETTE, "so"):
        ax.plot(shares.index, shares, mark, color=colour, label=name)
    ax.axhline(0.9, color="#8b9096", linewidth=0.8)
    ax.set(xlabel="fifth by size (1: smallest)", ylabel="share inside", xticks=range(1, 6), ylim=(0.7, 1.0))
    ax.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
