"""Multi-head attention: several heads, each with a search criterion, a profile and information of its own; and its cache."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from peerattn.exceptions import InputError, check_at_least, expect
from peerattn.nn.attention import attention
from peerattn.nn.linear import linear, normal, split_heads
from peerattn.nn.positions import rotary
from peerattn.nn.scores import Score, check_score, score_terms


class MultiheadAttention(nn.Module):
    r"""Self- and cross-attention with several heads.

    .. math:: \operatorname{out}_i = W_O\,[\,\textstyle\sum_j \alpha^1_{ij} W_V^1 z_j;\; \ldots;\;
              \sum_j \alpha^H_{ij} W_V^H z_j\,],\qquad
              \alpha^h_{i\cdot} = \operatorname{softmax}_j\big((W_Q^h x_i)'(W_K^h z_j)/\sqrt{d}\big)

    Rows x attend to rows z (``memory``); in self-attention they are the same.

    Parameters
    ----------
    d_model : int
        Width of x.
    n_heads : int
        Number of heads H.
    d_memory : int, default None
        Width of z; None: ``d_model``.
    d_head : int, default None
        Width of each head's queries and keys; None: ``d_model // n_heads``.
    d_value : int, default None
        Width of each head's values; None: ``d_head``.
    d_output : int, default None
        Width of the output; None: ``d_model``.
    bias : bool, default True
        Whether the four projections have an intercept.
    score : {"scaled_dot_product", "dot_product", "gaussian", "additive"}, default "scaled_dot_product"
        "dot_product" leaves out :math:`1/\sqrt{d}`; see `score_terms` for the others.
        (Attention without projections is `attention` itself.)
    temperature : float, default 1
        Scores are divided by it, see `score_terms`.
    symmetric : bool, default False
        Whether keys are made by the weights of the queries, without intercept: :math:`W_K = W_Q`.
    rotary : bool, default False
        Whether queries and keys are turned by their positions, see `peerattn.nn.rotary`; for self-attention.
    attend : callable, default `attention`
        How weights become means, a function with the arguments of `attention`: `kernel_attention`, or your own.
    generator : torch.Generator, default None
        Draws the initial weights; None: a new generator with torch's fixed default seed.

    Raises
    ------
    InputError
        When ``n_heads`` is less than one, or does not divide ``d_model`` and no ``d_head`` is given.

    References
    ----------
    Vaswani et al. (2017), Attention is all you need, section 3.2.2.

    Examples
    --------
    >>> layer = MultiheadAttention(d_model=8, n_heads=2)
    >>> x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))  # 3 cross-sections of 5 rows
    >>> layer(x).shape
    torch.Size([3, 5, 8])
    >>> output, weights = layer(x[:, :2], memory=x, return_weights=True)
    >>> weights.shape
    torch.Size([3, 2, 2, 5])
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_memory: int | None = None,
        d_head: int | None = None,
        d_value: int | None = None,
        d_output: int | None = None,
        bias: bool = True,
        score: Score = "scaled_dot_product",
        temperature: float = 1.0,
        symmetric: bool = False,
        rotary: bool = False,
        attend: Callable[..., Any] = attention,
        generator: Generator | None = None,
    ):
        super().__init__()
        widths = {"d_memory": d_memory, "d_head": d_head, "d_value": d_value, "d_output": d_output}
        given = {name: width for name, width in widths.items() if width is not None}
        check_at_least(1, d_model=d_model, n_heads=n_heads, **given)
        divides = d_head or not d_model % n_heads
        expect(bool(divides), "n_heads", f"a divisor of d_model={d_model}", n_heads, "Change one of them, or give d_head.")
        check_score(score, temperature)
        generator = generator or Generator()
        d_memory = d_memory or d_model
        if symmetric and d_memory != d_model:
            raise InputError(f"symmetric: needs d_memory == d_model={d_model}, got {d_memory}.")
        d_head = d_head or d_model // n_heads
        d_value = d_value or d_head
        self.n_heads = n_heads
        self.d_head = d_head
        self.d_value = d_value
        self.score = score
        self.temperature = temperature
        self.rotary = rotary
        self.attend = attend
        self.query = linear(d_model, n_heads * d_head, bias=bias, generator=generator)
        self.key = None if symmetric else linear(d_memory, n_heads * d_head, bias=bias, generator=generator)
        self.value = linear(d_memory, n_heads * d_value, bias=bias, generator=generator)
        self.output = linear(n_heads * d_value, d_output or d_model, bias=bias, generator=generator)
        if score == "additive":
            self.combine = normal(n_heads, d_head, std=1 / math.sqrt(d_head), generator=generator)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        cache: KeyValueCache | None = None,
        sizes: Sequence[int] | None = None,
        return_weights: bool = False,
    ) -> Any:
        """Let every row of x attend to the rows of ``memory``, or of x itself.

        Parameters
        ----------
        x : Tensor, shape (..., n_queries, d_model)
            The rows that attend.
        memory : Tensor, shape (..., n_keys, d_memory), default None
            The rows that are attended to; None: x.
        mask, bias : Tensor broadcastable to (..., n_heads, n_queries, n_keys), default None
            As in `attention_weights`: True = may attend; added to the scores.
        cache : KeyValueCache, default None
            Keys and values of the rows before x, which are not computed again; those of x are added to it. With
            ``memory``: filled at the first call, and used as it is after that.
        sizes : sequence of int, default None
            Numbers of rows of the sections of x, one after another; a row attends to those of its own section: no
            padding, and one product of matrices for the rows of all. Without ``memory``, mask, bias, cache, weights and rotary.
        return_weights : bool, default False
            Also return each head's weights.

        Returns
        -------
        output : Tensor, shape (..., n_queries, d_output)
        weights : Tensor, shape (..., n_heads, n_queries, n_keys)
            Only with ``return_weights=True``.
        """
        if self.rotary and memory is not None:
            raise InputError("memory: expected None with rotary positions, which are those of one sequence.")
        if sizes is not None:
            if return_weights or self.rotary or any(x is not None for x in (memory, mask, bias, cache)):
                raise InputError("sizes: goes without memory, mask, bias, cache, return_weights and rotary positions.")
            n = x.shape[-2]
            total = sum(sizes)
            expect(total == n, "sizes", f"numbers that add up to the {n} rows of x", total)
        start = 0 if cache is None else cache.length
        query = self._turned(self.query(x), start)  # (..., H, Nq, d_head)
        # keys and values of a context never change: computed once, then read
        if cache is not None and memory is not None and cache.length:
            key, value = cache.rows()
        else:
            rows = x if memory is None else memory
            if self.key is None:  # symmetric: one matrix for queries and keys, without its intercept
                keys = F.linear(rows, self.query.weight)
            else:
                keys = self.key(rows)
            key = self._turned(keys, start)  # (..., H, Nk, d_head)
            value = split_heads(self.value(rows), self.d_value)  # (..., H, Nk, d_value)
            if cache is not None:
                key, value = cache.extend(key, value)
        # sections of unequal size: projections of all rows at once, scores within each
        if sizes is not None:
            each = zip(*(rows.split(list(sizes), -2) for rows in (query, key, value)), strict=True)
            return self._joined(torch.cat([self._attended(*rows) for rows in each], -2))
        found = self._attended(query, key, value, mask=mask, bias=bias, return_weights=return_weights)
        return (self._joined(found[0]), found[1]) if return_weights else self._joined(found)

    def _turned(self, rows: Tensor, start: int) -> Tensor:
        """Return queries or keys of every head, turned by their positions where these are rotary."""
        found = split_heads(rows, self.d_head)
        return rotary(found, start=start) if self.rotary else found

    def _attended(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None, **options: Any) -> Any:
        """Return every head's weighted mean, and its weights where they are wanted."""
        combine = getattr(self, "combine", None)
        # every score becomes an inner product and a bias, which the fast kernel takes
        terms = score_terms(query, key, self.score, combine=combine, bias=bias, temperature=self.temperature)
        return self.attend(value=value, **terms, **options)

    def _joined(self, heads: Tensor) -> Tensor:  # (..., H, N, d) -> (..., N, d_output)
        return self.output(heads.transpose(-2, -3).flatten(-2))

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> MultiheadAttention:
        """Return a layer with the weights of a `torch.nn.MultiheadAttention`.

        Parameters
        ----------
        module : torch.nn.MultiheadAttention
            With ``kdim == vdim`` and neither ``add_bias_kv`` nor ``add_zero_attn``. Its dropout is left out.

        Returns
        -------
        MultiheadAttention
            Gives the same outputs, and weights per head (torch averages them by default).

        Raises
        ------
        InputError
            When the module has a feature that this layer lacks.

        Examples
        --------
        >>> layer = MultiheadAttention.from_torch(torch.nn.MultiheadAttention(8, 2))
        >>> layer.n_heads, layer.d_head
        (2, 4)
        """
        added = module.bias_k is not None
        zero = module.add_zero_attn
        fits = module.kdim == module.vdim and not added and not zero
        wanted = "a torch.nn.MultiheadAttention with kdim == vdim, add_bias_kv=False and add_zero_attn=False"
        got = f"kdim={module.kdim}, vdim={module.vdim}, add_bias_kv={added}, add_zero_attn={zero}"
        expect(fits, "module", wanted, got, "Keys and values come from the same rows here.")
        has_bias = module.in_proj_bias is not None
        layer = cls(module.embed_dim, module.num_heads, d_memory=module.kdim, bias=has_bias)
        apart = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        matrices = apart if module.in_proj_weight is None else module.in_proj_weight.chunk(3)
        parts = {"weight": (*matrices, module.out_proj.weight)}
        if has_bias:
            parts["bias"] = (*module.in_proj_bias.chunk(3), module.out_proj.bias)
        names = ("query", "key", "value", "output")
        state = {f"{name}.{kind}": x for kind, all4 in parts.items() for name, x in zip(names, all4)}
        layer.to(module.out_proj.weight).load_state_dict(state)
        return layer


