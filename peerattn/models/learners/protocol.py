"""What a learner of the stack is: a protocol that a peer model of the user's own can follow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch
from sklearn.base import clone

from peerattn.exceptions import InputError, expect
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.training import Training

OfRows = Callable[[slice], np.ndarray]  # gives (n_rows, n_peers) for some focal rows
PROBED = 5  # firms whose own outcome is changed, to check that it is not used in their prediction


@runtime_checkable
class Learner(Protocol):
    r"""A model of what least squares leaves of outcomes, fitted to cross-sections.

    A cross-section holds ``focal`` rows (the firms that are predicted) and ``peers`` (their candidate peers), each with
    characteristics ``x`` (n, p), ``codes`` (n, c), firm ``label`` and outcomes ``y``: residuals of least squares in units of
    the outcome's standard deviation. ``section.admissible()`` (n_focal, n_peers) is True where a peer is another firm.

    ``fit(sections)`` learns from ``focal.y``; ``predict(sections)`` returns what is added to least squares for the focal rows
    of each cross-section, (n_focal,) each, and never uses the own outcome (``focal.y`` is None then; in a nowcast ``peers.y``
    holds those of the others *and* the own one, which ``admissible`` leaves out, NaN where unknown; in a forecast it is None);
    ``weights(section, rows)`` returns the weights of these focal rows on all peers, (n_rows, n_peers), or None for a learner
    without a network.

    Examples
    --------
    >>> class MeanOfOthers:
    ...     def fit(self, sections):
    ...         return self
    ...     def predict(self, sections):
    ...         return [self.weights(s, slice(None)) @ np.nan_to_num(s.peers.y) for s in sections]
    ...     def weights(self, section, rows):
    ...         may = section.admissible(rows).astype(float)
    ...         return may / may.sum(axis=1, keepdims=True).clip(1)
    >>> isinstance(MeanOfOthers(), Learner)
    True
    """

    def fit(self, sections: Sequence[CrossSection]) -> Self:
        """Learn from the focal rows of cross-sections."""

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return what is added to least squares for the focal rows of each cross-section, (n_focal,)."""

    def weights(self, section: CrossSection, rows: slice) -> np.ndarray | None:
        """Return the weights of these focal rows on all peers, (n_rows, n_peers)."""


class Part(Protocol):
    """A fitted model of the stack."""

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of cross-sections as candidates see them, (n_focal, K) each; NaN: none."""


@runtime_checkable
class PeerPart(Protocol):
    """A fitted model of the stack that uses peers: it predicts in the precision of a dtype, and has a network."""

    def predict(self, sections: Sequence[CrossSection], dtype: torch.dtype = torch.float64) -> list[np.ndarray]:
        """Return the prediction of every focal row of cross-sections as candidates see them, (n_focal, K) each."""

    def derivative(self, section: CrossSection) -> OfRows:
        """Return what gives the derivative of predictions by the peers' outcomes for some focal rows, (n_rows, n_peers)."""


@dataclass(frozen=True)
class Added:
    """A fitted learner of the user's, as a part of the stack: least squares, and what the learner adds.

    What is common to a period is added to the stack so far, whatever that is: there the learner's term comes without least
    squares (``only_term``).
    """

    name: str
    learner: Learner
    only_term: bool = False

    def predict(self, sections: Sequence[CrossSection], dtype: torch.dtype = torch.float64) -> list[np.ndarray]:
        """Return the prediction of every focal row, (n_focal, 1) for each cross-section."""
        # the own outcome is taken away before a learner sees the rows
        found = self.learner.predict([section.unknown() for section in sections])
        expect(len(found) == len(sections), "learners", f"{len(sections)} arrays of {self.name!r}, one a section", len(found))
        predicted = []
        for section, each in zip(sections, found, strict=True):
            added = np.asarray(each, dtype=float)
            n = len(section.focal)
            expect(added.shape == (n,), "learners", f"a number of {self.name!r} for each focal row, shape ({n},)", added.shape)
            unknown = int((~np.isfinite(added)).sum())
            remedy = "peers.y is NaN where an outcome is unknown."
            expect(not unknown, "learners", f"finite numbers of {self.name!r}", f"{unknown} of {n} not finite", remedy)
            if self.only_term:
                predicted.append(added[:, None])
            else:
                predicted.append(section.own_term + added[:, None])
        return predicted


@dataclass(frozen=True)
class AddedByPeers(Added):
    """The same for a learner that uses peers: it has weights, the derivative by their outcomes."""

    def derivative(self, section: CrossSection) -> OfRows:
        """Return what gives the weights of focal rows, (n_rows, n_peers)."""

        def weights(rows: slice) -> np.ndarray:
            found = self.learner.weights(section.unknown(), rows)
            if found is None:
                return np.zeros((rows.stop - rows.start, len(section.peers)))
            return np.asarray(found, dtype=float)

        return weights


def fit_added(training: Training, name: str, learner: Learner, *, peers: bool, common: bool) -> Added:
    """Fit a copy of a learner to what least squares leaves of the training rows.

    Raises
    ------
    InputError
        When a firm's own outcome is used in its own prediction.
    """
    fitted = clone(learner, safe=False)
    fitted.fit(training.residuals)
    part = Added(name, fitted, only_term=common)
    if peers:
        part = AddedByPeers(name, fitted)
    _check_own_outcome(part, training.residuals[-1])
    return part


def _check_own_outcome(part: Added, section: CrossSection) -> None:
    """Raise where a changed own outcome changes the prediction of its own firm."""
    if section.peers.y is None or section.period is None:
        return
    before = part.predict([section])[0]
    for k in range(min(PROBED, len(section.focal))):
        own = section.peers.identity == section.focal.identity[k]
        changed = replace(section.peers, y=np.where(own, section.peers.y + 1.0, section.peers.y))
        if part.predict([replace(section, peers=changed)])[0][k, 0] != before[k, 0]:
            raise InputError(f"learners: {part.name!r} uses a firm's own outcome to predict it. See section.admissible().")
