"""Forward origins: cross-sections to learn from, and later ones to test on, placed by how much they know."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peerattn.models.cross_section import CrossSection, count_rows, known_before
from peerattn.models.learners.training import FEW_ROWS

SHARES = (2 / 3, 5 / 6)  # of the known outcomes come before an origin: what is tested resembles the final fit
FOLDS = 3  # of one cross-section


@dataclass(frozen=True)
class Origin:
    """Cross-sections to learn from, and others to test on: later ones (``forward``), or a fold of the one that there is."""

    training: list[CrossSection]
    held_out: list[CrossSection]
    forward: bool = True


def outcomes_of(sections: Sequence[CrossSection]) -> tuple[np.ndarray, np.ndarray]:
    """Return the outcomes of the focal rows of all cross-sections and their weights in the loss, one after another."""
    rows = [section.focal for section in sections]
    return np.concatenate([r.y for r in rows]), np.concatenate([r.loss_weights for r in rows])


def share_learned(origins: Sequence[Origin], sections: Sequence[CrossSection]) -> float:
    """Return the share of all rows that origins learn from, the average over what they test; 1 without any."""
    if not origins:
        return 1.0
    n = [(count_rows(origin.training), count_rows(origin.held_out)) for origin in origins]
    return sum(learned * held_out for learned, held_out in n) / sum(m for _, m in n) / count_rows(sections)


def forward_origins(sections: Sequence[CrossSection], purge: int) -> list[Origin]:
    """Return forward-chained origins nearest to two thirds and five sixths of the rows; of one cross-section, folds.

    A period of nearly all rows is one cross-section, whatever stray rows come before or after it.

    Parameters
    ----------
    sections : sequence of CrossSection
        In order of time.
    purge : int
        Periods before an origin that are not learned from, because their outcomes were not yet known.
    """
    if count_rows(sections) < FEW_ROWS:
        return []
    if len(sections) == 1:
        return _folds(sections[0])
    known = np.cumsum([len(section.focal) for section in sections]) / sum(len(s.focal) for s in sections)
    edges = np.unique([*(1 + int(np.abs(known[:-1] - share).argmin()) for share in SHARES), len(sections)])
    found = []
    for start, stop in zip(edges, edges[1:], strict=False):
        training = known_before(sections, start, purge)
        if training and count_rows(training) >= FEW_ROWS / 2:
            found.append(Origin(training, list(sections[start:stop])))
    if sum(count_rows(origin.held_out) for origin in found) >= FEW_ROWS / 4:  # a third of them, whole periods
        return found
    # all but a few stray rows may be of one period
    largest = max(sections, key=lambda section: len(section.focal))
    if count_rows([largest]) > count_rows(sections) / 2:
        return _folds(largest)
    return []


def _folds(section: CrossSection) -> list[Origin]:
    fold = section.focal.checksums() % FOLDS
    if len(np.unique(fold)) < FOLDS:
        return []
    parts = [section.split(fold == f) for f in range(FOLDS)]
    return [Origin([learned], [held_out], forward=False) for learned, held_out in parts]
