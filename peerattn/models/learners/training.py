"""What a candidate is fitted to: cross-sections, residuals of the linear own part, and what is known of the firms' past."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch

from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.linear import Lines, fit_lines, stacked_rows
from peerattn.models.learners.losses import Loss, observed, squared_error, working_residual
from peerattn.models.learners.past_outcomes import History, own_pasts
from peerattn.models.learners.priors import NO_TERMS, PairTerms

FEW_ROWS = 50  # known outcomes below which nothing is tested


@dataclass(frozen=True, eq=False)
class Problem:
    """The loss of a row, its number of outputs, levels of each code, whether outcomes are observed, periods, purge.

    Peers are learned and tested in ``dtype``, on ``device``; the predictions of a fitted model are in float64.
    """

    loss: Loss
    n_outputs: int
    code_levels: tuple[int, ...]
    outcomes: bool
    dated: bool
    purge: int = 0
    within: bool = False  # peers are weighed by differences within periods, and by what they add to the period's mean apart
    own: bool = True  # False: no own model, predictions start from zero
    dtype: torch.dtype = torch.float64
    reads_past: bool = True  # False: outcomes of a reference carry no dates, so that none is surely past
    weighed: bool = False  # rows have frequency weights
    terms: PairTerms = NO_TERMS  # what is known of pairs of firms beforehand
    device: str = "cpu"


@dataclass(frozen=True)
class View:
    """How a fitted model sees a cross-section: the linear own part, the bound of an observed outcome, the firms' past."""

    lines: Lines
    limit: float
    history: History

    def prepared(self, section: CrossSection, loss: Loss = squared_error, outcomes: bool = True) -> CrossSection:
        """Return a cross-section as candidates see it: residuals of the linear own part, observed outcomes bounded."""
        own = self.lines.predict(section.focal)
        pool = self.lines.predict(section.peers)
        focal = section.focal
        peers = replace(section.peers, y=None)
        if focal.y is not None:
            focal = replace(focal, y=working_residual(loss, own, focal.y))
        if outcomes and section.peers.y is not None:
            left = observed(loss, pool, section.peers.y)
            if left.ndim == 1:  # not of classes, which are bounded by themselves
                left = np.clip(left, -self.limit, self.limit)
            peers = replace(peers, y=left)
        return replace(section, focal=focal, peers=peers, own=(own, pool))


@dataclass(frozen=True, eq=False)
class Training:
    """Training cross-sections and their linear own part; an observed outcome counts by at most the largest training residual.

    ``final``: these are all there are, and what is fitted to them is kept; else they are those before an origin.
    """

    sections: Sequence[CrossSection]
    problem: Problem
    lines: Lines
    limit: float
    final: bool = False

    @classmethod
    def of(cls, sections: Sequence[CrossSection], problem: Problem, *, final: bool = False) -> Self:
        """Fit the linear own part to cross-sections."""
        lines = fit_lines(sections, problem.loss, problem.n_outputs, none=not problem.own)
        rows = stacked_rows(sections)
        left = observed(problem.loss, lines.predict(rows), rows.outcomes)
        return cls(sections, problem, lines, float(np.abs(left).max(initial=0.0)), final)

    def prepared(self, sections: Sequence[CrossSection]) -> list[CrossSection]:
        """Return cross-sections as candidates see them."""
        view = View(self.lines, self.limit, History.of([]))
        return [view.prepared(section, self.problem.loss, self.problem.outcomes) for section in sections]

    @cached_property
    def _prepared(self) -> list[CrossSection]:
        return self.prepared(self.sections)

    @cached_property
    def residuals(self) -> list[CrossSection]:
        """The training cross-sections as candidates see them, each with what is known of the firms' past by its period."""
        return self.history.informed(self._prepared)

    @cached_property
    def own_pasts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each training row's last residual known by its period, the mean of the past ones, and their number, (n,) each."""
        return own_pasts(self.residuals)

    @cached_property
    def with_outcomes(self) -> list[CrossSection]:
        """The training cross-sections as candidates see them, but with the outcomes of focal rows themselves."""
        pairs = zip(self.residuals, self.sections, strict=True)
        return [replace(mine, focal=replace(mine.focal, y=raw.focal.y)) for mine, raw in pairs]

    @cached_property
    def history(self) -> History:
        """Residuals of the firms' outcomes from the linear own part, by period."""
        return History.of(self._prepared, self.problem.purge)

    @property
    def view(self) -> View:
        """What a fitted model keeps: of the past what is known once all dates have passed."""
        return View(self.lines, self.limit, replace(self.history, dates=None))
