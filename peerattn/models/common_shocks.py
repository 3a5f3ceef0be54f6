"""A firm from itself, and from what all firms of its period and of its industry's period share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from peerattn.models.attention.fitting import Stack
from peerattn.models.own_history import OwnHistoryRegressor
from peerattn.models.pools import sums_of_others
from peerattn.panel.panel import Panel


@dataclass(eq=False, repr=False, kw_only=True)
class CommonShocksRegressor(OwnHistoryRegressor):
    r"""A firm from its own characteristics and past, and from the shocks that all firms of a period or industry share.

    .. math:: \hat y_{it} = o_{it} + E\big[ p_t + g_{k(i)t} \mid y_{jt} - o_{jt},\ j \ne i \big], \qquad
              y_{it} - o_{it} = p_t + g_{k(i)t} + e_{it}

    o is :class:`OwnHistoryRegressor`, p and g random effects of the period and of the industry's period: the best linear
    predictor from the *other* firms' residuals. Peers are not chosen: every firm of the period counts alike, and every firm of
    the industry. Variances are by the method of moments, from held-out residuals.

    Parameters
    ----------
    industry : str, optional
        Column of ``X`` with the code. None: periods only.
    gaps, random_state, firm, period
        As in :class:`OwnHistoryRegressor`.

    Attributes
    ----------
    variances_ : dict of str to float
        Of ``"period"``, ``"industry"`` and ``"firm"``.

    Notes
    -----
    ``predict(X)`` without outcomes is the prediction from the own firm alone.

    References
    ----------
    Searle, S., Casella, G. and McCulloch, C. (1992), Variance components, Wiley, ch. 3 and 7.

    Examples
    --------
    >>> index = pd.MultiIndex.from_product([range(20), range(2001, 2013)], names=["firm", "period"])
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"size": rng.normal(size=240)}, index=index)
    >>> y = pd.Series(np.tile(3 * rng.normal(size=12), 20), index) + 0.1 * rng.normal(size=240)
    >>> past = X.index.get_level_values("period") < 2012
    >>> model = CommonShocksRegressor().fit(X[past], y[past])
    >>> bool(np.abs(model.predict(X[~past], outcomes=y[~past]) - y[~past]).max() < 1)
    True
    """

    industry: str | None = None

    def _learn_rest(self, panel: Panel, stack: Stack) -> None:
        held = held_out(stack)
        self.variances_ = {"period": 0.0, "industry": 0.0, "firm": 1.0}
        if held:
            rows, left = (
                np.concatenate([np.arange(len(panel))[at] for at, _ in held]),
                np.concatenate([e for _, e in held]),
            )
            period, industry = _codes(panel.period), self._industries(panel)
            self.variances_ = variance_components(left, period[rows], industry[rows])

    def _predict(self, panel: Panel) -> np.ndarray:
        own = super()._predict(panel)
        if panel.outcomes is None or panel.firm is None:
            return own
        period, industry = _codes(panel.period), self._industries(panel)
        return own + best_linear_predictor(panel.outcomes - own, period, industry, self.variances_)

    def _industries(self, panel: Panel) -> np.ndarray:
        """Return the industry of each row; a firm of unknown industry is one of its own."""
        if self.industry is None:
            return np.zeros(len(panel), dtype=int)
        code = pd.factorize(panel.codes[self.industry])[0]
        alone = code.max(initial=-1) + 1 + _codes(panel.firm)
        return np.where(code >= 0, code, alone)


def _codes(labels: pd.Index | None) -> np.ndarray:
    assert labels is not None
    return pd.factorize(labels, sort=False)[0]


def held_out(stack: Stack) -> list[tuple[np.ndarray | slice, np.ndarray]]:
    """Return the positions of rows later than an origin, and what the stack fitted at that origin leaves of their outcomes."""
    held = []
    for judged in stack.judged:
        if judged.origin.forward:
            parts = {name: part for name, part in judged.parts.items() if name in stack.fitted}
            found = replace(stack, fitted=parts).predict(judged.seen)
            held += [(s.at, s.focal.y - p[:, 0]) for s, p in zip(judged.origin.judged, found, strict=True)]
    return held


def variance_components(left: np.ndarray, period: np.ndarray, industry: np.ndarray) -> dict[str, float]:
    """Return the variances of the period's shock, of the industry's, and of the firm's own, from products of pairs of firms.

    >>> found = variance_components(np.array([1.0, 1.0, -1.0, -1.0]), np.array([0, 0, 1, 1]), np.zeros(4, dtype=int))
    >>> found["period"] + found["industry"] > 0.9
    True
    """
    both = pd.factorize(period * (industry.max() + 1) + industry)[0]
    sums = [_pairs(left, group) for group in (period, both)]
    (all_products, all_pairs), (same_products, same_pairs) = sums
    total = float(np.mean(left**2))
    apart = all_pairs - same_pairs
    of_period = (all_products - same_products) / apart if apart > 0 else all_products / max(all_pairs, 1)
    of_period = min(max(of_period, 0.0), total)
    same = same_products / same_pairs if same_pairs > 0 else of_period
    of_industry = min(max(same - of_period, 0.0), total - of_period) if apart > 0 else 0.0
    return {"period": of_period, "industry": of_industry, "firm": max(total - of_period - of_industry, 1e-12)}


def _pairs(values: np.ndarray, group: np.ndarray) -> tuple[float, float]:
    """Return the sum of products over ordered pairs of different rows of a group, and the number of such pairs."""
    count = np.bincount(group)
    products = np.bincount(group, values) ** 2 - np.bincount(group, values**2)
    return float(products.sum()), float((count * (count - 1)).sum())


def best_linear_predictor(
    left: np.ndarray, period: np.ndarray, industry: np.ndarray, variances: dict[str, float]
) -> np.ndarray:
    """Return ``E[p + g | residuals of the other rows of the period]`` of each row, its own residual left out.

    Parameters
    ----------
    left : ndarray (n,)
        Residuals; NaN = unknown.
    period, industry : ndarray (n,)
        Groups, numbered from 0.
    variances : dict
        As :func:`variance_components` returns them.
    """
    of_period, of_industry, own = (variances[name] for name in ("period", "industry", "firm"))
    if of_period + of_industry <= 0:
        return np.zeros(len(left))
    known = np.isfinite(left)
    value = np.where(known, left, 0.0)
    cell, _ = pd.factorize(period * (industry.max() + 1) + industry)
    total, count = np.bincount(cell, value), np.bincount(cell, known)
    when = np.zeros(len(count), dtype=int)
    when[cell] = period
    full = _precision(total, count, of_industry, own)
    elsewhere = sums_of_others(np.column_stack(full), when)[cell]  # of the period's other industries
    n, total_of_others = sums_of_others(np.column_stack([known, value]), cell).T
    mine = _precision(total_of_others, n, of_industry, own)
    weight, weighted = elsewhere[:, 0] + mine[0], elsewhere[:, 1] + mine[1]
    shock = weighted / (weight + 1 / of_period) if of_period > 0 else np.zeros(len(left))
    mean = np.divide(total_of_others, n, out=np.zeros(len(left)), where=n > 0)
    return shock + np.where(n > 0, of_industry * mine[0] * (mean - shock), 0.0)


def _precision(
    total: np.ndarray, count: np.ndarray, of_industry: float, own: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the precision of each group's mean about the period's shock, and that times the mean."""
    precision = count / (of_industry * count + own)
    return precision, np.divide(precision * total, count, out=np.zeros(len(total)), where=count > 0)
