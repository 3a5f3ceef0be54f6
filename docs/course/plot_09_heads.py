"""
9. Heads that differ, and pruning
=================================

One softmax can attend to one kind of peer. **Heads** are several attentions side by side, each with its own
queries, keys and values; their results are added. Some heads do nothing, and can be removed.

The task below needs exactly two: a firm's outcome is the report of the *largest other* firm plus that of *its
partner* in a joint venture.
"""

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F

from peerattn.nn import MultiheadAttention, head_importance, most_important, prune_heads
from peerattn.render import PALETTE, figure_style, weight_colours
from peerattn.training import train

N, PAIRS = 8, 4
OTHERS = ~torch.eye(N, dtype=torch.bool)


def cross_sections(n, generator):
    """Rows hold the venture (one column each), size, and what the firm reports."""
    venture = torch.arange(PAIRS).repeat(2)[torch.rand(n, N, generator=generator).argsort(1)]
    size, report = torch.randn(2, n, N, generator=generator)
    others_size = size[:, None, :].where(OTHERS, -torch.inf)
    largest = report.gather(1, others_size.argmax(2))
    partner = (venture[:, :, None] == venture[:, None, :]) & OTHERS
    outcome = largest + (partner * report[:, None, :]).sum(2)
    rows = torch.cat([2 * F.one_hot(venture, PAIRS), 2 * size[..., None], report[..., None]], 2)
    return rows, outcome


# %%
# Six heads are four more than the task needs.

generator = torch.Generator().manual_seed(1)
layer = MultiheadAttention(PAIRS + 2, n_heads=6, d_head=8, d_value=1, d_output=1, generator=generator)


def squared_error(layer, batch):
    rows, outcome = batch
    return (layer(rows, mask=OTHERS)[..., 0] - outcome).square().mean()


batches = (cross_sections(64, generator) for _ in range(600))
train(layer, lambda batch: squared_error(layer, batch), batches, max_steps=600, learning_rate=0.03)
new = cross_sections(500, generator)
explained = 1 - squared_error(layer, new).item() / new[1].var().item()
print(f"R² on new cross-sections: {explained:.2f}")
assert explained > 0.9

# %%
# **Which heads matter?** The derivative of the loss L with respect to a gate :math:`g_h` that multiplies head h,
# :math:`|\partial L / \partial g_h|` (Michel, Levy and Neubig 2019). The heads of least importance are
# removed, and the loss on new cross-sections is the cost:

importance = head_importance(layer, lambda rows: squared_error(layer, (rows, new[1])), [new[0]])[""]
costs = []
for n_keep in range(6, 0, -1):
    fewer = prune_heads(layer, most_important(importance, n_keep))
    costs.append(1 - squared_error(fewer, new).item() / new[1].var().item())

assert costs[4] > 0.9 > costs[5]

with figure_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 2.9))
    left.bar(range(1, 7), importance.sort(descending=True).values, color=PALETTE[0])
    left.set(
        xlabel="head, in order of importance", ylabel="|slope of the loss in the gate|", title="Importance"
    )
    right.plot(range(6, 0, -1), costs, marker="o", color=PALETTE[1])
    right.invert_xaxis()
    right.set(
        xlabel="heads kept",
        ylabel="R² on new cross-sections",
        ylim=(min(0, min(costs)) - 0.05, 1.05),
        title="After pruning",
    )

# %%
# Four of the six can go. Other seeds spread the same work over three or four heads. The task determines what the heads do
# together, not how they share it.

# %%
# **What each attends to**, in one cross-section sorted by size. The heads share the work in their own way:
# some follow the venture, others the largest firm (last column).

rows, _ = cross_sections(1, torch.Generator().manual_seed(4))
rows = rows[0, rows[0, :, PAIRS].argsort()]
_, weights = layer(rows, mask=OTHERS, return_weights=True)
ventures = ["ABCD"[int(v)] for v in rows[:, :PAIRS].argmax(1)]
with figure_style():
    figure, axes = plt.subplots(1, 4, figsize=(9.0, 2.9), sharey=True)
    for ax, head in zip(axes, importance.argsort(descending=True)[:4].tolist()):
        ax.imshow(weights[head].detach().numpy(), cmap=weight_colours(), vmin=0, vmax=1)
        ax.set_xticks(range(N), ventures)
        ax.set_yticks(range(N), ventures)
        ax.set(title=f"head {head + 1}", xlabel="peer (venture)")
        ax.tick_params(length=0)
    axes[0].set_ylabel("focal firm (venture)")

# %%
# **Fitted models**, of panels and of sequences, are pruned by three functions: ``head_importance(model, X, y)``,
# ``prune(model, keep=...)``, and ``pruning_curve``, the score with fewer and fewer heads. Importance is measured on
# one part of the rows that the model has not seen, the score on another. It is a first-order measure: what removing
# several heads costs has to be measured. A translator's heads are pruned in :doc:`/core/real-sentences`.
#
# In the panel models heads that do not help in held-out periods get no weight (:doc:`/background/model`). If no head
# helps, the network is empty, and that is the finding.
