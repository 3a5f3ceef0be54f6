"""How far the own model departs from least squares: a ridge on its lines, and curves beside them, as held-out periods say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from peerattn.models.attention.clusters import (
    FEW_PERIODS,
    clustered_variance,
    firm_keys,
    sums_by,
    variance_of_sum,
)
from peerattn.models.attention.curves import Curves
from peerattn.models.attention.losses import squared_error
from peerattn.models.attention.own_model import (
    OwnSettings,
    Shrinkage,
    absorbed,
    row_weight,
    solutions,
    standardised,
)
from peerattn.models.pools import Rows
from peerattn.processes import all_sum, gathered

PENALTIES = np.r_[0.0, np.logspace(0, 6, 13), np.inf]  # of the ridge, in numbers of rows; ∞ is the mean
ERRORS = 2.0  # standard errors by which a ridge or curves must beat least squares over held-out folds


def best_shrinkage(
    rows: Rows, fold: np.ndarray, settings: OwnSettings, period: np.ndarray | None = None
) -> tuple[Shrinkage, Shrinkage]:
    r"""Return the shrinkage of lines and, given that, of curves, as held-out folds say.

    A ridge regression departs from least squares, and curves from lines, where at the penalty of least held-out loss the loss
    falls by two standard errors, clustered by firm (on arrays by row). Of the penalties whose loss is within one standard error
    of the least, that nearest to least squares is taken (Breiman et al. 1984). It enters by a factor,

    .. math:: b = (1 - f)\, b_0 + f\, b_\lambda, \qquad f = (1 - 1 / t^2)_+

    with t clustered by firm and period, of which there must be three: shocks that all firms share leave few independent
    observations, however many the firms (the positive-part rule of James and Stein 1961, for one coefficient). Effects are
    absorbed first, over all rows.
    """
    straight = Shrinkage(np.inf)
    if not (isinstance(settings.own, str) and settings.own != "none" and rows.x.shape[1]):
        return straight, straight
    # separable classes have no estimate without a penalty, and cost more to fit
    every = slice(None) if settings.loss is squared_error else slice(1, -1, 2)
    path = PENALTIES[every]
    finite = path[(path > 0) & np.isfinite(path)]
    if len(distinct(fold)) < 2:
        return Shrinkage(float(path[0])), straight
    z, firm = standardised(rows)[2], firm_keys(rows, settings.dated)
    bends = settings.own == "additive"
    curves = Curves.of(rows.x, row_weight(rows)).columns(rows.x) if bends else np.zeros((len(rows), 0))
    z, curves, y = absorbed(z, curves, rows, settings, period)
    rows = replace(rows, y=y)
    lines = _best(z[:, :1], 0.0, z[:, 1:], rows, fold, settings, path, firm, period)
    if not bends:
        return lines, straight
    path = np.r_[np.inf, finite[::-1]]
    return lines, _best(z, lines.penalty, curves, rows, fold, settings, path, firm, period)


def _best(
    fixed: np.ndarray,
    fixed_penalty: float,
    free: np.ndarray,
    rows: Rows,
    fold: np.ndarray,
    settings: OwnSettings,
    penalties: np.ndarray,
    firm: np.ndarray,
    period: np.ndarray | None,
) -> Shrinkage:
    """Return how far the free columns depart from their coefficients at the first penalty."""
    weight, columns = row_weight(rows), np.concatenate([fixed, free], axis=1)
    assert rows.y is not None
    losses = np.empty((len(rows), len(penalties)))
    for f in distinct(fold):
        rest, at = fold != f, fold == f
        found = solutions(
            fixed[rest], fixed_penalty, free[rest], rows.y[rest], weight[rest], settings, penalties
        )
        for k in range(len(penalties)):
            y = torch.as_tensor(rows.y[at])
            losses[at, k] = settings.loss(torch.as_tensor(columns[at] @ found[:, k]), y).numpy()
    losses *= weight[:, None]
    least = int(np.argmin(all_sum(losses.sum(axis=0))))
    excess = sums_by(firm, losses - losses[:, [least]])
    error = np.array([variance_of_sum(each) for each in excess.T]) ** 0.5
    if excess[:, 0].sum() <= ERRORS * error[0]:
        return Shrinkage(float(penalties[0]))
    best = int(np.argmax(excess.sum(axis=0) <= error))
    by_firm, gain = excess[:, 0] - excess[:, best], losses[:, [0]] - losses[:, [best]]
    by_period = np.zeros(0) if period is None else sums_by(period, gain)[:, 0]
    sums = [by_firm, by_period] if len(by_period) >= FEW_PERIODS else [by_firm]
    total, squares, n = all_sum(np.array([gain.sum(), (gain**2).sum(), len(gain)]))
    variance = clustered_variance(sums, (squares - total**2 / n) * n / (n - 1))
    return Shrinkage(float(penalties[0]), float(penalties[best]), max(0.0, float(1 - variance / total**2)))


def distinct(fold: np.ndarray) -> np.ndarray:
    """Return the folds that the rows of all processes fall into."""
    return np.unique(np.concatenate(gathered(np.unique(fold))))
