"""Firm history: what a firm's own past outcomes predict, so that it does not pass for what its peers predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.linear import by_section, stacked_rows
from peerattn.models.learners.nonlinear import Estimated, fit_trees
from peerattn.models.learners.training import FEW_ROWS, Training
from peerattn.models.learners.variance_components import variance_components


@dataclass(frozen=True)
class OwnHistory:
    r"""A candidate that reads the firm's own past outcomes, known by then; a firm without a past has no prediction.

    ``ols_i + \bar r_i n_i / (n_i + λ)``: an empirical-Bayes firm effect of the past residuals of the linear own part (n of them,
    :math:`\lambda = \sigma^2_{within} / \sigma^2_{between}`; Efron and Morris 1975); or ``ols_i + b r_{i,last}``, an
    autoregression, whose last residual counts as its 1st or 99th percentile in training where it lies beyond (as
    characteristics of curves do); or, with ``trees``, gradient boosting on characteristics, codes and these.
    """

    shrink: float  # λ; infinite where firms do not differ
    slope: np.ndarray  # (2,) of the effect and of the last residual
    bounds: tuple[float, float] = (-np.inf, np.inf)  # of the last residual
    trees: Estimated | None = None

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, 1); NaN without a past."""
        columns, known = past_columns(sections, self.shrink)
        if self.trees is not None:
            found = self.trees.of(stacked_rows(sections), columns)
        else:
            own = self.slope[0] * columns[:, 0] + self.slope[1] * columns[:, 1].clip(*self.bounds)
            found = np.concatenate([section.own_term for section in sections]) + own[:, None]
        return by_section(np.where(known[:, None], found, np.nan), sections)


def past_columns(sections: Sequence[CrossSection], shrink: float) -> tuple[np.ndarray, np.ndarray]:
    """Return each focal firm's effect, last residual and number of past ones, (n, 3), and who has a past."""
    # most often all see one table, of which each reads what lies before it; with dates of knowledge each has its own
    of_tables = (list(group) for _, group in groupby(sections, key=lambda section: id(section.past)))
    found = [group[0].past.own_past(group) for group in of_tables]
    last, mean, n = (np.concatenate(column) for column in zip(*found, strict=True))
    effect = mean * n / np.maximum(n + shrink, 1e-12)  # zero where λ is infinite
    return np.column_stack([effect, last, n]), n > 0


def fit_history(training: Training, *, lag: bool, trees: bool = False) -> OwnHistory | None:
    """Fit a firm effect, with ``lag`` an autoregression, or trees on both; None without periods.

    With fewer than 50 training rows that have a past a firm effect is the mean of the past as it is (λ = 0), which the
    candidates' problem shrinks; nothing else can be fitted then.
    """
    if not (training.problem.dated and training.problem.reads_past):
        return None
    _, known = past_columns(training.residuals, 0.0)
    few = known.sum() < FEW_ROWS
    shrink = 0.0
    if not few:
        within, between = variance_components(training.history.table.to_numpy(float))
        shrink = within / between if between > 0 else np.inf
    if not (lag or trees) and np.isfinite(shrink):
        return OwnHistory(shrink, slope=np.array([1.0, 0.0]))
    if few or not (lag or trees):
        return None
    columns, _ = past_columns(training.residuals, shrink)
    if trees:
        return OwnHistory(shrink, slope=np.zeros(2), trees=fit_trees(training, columns))
    y = np.concatenate([section.focal.y for section in training.residuals])[known]
    # few extreme outcomes would else determine the slope
    low, high = np.quantile(columns[known, 1], [0.01, 0.99])
    last = columns[known, 1].clip(low, high)
    slope = last @ y / max(float(last @ last), 1e-300)
    return OwnHistory(shrink, slope=np.array([0.0, slope]), bounds=(float(low), float(high)))
