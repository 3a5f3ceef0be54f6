"""How heads in full are shrunk: which of several fits are averaged, and the size of what they add, by held-out later periods."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar

from peerattn.models.cross_section import CrossSection, Rows, count_rows, group_sums, known_before, section_numbers
from peerattn.models.learners.heads.sampling import residuals
from peerattn.models.learners.linear import stacked_rows
from peerattn.models.learners.losses import Loss, loss_of, squared_error
from peerattn.models.learners.protocol import Part
from peerattn.models.learners.training import FEW_ROWS
from peerattn.models.learners.variance_components import common_variance, net_of_common, t_threshold, variance_of_sum

LEARNED = 2 / 3  # share of the rows that come before the periods that are held out
FEW_PERIODS = 3  # held-out periods from which errors are clustered by period
CLEAR = 2.0  # standard errors beyond which heads take the place of fallbacks, and fallbacks are rejected, as peers in a stack
ALL = 1e9  # variance of periods over that of rows by which errors are net of all of their mean
Predict = Callable[[Sequence[CrossSection]], list[np.ndarray]]
Fit = Callable[[Sequence[CrossSection]], Predict]


@dataclass(frozen=True)
class Selection:
    """Which fits are averaged, or the fallback in their place; the factor of what is added, and that of its period's mean."""

    fits: tuple[int, ...] = (0,)
    fallback: int | None = None
    size: float = 1.0
    mean_factor: float = 1.0


