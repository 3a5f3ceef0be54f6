"""The one problem that weighs all candidates: adaptive stacking of held-out predictions, group after group."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import LinearConstraint, minimize

from peerattn.models.cross_section import effective_number, group_sums
from peerattn.models.learners.losses import Loss, gradient, loss_of
from peerattn.models.learners.variance_components import t_threshold, variance_of_sum

FEW_PERIODS = 3  # tested periods (effective number) from which errors are clustered by period


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows of all origins: the prediction so far (n, K), outcome, loss weight, firm and period."""

    base: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    firm: np.ndarray
    period: np.ndarray

    @property
    def n_periods(self) -> float:
        """The effective number of periods: one of few rows hardly counts."""
        return effective_number(np.bincount(self.period))

    def period_means(self, values: np.ndarray) -> np.ndarray:
        """Return the weighted mean of values (n, K) over each row's period, (n, K)."""
        total = group_sums(values * self.weight[:, None], self.period)
        weight = np.bincount(self.period, self.weight)
        return np.asarray((total / np.where(weight > 0, weight, 1.0)[:, None])[self.period])

    def net_of_periods(self) -> Self:
        """Return the rows with the mean error of each period added to the prediction: errors are differences within it."""
        return replace(self, base=self.base + self.period_means(self.y[:, None] - self.base))

    def weighed_by_period(self, loss: Loss) -> Self:
        """Return the rows with weights divided by their period's mean loss: turbulent periods would otherwise decide alone."""
        losses = loss_of(loss, self.base, self.y)
        total = np.bincount(self.period, self.weight * losses)
        size = np.bincount(self.period, self.weight)
        usual = float(np.median(total[size > 0] / size[size > 0]))
        if usual <= 0:
            return self
        # one row of the usual loss keeps a tiny period of small errors from having all the weight
        row = float(self.weight.mean())
        means = (total + row * usual) / (size + row) / usual
        return replace(self, weight=self.weight / means[self.period])

    def loss_reduction(self, loss: Loss, added: np.ndarray) -> float:
        """Return the relative fall of the loss where ``added`` (n, K) is added to the prediction."""
        before = float(loss_of(loss, self.base, self.y) @ self.weight)
        after = float(loss_of(loss, self.base + added, self.y) @ self.weight)
        if before <= 0:
            return 0.0
        return 1 - after / before

    def threshold(self, kappa: float, mutual: bool) -> float:
        """Return the quantile of Student's t that has the probability of κ under the normal distribution."""
        clusters: float = len(np.unique(self.firm))
        if not mutual and not too_few(self.n_periods):
            clusters = min(clusters, self.n_periods)
        return t_threshold(kappa, clusters)


class Scope(StrEnum):
    """What of a prediction a weight is for."""

    WHOLE = "whole"
    WITHIN = "within period"  # deviations from its period's mean
    MEAN = "period mean"
    ADDED = "added within period"  # deviations of what it differs by from least squares


@dataclass(frozen=True)
class Column:
    """A column of the problem: a candidate, and what of its prediction."""

    candidate: str
    scope: Scope = Scope.WHOLE

    @property
    def kind(self) -> Scope:
        """Whose sum its weight belongs to: what slopes add within periods shares one with what they replace there."""
        if self.scope == Scope.ADDED:
            return Scope.WITHIN
        return self.scope

    def __str__(self) -> str:
        if self.scope == Scope.WHOLE:
            return self.candidate
        return f"{self.candidate} ({self.scope})"


#: What columns of the problem add, (n, K).
Columns = Mapping[Column, np.ndarray]


def too_few(n_periods: float) -> bool:
    """Whether this effective number of periods is too small to test by periods."""
    return n_periods < FEW_PERIODS - 0.5


