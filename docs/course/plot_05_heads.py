"""
5. Heads that differ, and pruning
=================================

One softmax can look for one thing. **Heads** are several attentions side by side, each with its own search
criterion, profile and information; what they find is added up. Some heads do nothing, and can be cut.

The task below needs exactly two: a firm's outcome is what the *largest other* firm reports plus what *its
partner* (in a joint venture, say) reports.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.evaluation import head_importance as head_importance_of
from peerattn.evaluation import prune, pruning_curve
from peerattn.nn import MultiheadAttention, head_importance, most_important, prune_heads
from peerattn.render import PALETTE, figure_style, weight_colours
from peerattn.sequence import LanguageModel
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
# **Which heads matter?** The slope of the loss in a gate on each head, :math:`|\partial L / \partial g_h|`
# (Michel, Levy and Neubig 2019). The heads of least importance are cut, and the loss tells what that
# costs:

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
# Four of the six can go. Other random starts spread the same work over three or four heads: what the heads do
# together is determined by the task, how they share it is not.

# %%
# **What each looks for**, in one cross-section sorted by size. The heads share the work in their own way:
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
# **Fitted models**, of panels and of sequences, are pruned by the same three names: ``head_importance(model, X, y)``,
# ``prune(model, keep=...)``, and ``pruning_curve``, the score with fewer and fewer heads. Importance is measured on
# one part of rows that the model has not seen, the score on another.

panel = simulate_panel(40, 72, 4, signal_share=0.8, n_networks=2, d_head=2, sharpness=3.0, random_state=0)
period = panel.X.index.get_level_values("period")
parts = [period < "2003", (period >= "2003") & (period < "2004-07"), period >= "2004-07"]
firms = [(panel.X[part], panel.y[part]) for part in parts]

rng, words = np.random.default_rng(0), ["cat", "dog", "mat", "log", "the", "sat on"]
text = [" ".join(rng.choice(words, 4)) + "; " for _ in range(300)]
text = ["".join(line + line for line in text[k : k + 100]) for k in (0, 100, 200)]  # every line is said twice

fitted = {
    "panel: R²": (
        PeerAttentionRegressor(n_heads=8, d_head=2, kappa=None, random_state=0),
        firms,
    ),
    "language model: −nats": (
        LanguageModel(n_layers=2, n_heads=4, d_model=32, block_size=64, random_state=0),
        [(part, None) for part in text],
    ),
}
with figure_style():
    figure, axes = plt.subplots(2, 2, figsize=(8.2, 5.4), layout="constrained")
    for row, (label, (model, (train, seen, new))) in zip(axes, fitted.items()):
        model.fit(*train)
        importance = head_importance_of(model, *seen)
        curve = pruning_curve(model, importance, *new)
        row[0].bar(range(1, len(importance) + 1), importance.sort_values(ascending=False), color=PALETTE[0])
        row[0].set(xlabel="head, in order of importance", ylabel="importance", title=label.split(":")[0])
        row[1].plot(curve["heads"], curve["score"], marker="o", color=PALETTE[1])
        row[1].invert_xaxis()
        row[1].set(xlabel="heads kept", ylabel=label.split(": ")[1], title="After pruning, on new rows")

small = prune(model, keep=importance.nlargest(4).index)
print(f"language model with 8 heads {model.score(new[0]):.2f}, with 4 {small.score(new[0]):.2f}")

# %%
# In the panel the search adds a head only where it lowers the error of held-out periods (two networks made the
# outcomes); in the language model all eight are trained at once, and one can go. First-order importance says what the
# loss would do for a small change of one gate: what cutting several costs has to be measured.
# A translator's three kinds of heads, and one trained with fewer: :doc:`/core/real-sentences`.

# %%
# In the panel models heads are not cut after training but earn their place before: a head enters where it
# lowers the error in later periods, see :doc:`/background/model`. In a model without any head that helps the
# network is empty, and that is the finding.
