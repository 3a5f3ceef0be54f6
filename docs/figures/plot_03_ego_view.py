"""
One firm's view
===============

The peers of one firm (right) and the firms that look to it (left); width and shade are weights. For a firm
with many small peers the figure says how much it leaves out.
"""

import numpy as np
import pandas as pd

from peerattn import PeerNetwork
from peerattn.network import effective_peers, ego_plot, in_strength

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

received = in_strength(network).set_index("firm")["in_strength"]
star = received.idxmax()
ego_plot(network, star, 2012, k=10)

# %%
# The most looked-to firm has followers from all sectors. How much of its own search the ten peers carry:

shown = network.peers(star, k=10)["weight"].sum()
effective = effective_peers(network).set_index("firm")["effective_peers"][star]
print(f"{star}: the ten peers carry {shown:.0%} of its weight; {effective:.0f} effective peers (1 / Σ w²)")
