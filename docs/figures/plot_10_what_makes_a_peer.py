"""
What makes a peer?
==================

A dyadic regression of weights on relations between firms, with standard errors robust to dyads that share a
firm (Aronow, Samii and Assenova 2015). Coefficients with 95 % intervals.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from peerattn import NadarayaWatsonRegressor, load_russell
from peerattn.network import Difference, SameCode, dyadic_regression
from peerattn.render import PALETTE, figure_style

panel = load_russell()  # or your own
X, y = panel.X.drop(columns=["sector", "industry"]), panel.y  # accounts only
past = X.index.get_level_values("period") < 2016
model = NadarayaWatsonRegressor().fit(X[past], y[past])  # or any other model
network = model.peer_network(X[~past], outcomes=y[~past])
sector = panel.X["sector"].groupby(level="firm").last()

size = X.loc[~past, "size"].droplevel("period")
size = (size - size.mean()) / size.std()
random_trait = pd.Series(np.random.default_rng(0).normal(size=len(size)), index=size.index)
relations = {
    "same sector": SameCode(sector),
    "|difference in size| (sd)": Difference(size),
    "|difference in a random trait| (sd)": Difference(random_trait),
}
fitted = dyadic_regression(network, relations)
print(fitted)

# %%

interval = 100 * fitted.conf_int()
table = 100 * fitted.to_frame()
names = list(relations)
with figure_style():
    figure, ax = plt.subplots(figsize=(6.4, 2.2))
    for at, name in enumerate(names[::-1]):
        low, high = interval.loc[name]
        ax.plot([low, high], [at, at], color=PALETTE[0], linewidth=2.4, alpha=0.5, solid_capstyle="butt")
        ax.plot((low + high) / 2, at, "o", color=PALETTE[0])
    ax.axvline(0, color="#8b9096", linewidth=0.8)
    ax.set_yticks(range(len(names)), names[::-1])
    ax.set(xlabel="weight, in percentage points", ylim=(-0.5, len(names) - 0.5))
