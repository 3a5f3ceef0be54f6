"""Rows and pairs of a batch of cross-sections as tensors, and who may look to whom."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from peerattn.models.pools import NOBODY


@dataclass(frozen=True)
class RowTensors:
    """Rows of a batch of cross-sections, padded to equal length.

    ``x`` (B, n, p), ``codes`` (B, n, c), ``y`` (B, n) or None, ``identity`` (B, n) with −1 = equal to no other,
    ``present`` (B, n): False where padded; ``answers`` (B, n): False where a peer may not be looked to either.
    """

    x: Tensor
    codes: Tensor
    y: Tensor | None
    identity: Tensor
    present: Tensor
    answers: Tensor

    def take(self, rows: Tensor) -> RowTensors:
        """Return these rows of every cross-section."""
        return RowTensors(*(None if part is None else part[:, rows] for part in self._parts()))  # type: ignore[arg-type]

    def of(self, sections: Tensor) -> RowTensors:
        """Return these cross-sections."""
        return RowTensors(*(None if part is None else part[sections] for part in self._parts()))  # type: ignore[arg-type]

    @classmethod
    def joined(cls, sections: Sequence[RowTensors]) -> RowTensors:
        """Return cross-sections as one batch, padded to equal length."""
        if len(sections) == 1:
            return sections[0]
        padding = (0, 0, 0, NOBODY, False, False)
        columns = zip(padding, *(section._parts() for section in sections), strict=True)
        return cls(*(_padded(values, fill) for fill, *values in columns))  # type: ignore[arg-type]

    def _parts(self) -> tuple[Tensor | None, ...]:
        return self.x, self.codes, self.y, self.identity, self.present, self.answers


def _padded(values: Sequence[Tensor | None], fill: float) -> Tensor | None:
    known = [value[0] for value in values if value is not None]
    if not known:
        return None
    if len({len(value) for value in known}) == 1:
        return torch.stack(known)
    return pad_sequence(known, batch_first=True, padding_value=fill)


@dataclass(frozen=True)
class PairTensors:
    """What is known of pairs of focal row and peer beforehand.

    ``bias`` (B, n_focal, n_peers) is added to the scores (log weights; −∞ forbids); ``prior`` (B, n_focal, n_peers, K) enters
    with a learned strength per head. ``sparse``: the bias forbids most pairs, and attention goes along the edges it leaves.
    ``among``: the same of pairs of peers, for the layers that encode them. ``copies``: a row's other copies are its peers.
    """

    bias: Tensor | None = None
    prior: Tensor | None = None
    sparse: bool = False
    among: PairTensors | None = None
    copies: bool = False

    def terms(self, strength: Tensor | None) -> Tensor | None:
        """Return what is added to the scores, (B, 1 or H, n_focal, n_peers), with this strength of the priors (H, K)."""
        bias = None if self.bias is None else self.bias[:, None]
        if self.prior is None or strength is None:
            return bias
        learned = torch.einsum("bijk,hk->bhij", self.prior, strength)
        return learned if bias is None else bias + learned


def others(focal: RowTensors, peers: RowTensors) -> Tensor:
    """Return who is another firm, (B, n_focal, n_peers): of another identity, and not padding."""
    nobody = focal.identity == NOBODY
    mine = focal.identity.masked_fill(nobody, NOBODY - 1)  # equals no other, not even NOBODY
    return _where(mine[:, :, None] != peers.identity[:, None, :], peers.present)


def admissible(focal: RowTensors, peers: RowTensors) -> Tensor:
    """Return who may look to whom, (B, n_focal, n_peers): another firm that answers."""
    return _where(others(focal, peers), peers.answers)


def barred(may: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores, (B, n_focal, n_peers + 1): −∞ where a row may not look, else 0; the null peer is last."""
    return torch.where(
        F.pad(may, (0, 1), value=True), torch.zeros((), dtype=dtype, device=may.device), -math.inf
    )


def _where(pairs: Tensor, peers: Tensor) -> Tensor:
    """Return the pairs (B, n_focal, n_peers) whose peer is one of these (B, n_peers)."""
    return pairs if peers.all() else pairs & peers[:, None, :]
