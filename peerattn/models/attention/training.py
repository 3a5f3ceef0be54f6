"""What a candidate is fitted to: cross-sections, what own lines leave of them, and what is known of the firms' past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from peerattn.models.attention.history import History
from peerattn.models.attention.lines import Lines, as_seen, fit_lines, largest_residual
from peerattn.models.attention.losses import Loss, squared_error
from peerattn.models.pools import Section


@dataclass(frozen=True, eq=False)
class Problem:
    """The loss of a row, its number of outputs, levels of each code, whether outcomes are shown, periods, purge.

    Peers are learned and judged in ``dtype``; the predictions of a fitted model are in float64.
    """

    loss: Loss
    n_outputs: int
    code_levels: tuple[int, ...]
    outcomes: bool
    dated: bool
    purge: int = 0
    own: bool = True  # False: no own model, predictions start from zero
    dtype: torch.dtype = torch.float64
    reads_past: bool = True  # False: outcomes of a reference carry no dates, so that none is surely past


@dataclass(frozen=True)
class View:
    """How a fitted model sees a cross-section: own lines, the bound of a shown outcome, the firms' past."""

    lines: Lines
    limit: float
    history: History

    def seen(self, section: Section, loss: Loss = squared_error, outcomes: bool = True) -> Section:
        """Return a cross-section as peers are learned from."""
        return as_seen(section, self.lines, loss, outcomes, self.limit)


@dataclass(frozen=True, eq=False)
class Training:
    """Training cross-sections with own lines fitted to them."""

    sections: Sequence[Section]
    problem: Problem
    lines: Lines
    limit: float

    @classmethod
    def of(cls, sections: Sequence[Section], problem: Problem) -> Training:
        """Fit own lines to cross-sections."""
        lines = fit_lines(sections, problem.loss, problem.n_outputs, none=not problem.own)
        return cls(sections, problem, lines, largest_residual(sections, lines, problem.loss))

    @property
    def loss(self) -> Loss:
        """Loss of a row."""
        return self.problem.loss

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.problem.n_outputs

    @property
    def code_levels(self) -> tuple[int, ...]:
        """Number of levels of each code."""
        return self.problem.code_levels

    def seen(self, sections: Sequence[Section]) -> list[Section]:
        """Return cross-sections as peers are learned from."""
        return [as_seen(s, self.lines, self.loss, self.problem.outcomes, self.limit) for s in sections]

    @cached_property
    def residuals(self) -> list[Section]:
        """The training cross-sections as peers are learned from."""
        return self.seen(self.sections)

    @cached_property
    def history(self) -> History:
        """What own lines leave of the firms' outcomes, by period."""
        return History.of(self.residuals)

    @property
    def view(self) -> View:
        """What a fitted covariance keeps."""
        return View(self.lines, self.limit, self.history)
