"""
What firms search for
=====================

The search profile M = W_Q W_K′: blue where firms with more of the row's characteristic attend to peers with
more of the column's. Left the estimate, then its symmetric part (like attends to like) and its antisymmetric
part (direction).
"""

import matplotlib.pyplot as plt

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.network import search_map
from peerattn.render import figure_style

panel = simulate_panel(40, 36, 3, sharpness=3.0, random_state=0)
names = {"x1": "size", "x2": "R&D", "x3": "leverage"}
X = panel.X.rename(columns=names)
model = PeerAttentionRegressor(n_heads=1, d_head=2, random_state=0).fit(X, panel.y)
profile = model.search_profile()

with figure_style():
    figure, axes = plt.subplots(1, 3, figsize=(12.0, 3.6), layout="constrained")
    parts = {
        "M": profile.matrices[0],
        "symmetric part": profile.symmetric(),
        "antisymmetric part": profile.antisymmetric(),
    }
    for ax, (title, part) in zip(axes, parts.items()):
        search_map(part, ax=ax, title=title)
