"""What the firms of a period have in common, where outcomes are shown: the period, and each code within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from peerattn.models.attention.training import Training
from peerattn.models.pools import NOBODY, Rows, Section


@dataclass(frozen=True)
class Common:
    r"""A candidate that adds the mean of what own lines leave of other firms' outcomes: of all, or of those of one code.

    A code's mean is what it has beyond all firms', shrunk by ``n / (n + λ)`` with n other firms known and
    :math:`\lambda = \sigma^2_{within} / \sigma^2_{between}`. The own outcome is left out, by identity.
    """

    code: int | None
    shrink: float = 0.0
    adds = True

    def predict(self, sections: Sequence[Section]) -> list[np.ndarray]:
        """Return what is added to every focal row of cross-sections as peers are learned from, (n_focal, 1)."""
        return [self._section(section)[:, None] for section in sections]

    def _section(self, section: Section) -> np.ndarray:
        peers, y = known_peers(section)
        everyone = np.zeros(len(section.focal), dtype=int), np.zeros(len(peers), dtype=int)
        period, _ = mean_of_others(section.focal, peers, y, *everyone)
        if self.code is None:
            return period
        groups = section.focal.codes[:, self.code], peers.codes[:, self.code]
        mean, n = mean_of_others(section.focal, peers, y, *groups)
        return period + np.where(groups[0] > 0, (mean - period) * n / np.maximum(n + self.shrink, 1e-12), 0.0)


def fit_common(training: Training, code: int | None) -> Common | None:
    """Estimate how much firms of one code have in common; None where they have nothing."""
    if code is None:
        return Common(None)
    cells = []
    for section in training.residuals:
        y, level = section.focal.y, section.focal.codes[:, code]
        if y is not None and len(y):
            at, deviation = pd.factorize(level[level > 0])[0], (y - y.mean())[level > 0]
            ones = np.ones(len(at))
            cells.append(np.stack([np.bincount(at, v) for v in (deviation, ones, deviation**2)], axis=1))
    table = np.concatenate(cells) if cells else np.zeros((0, 3))
    total, n, squares = table.T if len(table) else (np.zeros(0),) * 3
    within = float((squares - total**2 / np.maximum(n, 1)).sum() / max((n - 1).sum(), 1))
    between = (
        float(((total / np.maximum(n, 1)) ** 2).mean() - (within / np.maximum(n, 1)).mean()) if len(n) else 0
    )
    return Common(code, within / between) if between > 0 else None


def known_peers(section: Section) -> tuple[Rows, np.ndarray]:
    """Return the peers whose outcome is shown, and what own lines leave of it."""
    assert section.peers.y is not None
    known = np.isfinite(section.peers.y)
    known = known if section.answering is None else known & section.answering
    peers = section.peers.take(known)
    assert peers.y is not None
    return peers, peers.y


def mean_of_others(
    focal: Rows, peers: Rows, y: np.ndarray, mine: np.ndarray, theirs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean of the outcomes of each focal row's group, own identity left out, and its weight, (n_focal,).

    Zero where there is no other. Sums of others are sums of all less the own ones; outcomes are bounded, so that none is lost.
    """
    weight = np.ones(len(y)) if peers.weight is None else peers.weight
    size = int(max(mine.max(initial=0), theirs.max(initial=0))) + 1
    total, count = (np.bincount(theirs, weight * v, size)[mine] for v in (y, np.ones(len(y))))
    own = (
        pd.DataFrame({"who": peers.identity, "group": theirs, "y": weight * y, "n": weight})
        .groupby(["who", "group"])
        .sum()
    )
    keys = pd.MultiIndex.from_arrays([focal.identity, mine])
    left_out = own.reindex(keys).fillna(0.0).to_numpy(copy=True)
    left_out[focal.identity == NOBODY] = 0.0
    total, count = total - left_out[:, 0], count - left_out[:, 1]
    some = count > 1e-9
    return np.where(some, total / np.where(some, count, 1.0), 0.0), np.where(some, count, 0.0)
