"""
A network over time
===================

Top: asymmetry of the weights (root mean square of log w_ij − log w_ji), split into popularity and
direction. Bottom: turnover, the share of weight that moved since the period before.
"""

import matplotlib.pyplot as plt

from peerattn import simulate_panel
from peerattn.network import turnover
from peerattn.render import figure_style

network = simulate_panel(80, 60, 4, persistence=0.97, sharpness=4.0, random_state=2).network
split, moved = network.asymmetry().to_frame(), turnover(network)

with figure_style():
    figure, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(6.0, 4.0), height_ratios=(3, 2))
    for part in ("popularity", "direction"):
        upper.plot(split.index, split[part], label=part)
    upper.set(ylabel="asymmetry (log)", ylim=(0, None), title="simulated network")
    upper.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    lower.plot(moved.index, moved["turnover"], color="C2")
    lower.set(ylabel="turnover", ylim=(0, None))
