"""How heads in full are shrunk: which of several fits are averaged, and the size of what they add, by held-out later periods."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from peerattn.models.cross_section import CrossSection, known_before, section_numbers
from peerattn.models.learners.heads.sampling import residuals
from peerattn.models.learners.linear import stacked_rows
from peerattn.models.learners.losses import Loss, loss_of, squared_error
from peerattn.models.learners.training import FEW_ROWS
from peerattn.models.learners.variance_components import common_variance, net_of_common, t_threshold, variance_of_sum

LEARNED = 2 / 3  # share of the rows that come before the periods that are held out
FEW_PERIODS = 3  # held-out periods from which errors are clustered by period
CLEAR = 2.0  # standard errors beyond which heads take the place of fallbacks, and fallbacks are rejected, as peers in a stack
Predict = Callable[[Sequence[CrossSection]], list[np.ndarray]]


@dataclass(frozen=True)
class Selection:
    """Which fits are averaged, or the fallback in their place; the factor of what is added, and that of its period's mean."""

    fits: tuple[int, ...] = (0,)
    fallback: int | None = None
    size: float = 1.0
    mean_factor: float = 1.0


def selected(
    fits: Sequence[Callable[[Sequence[CrossSection]], Predict]],
    fallbacks: Sequence[Callable[[Sequence[CrossSection]], Predict]],
    sections: Sequence[CrossSection],
    loss: Loss,
    purge: int = 0,
) -> Selection:
    r"""Return which fits have the least held-out loss, and the factors that what their heads add is multiplied by.

    Each learns from the first two thirds of the rows and predicts the later periods. With :math:`D_i` what heads add and
    :math:`e_i` what the own part leaves, the factor is

    .. math:: c = \min\Big(1, \frac{\sum D_i e_i}{\sum D_i^2}\Big) \Big(1 - \frac{1}{t^2}\Big)_+ ,

    the slope of the outcome on the prediction in new data (Copas 1983), itself shrunk by its standard error, which is clustered
    by period (James and Stein 1961). Sums are of rows net of θ of their period's mean, each period divided by its mean squared
    error. Heads that predict nothing of later periods add nothing. Fits whose loss is within one standard error of the least are
    averaged (Breiman et al. 1984): the data do not distinguish them. Fallbacks have a factor of one unless later periods reject
    them, by a t above 2 of the rise of the squared error. The best of them takes the place of heads unless these predict
    something, by themselves and beyond it, with a t above the quantile of Student's t that has the tail probability of two
    standard errors, shared out among the fits (Bonferroni). What is added to the mean of a period has a factor of its own, by
    the same equation over the means of held-out periods: a level that wanders is no evidence on peers.

    References
    ----------
    Breiman, Friedman, Olshen and Stone (1984), Classification and regression trees, Wadsworth, section 3.4.3.
    Copas (1983), Regression, prediction and shrinkage, JRSS B 45.
    James and Stein (1961), Estimation with quadratic loss, Fourth Berkeley Symposium.
    """
    learned, later = split(sections, purge)
    if not learned:
        return Selection()
    own = np.concatenate([section.own_term for section in later])
    common = 0.0
    if loss is squared_error:
        common = common_variance(residuals(learned))
    of_fits = [np.concatenate(fit(learned)(later)) - own for fit in fits]
    of_fallbacks = [np.concatenate(fit(learned)(later)) - own for fit in fallbacks]
    averaged = _as_good_as_the_best(of_fits, own, later, loss, common)
    added = np.mean([of_fits[k] for k in averaged], axis=0)
    credible = [k for k, each in enumerate(of_fallbacks) if not is_worse(each, 0 * own, own, later, loss, common, CLEAR)]
    fallback = min(credible, key=lambda k: _held_out_loss(loss, own + of_fallbacks[k], later), default=None)
    if fallback is not None:
        base = of_fallbacks[fallback]
        # the best of several fits of noise has a larger t than one
        least = t_threshold(CLEAR, _n_clusters(later), len(fits))
        # heads are tested beyond the best fallback, too, as peers are beyond the models before them in a stack
        beyond = factor(added - base, own + base, later, loss, common, least)
        if beyond > 0 and factor(added, own, later, loss, common, least) > 0:
            fallback = None
    if fallback is None:
        size = factor(added, own, later, loss, common)
        added = size * added
    else:
        size = 1.0
        added = of_fallbacks[fallback]
    mean_factor = 1.0
    if loss is squared_error:
        mean_factor = factor_of_means(added, own, later)
    return Selection(averaged, fallback, size, mean_factor)


def split(sections: Sequence[CrossSection], purge: int = 0) -> tuple[list[CrossSection], list[CrossSection]]:
    """Return cross-sections to learn from and later ones; of a single one, rows to learn from and others; of too few, nothing.

    The last ``purge`` before the later ones are not learned from, nor rows whose outcomes are not known by then.
    """
    n_rows = np.array([len(section.focal) for section in sections])
    if n_rows.sum() < FEW_ROWS:
        return [], []
    if len(sections) == 1:
        (section,) = sections
        third = section.focal.checksums() % 3 == 0
        if third.all() or not third.any():
            return [], []
        learned, held_out = section.split(third)
        return [learned], [held_out]
    known = n_rows.cumsum() / n_rows.sum()
    end = 1 + int(np.abs(known[:-1] - LEARNED).argmin())
    earlier = known_before(sections, end, purge)
    if not earlier:
        return [], []
    return earlier, list(sections[end:])


