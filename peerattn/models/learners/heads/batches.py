"""Cross-sections as padded tensors, and which rows may attend to which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows
from peerattn.models.learners.bounds import CLIP
from peerattn.models.learners.heads.priors import PairTerms


@dataclass(frozen=True)
class RowTensors:
    """Rows of a batch of cross-sections, padded to equal length.

    ``x`` (B, n, p), ``codes`` (B, n, c), ``y`` (B, n) or (B, n, K) or None, ``identity`` (B, n) with −1 = equal to no other,
    ``present`` (B, n): False where padded; ``may_be_attended`` (B, n): False of a peer that is padded, or may not be attended to.
    """

    x: Tensor
    codes: Tensor
    y: Tensor | None
    identity: Tensor
    present: Tensor
    may_be_attended: Tensor

    @classmethod
    def of(cls, rows: Rows, attendable: np.ndarray | None, dtype: torch.dtype, device: str | torch.device) -> RowTensors:
        """Return rows as one cross-section; characteristics count for at most ``CLIP``, so that no outlier carries a head."""

        def one(values: np.ndarray, kind: torch.dtype) -> Tensor:
            return torch.as_tensor(values, dtype=kind, device=device)[None]

        x = one(rows.x.clip(-CLIP, CLIP), dtype)
        y = None if rows.y is None else one(np.nan_to_num(rows.y), dtype)
        present = one(np.ones(len(rows)), torch.bool)
        may_be_attended = present if attendable is None else one(attendable, torch.bool)
        return cls(x, one(rows.codes, torch.int64), y, one(rows.identity, torch.int64), present, may_be_attended)

    @property
    def outcomes(self) -> Tensor:
        """Outcomes, (B, n, K)."""
        assert self.y is not None
        return torch.atleast_3d(self.y)

    def at(self, places: Tensor) -> RowTensors:
        """Return the rows (of the one cross-section that this is) at these places, (B, n); −1 is padding."""
        there = places >= 0
        gathered = {name: v[0][places.clamp(min=0)] for name, v in vars(self).items() if v is not None}
        rows = replace(self, **gathered)
        return replace(
            rows,
            identity=rows.identity.masked_fill(~there, NO_IDENTITY),
            present=there,
            may_be_attended=rows.may_be_attended & there,
        )


@dataclass(frozen=True)
class PairTensors:
    """What is known of pairs of focal row and peer beforehand.

    ``bias`` (B, 1, n_focal, n_peers) is added to the scores (log weights; −∞ forbids); ``prior`` (B, n_focal, n_peers, K) enters
    with a learned strength per head. ``among``: the same of pairs of peers, for the layers that encode them. ``copies``: a
    row's other copies are its peers.
    """

    bias: Tensor | None = None
    prior: Tensor | None = None
    among: PairTensors | None = None
    copies: bool = False

    @classmethod
    def of(
        cls,
        sections: Sequence[CrossSection],
        rows: Sequence[Any],
        terms: PairTerms,
        dtype: torch.dtype,
        device: Any,
    ) -> PairTensors:
        """Return the pair terms of these focal rows of each cross-section."""
        pairs = list(zip(sections, rows, strict=True))
        bias = _padded([terms.bias(section, at) for section, at in pairs], dtype, device)
        if bias is not None:
            bias = bias[:, None]
        prior = _padded([terms.prior(section, at) for section, at in pairs], dtype, device)
        if not terms.stacked:
            return cls(bias, prior)
        pools = [section.pool() for section in sections]
        among = cls.of(pools, [slice(None)] * len(pools), replace(terms, stacked=False), dtype, device)
        return cls(bias, prior, replace(among, copies=any(pool.own_copies for pool in pools)))

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
    own: Tensor = torch.zeros(1, 1, 1)  # (B, n_focal, K): what the own part predicts, where targets are the outcomes

    @classmethod
    def of(
        cls,
        section: CrossSection,
        terms: PairTerms,
        dtype: torch.dtype = torch.float64,
        rows: slice = slice(None),
        device: str | torch.device = "cpu",
    ) -> Batch:
        """Return some focal rows of one cross-section, and its pool."""
        focal = RowTensors.of(section.focal.take(rows), None, dtype, device)
        peers = RowTensors.of(section.peers, section.attendable, dtype, device)
        weight = torch.as_tensor(section.focal.take(rows).loss_weights, dtype=dtype, device=device)[None]
        return cls(focal, peers, weight, PairTensors.of([section], [rows], terms, dtype, device))

    @cached_property
    def blocked(self) -> Tensor:
        """Which rows may not attend to which, by :func:`blocking_bias`: made once for all modules."""
        return blocking_bias(admissible(self.focal, self.peers), self.focal.x.dtype)


def others(focal: RowTensors, peers: RowTensors) -> Tensor:
    """Return who is another firm, (B, n_focal, n_peers): of another identity, and not padding."""
    return _of_another_identity(focal, peers) & peers.present[:, None, :]


def admissible(focal: RowTensors, peers: RowTensors) -> Tensor:
    """Return which rows may attend to which, (B, n_focal, n_peers): another firm that may_be_attended, as no padding does."""
    return _of_another_identity(focal, peers) & peers.may_be_attended[:, None, :]


def _of_another_identity(focal: RowTensors, peers: RowTensors) -> Tensor:
    # NO_IDENTITY equals no other, not even NO_IDENTITY
    mine = focal.identity.masked_fill(focal.identity == NO_IDENTITY, NO_IDENTITY - 1)
    return mine[:, :, None] != peers.identity[:, None, :]


def blocking_bias(may: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores, (B, n_focal, n_peers + 1): −∞ where a row may not look, else 0; the null peer is last."""
    zero = torch.zeros((), dtype=dtype, device=may.device)
    return torch.where(F.pad(may, (0, 1), value=True), zero, -math.inf)


def _padded(blocks: Sequence[np.ndarray | None], dtype: torch.dtype, device: Any) -> Tensor | None:
    """Stack (n_focal, n_peers, ...) blocks, padded with zeros; None where there are none."""
    known = [torch.as_tensor(block, dtype=dtype, device=device) for block in blocks if block is not None]
    if len(known) < len(blocks):
        return None
    # pad_sequence pads the first dimension alone, so that peers are padded before
    wide = max(block.shape[1] for block in known)
    of_width = [F.pad(b.movedim(1, -1), (0, wide - b.shape[1])).movedim(-1, 1) for b in known]
    return pad_sequence(of_width, batch_first=True)
