"""
A large network by industry
===========================

400 firms make 160,000 weights. Ordered by industry, with borders and names, they show what a list cannot:
how much of the search stays within the industry, and which industries everybody looks to (columns).
"""

import numpy as np
import pandas as pd

from peerattn import PeerNetwork
from peerattn.network import heat_map, overlap

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

heat_map(network, order=sector)

# %%
# In one number: the share of weight within the industry, against what random peers would give.

print(overlap(network, sector).T.round(3))
