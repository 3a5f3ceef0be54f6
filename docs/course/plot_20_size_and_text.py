"""
20. How loss falls with size and with text, beside a recurrent network
=======================================================================

What a language model gains from being larger, and from more text, follows smooth curves over many orders of magnitude (Kaplan et
al. 2020). Two cores cover the first of them. The text is what every installation has: the docstrings of numpy. The
control is a recurrent network (GRU, Cho et al. 2014) of the same number of parameters, trained alike. The figures are those of
``benchmarks/size_and_text.py``.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from peerattn.render import PALETTE, figure_style

root = next(p for p in (Path.cwd(), *Path.cwd().parents) if (p / "benchmarks" / "results").is_dir())
stored = json.loads((root / "benchmarks" / "results" / "size_and_text.json").read_text())
rows = pd.DataFrame(stored["rows"])
print(rows.drop(columns="CPU s").round(2).to_string(index=False))

# %%
# **Size** (left): widths 8 to 64, two layers, the same number of steps over the same text. A recurrent layer of
# width D has about 6 D² parameters, a block 12 D²: the recurrent network is wider, by √2, to have as many. **Text**
# (right): one width, as many steps, from the first so many characters. From little text a model learns that text by
# heart.

alone = rows["characters' frequency alone"].iloc[0]
with figure_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.1), sharey=True)
    for (name, found), color in zip(rows[rows["by"] == "size"].groupby("model", sort=False), PALETTE):
        left.semilogx(found["parameters"], found["nats"], marker="o", color=color, label=name)
    found = rows[rows["by"] == "text"]
    right.semilogx(
        found["characters"], found["nats"], marker="o", color=PALETTE[0], label="transformer, width 32"
    )
    for ax in (left, right):
        ax.axhline(alone, color="#8b9096", linestyle=":", label="frequency of characters alone")
        ax.legend()
    left.set(xlabel="parameters", ylabel="nats a character, held-out text", title="By size")
    right.set(xlabel="characters of training text", title="By text")

# %%
# In so few steps and at these sizes the recurrent network is no weak control: it reads in order, which a short
# context rewards. What attention has over it is that no step waits for the one before, so that a larger one trains
# in the same time on hardware made for it, and that no distance is too long. Both count at sizes that two cores do
# not reach; ``benchmarks/sequence.py`` has figures on real text after ten minutes, beside an n-gram.
