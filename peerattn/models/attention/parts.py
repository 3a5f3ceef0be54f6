"""What is learned of peers beyond the own model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from peerattn.models.pools import Section

COVARIANCE, RIDGE, HEADS = "covariance", "ridge", "heads"  # names of the parts


class Part(Protocol):
    """A learned covariance, or heads: linear in what it adds, and a network."""

    def additions(self, sections: Sequence[Section]) -> list[np.ndarray]:
        """Return what the part adds to every focal row of each cross-section, (n_focal, K)."""

    def weights(self, section: Section, rows: slice) -> np.ndarray:
        """Return the weights that these focal rows put on all peers, (n_rows, n_peers)."""

    def derivative(self, section: Section) -> Callable[[slice], np.ndarray]:
        """Return what gives, for focal rows, the derivative of their additions by what the peers show: signed weights."""


@dataclass(frozen=True)
class Candidate:
    """A part that is tried: how it is fitted to cross-sections, the number saying which of several starts.

    One that ``replaces`` what stands before it is fitted to all that the own model leaves, not to what other parts leave, and
    takes their place by its factor.
    """

    name: str
    fit: Callable[[Sequence[Section], int], Part]
    replaces: bool = False