class KeyValueCache:
    """The keys and values that one attention layer has computed so far.

    Examples
    --------
    >>> import torch
    >>> cache = KeyValueCache()
    >>> for _ in range(3):
    ...     keys, values = cache.extend(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4))
    >>> cache.length, keys.shape
    (3, torch.Size([1, 2, 3, 4]))
    """

    def __init__(self) -> None:
        self._rows: tuple[Tensor, ...] = ()

    @property
    def length(self) -> int:
        """Number of rows read so far."""
        return self._rows[0].shape[-2] if self._rows else 0

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Add rows (..., H, n, d) and return all rows so far, (..., H, length, d).

        Copies them: no more than attention to them reads.
        """
        # -2 is the dimension of rows, whatever comes before
        if self._rows:
            key, value = (torch.cat(pair, -2) for pair in zip(self._rows, (key, value)))
        self._rows = (key, value)
        return self._rows

    def rows(self) -> tuple[Tensor, ...]:
        """Return the keys and values so far, (..., H, length, d)."""
        return self._rows

    def reorder(self, sequences: Tensor) -> None:
        """Keep these sequences of the batch, in this order, as beam search needs."""
        # rows of a beam follow it wherever it goes
        self._rows = tuple(rows.index_select(0, sequences) for rows in self._rows)


class StackCache:
    """The caches of a stack of blocks: of each block's own rows, and of what its cross-attention attends to.

    Parameters
    ----------
    n_layers : int

    Examples
    --------
    >>> StackCache(2).length
    0
    """

    def __init__(self, n_layers: int):
        check_at_least(0, n_layers=n_layers)
        self.blocks = [(KeyValueCache(), KeyValueCache()) for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """Number of rows read so far."""
        return self.blocks[0][0].length if self.blocks else 0

    def reorder(self, sequences: Tensor) -> None:
        """Keep these sequences of the batch, in this order."""
        for cache in itertools.chain(*self.blocks):
            cache.reorder(sequences)
