"""The transformer block: attention and a feed-forward network, with residuals and normalisation."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Self, get_args

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from peerattn.exceptions import InputError, check_at_least, check_one_of, expect
from peerattn.nn.linear import Dropout, linear
from peerattn.nn.multihead import KeyValueCache, MultiheadAttention
from peerattn.nn.recording import recorded_weights

Norm = Literal["pre", "post", "residual-post", "normalised-residual"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    r"""Two linear layers applied to every row by itself.

    .. math:: x \mapsto W_2\,\sigma(W_1 x + b_1) + b_2

    Parameters
    ----------
    d_model : int
        Width of input and output.
    d_hidden : int
        Width in between.
    activation : {"relu", "gelu", "gelu_tanh", "silu"}, default "gelu"
        :math:`\sigma`; "gelu" is the exact one (by the normal distribution function), "gelu_tanh" GPT-2's approximation.
    generator : torch.Generator, default None
        Draws the initial weights; None: a new generator with torch's fixed default seed.

    Raises
    ------
    InputError
        When the activation is unknown.

    Examples
    --------
    >>> import torch
    >>> FeedForward(4, 16)(torch.zeros(3, 4)).shape
    torch.Size([3, 4])
    """

    def __init__(self, d_model: int, d_hidden: int, *, activation: Activation = "gelu", generator: Generator | None = None):
        super().__init__()
        check_at_least(1, d_model=d_model, d_hidden=d_hidden)
        check_one_of(activation=(activation, get_args(Activation)))
        generator = generator or Generator()
        self.activation = activation
        self.hidden = linear(d_model, d_hidden, generator=generator)
        self.output = linear(d_hidden, d_model, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Map rows of shape (..., d_model) to the same shape."""
        return self.output(ACTIVATIONS[self.activation](self.hidden(x)))


