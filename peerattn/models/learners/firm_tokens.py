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
Weights = tuple[np.ndarray, np.ndarray]


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
        """Return the tokens, of which these (B, n) are no keys: nothing reads their outcomes."""
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
        cls,
        sections: Sequence[CrossSection],
        *,
        outcomes: bool,
        dtype: torch.dtype,
        device: str | torch.device,
    ) -> Batch:
        """Return cross-sections as tensors; with ``outcomes`` those of the peers are inputs."""
        focal, pool = [s.focal for s in sections], [s.peers for s in sections]
        # on arrays with frequency weights focal rows are anonymous, since further copies of a row are its peers
        named = [s.peers if s.own_copies else s.focal for s in sections]
        keys = [_log_weights(section) for section in sections]

        def padded(values: Sequence[np.ndarray], kind: torch.dtype, fill: float = 0.0) -> Tensor:
            return _padded(values, fill).to(device=device, dtype=kind)

        def tokens(rows: Sequence[Rows], identities: Sequence[Rows], weights: Sequence[Weights]) -> Tokens:
            read = outcomes and rows is pool
            return Tokens(
                padded([_inputs(r) for r in rows], dtype),
                padded([r.codes for r in rows], torch.int64),
                padded([_columns(np.nan_to_num(r.y)) for r in rows if r.y is not None], dtype)
                if read
                else None,
                padded([r.identity for r in identities], torch.int64, NOBODY),
                padded([weight[0] for weight in weights], dtype, NO_KEY),
                padded([weight[1] for weight in weights], dtype, NO_KEY),
            )

        none = [(np.zeros(len(rows)), np.zeros(len(rows))) for rows in focal]
        known = all(rows.y is not None for rows in focal)
        return cls(
            tokens(focal, named, none),
            tokens(pool, pool, keys),
            padded([_columns(rows.y) for rows in focal if rows.y is not None], dtype) if known else None,
            padded([rows.loss_weights for rows in focal], dtype),
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
    checks = section.peers.checksums()
    least = np.full(len(identity), np.iinfo(np.int64).max)
    place = np.searchsorted(identity, section.peers.identity)
    np.minimum.at(least, place, checks)
    fold = np.empty(len(identity), dtype=int)
    fold[np.lexsort((first, least))] = np.arange(len(identity)) % n_folds
    own = section.peers.identity if section.own_copies else section.focal.identity
    at = np.minimum(np.searchsorted(identity, own), len(identity) - 1)
    there = (identity[at] == own) & (own != NOBODY) if len(identity) else np.zeros(len(own), dtype=bool)
    return np.where(there, fold[at] if len(identity) else 0, -1), fold[place]


def _log_weights(section: CrossSection) -> Weights:
    """Return the log weights of peers as keys, and as keys of a query of their own identity, (n_peers,) each."""
    counts, n = section.peers.counts, len(section.peers)
    with np.errstate(divide="ignore"):
        log_weight = np.log(counts)
        # a row counted w times has w − 1 copies of itself for peers
        own = np.log(np.maximum(counts - 1, 0)) if section.own_copies else np.full(n, NO_KEY)
    if section.answering is not None:
        log_weight = np.where(section.answering, log_weight, NO_KEY)
    return log_weight, own


def _inputs(rows: Rows) -> np.ndarray:
    """Return bounded characteristics, so that no outlier carries a prediction; a column of zeros where there are none."""
    x = rows.x.clip(-CLIP, CLIP)
    return x if x.shape[1] else np.zeros((len(rows), 1))


def _columns(values: np.ndarray) -> np.ndarray:
    return values if values.ndim == 2 else values[:, None]


def _padded(blocks: Sequence[np.ndarray], fill: float) -> Tensor:
    """Return blocks (n, ...) as one tensor (B, n_max, ...)."""
    longest = max(len(block) for block in blocks)
    found = np.full((len(blocks), longest, *blocks[0].shape[1:]), fill, dtype=blocks[0].dtype)
    for row, block in zip(found, blocks, strict=True):
        row[: len(block)] = block
    return torch.from_numpy(found)
