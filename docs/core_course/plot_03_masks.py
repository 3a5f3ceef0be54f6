"""
3. Masks: who may look at whom
==============================

A mask is a table of True and False. **True means may attend**, everywhere in this package. Where it is
False the score is −∞ and the weight exactly 0.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch

from peerattn.nn import (
    attention_weights,
    block_mask,
    causal_mask,
    linear_attention,
    local_attention,
    local_mask,
    padding_mask,
    sparse_attention,
)
from peerattn.render import figure_style, weight_colours

n = 12
industry = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2])
masks = {
    "others (firms)": ~torch.eye(n, dtype=torch.bool),
    "same industry": block_mask(industry) & ~torch.eye(n, dtype=torch.bool),
    "causal (text)": causal_mask(n),
    "local, 2 each side": local_mask(n, 2),
    "padding, 9 of 12": padding_mask(torch.tensor([9]), n)[0, 0].expand(n, n),
    "causal and local": causal_mask(n) & local_mask(n, 2),
}

# %%
# The same queries and keys under six masks. Masks are combined by ``&``.

x = torch.randn(n, 8, generator=torch.Generator().manual_seed(0))
with figure_style():
    figure, axes = plt.subplots(2, 3, figsize=(7.8, 5.2), sharex=True, sharey=True)
    for ax, (name, mask) in zip(axes.flat, masks.items()):
        weights = attention_weights(x, x, mask=mask)
        ax.imshow(weights.numpy(), cmap=weight_colours(), vmin=0, vmax=1)
        ax.set_title(name)
        ax.set(xticks=[], yticks=[])
    for ax in axes[:, 0]:
        ax.set_ylabel("looks")
    for ax in axes[1]:
        ax.set_xlabel("is looked to")

# %%
# - **others**: in a panel a firm is never its own peer.
# - **same industry**: with equal scores this *is* the industry mean: SIC peers are attention with a score
#   of 0 or −∞.
# - **causal**: a word may look at what came before, never ahead. The same rule over periods keeps a
#   forecast free of the future.
# - **padding**: sequences of different lengths in one batch; rows that are not there are not looked to.
#
# A row that may look at nobody gets zeros, not NaN and not a silent mean. In a network it is listed under
# ``isolates``:

nobody = torch.zeros(1, n, dtype=torch.bool)
assert attention_weights(x[:1], x, mask=nobody).sum() == 0

equal = attention_weights(torch.zeros(n, 1), torch.zeros(n, 1), mask=masks["same industry"])
print(equal[0].numpy().round(2))  # three peers in the industry, 1/3 each

# %%
# **Cheaper attention.** Scores of all pairs cost time and memory in the square of the rows. Three ways out:
#
# - **a window** (``window=``): exactly what the mask of nearby rows gives, at the cost of the window;
# - **few keys** (``keep=``): each row keeps the keys of largest weight. All scores are still computed: fewer
#   neighbours, not fewer operations, and memory linear in the rows;
# - **random features** (``n_features=``): :math:`e^{q'k}` becomes a product of features of q and of k, which is
#   summed over k once for all q; unbiased, and rough where queries and keys are long.
#
# What each of them weighs, in one causal head:

ways = {
    "all pairs": attention_weights(x, x, mask=causal_mask(n)),
    "window = 2": attention_weights(x, x, mask=causal_mask(n) & local_mask(n, 2)),
    "keep = 3": sparse_attention(x, x, x, 3, causal=True, return_weights=True)[1],
    "n_features = 64": linear_attention(x, x, x, 64, causal=True, return_weights=True)[1],
}
assert torch.allclose(local_attention(x, x, x, 2, causal=True), ways["window = 2"] @ x, atol=1e-6)
with figure_style():
    figure, axes = plt.subplots(1, 4, figsize=(9.0, 2.5), sharey=True)
    for ax, (name, weights) in zip(axes, ways.items()):
        ax.imshow(weights.numpy(), cmap=weight_colours(), vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[], title=name)

# %%
# ``LanguageModel``, ``MaskedLanguageModel``, ``TextClassifier``, ``AttentionForecaster`` and others take these three
# options, every layer takes ``attend=cheaper_attention(...)`` of them; a fitted model takes them by ``set_params``, to
# see what they lose. Measured by ``benchmarks/cheaper.py``, on one thread:

root = next(p for p in (Path.cwd(), *Path.cwd().parents) if (p / "benchmarks" / "results").is_dir())
stored = json.loads((root / "benchmarks" / "results" / "cheaper.json").read_text())
print(pd.DataFrame(stored["rows"]).round(3).to_string(index=False))
