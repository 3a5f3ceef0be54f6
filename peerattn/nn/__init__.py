"""The transformer core: attention, layers and stacks, for firms and for sequences alike.

Masks are boolean and True means *may attend*, everywhere.
Every random number comes from an explicit generator.
"""

from peerattn.nn.attention import attention, attention_weights
from peerattn.nn.blocks import Encoder, FeedForward, TransformerBlock
from peerattn.nn.linear import linear
from peerattn.nn.multihead import MultiheadAttention
from peerattn.nn.pruning import (
    head_contribution,
    head_gates,
    head_importance,
    most_important,
    prune_heads,
    take_heads,
)
from peerattn.nn.topk import top_k_weights

__all__ = [
    "Encoder",
    "FeedForward",
    "MultiheadAttention",
    "TransformerBlock",
    "attention",
    "attention_weights",
    "head_contribution",
    "head_gates",
    "head_importance",
    "linear",
    "most_important",
    "prune_heads",
    "take_heads",
    "top_k_weights",
]