@dataclass(frozen=True)
class Stage:
    """What one group of candidates adds to the groups before it.

    ``weights`` by column of the problem; ``t`` of their sum's score, ``loss_reduction`` the relative fall of the held-out loss;
    ``threshold`` what the t of a column must exceed.
    """

    weights: dict[Column, float] = field(default_factory=dict)
    t: float = float("nan")
    loss_reduction: float = 0.0
    threshold: float = float("nan")

    def selected(self) -> list[Column]:
        """Return the columns of positive weight."""
        return [column for column, weight in self.weights.items() if weight > 0]

    def sums(self) -> dict[Scope, float]:
        """Return the sum of the weights of each kind of column."""
        kinds = {column.kind for column in self.weights}
        return {kind: float(sum(w for c, w in self.weights.items() if c.kind == kind)) for kind in kinds}

    def where_selected(self, tested: "Stage") -> Self:
        """Return the weights of what was selected in another stage, too, with the t of that one."""
        both = {column: weight for column, weight in self.weights.items() if tested.weights.get(column, 0.0) > 0}
        stage = replace(self, weights=dict.fromkeys(self.weights, 0.0) | both, t=tested.t, threshold=tested.threshold)
        if not stage.selected():
            return replace(stage, loss_reduction=0.0)
        return stage

    def of_all_rows(self, share: float) -> Self:
        r"""Return the weights of candidates learned from all rows, where those that were weighed learned from a share r of them.

        The best weight of a prediction with error is :math:`S = v / (v + e)`, v the variance of the prediction and e that of its
        error, which falls as one over the rows: :math:`S / (S + r (1 - S))`, S the sum of a kind's weights.
        """
        S = self.sums()
        more = {c: w / (S[c.kind] + share * (1 - S[c.kind])) for c, w in self.weights.items()}
        return replace(self, weights=more)


def weigh(held: HeldOut, columns: Columns, loss: Loss, kappa: float, *, mutual: bool, tested: Columns | None = None) -> Stage:
    r"""Return the weights of one group's candidates, given the stack of the groups before it.

    .. math:: w = \Bigl(1 - \frac{\kappa^2}{\max_m t_m^2}\Bigr)
              \arg\min_{u \ge 0,\, \sum_m u_m \le 1}
              \sum_t L_t^{-1} \sum_{i} \ell(B_i + \textstyle\sum_m u_m D_{mi}, y_i), \qquad t_m = s_m / se_m

    with B the stack so far, :math:`D_m = P_m - B`, :math:`L_t` the period's mean loss (generalised least squares),
    :math:`s_m = \sum_i D_{mi} e_i / L_t` the score of candidate m at w = 0 (the encompassing test of Harvey, Leybourne and
    Newbold 1998) and se its standard error, clustered by firm and period (Cameron, Gelbach and Miller 2011). A candidate is
    selected where t exceeds the quantile of Student's t with G − 1 degrees of freedom, of G clusters, that has the probability
    of κ under the normal distribution: a test. The group is then shrunk as a whole, by the factor that the non-negative garrote
    (Breiman 1995; of groups, Yuan and Lin 2006) has for the clearest of them alone: nothing at κ standard errors, hardly far
    above.
    A candidate with a control is tested by what it predicts beyond that, its column of ``tested``, instead of :math:`D_m`.
    The period's mean of a difference and what it has beside that make up one prediction: they are of two kinds
    (:attr:`Column.kind`), each with a sum and a factor of its own; scores of the latter are net of their period's mean.
    Where firms read each other's outcomes (``mutual``), the hypothesis tested is that what the stack leaves is independent
    between firms: errors are clustered by firm, and the variance is doubled, as what i learns from j and j from i may be one
    product. A common shock is what is sought there; its size, which differs from period to period, is no error.
    """
    if not columns or not len(held.y):
        return Stage(dict.fromkeys(columns, 0.0))
    D = np.stack(list(columns.values()), axis=-1)  # (n, K, M)
    T = np.stack([(tested or columns)[column] for column in columns], axis=-1)
    held = held.weighed_by_period(loss)
    slope = -gradient(loss, held.base, held.y) / 2  # (n, K): y − ŷ of squared errors
    within = slope - held.period_means(slope)
    # differences within a period sum to zero, so that what the period shares is no error of theirs
    slopes = np.stack([within if column.kind == Scope.WITHIN else slope for column in columns], axis=-1)
    rows = (T * slopes).sum(1) * held.weight[:, None]
    score = rows.sum(0)
    error = _errors(rows, (T**2).sum(1) * held.weight[:, None], held, mutual)
    t = np.divide(score, error, out=np.zeros_like(score), where=error > 0)
    least = held.threshold(kappa, mutual)
    # what is not clearly of use takes no part in the problem: many such columns would fit the held-out rows
    open_ = t > least
    w = np.zeros(len(t))
    if open_.any():
        kinds = [column.kind for column in columns]
        members = np.array([[kind == each for kind in kinds] for each in sorted(set(kinds))])[:, open_]
        factor = (members * (1 - np.square(kappa / t[open_]))).max(axis=1)
        w[open_] = _minimum(D[..., open_], held, loss, members) * (factor @ members)
    mix = w
    if not w.any():  # where nothing is selected, t is that of the clearest candidate
        mix = np.eye(len(t))[np.argmax(t)]
    together = rows @ mix
    se = _errors(together[:, None], ((T @ mix) ** 2).sum(1, keepdims=True) * held.weight[:, None], held, mutual)[0]
    return Stage(
        dict(zip(columns, w.tolist(), strict=True)),
        float(together.sum() / se) if se > 0 else float("nan"),
        held.loss_reduction(loss, D @ w),
        least,
    )


