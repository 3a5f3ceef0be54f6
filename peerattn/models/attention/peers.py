"""Candidates that read peers: a learned covariance, the ridge across firms, and heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from peerattn.models.attention.covariance import Covariance
from peerattn.models.attention.lines import Lines
from peerattn.models.attention.members import Heads
from peerattn.models.pools import Section

COVARIANCE, RIDGE, HEADS = "covariance", "ridge", "heads"


@dataclass(frozen=True)
class Peers:
    """``ols_i`` and what a part that reads peers adds; ``length`` is its step, 1 for squared errors (Friedman 2001)."""

    lines: Lines
    part: Covariance | Heads
    length: float = 1.0

    def predict(self, sections: Sequence[Section]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, K)."""
        added = self.part.additions(sections)
        return [self.lines.predict(s.focal) + self.length * a for s, a in zip(sections, added, strict=True)]

    def derivative(self, section: Section) -> Callable[[slice], np.ndarray]:
        """Return what gives the derivative of predictions by the peers' outcomes: signed weights."""
        return self.part.derivative(section)
