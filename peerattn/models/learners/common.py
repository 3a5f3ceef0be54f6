"""What the firms of a period have in common, where outcomes are observed: the period, and each code within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from peerattn.models.cross_section import CrossSection, means_of_others
from peerattn.models.learners.training import Training


@dataclass(frozen=True)
class Common:
    r"""A candidate that adds other firms' mean residual from own characteristics and history: of all, or of one code.

    A code's mean is what it has beyond all firms', shrunk by ``n / (n + λ)`` with n other firms known and
    :math:`\lambda = \sigma^2_{within} / \sigma^2_{between}`. The own outcome is left out, by identity.
    """

    code: int | None
    shrink: float = 0.0

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return what is added to every focal row of cross-sections as peers are learned from, (n_focal, 1)."""
        return [self._section(section)[:, None] for section in sections]

    def _section(self, section: CrossSection) -> np.ndarray:
        peers = section.peers.take(section.known_peers())

        def of_others(mine: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            identity = section.focal.identity
            return means_of_others(mine, identity, theirs, peers.identity, peers.outcomes, peers.weight)

        period, _ = of_others(np.zeros(len(section.focal), dtype=int), np.zeros(len(peers), dtype=int))
        if self.code is None:
            return period
        level = section.focal.codes[:, self.code]
        mean, n = of_others(level, peers.codes[:, self.code])
        return period + np.where(level > 0, (mean - period) * n / np.maximum(n + self.shrink, 1e-12), 0.0)


def fit_common(training: Training, code: int | None) -> Common | None:
    """Estimate how much firms of one code have in common; None where they have nothing."""
    if code is None:
        return Common(None)
    cells = []
    for section in training.residuals:
        y = section.focal.y
        level = section.focal.codes[:, code]
        if y is not None and (level > 0).any():
            at = pd.factorize(level[level > 0])[0]
            deviation = (y - y.mean())[level > 0]
            n = np.bincount(at)
            mean = np.bincount(at, deviation) / n
            squares = np.bincount(at, deviation**2)
            # of the squared mean of a cell: how much of the variance between cells it holds, and of that within them
            between = 1 - 2 * n / len(y) + (n**2).sum() / len(y) ** 2
            within = 1 / n - 1 / len(y)
            cells.append(np.stack([mean**2, n - 1, squares - n * mean**2, between, within], axis=1))
    if not cells:
        return None
    mean_squared, free, inside, between_share, within_share = np.concatenate(cells).sum(axis=0).tolist()
    within_cells = inside / max(free, 1)
    between_cells = (mean_squared - within_cells * within_share) / max(between_share, 1e-12)
    if between_cells <= 0:
        return None
    return Common(code, within_cells / between_cells)