class TransformerBlock(nn.Module):
    r"""Attention, then a feed-forward network, each a step F with a residual and a normalisation N.

    .. math:: \text{pre: } & x + F(N x) & \qquad \text{post: } & N(x + F(x)) \\
              \text{residual-post: } & x + N F(x) & \qquad \text{normalised-residual: } & N x + F(N x)

    Rows x are updated by attending to the pool z (``memory``); in self-attention z is x. Both live in the
    same space, so ``block(x[focal], memory=x)`` is ``block(x)[focal]``. With ``cross_attention`` a step between the two
    attends to the rows of another stack (``context``), as a decoder does.

    Parameters
    ----------
    d_model : int
        Width of x and z.
    n_heads : int
        Number of heads.
    d_feedforward : int, default None
        Hidden width of the feed-forward network; None: ``4 * d_model``.
    norm : {"pre", "post", "residual-post", "normalised-residual"}, default "pre"
        Position of the normalisation. "pre" trains more stably in deep stacks.
    activation : {"relu", "gelu", "gelu_tanh", "silu"}, default "gelu"
        Of the feed-forward network.
    cross_attention : bool, default False
        Whether there is a step that attends to ``context``.
    dropout : float, default 0
        Share of each step's output dropped in training.
    generator : torch.Generator, default None
        Draws the initial weights; None: a new generator with torch's fixed default seed.
    **heads
        Further options of the self-attention: ``score``, ``temperature``, ``symmetric``, ``rotary``, ``attend``, ``d_head``,
        ``d_value``; see `MultiheadAttention`.

    Raises
    ------
    InputError
        When norm or activation is unknown, or ``n_heads`` does not divide ``d_model``.

    References
    ----------
    Vaswani et al. (2017), Attention is all you need. Xiong et al. (2020), On layer normalization in the
    transformer architecture, ICML. Liu et al. (2022), Swin transformer V2 (residual-post).

    Examples
    --------
    >>> import torch
    >>> block = TransformerBlock(d_model=8, n_heads=2)
    >>> x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    >>> others = ~torch.eye(5, dtype=torch.bool)
    >>> torch.allclose(block(x[:2], memory=x, mask=others[:2]), block(x, mask=others)[:2], atol=1e-6)
    True
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_feedforward: int | None = None,
        *,
        norm: Norm = "pre",
        activation: Activation = "gelu",
        cross_attention: bool = False,
        dropout: float = 0.0,
        generator: Generator | None = None,
        **heads: Any,
    ):
        super().__init__()
        check_at_least(1, d_model=d_model)
        check_one_of(norm=(norm, get_args(Norm)))
        generator = generator or Generator()
        if d_feedforward is None:
            d_feedforward = 4 * d_model
        self.norm = norm
        self.norm_attention = nn.LayerNorm(d_model)
        self.attention = MultiheadAttention(d_model, n_heads, generator=generator, **heads)
        if cross_attention:
            self.norm_cross = nn.LayerNorm(d_model)
            self.cross_attention = MultiheadAttention(d_model, n_heads, generator=generator)
        self.norm_feedforward = nn.LayerNorm(d_model)
        self.feedforward = FeedForward(d_model, d_feedforward, activation=activation, generator=generator)
        self.dropout = Dropout(dropout, generator=generator)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
        cache: tuple[KeyValueCache, KeyValueCache] | None = None,
        return_weights: bool = False,
        **options: Any,
    ) -> Any:
        """Update the rows x by what they find in ``memory``, or in x itself, and in ``context``.

        Parameters
        ----------
        x : Tensor, shape (..., n_queries, d_model)
            The rows to update.
        memory : Tensor, shape (..., n_keys, d_model), default None
            The pool they attend to; None: x.
        mask, bias, sizes, return_weights
            As in `MultiheadAttention.forward`.
        context : Tensor, shape (..., n_context, d_model), default None
            The rows that cross-attention attends to.
        context_mask : bool Tensor broadcastable to (..., n_heads, n_queries, n_context), default None
            Which of them.
        cache : pair of KeyValueCache, default None
            Of earlier rows, and of the context.

        Returns
        -------
        output : Tensor, shape (..., n_queries, d_model)
        weights : Tensor, shape (..., n_heads, n_queries, n_keys)
            Only with ``return_weights=True``. With cross-attention a pair: these, and (..., n_heads, n_queries, n_context).

        Raises
        ------
        InputError
            When there is a context but no cross-attention, or the other way round.
        """
        crosses = hasattr(self, "cross_attention")
        if crosses != (context is not None):
            wanted = "a tensor in a block with" if crosses else "None in a block without"
            raise InputError(f"context: expected {wanted} cross-attention.")
        # two caches: rows already written, and the context, which never changes
        own_cache, context_cache = cache or (None, None)

        def attend(rows: Tensor) -> Tensor:
            # the pool is normalised as the rows are; in self-attention the rows come in normalised
            pool = memory
            if memory is not None and self.norm in ("pre", "normalised-residual"):
                pool = self.norm_attention(memory)
            return self.attention(rows, pool, cache=own_cache, **options)

        def cross(rows: Tensor) -> Tensor:
            return self.cross_attention(rows, context, mask=context_mask, cache=context_cache)

        # weights come by hooks, so that the layers' own calls stay the same with and without
        with recorded_weights(self, return_weights) as prepared:
            x = self._step(x, self.norm_attention, attend)
            if crosses:
                x = self._step(x, self.norm_cross, cross)
        x = self._step(x, self.norm_feedforward, self.feedforward)
        if not return_weights:
            return x
        return x, tuple(prepared) if crosses else prepared[0]

    def _step(self, x: Tensor, norm: nn.Module, update: Callable[[Tensor], Tensor]) -> Tensor:
        """Return x with its update, residual and normalisation where ``self.norm`` has them."""
        if self.norm == "pre":
            return x + self.dropout(update(norm(x)))
        if self.norm == "post":
            return norm(x + self.dropout(update(x)))
        if self.norm == "residual-post":
            return x + self.dropout(norm(update(x)))
        rows = norm(x)
        return rows + self.dropout(update(rows))

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> Self:
        """Return a block with the weights of torch's encoder layer or decoder layer.

        Parameters
        ----------
        layer : torch.nn.TransformerEncoderLayer or torch.nn.TransformerDecoderLayer
            With ReLU or exact GELU and ``bias=True``. Its dropout is not taken over.

        Returns
        -------
        TransformerBlock
            With cross-attention for a decoder layer.

        Raises
        ------
        InputError
            When the layer has another activation, or no biases.

        Examples
        --------
        >>> import torch
        >>> TransformerBlock.from_torch(torch.nn.TransformerEncoderLayer(8, 2, 16)).norm
        'post'
        """
        biased = layer.linear1.bias is not None
        kind = type(layer).__name__
        expect(biased, "layer", f"a {kind} with bias=True", "bias=False")
        sizes = (layer.linear1.in_features, layer.self_attn.num_heads, layer.linear1.out_features)
        decodes = isinstance(layer, nn.TransformerDecoderLayer)
        norm: Norm = "pre" if layer.norm_first else "post"
        block = cls(*sizes, norm=norm, activation=_activation_name(layer), cross_attention=decodes)
        block.attention = MultiheadAttention.from_torch(layer.self_attn)
        # torch numbers its normalisations in the order in which they are applied
        block.norm_attention, block.norm_feedforward = copy.deepcopy((layer.norm1, layer.norm2))
        if isinstance(layer, nn.TransformerDecoderLayer):
            block.cross_attention = MultiheadAttention.from_torch(layer.multihead_attn)
            block.norm_cross, block.norm_feedforward = copy.deepcopy((layer.norm2, layer.norm3))
        block.feedforward.hidden, block.feedforward.output = copy.deepcopy((layer.linear1, layer.linear2))
        return block


def _activation_name(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> Activation:
    """Return which of our activations a torch layer uses: it keeps a function or a module."""
    activation = layer.activation
    if activation is F.relu or isinstance(activation, nn.ReLU):
        return "relu"
    if activation is F.gelu or (isinstance(activation, nn.GELU) and activation.approximate == "none"):
        return "gelu"
    raise InputError(f"layer: expected the activation relu or (exact) gelu, got {activation!r}.")