def _minimum(D: np.ndarray, held: HeldOut, loss: Loss, members: np.ndarray) -> np.ndarray:
    """Return the weights of least loss, non-negative, those of a kind of sum at most one."""
    size = float(loss_of(loss, held.base, held.y) @ held.weight) or 1.0

    def value(w: np.ndarray) -> tuple[float, np.ndarray]:
        at = held.base + D @ w
        slope = np.einsum("nkm,nk,n->m", D, gradient(loss, at, held.y), held.weight)
        return float(loss_of(loss, at, held.y) @ held.weight) / size, slope / size

    sums = LinearConstraint(members.astype(float), -np.inf, 1.0)
    start = np.zeros(D.shape[-1])
    options = {"ftol": 1e-14, "maxiter": 500}
    bounds = [(0.0, 1.0)] * len(start)
    w = minimize(value, start, jac=True, method="SLSQP", bounds=bounds, constraints=sums, options=options).x
    # where a bound binds the solver stops a little short of it
    return np.where(w > 1e-9, w, 0.0)


def _errors(rows: np.ndarray, information: np.ndarray, held: HeldOut, mutual: bool) -> np.ndarray:
    """Return clustered standard errors of the sums of columns, (M,): by firm; unless ``mutual`` by period, too, where enough.

    On arrays a row and its copies are one firm, so that copies are one term, as a row with a frequency weight is.
    """
    pair = pd.factorize(held.firm * (held.period.max() + 1) + held.period)[0]
    of_rows = variance_of_sum(group_sums(rows, pair), group_sums(information, pair))
    by_firm = variance_of_sum(group_sums(rows, held.firm), group_sums(information, held.firm))
    if mutual:
        return np.sqrt(np.maximum(2 * by_firm, of_rows))
    if too_few(held.n_periods):
        return np.sqrt(np.maximum(by_firm, of_rows))
    by_period = variance_of_sum(group_sums(rows, held.period), group_sums(information, held.period))
    return np.sqrt(np.maximum.reduce([by_firm + by_period - of_rows, by_firm, by_period]))


def conditional_power(t: float, share: float, least: float) -> float:
    r"""Return the probability that the t of all held-out rows exceeds ``least``, given that of a share f of them.

    The rest resembles what was seen: :math:`\Phi\bigl((t / \sqrt f - c) / \sqrt{1 - f}\bigr)` (Lan, Simon and Halperin 1982,
    Stochastically curtailed tests in long-term clinical trials, Communications in Statistics C 1).
    """
    return float(stats.norm.cdf((t / np.sqrt(share) - least) / np.sqrt(1 - share)))
