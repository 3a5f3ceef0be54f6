"""Candidates that read peers: a learned covariance, the ridge across firms, and heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from peerattn.models.attention.covariance import Covariance
from peerattn.models.attention.covariance_fit import fit_covariance
from peerattn.models.attention.head_starts import HeadStarts
from peerattn.models.attention.heads import Settings, contribution_spreads
from peerattn.models.attention.judging import PEERS, Candidate, Helps
from peerattn.models.attention.lines import Lines
from peerattn.models.attention.losses import squared_error
from peerattn.models.attention.members import Heads, Member
from peerattn.models.attention.origins import outcomes_of
from peerattn.models.attention.peer_module import PeerModule, PeerSpec
from peerattn.models.attention.ridge_covariance import fit_ridge_covariance
from peerattn.models.attention.search import TOGETHER, Found, find_heads, refit_heads
from peerattn.models.attention.stack import loss_of
from peerattn.models.attention.training import Training
from peerattn.models.pools import Section

COVARIANCE, RIDGE, HEADS = "covariance", "ridge", "heads"
MOST_STEP = 16.0  # times what heads add, where the loss is not the squared error


@dataclass(frozen=True)
class Peers:
    """``ols_i`` and what a covariance adds."""

    lines: Lines
    part: Covariance

    def predict(self, sections: Sequence[Section], dtype: torch.dtype = torch.float64) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, K)."""
        added = self.part.additions(sections, dtype)
        return [own + a for own, a in zip(self.lines.of(sections), added, strict=True)]

    def derivative(self, section: Section) -> Callable[[slice], np.ndarray]:
        """Return what gives the derivative of predictions by the peers' outcomes: signed weights."""
        return self.part.derivative(section)


def covariance_candidates(settings: Settings, seed: int) -> list[Candidate]:
    """Return the learned covariance, and the ridge across firms as one."""

    def covariance(training: Training, start: Peers | None, helps: Helps) -> Peers:
        problem = training.problem
        past = training.history if problem.dated and problem.reads_past else None
        begin = None if start is None else start.part
        options: dict[str, Any] = {"seed": seed, "dtype": settings.dtype, "device": settings.device}
        return Peers(training.lines, fit_covariance(training.residuals, past=past, start=begin, **options))

    def ridge(training: Training, start: Peers | None, helps: Helps) -> Peers:
        return Peers(training.lines, fit_ridge_covariance(training.residuals, training.code_levels))

    return [Candidate(COVARIANCE, PEERS, covariance), Candidate(RIDGE, PEERS, ridge)]


def heads_candidate(spec: PeerSpec, settings: Settings, seed: int) -> Candidate:
    """Return softmax heads: the mean of the best starts, and where these help, all heads together."""

    def heads(training: Training, start: HeadStarts | None, helps: Helps) -> HeadStarts:
        earlier = () if start is None else start.names
        starts = list[HeadStarts]()

        def worth(found: Found) -> bool:
            starts.append(of_names(training, found))
            return TOGETHER in earlier or helps(starts[0])

        warm = [] if start is None else start.modules()
        found = find_heads(spec, training.residuals, settings, seed, warm, worth)
        return of_names(training, found) if TOGETHER in found else starts[0]

    def of_names(training: Training, found: Found) -> HeadStarts:
        names, modules = zip(*((name, m) for name, of in found.items() for m in of), strict=True)
        return fitted(training, modules, names)

    def refit(training: Training, start: HeadStarts) -> HeadStarts:
        """Fit heads that entered to all periods from where they stood: what was judged is what is reported."""
        modules = start.modules()
        refit_heads(modules, training.residuals, settings, seed)
        again = fitted(training, modules, start.names)
        return replace(again, part=replace(again.part, mix=start.part.mix))

    def fitted(training: Training, modules: Sequence[PeerModule], names: tuple[str, ...]) -> HeadStarts:
        members = tuple(map(Member.of, modules, contribution_spreads(modules, training.residuals, settings)))
        part = Heads(members, settings.terms, (1 / len(members),) * len(members))
        return HeadStarts(training.lines, part, names, step_lengths(training, part))

    return Candidate(HEADS, PEERS, heads, refit)


def step_lengths(training: Training, part: Heads) -> tuple[float, ...]:
    """Return for each start the multiple of its additions of least loss (Friedman 2001); 1 where that is the squared error."""
    if training.loss is squared_error:
        return (1.0,) * len(part.members)
    base = np.concatenate(training.lines.of(training.sections))
    y, weight = outcomes_of(training.sections)

    def length(added: np.ndarray) -> float:
        loss = lambda c: float(loss_of(training.loss, base + c * added, y) @ weight)  # noqa: E731
        return float(minimize_scalar(loss, bounds=(0.0, MOST_STEP), method="bounded").x)

    return tuple(map(length, np.concatenate(part.by_start(training.residuals), axis=1)))
