"""
10. What a block costs
======================

For T rows of width D a block computes two kinds of things. **Between rows**: the scores and the weighted means, two
products of matrices with :math:`2 T^2 D` operations each, :math:`4 T^2 D`. **Within rows**: four projections
(:math:`8 T D^2`) and the two layers of the feed-forward part, four times as wide in between (:math:`16 T D^2`), together
:math:`24 T D^2`. The first is :math:`O(T^2 D)`, the second :math:`O(T D^2)`; they are equal at T = 6 D.
"""

import time
from functools import partial

import matplotlib.pyplot as plt
import torch
from torch.utils.flop_counter import FlopCounterMode

from peerattn import nn
from peerattn.render import PALETTE, figure_style

torch.set_num_threads(1)
WIDTH, HEADS = 64, 4
block = nn.TransformerBlock(WIDTH, HEADS).eval()

# %%
# **Counted.** torch counts the operations of every product of matrices as it is computed.


def counted(n):
    """Operations between rows and within rows of one block over n rows."""
    x = torch.randn(1, n, WIDTH, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        block(x, return_weights=True)  # as two products, not in one fast kernel
    of = counter.get_flop_counts()["Global"]
    between = sum(n_flops for op, n_flops in of.items() if "bmm" in str(op))
    return between, counter.get_total_flops() - between


LENGTHS = [48, 96, 192, 384, 768, 1536]
for n in LENGTHS:
    between, within = counted(n)
    assert (between, within) == (4 * n**2 * WIDTH, 24 * n * WIDTH**2)
    print(f"T = {n:5}: {between / 1e6:8.1f} million between rows, {within / 1e6:7.1f} within")

# %%
# **Measured.** Seconds of the two parts on one thread of the machine that made this page, the best of five. For
# attention twice: with the weights as an array of T × T numbers, and by the fast kernel that
# ``peerattn.nn.attention`` calls.


def seconds(run):
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


times = {"scores and means, as arrays": [], "the same, fast kernel": [], "projections and feed-forward": []}
with torch.no_grad():
    for n in LENGTHS:
        x = torch.randn(n, WIDTH, generator=torch.Generator().manual_seed(0))
        q, k, v = (nn.split_heads(x, WIDTH // HEADS)[None] for _ in "qkv")
        linears = (block.attention.query, block.attention.key, block.attention.value, block.attention.output)
        times["scores and means, as arrays"].append(
            seconds(partial(nn.attention, q, k, v, return_weights=True))
        )
        times["the same, fast kernel"].append(seconds(partial(nn.attention, q, k, v)))
        times["projections and feed-forward"].append(
            seconds(lambda: [part(x) for part in (*linears, block.feedforward)])  # noqa: B023
        )

with figure_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2))
    between, within = zip(*map(counted, LENGTHS))
    left.loglog(LENGTHS, between, marker="o", color=PALETTE[0], label="between rows, 4 T² D")
    left.loglog(LENGTHS, within, marker="o", color=PALETTE[1], label="within rows, 24 T D²")
    left.axvline(6 * WIDTH, color="#8b9096", linestyle=":")
    left.annotate(" T = 6 D", (6 * WIDTH, min(between)))
    left.set(xlabel="rows T", ylabel="operations", title=f"Counted, D = {WIDTH}")
    for (name, values), color in zip(times.items(), (PALETTE[0], PALETTE[2], PALETTE[1])):
        right.loglog(LENGTHS, values, marker="o", color=color, label=name)
    right.set(xlabel="rows T", ylabel="seconds", title="Measured, one thread")
    left.legend()
    right.legend()

# %%
# Below 6 D rows, a sentence or a small cross-section, the feed-forward part and the projections are most of the
# work. Above, the pairs are. Seconds cross earlier than operations as a
# rule, because a softmax over T² numbers is not counted, and because an array of T × T numbers has to go to memory
# and back.
#
# **FlashAttention** (Dao et al. 2022) is the same sum in another order: blocks of keys pass by, with a running
# maximum and a running sum of exponentials, and no array of T × T numbers is ever held. The operations are the
# same, memory is O(T), and time falls with the traffic that is saved. Without weights to return,
# ``peerattn.nn.attention`` hands over to torch's ``scaled_dot_product_attention``, which is this algorithm on a
# processor and on a graphics card.
