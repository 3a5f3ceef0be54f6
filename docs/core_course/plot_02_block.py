"""
2. The block
============

A transformer block is attention, which mixes rows, then a small network, which works on each row alone.
Both are *added* to what was there (the residual), and a normalisation keeps the numbers in range. With x the rows, F attention
or the small network, and N the normalisation:

.. math:: \\text{pre: } x + F(N x), \\qquad \\text{post: } N(x + F(x)).
"""

import matplotlib.pyplot as plt
import torch

from peerattn.nn import Encoder, TransformerBlock
from peerattn.render import PALETTE, figure_style

block = TransformerBlock(d_model=32, n_heads=4, norm="pre")
for name, part in block.named_children():
    print(f"{name:18} {sum(p.numel() for p in part.parameters()):>6,} parameters")

# %%
# **Rows meet in attention only.** Change the last row and let no row attend to it: no other row
# changes.

generator = torch.Generator().manual_seed(0)
x = torch.randn(10, 32, generator=generator)
changed = x.clone()
changed[-1] += 1
mask = torch.ones(10, 10, dtype=torch.bool)
mask[:-1, -1] = False
assert torch.allclose(block(x, mask=mask)[:-1], block(changed, mask=mask)[:-1], atol=1e-6)

# %%
# **The place of the normalisation matters in deep stacks.** Left: with "post" every block ends at unit
# size; with "pre" the residual grows, and each further block changes it by a smaller share. Right: so with
# "pre" the gradients of the later blocks are small at the start of training, and with "post" they are as
# large as those of the first. Deep "post" stacks need a warm-up (page 5; Xiong et al. 2020).


depth = 12
size, slope = {}, {}
for norm in ("pre", "post"):
    stack = Encoder(depth, 32, 4, norm=norm, generator=torch.Generator().manual_seed(1))
    rows, sizes = torch.randn(64, 32, generator=torch.Generator().manual_seed(2)), []
    for layer in stack.blocks:
        rows = layer(rows)
        sizes.append(rows.std().item())
    target = torch.randn(64, 32, generator=torch.Generator().manual_seed(3))
    (stack.final_norm(rows) - target).square().mean().backward()
    size[norm] = sizes
    slope[norm] = [
        sum(p.grad.square().sum() for p in layer.parameters()).sqrt().item() for layer in stack.blocks
    ]

with figure_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.0))
    for norm, color in zip(size, PALETTE):
        left.plot(range(1, depth + 1), size[norm], marker="o", color=color, label=norm)
        right.semilogy(range(1, depth + 1), slope[norm], marker="o", color=color, label=norm)
    left.set(xlabel="block", ylabel="standard deviation of the rows", title="Size", ylim=(0, None))
    right.set(xlabel="block", ylabel="norm of the gradient", title="Gradient at the start")
    left.legend()

# %%
# **Stacked blocks are peers of peers.** After the first block row j carries information from its peers, so in
# the second row i receives that of its peers' peers, i ← j ← k. In the panel models this is ``n_layers=2``;
# outcomes are used in the last layer only, or a firm's own outcome would come back to it from its peers.
