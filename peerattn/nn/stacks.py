"""Stacks of transformer blocks: encoder, decoder, and the two together."""

import copy
from typing import Any, Self

from torch import Generator, Tensor, nn

from peerattn.exceptions import InputError, check_at_least
from peerattn.nn.blocks import Norm, TransformerBlock
from peerattn.nn.masks import causal_mask
from peerattn.nn.multihead import StackCache
from peerattn.nn.recording import recorded_weights


class Encoder(nn.Module):
    r"""A stack of transformer blocks: peers, peers of peers, and so on.

    .. math:: x^{(l)} = \text{block}_l(x^{(l-1)}), \qquad l = 1, \ldots, L

    With ``mask=causal_mask(n)`` it is what is called decoder-only: each row sees itself and what came before.

    Parameters
    ----------
    n_layers : int
        Number of blocks L.
    d_model, n_heads, d_feedforward, norm, generator, **options
        As in `TransformerBlock`: ``activation``, ``cross_attention``, ``dropout`` and those of the heads, too.
    final_norm : bool, default None
        Whether a last normalisation follows; None: exactly when the residual stream itself is not normalised, that is
        unless ``norm="post"``.

    Examples
    --------
    >>> import torch
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
        final_norm: bool | None = None,
        **options: Any,
    ):
        super().__init__()
        check_at_least(0, n_layers=n_layers)
        # one generator for all blocks: each draws its own start from it
        options |= {"norm": norm, "generator": options.get("generator") or Generator()}
        sizes = (d_model, n_heads, d_feedforward)
        self.blocks = nn.ModuleList(TransformerBlock(*sizes, **options) for _ in range(n_layers))
        if final_norm is None:
            final_norm = norm != "post"
        self.final_norm: nn.Module = nn.LayerNorm(d_model) if final_norm else nn.Identity()

    def forward(self, x: Tensor, *, cache: StackCache | None = None, return_weights: bool = False, **options: Any) -> Any:
        """Encode the rows x; every block attends within x, and to ``context`` where it has cross-attention.

        Parameters
        ----------
        x : Tensor, shape (..., n, d_model)
        mask, bias : Tensor broadcastable to (..., n_heads, n, n), default None
            The same for all blocks.
        context, context_mask
            As in `TransformerBlock.forward`, the same for all blocks, as are its other options.
        cache : StackCache, default None
            Of earlier rows: x are then the rows after them, and the mask's keys are all rows.
        return_weights : bool, default False
            Also return each block's weights.

        Returns
        -------
        output : Tensor, shape (..., n, d_model)
        weights : list, one per block, of Tensor, shape (..., n_heads, n, n)
            Only with ``return_weights=True``. Pairs where there is cross-attention, as `TransformerBlock` gives them.
        """
        with recorded_weights(self, return_weights) as prepared:
            for k, block in enumerate(self.blocks):
                x = block(x, cache=None if cache is None else cache.blocks[k], **options)
        x = self.final_norm(x)
        if not return_weights:
            return x
        if options.get("context") is None:
            return x, prepared
        # with cross-attention each block has recorded two layers in turn
        return x, list(zip(prepared[::2], prepared[1::2]))

    @classmethod
    def from_torch(cls, stack: nn.TransformerEncoder | nn.TransformerDecoder) -> Self:
        """Return a stack with the weights of a `torch.nn.TransformerEncoder` or `torch.nn.TransformerDecoder`.

        Examples
        --------
        >>> import torch
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> len(Encoder.from_torch(torch.nn.TransformerEncoder(layer, 3)).blocks)
        3
        """
        blocks = [TransformerBlock.from_torch(layer) for layer in stack.layers]
        ours = cls(0, stack.layers[0].linear1.in_features, 1, final_norm=False)
        ours.blocks.extend(blocks)
        if stack.norm is not None:
            ours.final_norm = copy.deepcopy(stack.norm)
        return ours


class EncoderDecoder(nn.Module):
    r"""Two stacks: one reads the source, the other writes the target, looking back and to the source.

    .. math:: z = \text{encoder}(s), \qquad \text{out} = \text{decoder}(t_{1..m},\; \text{context} = z)

    Parameters
    ----------
    n_encoder_layers, n_decoder_layers : int
        Number of blocks in each.
    d_model, n_heads, d_feedforward, norm, activation, dropout, final_norm, generator
        As in `Encoder`, for both.

    References
    ----------
    Vaswani et al. (2017), Attention is all you need, figure 1.

    Examples
    --------
    >>> import torch
    >>> model = EncoderDecoder(2, 2, d_model=8, n_heads=2)
    >>> model(torch.zeros(3, 5, 8), torch.zeros(3, 4, 8)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(self, n_encoder_layers: int, n_decoder_layers: int, *sizes: Any, **options: Any):
        super().__init__()
        if "cross_attention" in options:
            raise InputError("cross_attention: the decoder has it and the encoder has not. Leave it out.")
        options["generator"] = options.get("generator") or Generator()
        self.encoder = Encoder(n_encoder_layers, *sizes, **options)
        self.decoder = Encoder(n_decoder_layers, *sizes, cross_attention=True, **options)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> Any:
        """Return the decoder's rows for a known target (all positions at once).

        Parameters
        ----------
        source : Tensor, shape (..., n, d_model)
        target : Tensor, shape (..., m, d_model)
            Each row sees itself and the rows before.
        source_mask : bool Tensor broadcastable to (..., 1, n), default None
            Which source rows are there, for both stacks, for example `padding_mask`.
        target_mask : bool Tensor broadcastable to (..., m, m), default None
            Beside the causal mask.
        return_weights : bool, default False
            Also return the decoder's weights.

        Returns
        -------
        output : Tensor, shape (..., m, d_model)
        weights : list of pairs of Tensor
            Only with ``return_weights=True``.
        """
        mask = causal_mask(target.shape[-2], device=target.device)
        if target_mask is not None:
            mask = mask & target_mask
        # the source is read once; every block of the decoder attends to it
        context = {"context": self.encoder(source, mask=source_mask), "context_mask": source_mask}
        return self.decoder(target, mask=mask, return_weights=return_weights, **context)

    @classmethod
    def from_torch(cls, model: nn.Transformer) -> Self:
        """Return two stacks with the weights of a `torch.nn.Transformer`.

        Examples
        --------
        >>> import torch
        >>> len(EncoderDecoder.from_torch(torch.nn.Transformer(8, 2, 3, 1, 16, batch_first=True)).encoder.blocks)
        3
        """
        ours = cls(0, 0, model.d_model, model.nhead)
        ours.encoder = Encoder.from_torch(model.encoder)
        ours.decoder = Encoder.from_torch(model.decoder)
        return ours
