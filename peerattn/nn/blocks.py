"""The transformer block, and a stack of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from peerattn.exceptions import InputError
from peerattn.nn.linear import linear
from peerattn.nn.multihead import MultiheadAttention

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu"]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class FeedForward(nn.Module):
    r"""Two linear layers applied to every row by itself.

    .. math:: x \mapsto W_2\,\sigma(W_1 x + b_1) + b_2

    Parameters
    ----------
    d_model : int
        Width of input and output.
    d_hidden : int
        Width in between.
    activation : {"relu", "gelu"}, default "gelu"
        :math:`\sigma`; "gelu" is the exact one (by the normal distribution function).
    generator : torch.Generator, default None
        Draws the initial weights; None: a new generator with torch's fixed default seed.

    Raises
    ------
    InputError
        When the activation is unknown.

    Examples
    --------
    >>> FeedForward(4, 16)(torch.zeros(3, 4)).shape
    torch.Size([3, 4])
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        *,
        activation: Activation = "gelu",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        if activation not in _ACTIVATIONS:
            raise InputError(f"activation: expected one of {sorted(_ACTIVATIONS)}, got {activation!r}.")
        generator = torch.Generator() if generator is None else generator
        self.activation = activation
        self.hidden = linear(d_model, d_hidden, generator=generator)
        self.output = linear(d_hidden, d_model, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Map rows of shape (..., d_model) to the same shape."""
        return self.output(_ACTIVATIONS[self.activation](self.hidden(x)))


class TransformerBlock(nn.Module):
    r"""Attention, then a feed-forward network, each with a residual and a normalisation N.

    .. math:: \text{pre: } & h = x + A(N_1 x, N_1 z), & \text{out} = h + f(N_2 h) \\
              \text{post: } & h = N_1(x + A(x, z)), & \text{out} = N_2(h + f(h))

    Rows x are updated by attending to the pool z (``memory``); in self-attention z is x. Both live in the
    same space, so ``block(x[focal], memory=x)`` is ``block(x)[focal]``.

    Parameters
    ----------
    d_model : int
        Width of x and z.
    n_heads : int
        Number of heads.
    d_feedforward : int, default None
        Hidden width of the feed-forward network; None: ``4 * d_model``.
    norm : {"pre", "post"}, default "pre"
        Where the normalisation stands. "pre" trains more stably in deep stacks.
    activation : {"relu", "gelu"}, default "gelu"
        Of the feed-forward network.
    generator : torch.Generator, default None
        Draws the initial weights; None: a new generator with torch's fixed default seed.

    Raises
    ------
    InputError
        When norm or activation is unknown, or ``n_heads`` does not divide ``d_model``.

    References
    ----------
    Vaswani et al. (2017), Attention is all you need. Xiong et al. (2020), On layer normalization in the
    transformer architecture, ICML.

    Examples
    --------
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
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        if norm not in ("pre", "post"):
            raise InputError(f"norm: expected 'pre' or 'post', got {norm!r}.")
        generator = torch.Generator() if generator is None else generator
        d_feedforward = 4 * d_model if d_feedforward is None else d_feedforward
        self.norm = norm
        self.norm_attention = nn.LayerNorm(d_model)
        self.attention = MultiheadAttention(d_model, n_heads, generator=generator)
        self.norm_feedforward = nn.LayerNorm(d_model)
        self.feedforward = FeedForward(d_model, d_feedforward, activation=activation, generator=generator)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Update the rows x by what they find in ``memory``, or in x itself.

        Parameters
        ----------
        x : Tensor, shape (..., n_queries, d_model)
            The rows to update.
        memory : Tensor, shape (..., n_keys, d_model), default None
            The pool they attend to; None: x.
        mask, bias, return_weights
            As in `MultiheadAttention.forward`.

        Returns
        -------
        output : Tensor, shape (..., n_queries, d_model)
        weights : Tensor, shape (..., n_heads, n_queries, n_keys)
            Only with ``return_weights=True``.
        """
        rows, pool = x, memory
        if self.norm == "pre":
            rows = self.norm_attention(x)
            pool = None if memory is None else self.norm_attention(memory)
        weights = None
        if return_weights:
            update, weights = self.attention(rows, pool, mask=mask, bias=bias, return_weights=True)
        else:
            update = self.attention(rows, pool, mask=mask, bias=bias)
        if self.norm == "pre":
            x = x + update
            x = x + self.feedforward(self.norm_feedforward(x))
        else:
            x = self.norm_attention(x + update)
            x = self.norm_feedforward(x + self.feedforward(x))
        return x if weights is None else (x, weights)

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer) -> TransformerBlock:
        """Return a block with the weights of a `torch.nn.TransformerEncoderLayer`.

        Parameters
        ----------
        layer : torch.nn.TransformerEncoderLayer
            With ReLU or exact GELU and ``bias=True``. Its dropout is not taken over.

        Returns
        -------
        TransformerBlock

        Raises
        ------
        InputError
            When the layer has another activation, or no biases.

        Examples
        --------
        >>> TransformerBlock.from_torch(torch.nn.TransformerEncoderLayer(8, 2, 16)).norm
        'post'
        """
        if layer.linear1.bias is None:
            raise InputError("layer: expected a TransformerEncoderLayer with bias=True, got bias=False.")
        block = cls(
            layer.linear1.in_features,
            layer.self_attn.num_heads,
            layer.linear1.out_features,
            norm="pre" if layer.norm_first else "post",
            activation=_activation_name(layer),
        ).to(layer.linear1.weight)
        block.attention = MultiheadAttention.from_torch(layer.self_attn)
        block.norm_attention.eps, block.norm_feedforward.eps = layer.norm1.eps, layer.norm2.eps
        block.norm_attention.load_state_dict(layer.norm1.state_dict())
        block.norm_feedforward.load_state_dict(layer.norm2.state_dict())
        block.feedforward.hidden.load_state_dict(layer.linear1.state_dict())
        block.feedforward.output.load_state_dict(layer.linear2.state_dict())
        return block


class Encoder(nn.Module):
    r"""A stack of transformer blocks: peers, peers of peers, and so on.

    .. math:: x^{(l)} = \text{block}_l(x^{(l-1)}), \qquad l = 1, \ldots, L

    Parameters
    ----------
    n_layers : int
        Number of blocks L.
    d_model, n_heads, d_feedforward, norm, activation, generator
        As in `TransformerBlock`.
    final_norm : bool, default None
        Whether a last normalisation follows; None: exactly when ``norm="pre"``.

    Examples
    --------
    >>> encoder = Encoder(2, d_model=8, n_heads=2)
    >>> output, weights = encoder(torch.zeros(3, 5, 8), return_weights=True)
    >>> output.shape, [layer.shape for layer in weights]
    (torch.Size([3, 5, 8]), [torch.Size([3, 2, 5, 5]), torch.Size([3, 2, 5, 5])])
    """

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_feedforward: int | None = None,
        *,
        norm: Norm = "pre",
        activation: Activation = "gelu",
        final_norm: bool | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        generator = torch.Generator() if generator is None else generator
        sizes = (d_model, n_heads, d_feedforward)
        self.blocks = nn.ModuleList(
            TransformerBlock(*sizes, norm=norm, activation=activation, generator=generator)
            for _ in range(n_layers)
        )
        final_norm = norm == "pre" if final_norm is None else final_norm
        self.final_norm: nn.Module = nn.LayerNorm(d_model) if final_norm else nn.Identity()

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Encode the rows x; every block attends within x.

        Parameters
        ----------
        x : Tensor, shape (..., n, d_model)
        mask, bias : Tensor broadcastable to (..., n_heads, n, n), default None
            The same for all blocks.
        return_weights : bool, default False
            Also return each block's weights.

        Returns
        -------
        output : Tensor, shape (..., n, d_model)
        weights : list of Tensor, shape (..., n_heads, n, n), one per block
            Only with ``return_weights=True``.
        """
        layers = []
        for block in self.blocks:
            if return_weights:
                x, weights = block(x, mask=mask, bias=bias, return_weights=True)
                layers.append(weights)
            else:
                x = block(x, mask=mask, bias=bias)
        x = self.final_norm(x)
        return (x, layers) if return_weights else x

    @classmethod
    def from_torch(cls, encoder: nn.TransformerEncoder) -> Encoder:
        """Return a stack with the weights of a `torch.nn.TransformerEncoder`.

        Examples
        --------
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> len(Encoder.from_torch(torch.nn.TransformerEncoder(layer, 3)).blocks)
        3
        """
        blocks = [TransformerBlock.from_torch(layer) for layer in encoder.layers]
        stack = cls(0, encoder.layers[0].linear1.in_features, 1, final_norm=False)
        stack.blocks.extend(blocks)
        if encoder.norm is not None:
            stack.final_norm = copy.deepcopy(encoder.norm)
        return stack


def _activation_name(layer: nn.TransformerEncoderLayer) -> Activation:
    """Return which of our activations a torch layer uses: it keeps a function or a module."""
    activation = layer.activation
    if activation is F.relu or isinstance(activation, nn.ReLU):
        return "relu"
    if activation is F.gelu or (isinstance(activation, nn.GELU) and activation.approximate == "none"):
        return "gelu"
    raise InputError(f"layer: expected the activation relu or (exact) gelu, got {activation!r}.")
