"""
What makes a peer?
==================

A dyadic regression of weights on relations between firms, with standard errors robust to dyads that share a
firm (Aronow, Samii and Assenova 2015). Coefficients with 95 % intervals.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from peerattn import PeerNetwork
from peerattn.network import Difference, SameCode, dyadic_regression
from peerattn.render import PALETTE, figure_style

rng = np.random.default_rng(0)
sectors = [
    "Energy",
    "Materials",
    "Industrials",
    "Consumer",
    "Health care",
    "Finance",
    "Technology",
    "Utilities",
]
sector = pd.Series(rng.choice(sectors, 400, p=[0.08, 0.09, 0.17, 0.15, 0.14, 0.16, 0.15, 0.06]))
sector.index = [f"{name[:4]} {k:03d}" for k, name in enumerate(sector)]
size = rng.normal(size=400)
same = sector.to_numpy()[:, None] == sector.to_numpy()
serves = np.isin(sector, ["Technology", "Finance"])  # every sector looks to these two
scores = 2.5 * same + 1.5 * size + 1.0 * serves + rng.normal(size=(400, 400))
np.fill_diagonal(scores, -np.inf)
weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
network = PeerNetwork.from_matrices({2012: (sector.index, None, weights)}, name="400 firms")

size = pd.Series((size - size.mean()) / size.std(), index=sector.index)
random_trait = pd.Series(rng.normal(size=400), index=sector.index)
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
