"""
4. A lecture's tensors, number by number
========================================

Many lectures introduce attention with three tokens and random matrices. Here are such tensors, drawn with seed 42, through
this package. Each step is compared with its formula.
"""

import matplotlib.pyplot as plt
import torch

from peerattn.nn import MultiheadAttention, attention, attention_weights, causal_mask
from peerattn.render import figure_style, weight_colours

tokens = ["The", "cat", "sat"]
torch.manual_seed(42)
X = torch.randn(3, 4)  # three tokens, four numbers each
W_Q, W_K, W_V = (torch.randn(4, 4) for _ in range(3))

# %%
# **Queries, keys, values** are linear maps of the tokens: what a token searches for, how it presents itself, what it
# contributes.

Q, K, V = X @ W_Q, X @ W_K, X @ W_V
for name, matrix in {"X": X, "Q": Q, "K": K, "V": V}.items():
    print(name, matrix.numpy().round(2), sep="\n")

# %%
# **Weights.** Scores are inner products divided by :math:`\sqrt 4`; the softmax of each row sums to one.

weights = attention_weights(Q, K)
print(weights.numpy().round(3))
assert torch.allclose(weights, (Q @ K.T / 2).softmax(-1), atol=1e-6)
assert torch.allclose(weights[0], torch.tensor([0.283, 0.404, 0.313]), atol=5e-4)

# %%
# **Output.** Each token becomes the weighted mean of all values. *The* takes 28 % of its own value, 40 % of *cat*'s and
# 31 % of *sat*'s.

output, same_weights = attention(Q, K, V, return_weights=True)
print(output.numpy().round(3))
assert torch.allclose(output, weights @ V, atol=1e-6) and torch.equal(weights, same_weights)

with figure_style():
    figure, ax = plt.subplots(figsize=(3.2, 2.8))
    ax.imshow(weights.numpy(), cmap=weight_colours(), vmin=0, vmax=1)
    for i in range(3):
        for j in range(3):
            shade = "white" if weights[i, j] > 0.6 else "#23262b"
            ax.text(j, i, f"{weights[i, j]:.3f}", ha="center", va="center", color=shade)
    ax.set_xticks(range(3), tokens)
    ax.set_yticks(range(3), tokens)
    ax.set(xlabel="attended to", ylabel="attends")

# %%
# **Causal mask.** A language model may not read ahead. In this package True means *may attend*, everywhere.

print(attention_weights(Q, K, mask=causal_mask(3)).numpy().round(3))

# %%
# **Multi-head.** Two heads of width 2 are two attentions side by side, each on its part of queries, keys and values. A last
# linear map mixes them (concatenating heads and mapping them is the same as adding their contributions). The layer
# gives the same numbers as the equation:

layer = MultiheadAttention(4, n_heads=2, bias=False)
with torch.no_grad():
    for linear, W in ((layer.query, W_Q), (layer.key, W_K), (layer.value, W_V), (layer.output, torch.eye(4))):
        linear.weight.copy_(W.T)
    by_layer, by_head = layer(X, return_weights=True)
by_hand = [attention(Q[:, at], K[:, at], V[:, at]) for at in (slice(0, 2), slice(2, 4))]
print(by_head.numpy().round(3))
assert torch.allclose(by_layer, torch.cat(by_hand, dim=1), atol=1e-5)

# %%
# **In JAX** the same function is three lines, and ``jax.vmap`` adds a batch:
#
# .. code-block:: python
#
#    def attention(q, k, v):
#        weights = jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[-1]), axis=-1)
#        return weights @ v
#
#    batched = jax.vmap(attention)(q, k, v)
#
# Here any leading dimensions are a batch:

batch = torch.stack([X, X.flip(0)])
batched = attention(batch @ W_Q, batch @ W_K, batch @ W_V)
assert torch.allclose(batched[0], output, atol=1e-6)
assert torch.allclose(batched[1], output.flip(0), atol=1e-6)  # order carries no information

# %%
# **Firms instead of words.** Three changes lead from here to a panel: rows are firms with characteristics, the own row is
# masked out, and values are characteristics (a forecast) or outcomes (a nowcast) of the other firms. The matrices are no
# longer random but fitted: pages 6 and 7.

others = ~torch.eye(3, dtype=torch.bool)
print(attention_weights(Q, K, mask=others).numpy().round(3))
