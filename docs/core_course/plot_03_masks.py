"""
3. Masks: which row may attend to which
=======================================

A mask is a table of True and False. **True means may attend**, everywhere in this package. Where it is
False the score is −∞ and the weight exactly 0.
"""

import matplotlib.pyplot as plt
import torch

from peerattn.nn import (
    attention_weights,
    block_mask,
    causal_mask,
    local_mask,
    padding_mask,
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
        ax.set_ylabel("attends")
    for ax in axes[1]:
        ax.set_xlabel("attended to")

# %%
# - **others**: in a panel a firm is never its own peer.
# - **same industry**: with equal scores this *is* the industry mean: SIC peers are attention with a score
#   of 0 or −∞.
# - **causal**: a word attends to earlier words only. The same rule over periods keeps a
#   forecast free of the future.
# - **padding**: sequences of different lengths in one batch; nobody attends to rows that are not there.
#
# A row that may attend to nobody gets zeros, not NaN and not a silent mean. In a network it is listed under
# ``isolates``:

nobody = torch.zeros(1, n, dtype=torch.bool)
assert attention_weights(x[:1], x, mask=nobody).sum() == 0

equal = attention_weights(torch.zeros(n, 1), torch.zeros(n, 1), mask=masks["same industry"])
print(equal[0].numpy().round(2))  # three peers in the industry, 1/3 each
