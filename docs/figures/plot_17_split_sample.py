"""
A learned network in an equation
================================

The estimated effect of peers where nobody has a peer, in 200 simulated panels (``benchmarks/learned_w.py``). A network that was
learned from the outcomes it explains gives an effect in every panel; one that was learned on one half of the periods and is used
on the other gives none.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from peerattn.render import PALETTE, figure_style

stored = Path("benchmarks", "results", "learned_w.json")
results = next((folder / stored for folder in Path.cwd().parents if (folder / stored).exists()), stored)
rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
null = pd.DataFrame(rows).query("design == 'true effect 0'").iloc[::-1]

with figure_style():
    figure, axes = plt.subplots(figsize=(5.0, 2.8), layout="constrained")
    for at, (mean, sd, share) in enumerate(null[["mean estimate", "sd", "rejected at 5 %"]].to_numpy()):
        ends = [mean - 1.96 * sd, mean + 1.96 * sd]
        axes.plot(ends, [at, at], color=PALETTE[0], linewidth=2.4, alpha=0.5)
        axes.plot(mean, at, "o", color=PALETTE[0])
        under = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # the line at zero
        axes.text(mean, at + 0.12, f"significant in {share:.0%}", ha="center", bbox=under)
    axes.axvline(0, color="#8b9096", linewidth=0.8)
    names = {"naive": "same data", "one split": "half the periods each", "there and back": "both halves in turn"}
    axes.set_yticks(range(len(null)), null["use"].map(names))
    axes.set(
        xlabel="effect of peers' x (true: 0); 95 % of panels", xlim=(-0.3, 1.3), ylim=(-0.5, len(null) - 0.4)
    )
