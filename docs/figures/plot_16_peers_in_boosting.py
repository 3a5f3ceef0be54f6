"""
The peers inside gradient boosting
==================================

Whose multiples make up the price to book that each model predicts for one firm? Boosting and the forest average training rows:
weights are added up over the quarters of a firm, the firm's own earlier ones included. The ridge averages other firms of the
quarter.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from peerattn import CrossSectionalRidge, load_multiples
from peerattn.models import peer_weights
from peerattn.render import PALETTE, figure_style

FIRM, QUARTER, SHOWN = "PEP", pd.Timestamp("2017-03-31"), 8
panel = load_multiples()  # S&P 500, log price to book
numbers = ["roe", "net_margin", "ebitda_margin", "turnover", "log_sales", "payout"]
known = panel.take(np.asarray(panel.y.notna()))
past, now = (known.take(np.asarray(when)) for when in (known.period < QUARTER, known.period == QUARTER))
networks = {}
for name, model in {
    "Gradient boosting": HistGradientBoostingRegressor(max_iter=60, early_stopping=False, random_state=0),
    "Random forest": RandomForestRegressor(100, min_samples_leaf=5, random_state=0),
}.items():
    fitted = model.fit(past.X[numbers], past.y)
    networks[name] = peer_weights(fitted, now.X[numbers], past.X[numbers], past.y)
ridge = CrossSectionalRidge().fit(past)
networks["Cross-sectional ridge"] = ridge.peer_network(now, outcomes=now.y)

with figure_style():
    figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.2), layout="constrained", sharex=True)
    for ax, (name, network) in zip(axes, networks.items()):
        peers = network.peers(FIRM, k=SHOWN).iloc[::-1]
        colours = [PALETTE[1 if weight < 0 else 0] for weight in peers["weight"]]
        ax.barh(peers["peer"], peers["weight"], color=colours)
        ax.axvline(0, color="#8b9096", linewidth=0.8)
        ax.set(title=name, xlabel=f"weight in the prediction for {FIRM}")
