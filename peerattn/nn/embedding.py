"""Symbols as vectors, and vectors as symbols."""

import math
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from peerattn.exceptions import check_at_least, check_one_of, expect
from peerattn.nn.linear import Dropout, normal
from peerattn.nn.positions import LearnedPositions, sinusoidal_positions

Positions = Literal["learned", "sinusoidal", "rotary", "none"]


class TokenEmbedding(nn.Module):
    r"""A learned vector for every symbol: a one-hot row times a matrix, :math:`e_{s} E`.

    Parameters
    ----------
    n_symbols : int
        Number of symbols; they are 0, ..., n_symbols - 1.
    d_model : int
        Width.
    std : float, default None
        Of the normal start; None: :math:`1/\sqrt{d}`.
    generator : torch.Generator, default None
        Draws the start.

    Examples
    --------
    >>> import torch
    >>> embedding = TokenEmbedding(5, 4)
    >>> symbols = torch.tensor([3, 0])
    >>> rows = embedding(symbols)
    >>> torch.equal(rows, F.one_hot(symbols, 5).float() @ embedding.weight)
    True
    >>> embedding.logits(rows).shape  # tied output: how much each row looks like each symbol
    torch.Size([2, 5])
    """

    def __init__(self, n_symbols: int, d_model: int, *, std: float | None = None, generator: Generator | None = None):
        super().__init__()
        if std is None:
            std = 1 / math.sqrt(d_model)
        self.weight = normal(n_symbols, d_model, std=std, generator=generator)

    def forward(self, symbols: Tensor) -> Tensor:
        """Look up symbols of shape (...): (..., d_model)."""
        return F.embedding(symbols, self.weight)

    def logits(self, rows: Tensor) -> Tensor:
        """Return the inner product of every row with every symbol's vector: (..., n_symbols)."""
        return F.linear(rows, self.weight)


class InputEmbedding(nn.Module):
    r"""What a stack reads of a sequence of symbols: their vectors, positions and segments added up.

    .. math:: x_t = \sqrt{d}\, e_{s_t} + p_t + g_t \quad\text{(sinusoidal)}, \qquad e_{s_t} + p_t + g_t
              \quad\text{(otherwise)}

    Parameters
    ----------
    n_symbols, d_model : int
        As in `TokenEmbedding`.
    n_positions : int
        Longest sequence with learned positions; others have no limit of their own.
    positions : {"learned", "sinusoidal", "rotary", "none"}, default "learned"
        "rotary" and "none" add nothing here: rotary positions turn queries and keys.
    n_segments : int, default 0
        Number of segments (first text, second text) with a learned vector each; 0: none.
    norm : bool, default False
        Whether the sum is normalised, as BERT does.
    dropout : float, default 0
        Share of entries dropped in training.
    std : float, default None
        Of the normal start of the symbols' vectors, as in `TokenEmbedding`.
    generator : torch.Generator, default None
        Draws the start.

    Raises
    ------
    InputError
        When positions is unknown.

    References
    ----------
    Vaswani et al. (2017), sections 3.4 and 3.5. Devlin et al. (2019), BERT.

    Examples
    --------
    >>> import torch
    >>> InputEmbedding(5, 4, 10)(torch.tensor([[3, 0, 1]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        n_symbols: int,
        d_model: int,
        n_positions: int,
        *,
        positions: Positions = "learned",
        n_segments: int = 0,
        norm: bool = False,
        dropout: float = 0.0,
        std: float | None = None,
        generator: Generator | None = None,
    ):
        super().__init__()
        check_at_least(1, n_symbols=n_symbols, d_model=d_model, n_positions=n_positions)
        check_at_least(0, n_segments=n_segments)
        check_one_of(positions=(positions, get_args(Positions)))
        generator = generator or Generator()
        self.positions = positions
        self.tokens = TokenEmbedding(n_symbols, d_model, std=std, generator=generator)
        if positions == "learned":
            self.learned = LearnedPositions(n_positions, d_model, generator=generator)
        if n_segments:
            self.segments = TokenEmbedding(n_segments, d_model, std=0.02, generator=generator)
        self.norm: nn.Module = nn.LayerNorm(d_model) if norm else nn.Identity()
        self.dropout = Dropout(dropout, generator=generator)

    def forward(self, symbols: Tensor, *, segments: Tensor | None = None, start: int = 0) -> Tensor:
        """Embed symbols (..., n), of positions start, ..., and segments (..., n): (..., n, d_model)."""
        # positions and segments are added, not joined: the width stays
        x = self.tokens(symbols)
        n, d_model = x.shape[-2:]
        if self.positions == "learned":
            x = x + self.learned(n, start)
        elif self.positions == "sinusoidal":
            positions = sinusoidal_positions(n, d_model, start=start, device=x.device)
            # as published: without the factor positions of length √(d/2) would outweigh the symbols
            x = x * math.sqrt(d_model) + positions.to(x.dtype)
        if segments is not None:
            expect(hasattr(self, "segments"), "segments", "None of an embedding with n_segments=0", tuple(segments.shape))
            x = x + self.segments(segments)
        return self.dropout(self.norm(x))
