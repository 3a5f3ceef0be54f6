"""Portfolios learned for their Sharpe ratio: what attention adds out of sample, all else equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV

from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.linear import by_section, stacked_rows
from peerattn.models.learners.training import Problem, Training
from peerattn.models.learners.transformer import TransformerLearner
from peerattn.models.ridge import ALPHAS
from peerattn.models.stacking.origins import forward_origins

LINEAR = "linear"


def portfolio_table(
    sections: Sequence[CrossSection], problem: Problem, learners: Mapping[str, TransformerLearner]
) -> pd.DataFrame:
    """Return the Sharpe ratio on held-out later periods of the portfolios of learners, and of a linear one.

    Each is fitted before each forward origin and held until the next.

    Returns
    -------
    DataFrame
        One row a portfolio; columns sharpe (mean over standard deviation of the returns of a period, not annualised),
        t (of the mean) and periods.
    """
    returns: dict[str, list[float]] = {name: [] for name in (*learners, LINEAR)}
    for origin in forward_origins(sections, problem.purge, problem.dated):
        training = Training.of(origin.training, problem)
        later = training.prepared(origin.held_out)
        slopes = linear_portfolio(training.residuals)
        found = {LINEAR: [_with_constant(section.focal) @ slopes[:, None] for section in later]}
        for name, learner in learners.items():
            found[name] = replace(learner).fit(training.residuals).predict(later)
        for name, weights in found.items():
            returns[name] += [_return(each[:, 0], section.focal) for each, section in zip(weights, later, strict=True)]
    rows = {}
    for name, earned in returns.items():
        series = np.array(earned)
        sharpe = np.nan
        if len(series) > 1 and series.std() > 0:
            sharpe = float(series.mean() / series.std(ddof=1))
        rows[name] = {"sharpe": sharpe, "t": sharpe * np.sqrt(len(series)), "periods": len(series)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("portfolio")


def linear_portfolio(sections: Sequence[CrossSection]) -> np.ndarray:
    """Return slopes of portfolio weights on characteristics: the regression of 1 on the factors' returns, by ridge.

    Factors are the means of characteristic times return; the penalty has the least leave-one-out error over periods.
    """
    factors = by_section(_with_constant(stacked_rows(sections)), sections)
    pairs = zip(factors, sections, strict=True)
    F = np.stack([z.T @ s.focal.y / len(z) for z, s in pairs if s.focal.y is not None])
    # penalties in units of the factors' variance
    alphas = 1e-3 * np.array(ALPHAS) * np.square(F).sum() / F.shape[1]
    return np.asarray(RidgeCV(alphas, fit_intercept=False).fit(F, np.ones(len(F))).coef_)


def _with_constant(rows: Rows) -> np.ndarray:
    return np.column_stack([rows.x, np.ones(len(rows))])


def _return(weights: np.ndarray, rows: Rows) -> float:
    """Return the mean over firms of weight times return."""
    return float(weights @ rows.outcomes / len(rows))
