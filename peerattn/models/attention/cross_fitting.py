"""Cross-fitting of the own model: what it says of each row is learned from other blocks of periods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from peerattn.models.attention.clusters import row_keys
from peerattn.models.attention.losses import Loss, shown, working_residual
from peerattn.models.attention.own_model import (
    Own,
    OwnSettings,
    Shrinkage,
    fit_own,
    has_period_effects,
    of_period,
    row_weight,
)
from peerattn.models.attention.shrinkage import best_shrinkage, distinct
from peerattn.models.pools import Rows, Section, of_each
from peerattn.processes import completed

BLOCKS = 5  # of periods (of rows, on arrays), over which the own model is cross-fitted


def folds_of(sections: Sequence[Section], n_folds: int = BLOCKS) -> list[np.ndarray]:
    """Return the fold of every focal row of every cross-section: blocks of periods; of one cross-section, rows by content.

    Copies of a row fall into one fold, in whatever order rows come, so that a frequency weight equals repeated rows.
    """
    if len(sections) == 1:
        return [row_keys(sections[0].focal) % n_folds]
    blocks = np.array_split(np.arange(len(sections)), min(n_folds, len(sections)))
    block = np.repeat(np.arange(len(blocks)), [len(b) for b in blocks])
    return [np.full(len(section.focal), f) for section, f in zip(sections, block, strict=True)]


def count_rows(sections: Sequence[Section]) -> float:
    """Return the number of focal rows; a frequency weight on arrays counts as so many."""
    copies = sections[0].period is None
    return float(sum(row_weight(s.focal).sum() if copies else len(s.focal) for s in sections))


def stacked_rows(sections: Sequence[Section]) -> Rows:
    """Return the focal rows of all cross-sections, one after another."""
    rows = [section.focal for section in sections]
    both: Any = lambda name: (  # noqa: E731
        None if getattr(rows[0], name) is None else np.concatenate([getattr(r, name) for r in rows])
    )
    label = rows[0].label.append([r.label for r in rows[1:]])
    owner = rows[0].owner.append([r.owner for r in rows[1:]])
    return Rows(
        both("x"),
        both("codes"),
        both("y"),
        both("weight"),
        both("identity"),
        label,
        owner,
        both("loss_weight"),
    )


@dataclass(frozen=True)
class Block:
    """Cross-sections, and what is predicted of them so far.

    Attributes
    ----------
    sections : list of Section
        Outcomes in units of training.
    offset : list of ndarray (n_focal, K)
        Prediction of every focal row so far: the own term, then what parts add.
    own : list of ndarray (n_focal, K)
        Own term of every focal row.
    pool : list of ndarray (n_peers, K)
        Own term of every peer.
    """

    sections: list[Section]
    offset: list[np.ndarray]
    own: list[np.ndarray]
    pool: list[np.ndarray]

    @classmethod
    def of(cls, own: Own, sections: Sequence[Section]) -> Block:
        """Return what a fitted own model says of cross-sections."""
        terms = of_each(sections, lambda section: (own.predict(section.focal), own.predict(section.peers)))
        focal, pool = [list(part) for part in zip(*terms, strict=True)] if terms else ([], [])
        return cls(list(sections), focal, focal, pool).from_effects(own)

    def from_effects(self, own: Own) -> Block:
        """Return the block with predictions of the own terms and the effects of their periods."""
        if not has_period_effects(own):
            return self
        each = zip(self.own, self.sections, self.pool, strict=True)
        return replace(self, offset=[term + of_period(own, section, pool) for term, section, pool in each])

    def residuals(self, loss: Loss, *, outcomes: bool) -> list[Section]:
        """Return cross-sections whose targets are what is left to explain, and whose peers show what their own models leave."""
        found = []
        for section, offset, own, pool in zip(self.sections, self.offset, self.own, self.pool, strict=True):
            assert section.focal.y is not None
            focal = replace(section.focal, y=working_residual(loss, offset, section.focal.y))
            peers = peers_shown(section.peers, pool, loss, outcomes)
            found.append(replace(section, focal=focal, peers=peers, own=(own[:, 0], pool[:, 0])))
        return found

    def at_own(self) -> Block:
        """Return the block before any part was added."""
        return replace(self, offset=self.own)

    def plus(self, additions: Sequence[np.ndarray], factor: float) -> Block:
        """Return the block with a part's additions in its predictions."""
        moved = [o + factor * a for o, a in zip(self.offset, additions, strict=True)]
        return replace(self, offset=moved)