def _held_out_loss(loss: Loss, predicted: np.ndarray, later: Sequence[CrossSection]) -> float:
    rows = stacked_rows(later)
    return float(loss_of(loss, predicted, rows.outcomes) @ rows.loss_weights)


def factor(
    added: np.ndarray, own: np.ndarray, later: Sequence[CrossSection], loss: Loss, common: float, least: float = 1.0
) -> float:
    """Return the factor of what heads add to the own part of later cross-sections, between 0 and 1; 0 of a t below ``least``."""
    if loss is not squared_error:
        value = lambda size: _held_out_loss(loss, own + size * added, later)  # noqa: E731
        return float(minimize_scalar(value, bounds=(0.0, 1.0), method="bounded").x)
    D, e, weight = _net_rows(added, own, later, common)
    return _shrunk_slope(_clustered(weight * D * e, later), _clustered(weight * D**2, later), least)


def _as_good_as_the_best(
    of_fits: Sequence[np.ndarray], own: np.ndarray, later: Sequence[CrossSection], loss: Loss, common: float
) -> tuple[int, ...]:
    """Return the fit whose heads have the least held-out loss, and those within one standard error of it."""
    sizes = [factor(each, own, later, loss, common) for each in of_fits]
    shrunk = [size * each for size, each in zip(sizes, of_fits, strict=True)]
    best = int(np.argmin([_held_out_loss(loss, own + each, later) for each in shrunk]))
    # heads that predict nothing by themselves have no part
    others = [k for k, size in enumerate(sizes) if k != best and size > 0]
    return best, *(k for k in others if not is_worse(shrunk[k], shrunk[best], own, later, loss, common, 1.0))


def is_worse(
    added: np.ndarray,
    other: np.ndarray,
    own: np.ndarray,
    later: Sequence[CrossSection],
    loss: Loss,
    common: float,
    least: float,
) -> bool:
    """Whether one addition to the own part has a larger loss in later cross-sections than another, with a t above ``least``."""
    rises = _clustered(_row_losses(added, own, later, loss, common) - _row_losses(other, own, later, loss, common), later)
    difference, _, weight = _net_rows(added - other, own, later, common)
    return bool(rises.sum() > least * math.sqrt(variance_of_sum(rises, _clustered(weight * difference**2, later))))


def _row_losses(added: np.ndarray, own: np.ndarray, later: Sequence[CrossSection], loss: Loss, common: float) -> np.ndarray:
    """Return the losses of rows, (n,); squared errors net of θ of their period's mean, in units of its mean squared error."""
    if loss is not squared_error:
        rows = stacked_rows(later)
        return rows.loss_weights * loss_of(loss, own + added, rows.outcomes)
    D, e, weight = _net_rows(added, own, later, common)
    return weight * (e - D) ** 2


def _net_rows(
    added: np.ndarray, own: np.ndarray, later: Sequence[CrossSection], common: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what is added and the residuals of the own part, net of θ of their period's mean, and weights of rows, (n,) each."""
    rows = stacked_rows(later)
    period = section_numbers(later)
    columns = np.column_stack([added[:, 0], rows.outcomes - own[:, 0]])
    D, e = net_of_common(columns, rows.loss_weights, period, common).T
    total = np.bincount(period, rows.loss_weights)
    squares = np.bincount(period, rows.loss_weights * e**2) / np.maximum(total, 1e-12)
    # a period counts by the inverse of its variance, a nearly exact one by at most a hundred times the usual
    weight = rows.loss_weights / np.maximum(squares, squares.mean() / 100 + 1e-12)[period]
    return D, e, weight


def _clustered(terms: np.ndarray, later: Sequence[CrossSection]) -> np.ndarray:
    """Return the sums of terms by period; of few periods, which are no clusters, the terms."""
    if len(later) < FEW_PERIODS:
        return terms
    return np.bincount(section_numbers(later), terms)


def _n_clusters(later: Sequence[CrossSection]) -> int:
    """Return the number of terms of :func:`_clustered`."""
    if len(later) < FEW_PERIODS:
        return sum(len(section.focal) for section in later)
    return len(later)


def factor_of_means(added: np.ndarray, own: np.ndarray, later: Sequence[CrossSection]) -> float:
    """Return the factor of what heads add to the means of later periods, each of which counts alike; 0 with few of them."""
    rows = stacked_rows(later)
    period = section_numbers(later)
    total = np.bincount(period, rows.loss_weights)
    if (total > 0).sum() < FEW_PERIODS:
        return 0.0
    D = np.bincount(period, rows.loss_weights * added[:, 0])[total > 0] / total[total > 0]
    e = np.bincount(period, rows.loss_weights * (rows.outcomes - own[:, 0]))[total > 0] / total[total > 0]
    return _shrunk_slope(D * e, D**2)


def _shrunk_slope(products: np.ndarray, squares: np.ndarray, least: float = 1.0) -> float:
    """Return the slope Σ products / Σ squares, at most 1, times 1 − 1/t² of independent terms; 0 where t is below ``least``."""
    variance = float(variance_of_sum(products, squares))
    score = float(products.sum())
    length = float(squares.sum())
    if score <= least * math.sqrt(variance) or length <= 0:
        return 0.0
    return min(1.0, score / length) * (1 - variance / score**2)
