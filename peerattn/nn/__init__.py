"""The transformer core: attention, layers and stacks, for firms and for sequences alike.

Masks are boolean and True means *may attend*, everywhere.
Every random number comes from an explicit generator.
"""

from peerattn.nn.attention import attention, attention_weights
from peerattn.nn.blocks import FeedForward, TransformerBlock
from peerattn.nn.edges import GraphAttention, edge_attention, edge_mean, edge_softmax
from peerattn.nn.embedding import InputEmbedding, TokenEmbedding
from peerattn.nn.linear import Dropout, linear, normal, split_heads
from peerattn.nn.masks import block_mask, causal_mask, local_mask, padding_mask
from peerattn.nn.multihead import KeyValueCache, MultiheadAttention, StackCache
from peerattn.nn.positions import (
    LearnedPositions,
    LearnedPositions2d,
    PairBias,
    hop_distance,
    relative_distance,
    rotary,
    sinusoidal_positions,
)
from peerattn.nn.pruning import (
    head_gates,
    head_importance,
    heads_by_layer,
    keep_heads,
    load_pruned,
    most_important,
    prune_heads,
    take_heads,
)
from peerattn.nn.scores import additive_scores, kernel_attention, kernel_weights, score_terms
from peerattn.nn.stacks import Encoder, EncoderDecoder
from peerattn.nn.topk import top_k_weights

__all__ = [
    "Dropout", "Encoder", "EncoderDecoder", "FeedForward", "GraphAttention", "InputEmbedding",
    "KeyValueCache", "LearnedPositions", "LearnedPositions2d", "MultiheadAttention", "PairBias",
    "StackCache", "TokenEmbedding", "TransformerBlock", "additive_scores", "attention", "attention_weights",
    "block_mask", "causal_mask", "edge_attention", "edge_mean", "edge_softmax",
    "head_gates", "head_importance", "heads_by_layer", "hop_distance", "keep_heads", "kernel_attention",
    "kernel_weights", "linear", "load_pruned", "local_mask", "most_important", "normal", "padding_mask",
    "prune_heads", "relative_distance", "rotary", "score_terms", "sinusoidal_positions",
    "split_heads", "take_heads", "top_k_weights",
]  # fmt: skip
