"""What is the own firm's within periods: slopes that common shocks do not move, and history subtracted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from peerattn.models.cross_section import CrossSection, group_sums, section_numbers
from peerattn.models.learners.linear import Lines, least_squares, stacked_rows
from peerattn.models.learners.training import Training
from peerattn.models.learners.variance_components import common_variance, net_of_common

LINES = "lines"  # what tables call them
BACK = ", subtracted within periods"


@dataclass(frozen=True)
class WithinLines:
    r"""A candidate that adds ``δ'(z_i − z̄_t)`` to what own characteristics and history predict, z̄ the mean of the period's firms.

    δ is by how much slopes of generalised least squares with random effects of periods (Wallace and Hussain 1969) differ from
    those of least squares, which a few periods' shocks move wherever characteristics move together. Heads are learned beside
    such slopes, and others' outcomes reveal them: without this candidate what they predict would count as the peers'.
    """

    lines: Lines  # of slope δ

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return what is added to every focal row of each cross-section, (n_focal, 1)."""
        return [self.lines.predict(s.focal) - self.lines.predict(s.peers).mean(axis=0) for s in sections]


def fit_within_lines(training: Training) -> WithinLines | None:
    r"""Fit slopes to the focal rows' residuals of the linear own part; None without characteristics, or variance between periods.

    A share :math:`\theta_t = 1 - (1 + n_t \tau)^{-1/2}` of the period's mean is taken out of all columns, τ the variance between
    periods over that of a row.
    """
    lines = training.lines
    rows = stacked_rows(training.residuals)
    tau = common_variance(training.residuals)
    if tau == 0 or not rows.x.shape[1]:
        return None
    columns = np.column_stack([np.ones(len(rows)), (rows.x - lines.center) / lines.spread, rows.outcomes])
    net = net_of_common(columns, rows.loss_weights, section_numbers(training.residuals), tau)
    slope = least_squares(net[:, :-1], net[:, -1], rows.loss_weights)[1:, None]
    return WithinLines(replace(lines, slope=slope, intercept=np.zeros(1)))


def reversal_within(before: np.ndarray, after: np.ndarray, period: np.ndarray) -> np.ndarray:
    """Return what takes back the differences within periods that a step of predictions added, (n, K).

    Boosting with a firm's past may be selected for the level of a period that it knows; the noise of its differences comes with
    it, and peers would be selected by subtracting that.
    """
    added = after - before
    mean = group_sums(added, period) / np.maximum(np.bincount(period), 1)[:, None]
    return np.asarray(mean[period] - added)
