"""
The bandwidth of a kernel, and its data
=======================================

Grunfeld's eleven firms, 1935 to 1954: next year's investment by a firm's market value. The kernel's
bandwidth decides how many firms count as peers; leave-one-firm-out cross-validation chooses it.
"""

import matplotlib.pyplot as plt
import numpy as np

from peerattn import NadarayaWatsonRegressor, load_grunfeld
from peerattn.render import INK, PALETTE, figure_style

panel = load_grunfeld()
known = panel.y.notna()
value = np.log10(panel.X.loc[known, "value"]).to_numpy()[:, None]
invest = np.log10(panel.y[known]).to_numpy()
grid = np.linspace(value.min(), value.max(), 200)[:, None]

with figure_style():
    figure, ax = plt.subplots(figsize=(6.4, 3.6))
    ax.plot(10**value, 10**invest, ".", color=INK, alpha=0.3)
    for bandwidth, color in ((0.02, PALETTE[2]), ("cv_ls", PALETTE[0]), (1.0, PALETTE[1])):
        model = NadarayaWatsonRegressor(bandwidth=bandwidth).fit(value, invest)
        name = f"cross-validated: {model.bandwidth_[0]:.2f}" if bandwidth == "cv_ls" else f"{bandwidth:g}"
        ax.plot(10**grid, 10 ** model.predict(grid), color=color, label=name)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="market value (million 1947 dollars)",
        ylabel="investment next year\n(million 1947 dollars)",
    )
    ax.legend(title="bandwidth (log10 of value)")