@dataclass(frozen=True)
class InFull:
    """A model of the firm itself that is used in full: the factor of what it adds, and that of its period's mean."""

    model: Part
    size: float
    mean_factor: float

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, K), before the factors."""
        return self.model.predict(sections)


@dataclass(frozen=True)
class LaterRows:
    """Rows of held-out periods, what an own part predicts of them (n, K), and how errors are counted.

    Additions to the own part are arrays (n, K), too. Squared errors are net of the share θ of their period's mean that follows
    from the ``common`` variance (of periods over that of rows).
    """

    sections: Sequence[CrossSection]
    own: np.ndarray
    loss: Loss = squared_error
    common: float = 0.0

    @cached_property
    def rows(self) -> Rows:
        """The focal rows of all periods."""
        return stacked_rows(self.sections)

    @cached_property
    def period(self) -> np.ndarray:
        """The number of each row's period, from 0."""
        return section_numbers(self.sections)

    @property
    def n_clusters(self) -> int:
        """The number of terms of a sum over clusters."""
        return int(self._cluster.max()) + 1

    @cached_property
    def _cluster(self) -> np.ndarray:
        """The number of each row's cluster: its period, or of few periods, which are no clusters, a row and its copies."""
        if len(self.sections) < FEW_PERIODS:
            rows = self.rows
            return pd.MultiIndex.from_arrays([rows.checksums(), rows.outcomes, *rows.codes.T]).factorize()[0]
        return self.period

    def with_own(self, added: np.ndarray) -> Self:
        """Return the rows with something added to the own part."""
        return replace(self, own=self.own + added)

    def total_loss(self, added: np.ndarray) -> float:
        """Return the loss of the own part and what is added to it, squared errors as :meth:`factor` counts them."""
        if self.loss is not squared_error:
            return float(loss_of(self.loss, self.own + added, self.rows.outcomes) @ self.rows.loss_weights)
        return float(self._weights @ (self._residuals - self._net(added)) ** 2)

    def factor(self, added: np.ndarray, least: float = 1.0) -> float:
        """Return the factor of what is added, between 0 and 1; 0 of a t below ``least``."""
        if self.loss is not squared_error:
            value = lambda size: self.total_loss(size * added)  # noqa: E731
            found = float(minimize_scalar(value, bounds=(0.0, 1.0), method="bounded").x)
            # the solver stops a little short of a bound
            return min((0.0, found, 1.0), key=value)
        D = self._net(added)
        products = self._clustered(self._weights * D * self._residuals)
        return shrunk_slope(products, self._clustered(self._weights * D**2), least)

    def factor_of_means(self, added: np.ndarray) -> float:
        """Return the factor of what is added to the means of periods, each of which counts alike; 0 with few of them."""
        weight = self.rows.loss_weights
        total = np.bincount(self.period, weight)
        if (total > 0).sum() < FEW_PERIODS:
            return 0.0
        sums = [np.bincount(self.period, weight * each) for each in (added[:, 0], self.rows.outcomes - self.own[:, 0])]
        D, e = (each[total > 0] / total[total > 0] for each in sums)
        return shrunk_slope(D * e, D**2)

    def shrunk(self, added: np.ndarray, within: bool) -> np.ndarray:
        """Return what is added times its factor; where that is of differences within periods, their means times theirs, too."""
        added = self.factor(added) * added
        if self.loss is not squared_error or not within:
            return added
        means = group_sums(added, self.period) / np.bincount(self.period)[:, None]
        return added - (1 - self.factor_of_means(added)) * means[self.period]

    def is_worse(self, added: np.ndarray, other: np.ndarray, least: float) -> bool:
        """Whether one addition has a larger loss than another, with a t above ``least``."""
        e = self._residuals
        D = self._net(added)
        D_other = self._net(other)
        if self.loss is squared_error:
            rises = self._weights * ((e - D) ** 2 - (e - D_other) ** 2)
        else:
            losses = [loss_of(self.loss, self.own + each, self.rows.outcomes) for each in (added, other)]
            rises = self.rows.loss_weights * (losses[0] - losses[1])
        terms = self._clustered(rises)
        variance = variance_of_sum(terms, self._clustered(self._weights * (D - D_other) ** 2))
        return bool(terms.sum() > least * math.sqrt(variance))

    def _net(self, added: np.ndarray) -> np.ndarray:
        """Return what is added net of θ of its period's mean, (n,)."""
        return net_of_common(added[:, :1], self.rows.loss_weights, self.period, self.common)[:, 0]

    @cached_property
    def _residuals(self) -> np.ndarray:
        """Residuals of the own part, net in the same way, (n,)."""
        return self._net(self.rows.outcomes[:, None] - self.own[:, :1])

    @cached_property
    def _weights(self) -> np.ndarray:
        """Weights of rows, (n,): a period counts by the inverse of its mean squared residual."""
        weight = self.rows.loss_weights
        squares = np.bincount(self.period, weight * self._residuals**2) / np.maximum(np.bincount(self.period, weight), 1e-12)
        # a nearly exact period counts at most a hundred times the usual
        return np.asarray(weight / np.maximum(squares, squares.mean() / 100 + 1e-12)[self.period])

    def _clustered(self, terms: np.ndarray) -> np.ndarray:
        """Return the sums of terms by cluster."""
        return np.bincount(self._cluster, terms)


