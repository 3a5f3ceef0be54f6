"""Cross-sections as padded tensors, and which rows may attend to which."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows
from peerattn.models.learners.linear import stacked_rows
from peerattn.models.learners.priors import NO_TERMS, PairTerms

NO_PEER = -math.inf


@dataclass(frozen=True)
class RowTensors:
    """Rows of a batch of cross-sections, padded to equal length.

    ``x`` (B, n, p), ``codes`` (B, n, c), ``y`` (B, n) or (B, n, K) or None, ``identity`` (B, n) with −1 = equal to no other;
    ``log_weight`` (B, n) is added to the scores of a row as a peer; ``own_weight`` (B, n) to those of its own identity where it
    is a query: −∞, but of further copies of a row with a frequency weight. ``may_be_attended`` (B, n): False of a peer that is
    padded, or whose outcome is not known.
    """

    x: Tensor
    codes: Tensor
    y: Tensor | None
    identity: Tensor
    log_weight: Tensor
    own_weight: Tensor
    may_be_attended: Tensor

    @classmethod
    def of_focal(cls, sections: Sequence[CrossSection], dtype: torch.dtype, device: str | torch.device = "cpu") -> Self:
        """Return the focal rows of all cross-sections as one."""
        # those whose copies are peers are anonymous, though they have an identity
        identity = np.concatenate([(s.peers if s.own_copies else s.focal).identity for s in sections])
        copies = np.concatenate([_copies(s.focal, s.own_copies) for s in sections])
        return cls._of(stacked_rows(sections), identity, copies, np.ones(len(identity)), dtype, device)

    @classmethod
    def of_peers(cls, sections: Sequence[CrossSection], dtype: torch.dtype, device: str | torch.device = "cpu") -> Self:
        """Return the peers of all cross-sections as one."""
        rows = Rows.stacked([section.peers for section in sections])
        copies = np.concatenate([_copies(s.peers, s.pool().own_copies) for s in sections])
        may = np.concatenate([section.may_be_attended for section in sections])
        return cls._of(rows, rows.identity, copies, may, dtype, device)

    @classmethod
    def _of(
        cls,
        rows: Rows,
        identity: np.ndarray,
        copies: np.ndarray,
        may_be_attended: np.ndarray,
        dtype: torch.dtype,
        device: str | torch.device,
    ) -> Self:
        def one(values: np.ndarray, kind: torch.dtype = dtype) -> Tensor:
            return torch.as_tensor(values, dtype=kind, device=device)[None]

        y = None if rows.y is None else one(np.nan_to_num(rows.y))
        counts = (one(rows.counts).log(), one(copies).log())
        codes, numbers = (one(values, torch.int64) for values in (rows.levels, identity))
        return cls(one(rows.x), codes, y, numbers, *counts, one(may_be_attended, torch.bool))

    @property
    def outcomes(self) -> Tensor:
        """Outcomes, (B, n, K)."""
        assert self.y is not None
        return torch.atleast_3d(self.y)

    def at(self, places: Tensor) -> Self:
        """Return the rows (of the one cross-section that this is) at these places, (B, n); −1 is padding."""
        row_numbers = places.clamp(min=0)
        rows = self._each(lambda values: values[0][row_numbers])
        there = places >= 0
        return replace(
            rows,
            identity=rows.identity.masked_fill(~there, NO_IDENTITY),
            log_weight=rows.log_weight.masked_fill(~there, NO_PEER),
            may_be_attended=rows.may_be_attended & there,
        )

    def rows(self, at: slice) -> Self:
        """Return these rows of every cross-section."""
        return self._each(lambda values: values[:, at])

    def _each(self, of: Any) -> Self:
        return replace(self, **{name: of(values) for name, values in vars(self).items() if values is not None})

    def hide(self, hidden: Tensor) -> Self:
        """Return the rows, of which these (B, n) may not be attended to."""
        return replace(self, may_be_attended=self.may_be_attended & ~hidden)

    def bias_for(self, queries: Self, *, of_unknown_outcome: bool = False) -> Tensor:
        """Return what is added to the scores of these rows as peers of queries, (B, n_queries, n): −∞ where one may not attend.

        The own firm is left out here. With ``of_unknown_outcome``, where no outcome is used, other rows are peers, too.
        """
        # NO_IDENTITY equals no other, not even NO_IDENTITY
        mine = queries.identity.masked_fill(queries.identity == NO_IDENTITY, NO_IDENTITY - 1)
        own = mine[:, :, None] == self.identity[:, None, :]
        weight = self.log_weight
        if not of_unknown_outcome:
            weight = weight.masked_fill(~self.may_be_attended, NO_PEER)
        return torch.where(own, queries.own_weight[:, :, None], weight[:, None, :])


@dataclass(frozen=True)
class PairTensors:
    """What is known of pairs of focal row and peer beforehand.

    ``bias`` (B, 1, n_focal, n_peers) is added to the scores (−∞ forbids); ``prior`` (B, n_focal, n_peers, K) is added
    with a learned strength per head. ``among``: the same of pairs of peers, for the layers that encode them.
    """

    bias: Tensor | None = None
    prior: Tensor | None = None
    among: "PairTensors | None" = None

    @classmethod
    def of(cls, sections: Sequence[CrossSection], rows: Sequence[Any], terms: PairTerms, dtype: torch.dtype, device: Any) -> Self:
        """Return the pair terms of these focal rows of each cross-section."""
        pairs = list(zip(sections, rows, strict=True))
        bias = _padded([terms.bias(section, at) for section, at in pairs], dtype, device)
        if bias is not None:
            bias = bias[:, None]
        prior = _padded([terms.prior(section, at) for section, at in pairs], dtype, device)
        if not terms.stacked:
            return cls(bias, prior)
        pools = [section.pool() for section in sections]
        return cls(bias, prior, cls.of(pools, [slice(None)] * len(pools), replace(terms, stacked=False), dtype, device))

    def terms(self, strength: Tensor | None) -> Tensor | None:
        """Return what is added to the scores, (B, 1 or H, n_focal, n_peers), with this strength of the priors (H, K)."""
        if self.prior is None or strength is None:
            return self.bias
        learned = torch.einsum("bijk,hk->bhij", self.prior, strength)
        if self.bias is None:
            return learned
        return self.bias + learned


@dataclass(frozen=True)
class Batch:
    """Some cross-sections, padded: focal rows with their targets and loss weights (0 where padded), and their pools."""

    focal: RowTensors
    peers: RowTensors
    weight: Tensor  # (B, n_focal)
    pairs: PairTensors = PairTensors()
    own: Tensor = torch.zeros(1, 1, 1)  # (B, n_focal, K): what the own part predicts
    nuisance: Tensor | None = None  # (B, n_focal, K): the nuisance function, in training

    @cached_property
    def blocked(self) -> Tensor:
        """What is added to scores, (B, n_focal, n_peers + 1), the null peer last: made once for all modules."""
        return with_null_peer(self.peers.bias_for(self.focal))


class Sample:
    """Cross-sections as tensors on one device, of which batches are made.

    The targets are the outcomes of the focal rows, ``own`` is what the own part predicts of them, and ``nuisance`` (n, K) is the
    value of the nuisance function, if there is one.
    """

    def __init__(
        self,
        sections: Sequence[CrossSection],
        terms: PairTerms = NO_TERMS,
        dtype: torch.dtype = torch.float64,
        device: str | torch.device = "cpu",
        nuisance: np.ndarray | None = None,
    ) -> None:
        self.sections, self.terms, self.dtype, self.device = sections, terms, dtype, device
        self.focal = RowTensors.of_focal(sections, dtype, device)
        self.peers = RowTensors.of_peers(sections, dtype, device)
        self.weight = self._on_device(np.concatenate([section.focal.loss_weights for section in sections]))
        self.own = self._on_device(np.concatenate([section.own_term for section in sections]))
        self.nuisance: Tensor | None = None
        if nuisance is not None:
            self.nuisance = self._on_device(nuisance)
        self.n_focal = np.array([len(section.focal) for section in sections])
        self.n_peers = np.array([len(section.peers) for section in sections])

    def _on_device(self, values: np.ndarray) -> Tensor:
        return torch.as_tensor(values, dtype=self.dtype, device=self.device)

    @property
    def n_rows(self) -> int:
        """Number of focal rows."""
        return int(self.n_focal.sum())

    def rows(self, at: slice) -> Batch:
        """Return these focal rows of the one cross-section that this is, and its pool."""
        return self.batch([0], [np.arange(self.n_rows)[at]])

    def batch(self, group: Sequence[int], focal: Sequence[np.ndarray] | None = None) -> Batch:
        """Return some of the cross-sections, padded: these ``focal`` rows of each (by default all), and all peers."""
        rows = list(focal or map(np.arange, self.n_focal[list(group)]))
        # pools are whole: weights are a softmax over all candidate peers
        pools = [np.arange(self.n_peers[k]) for k in group]
        sections = [self.sections[k] for k in group]
        at = _places(self.n_focal, group, rows, self.device)
        there = at >= 0
        weight = torch.where(there, self.weight[at.clamp(min=0)], 0.0)
        own = torch.where(there[..., None], self.own[at.clamp(min=0)], 0.0)
        nuisance = None
        if self.nuisance is not None:
            nuisance = torch.where(there[..., None], self.nuisance[at.clamp(min=0)], 0.0)
        pairs = PairTensors.of(sections, rows, self.terms, self.dtype, self.device)
        peers = self.peers.at(_places(self.n_peers, group, pools, self.device))
        return Batch(self.focal.at(at), peers, weight, pairs, own, nuisance)


def _copies(rows: Rows, own: bool) -> np.ndarray:
    """Return how many other copies of itself each row has, (n,): of a row counted w times w − 1, where these are its peers."""
    return np.maximum(rows.counts - 1, 0) * own


def isolated(section: CrossSection, terms: PairTerms) -> np.ndarray:
    """Return which focal rows have no admissible peer, (n_focal,)."""
    focal = RowTensors.of_focal([section], torch.float32)
    peers = RowTensors.of_peers([section], torch.float32)
    found = np.zeros(len(section.focal), dtype=bool)
    for rows in section.chunks():
        may = peers.bias_for(focal.rows(rows))[0].numpy() > NO_PEER
        bias = terms.bias(section, rows)
        if bias is not None:
            may &= bias > NO_PEER
        found[rows] = ~may.any(axis=1)
    return found


def with_null_peer(bias: Tensor) -> Tensor:
    """Return what is added to scores with one column more, of the null peer, to which every row may attend."""
    return F.pad(bias, (0, 1))


def _places(sizes: np.ndarray, group: Sequence[int], rows: Sequence[np.ndarray], device: str | torch.device) -> Tensor:
    """Return the numbers of these rows of each cross-section among all rows, (B, n); −1 is padding."""
    first = np.cumsum(sizes) - sizes
    places = np.full((len(rows), max(map(len, rows))), -1)
    for line, k, some in zip(places, group, rows, strict=True):
        line[: len(some)] = first[k] + some
    return torch.as_tensor(places, device=device)


def _padded(blocks: Sequence[np.ndarray | None], dtype: torch.dtype, device: Any) -> Tensor | None:
    """Stack (n_focal, n_peers, ...) blocks, padded with zeros; None where there are none."""
    known = [torch.as_tensor(block, dtype=dtype, device=device) for block in blocks if block is not None]
    if len(known) < len(blocks):
        return None
    # pad_sequence pads the first dimension alone, so that peers are padded before
    wide = max(block.shape[1] for block in known)
    of_width = [F.pad(b.movedim(1, -1), (0, wide - b.shape[1])).movedim(-1, 1) for b in known]
    return pad_sequence(of_width, batch_first=True)
