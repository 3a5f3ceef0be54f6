"""
A network over time
===================

Top: asymmetry of the weights (root mean square of log w_ij − log w_ji), split into popularity and
direction. Bottom: turnover, the share of weight that moved since the period before.
"""

from peerattn import simulate_panel
from peerattn.network import timeline

panel = simulate_panel(80, 60, 4, persistence=0.97, sharpness=4.0, random_state=2)
timeline(panel.network)
