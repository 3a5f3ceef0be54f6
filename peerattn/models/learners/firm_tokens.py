"""Cross-sections as tensors of tokens: one token a firm, padded to equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from peerattn.models.cross_section import NOBODY, CrossSection, Rows
from peerattn.models.learners.bounds import CLIP

NO_KEY = -np.inf
Picked = Tensor | slice  # positions
ALL = slice(None)


@dataclass(frozen=True)
class Tokens:
    """Firms of B cross-sections, padded to n rows.

    Attributes
    ----------
    x : Tensor (B, n, p)
        Characteristics.
    codes : Tensor (B, n, c)
        Codes; 0 is unknown.
    y : Tensor (B, n, K) or None
        Observed outcomes that are inputs; None in a forecast, and of focal rows.
    identity : Tensor (B, n)
        Rows of one identity do not attend to each other; NOBODY equals no other.
    log_weight : Tensor (B, n)
        Added to the scores of this row as a key; −∞ where it is no key (padding, an unknown outcome, a hidden one).
    own_weight : Tensor (B, n)
        The same for a query of its own identity: −∞, but for the further copies of a row with a frequency weight.
    """

    x: Tensor
    codes: Tensor
    y: Tensor | None
    identity: Tensor
    log_weight: Tensor
    own_weight: Tensor

    def take(self, sections: Picked, rows: Picked) -> Tokens:
        """Return these rows of these cross-sections."""
        kept = {n: value[sections][:, rows] for n, value in vars(self).items() if value is not None}
        return replace(self, **kept)

    def hide(self, hidden: Tensor) -> Tokens:
        """Return the tokens, of which these (B, n) are no keys: nothing uses their outcomes."""
        return replace(self, log_weight=self.log_weight.masked_fill(hidden, NO_KEY))

    def bias_for(self, queries: Tokens) -> Tensor:
        """Return what is added to the scores of these queries, (B, n_queries, n); −∞ where one may not attend."""
        mine = queries.identity.masked_fill(queries.identity == NOBODY, NOBODY - 1)
        own = mine[:, :, None] == self.identity[:, None, :]
        return torch.where(own, self.own_weight[:, None, :], self.log_weight[:, None, :])


@dataclass(frozen=True)
class Batch:
    """Some cross-sections: focal rows with targets (B, n, K) and loss weights (B, n), and the pool of each."""

    focal: Tokens
    peers: Tokens
    y: Tensor | None
    weight: Tensor

    @classmethod
    def of(
        cls, sections: Sequence[CrossSection], *, outcomes: bool, dtype: torch.dtype, device: str = "cpu"
    ) -> Batch:
        """Return cross-sections as tensors; with ``outcomes`` those of the peers are inputs."""

        def padded(values: Sequence[np.ndarray], fill: float = 0.0) -> Tensor:
            found = _padded(values, fill)
            return found.to(device=device, dtype=dtype if found.is_floating_point() else torch.int64)

        def targets(rows: Sequence[Rows]) -> Tensor | None:
            known = [_columns(np.nan_to_num(each.y)) for each in rows if each.y is not None]
            return padded(known) if len(known) == len(rows) else None

        def tokens(rows: Sequence[Rows], named: Sequence[Rows], y: Tensor | None, bias: Sequence[Tensor]) -> Tokens:
            numbers = padded([_inputs(each) for each in rows])
            codes = padded([each.codes.astype(np.int64) for each in rows])
            return Tokens(numbers, codes, y, padded([each.identity for each in named], NOBODY), *bias)

        focal = [section.focal for section in sections]
        pool = [section.peers for section in sections]
        # on arrays with frequency weights focal rows are anonymous, since further copies of a row are its peers
        named = [section.peers if section.own_copies else section.focal for section in sections]
        keys = [padded(of_kind, NO_KEY) for of_kind in zip(*map(_log_weights, sections), strict=True)]
        weight = padded([rows.loss_weights for rows in focal])
        return cls(
            tokens(focal, named, None, [torch.zeros_like(weight)] * 2),
            tokens(pool, pool, targets(pool) if outcomes else None, keys),
            targets(focal),
            weight,
        )

    def take(self, sections: Picked = ALL, rows: Picked = ALL) -> Batch:
        """Return these focal rows of these cross-sections, with all peers."""
        y = None if self.y is None else self.y[sections][:, rows]
        weight = self.weight[sections][:, rows]
        return Batch(self.focal.take(sections, rows), self.peers.take(sections, ALL), y, weight)


def hidden_folds(section: CrossSection, n_folds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the fold of every focal row and of every peer; a focal row that is no peer is in none (−1).

    Rows of one identity share a fold. Firms are dealt out in the order of a checksum of their characteristics, so that folds
    depend neither on outcomes nor on the order of rows.
    """
    identity, first = np.unique(section.peers.identity, return_index=True)
    place = np.searchsorted(identity, section.peers.identity)
    least = np.full(len(identity), np.iinfo(np.int64).max)
    np.minimum.at(least, place, section.peers.checksums())
    fold = np.empty(len(identity), dtype=int)
    fold[np.lexsort((first, least))] = np.arange(len(identity)) % n_folds
    own = section.peers.identity if section.own_copies else section.focal.identity
    of_firm = dict(zip(identity.tolist(), fold.tolist(), strict=True)) | {NOBODY: -1}
    return np.array([of_firm.get(each, -1) for each in own.tolist()], dtype=int), fold[place]


def _log_weights(section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
    """Return the log weights of peers as keys, and as keys of a query of their own identity, (n_peers,) each."""
    counts = section.peers.counts
    with np.errstate(divide="ignore"):
        log_weight = np.log(counts)
        # a row counted w times has w − 1 copies of itself for peers
        own = np.log(np.maximum(counts - 1, 0)) if section.own_copies else np.full(len(counts), NO_KEY)
    if section.answering is not None:
        log_weight = np.where(section.answering, log_weight, NO_KEY)
    return log_weight, own


def _inputs(rows: Rows) -> np.ndarray:
    """Return bounded characteristics, so that no outlier carries a prediction; a column of zeros where there are none."""
    return rows.x.clip(-CLIP, CLIP) if rows.x.shape[1] else np.zeros((len(rows), 1))


def _columns(values: np.ndarray) -> np.ndarray:
    return values if values.ndim == 2 else values[:, None]


def _padded(blocks: Sequence[np.ndarray], fill: float) -> Tensor:
    """Return blocks (n, ...) as one tensor (B, n_max, ...)."""
    longest = max(len(block) for block in blocks)
    found = np.full((len(blocks), longest, *blocks[0].shape[1:]), fill, dtype=blocks[0].dtype)
    for row, block in zip(found, blocks, strict=True):
        row[: len(block)] = block
    return torch.from_numpy(found)