def selected(
    fits: Sequence[Fit],
    fallbacks: Sequence[Fit],
    sections: Sequence[CrossSection],
    loss: Loss,
    purge: int = 0,
    own: Sequence[Fit] = (),
    within: bool = False,
) -> Selection:
    r"""Return which fits have the least held-out loss, and the factors that what their heads add is multiplied by.

    Each learns from the first two thirds of the rows and predicts the later periods, as do the ``own`` models of the firm itself
    that heads are added to, beside least squares; what each of them adds is shrunk by the same equation. With :math:`D_i` what
    heads add to the own part and :math:`e_i` what it leaves, the factor is

    .. math:: c = \min\Big(1, \frac{\sum D_i e_i}{\sum D_i^2}\Big) \Big(1 - \frac{1}{t^2}\Big)_+ ,

    the slope of the outcome on the prediction in new data (Copas 1983), itself shrunk by its standard error, which is clustered
    by period (James and Stein 1961). Sums are of rows net of θ of their period's mean (of all of it with ``within``), each
    period divided by its mean squared error. Heads that predict nothing of later periods add nothing. Fits whose loss is
    within one standard error of the least are averaged (Breiman et al. 1984): the data do not distinguish them. Fallbacks have
    a factor of one unless later periods reject them, by a t above 2 of the rise of the squared error. The best of them takes
    the place of heads unless these predict something, by themselves and beyond it, with a t above the quantile of Student's t
    that has the tail probability of two standard errors, shared out among the fits (Bonferroni). What is added to the mean of
    a period has a factor of its own, by the same equation over the means of held-out periods: a level that wanders is no
    evidence on peers.

    References
    ----------
    Breiman, Friedman, Olshen and Stone (1984), Classification and regression trees, Wadsworth, section 3.4.3.
    Copas (1983), Regression, prediction and shrinkage, JRSS B 45.
    James and Stein (1961), Estimation with quadratic loss, Fourth Berkeley Symposium.
    """
    learned, later = split(sections, purge)
    if not learned:
        return Selection()
    common = 0.0
    if within:  # a shock that all firms share is no error of differences between them
        common = ALL
    elif loss is squared_error:
        common = common_variance(residuals(learned))
    line = np.concatenate([section.own_term for section in later])
    rows = LaterRows(later, line, loss, common)
    for model in own:
        rows = rows.with_own(rows.shrunk(np.concatenate(model(learned)(later)) - line, within))
    of_fits = [np.concatenate(fit(learned)(later)) - rows.own for fit in fits]
    of_fallbacks = [np.concatenate(fit(learned)(later)) - rows.own for fit in fallbacks]
    averaged = _as_good_as_the_best(of_fits, rows)
    added = np.mean([of_fits[k] for k in averaged], axis=0)
    credible = [k for k, each in enumerate(of_fallbacks) if not rows.is_worse(each, 0 * each, CLEAR)]
    fallback = min(credible, key=lambda k: rows.total_loss(of_fallbacks[k]), default=None)
    if fallback is not None:
        base = of_fallbacks[fallback]
        # the best of several fits of noise has a larger t than one
        least = t_threshold(CLEAR, rows.n_clusters, len(fits))
        # heads are tested beyond the best fallback, too, as peers are beyond the models before them in a stack
        beyond = rows.with_own(base).factor(added - base, least)
        if beyond > 0 and rows.factor(added, least) > 0:
            fallback = None
    size = 1.0
    if fallback is None:
        size = rows.factor(added)
        added = size * added
    else:
        added = of_fallbacks[fallback]
    mean_factor = 1.0
    if loss is squared_error:
        mean_factor = rows.factor_of_means(added)
    return Selection(averaged, fallback, size, mean_factor)


def split(sections: Sequence[CrossSection], purge: int = 0) -> tuple[list[CrossSection], list[CrossSection]]:
    """Return cross-sections to learn from and later ones; of a single one, rows to learn from and others; of too few, nothing.

    The last ``purge`` before the later ones are not learned from, nor rows whose outcomes are not known by then.
    """
    n_rows = np.array([count_rows([section]) for section in sections])
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


def _as_good_as_the_best(of_fits: Sequence[np.ndarray], rows: LaterRows) -> tuple[int, ...]:
    """Return the fit whose heads have the least held-out loss, and those within one standard error of it."""
    sizes = [rows.factor(each) for each in of_fits]
    shrunk = [size * each for size, each in zip(sizes, of_fits, strict=True)]
    best = int(np.argmin([rows.total_loss(each) for each in shrunk]))
    # heads that predict nothing by themselves have no part
    others = [k for k, size in enumerate(sizes) if k != best and size > 0]
    return best, *(k for k in others if not rows.is_worse(shrunk[k], shrunk[best], 1.0))


def shrunk_slope(products: np.ndarray, squares: np.ndarray, least: float = 1.0) -> float:
    """Return the slope Σ products / Σ squares, at most 1, times 1 − 1/t² of independent terms; 0 where t is below ``least``."""
    variance = float(variance_of_sum(products, squares))
    score = float(products.sum())
    length = float(squares.sum())
    if score <= least * math.sqrt(variance) or length <= 0:
        return 0.0
    return min(1.0, score / length) * (1 - variance / score**2)
