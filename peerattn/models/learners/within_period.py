"""Slopes within periods, which neither common shocks nor turbulent periods move."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from peerattn.models.cross_section import CrossSection, section_numbers
from peerattn.models.learners.linear import Lines, least_squares, stacked_rows
from peerattn.models.learners.training import Training
from peerattn.models.learners.variance_components import common_variance, net_of_common, precision_of_periods

SLOPES = "slopes"  # what tables call them


@dataclass(frozen=True)
class SlopesWithin:
    r"""Own characteristics (linear) with other slopes, ``ols_i + δ'z_i``; the stack reads its differences within periods.

    δ is by how much slopes of generalised least squares with random effects of periods (Wallace and Hussain 1969), whose noise
    has a variance of its own in each period, differ from those of least squares, which a few periods move wherever
    characteristics move together. Heads are learned beside such slopes, and others' outcomes reveal them: without this
    candidate what they predict would count as the peers'. Added are δ alone, or all of it instead of what own models predict
    within periods: these may be selected for the level of a period that they know, and peers would be selected by taking off
    the noise of their differences.
    """

    lines: Lines  # of slope δ

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, 1)."""
        return [section.own_term + self.lines.predict(section.focal) for section in sections]


def fit_slopes_within(training: Training) -> SlopesWithin | None:
    r"""Fit slopes to the focal rows' residuals of the linear own part; None without characteristics.

    Rows are weighted by the inverse of their period's variance, and a share :math:`\theta_t = 1 - (1 + n_t \tau_t)^{-1/2}` of the
    period's mean is taken out of all columns, τ the variance between periods over that of a row.
    """
    lines = training.lines
    rows = stacked_rows(training.residuals)
    if not rows.x.shape[1]:
        return None
    period = section_numbers(training.residuals)
    weight = rows.loss_weights * precision_of_periods(rows.outcomes, period)
    tau = common_variance(training.residuals)
    columns = np.column_stack([np.ones(len(rows)), (rows.x - lines.center) / lines.spread, rows.outcomes])
    net = net_of_common(columns, weight, period, tau)
    slope = least_squares(net[:, :-1], net[:, -1], weight)[1:, None]
    return SlopesWithin(replace(lines, slope=slope, intercept=np.zeros(1)))