def peers_shown(peers: Rows, pool: np.ndarray, loss: Loss, outcomes: bool) -> Rows:
    """Return peers as parts see them: their outcomes, where they are read, beyond their own models."""
    y = shown(loss, pool, peers.y) if outcomes and peers.y is not None else None
    return replace(peers, y=y)


@dataclass(frozen=True)
class _Learned:
    """The focal rows of this process one after another, their folds and periods, and the shrinkage that the folds chose."""

    rows: Rows
    fold: np.ndarray
    period: np.ndarray
    settings: OwnSettings
    shrinkage: tuple[Shrinkage, Shrinkage]

    @classmethod
    def of(cls, sections: Sequence[Section], folds: Sequence[np.ndarray], settings: OwnSettings) -> _Learned:
        here = [k for k, section in enumerate(sections) if section.here]
        rows, fold = stacked_rows([sections[k] for k in here]), np.concatenate([folds[k] for k in here])
        period = np.repeat(here, [len(folds[k]) for k in here])
        return cls(rows, fold, period, settings, best_shrinkage(rows, fold, settings, period))

    def fit(self, at: np.ndarray | slice = slice(None)) -> Own:
        """Fit the own model to these rows."""
        return fit_own(self.rows.take(at), self.settings, self.shrinkage, self.period[at])


def fit_chosen(sections: Sequence[Section], settings: OwnSettings) -> Own:
    """Fit the own model with the shrinkage that held-out folds choose."""
    return _Learned.of(sections, folds_of(sections), settings).fit()


def cross_fit(sections: Sequence[Section], settings: OwnSettings) -> tuple[Own, Block]:
    """Fit the own model; return it with the out-of-fold terms of all rows (Chernozhukov et al. 2018).

    In sample a flexible own model leaves too little, and what is left out of sample would be mistaken for peers.
    """
    here, folds = [section.here for section in sections], folds_of(sections)
    learned = _Learned.of(sections, folds, settings)
    own = learned.fit()
    block, every = Block.of(own, sections), distinct(learned.fold)
    if len(every) == 1 or _is_constant(settings.own):
        return own, block
    for f in every:
        without = learned.fit(learned.fold != f)
        for k, section in enumerate(sections):
            if not section.here:
                continue
            at, mine = folds[k] == f, _peers_in_fold(section, folds[k], f)
            if at.any():
                block.own[k][at] = without.predict(section.focal.take(at))
            if mine.any():
                block.pool[k][mine] = without.predict(section.peers.take(mine))
    term, pool = (
        completed([each if mine else None for each, mine in zip(part, here, strict=True)])
        for part in (block.own, block.pool)
    )
    return own, Block(block.sections, term, term, pool).from_effects(own)


def _is_constant(own: Any) -> bool:
    return isinstance(own, str) and own == "none"


def _peers_in_fold(section: Section, fold: np.ndarray, f: int) -> np.ndarray:
    """Return which peers are held out with this fold: those of the period; on arrays those of the same row."""
    if (fold == fold[0]).all():
        return np.full(len(section.peers), fold[0] == f)
    return fold == f if same_rows(section) else np.zeros(len(section.peers), dtype=bool)


def same_rows(section: Section) -> bool:
    """Tell whether focal rows and peers are the same rows in the same order, as on arrays."""
    return len(section.peers) == len(section.focal) and np.shares_memory(section.peers.x, section.focal.x)
