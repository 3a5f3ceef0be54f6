"""Outcomes net of given factors: each firm's loadings are estimated from what was known before the period."""

from dataclasses import replace

import numpy as np
import pandas as pd

from peerattn.evaluation.measures.factors import NEXT, match_factors
from peerattn.evaluation.measures.metrics import as_numbers
from peerattn.exceptions import InputError, expect, validate_arguments
from peerattn.panel import Knowledge, Panel, sorted_periods
from peerattn.panel.labels import panel_labels
from peerattn.render import show_label
from peerattn.types import ReferenceLike

OUTCOMES_PER_SLOPE = 2  # earlier outcomes of a firm for each coefficient, from which its own loadings are estimated
MIN_FIRMS = 2  # with such loadings, whose spread shrinks them
STEPS = 30  # of Newton's method, by which the spread is exact to rounding
#: What a report says of it.
ADJUSTED = "Outcomes are net of the given factors, with shrunk loadings of earlier periods (Vasicek 1973), or else unknown."


@validate_arguments
def factor_adjusted(
    y: pd.Series, factors: pd.DataFrame, *, outcome_horizon: int = 0, firm: str = "firm", period: str = "period"
) -> pd.Series:
    r"""Return outcomes net of given factors, with the loadings of earlier periods (Brennan, Chordia and Subrahmanyam 1998).

    .. math::

        y^*_{it} = y_{it} - \hat\beta_{i,t-1}' f_t, \qquad
        \hat\beta_{ik} = \bar b_k + \frac{\tau_k^2}{\tau_k^2 + s_{ik}^2} (b_{ik} - \bar b_k)

    with :math:`b_i` the slopes of least squares of the firm's earlier outcomes on the factors and a constant, :math:`s_{ik}`
    their standard errors, and :math:`\bar b_k`, :math:`\tau_k^2` the mean, weighted by :math:`1/(\tau_k^2 + s_{ik}^2)`, and the
    variance of true slopes across firms (Vasicek 1973), by the moments of Paule and Mandel (1982). The constant stays in the
    outcome. Loadings with which outcomes of t are adjusted use nothing of period t or later, nor outcomes of h periods that are
    not over by t.

    Parameters
    ----------
    y : Series of length n
        Outcomes, indexed by firm and period; NaN = unknown.
    factors : DataFrame
        Returns in decimals, one column for each factor. Indexed by period (month-ends, Periods, 201207); or by firm and period
        as ``y``, where a firm has a factor of its own, such as the return of its industry.
    outcome_horizon : int, default 0
        Outcomes labelled t are realised over the periods t + 1 to t + h, or in t for 0. Of factors indexed by firm and period,
        those of the row are taken.
    firm, period : str, default "firm", "period"
        Names of the index levels of ``y`` with the labels, in either order.

    Returns
    -------
    Series of length n
        NaN, unknown, in the first periods, before two firms have ``2 (K + 1)`` earlier outcomes, K the number of factors. A
        firm with fewer has the mean loadings.

    Raises
    ------
    InputError
        Where y has no firm and period, a factor is missing, or no outcome is left.

    Notes
    -----
    A factor that is a mean over the same firms contains each firm's outcome, with its weight in that mean, and so do then the
    adjusted outcomes of other firms: leave the own firm out of narrow factors.

    References
    ----------
    Brennan, M., Chordia, T. and Subrahmanyam, A. (1998), Alternative factor specifications, security characteristics, and the
    cross-section of expected stock returns, Journal of Financial Economics 49(3), 345–373. Vasicek, O. (1973), A note on using
    cross-sectional information in Bayesian estimation of security betas, Journal of Finance 28(5), 1233–1239. Paule, R. and
    Mandel, J. (1982), Consensus values and weighting factors, Journal of Research of the National Bureau of Standards 87(5),
    377–385.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = pd.MultiIndex.from_product([range(20), range(2001, 2041)], names=["firm", "period"])
    >>> market = pd.DataFrame({"market": 0.1 * rng.normal(size=40)}, index=range(2001, 2041))
    >>> beta = np.repeat(rng.uniform(0.5, 1.5, size=20), 40)
    >>> y = pd.Series(beta * np.tile(market["market"], 20) + 0.01 * rng.normal(size=800), index)
    >>> net = factor_adjusted(y, market)
    >>> f"{y.std():.3f} {net.std():.3f}", int(net.isna().groupby("period").any().sum())
    ('0.078 0.010', 4)
    """
    labels = panel_labels(y, firm, period)
    if labels is None:
        raise InputError(f"y: expected a Series indexed by firm and period, got {type(y).__name__}; pass panel.y.")
    if y.index.has_duplicates:
        raise InputError(f"y: {show_label(y.index[y.index.duplicated()][0])} occurs twice in its index; keep one row each.")
    row, periods = sorted_periods(labels.period)
    knowledge = Knowledge(periods, row, row + max(outcome_horizon - 1, 0))
    net = _adjusted(y, labels.firm, knowledge, factors, outcome_horizon)
    return pd.Series(net, y.index, name=y.name)


def net_of_factors(
    panel: Panel, factors: pd.DataFrame | None, task: str, outcome_horizon: int | None, reference: ReferenceLike, horizon: int
) -> Panel:
    """Return a panel whose outcomes are net of the factors of a nowcast; a forecast's panel as it is.

    Loadings are of outcomes known by then: ``horizon`` periods later, as for the models.
    """
    if factors is None or task != "nowcast":
        return panel
    if reference is not None:
        remedy = "Pass both net of factors (peerattn.evaluation.factor_adjusted), and leave out factors=."
        raise InputError(f"factors: the outcomes of reference= would not be net of them, those of the panel would. {remedy}")
    if outcome_horizon is None:
        outcome_horizon = int(bool(NEXT.search(panel.outcome)))
    knowledge = Knowledge.of(panel, max(horizon, outcome_horizon) - 1)
    y = _adjusted(panel.y, panel.labels.get_level_values("firm"), knowledge, factors, outcome_horizon)
    columns = [str(name) for name in factors.select_dtypes("number")]
    if len(columns) > 3:
        columns = [*columns[:3], "..."]
    return replace(panel, outcomes=y, outcome=f"{panel.outcome} net of {', '.join(columns)}")


def _adjusted(y: pd.Series, firm: pd.Index, knowledge: Knowledge, factors: pd.DataFrame, horizon: int) -> np.ndarray:
    """Return outcomes net of factors: a period's loadings are of rows whose outcomes were known from an earlier period on."""
    periods = knowledge.periods
    f = _of_rows(factors, y.index, periods[knowledge.row], horizon)
    outcomes = as_numbers("y", y)
    as_numbers("factors", f)  # raises where some are infinite
    firms = pd.factorize(firm)[0]
    rows_of, learned_by = (pd.Series(at).groupby(at).indices for at in (knowledge.row, knowledge.known))
    found = np.full(len(y), np.nan)
    # of each firm the sums of 1, its factors and its outcome, and of their products, from which its slopes follow
    in_time = np.argsort(knowledge.row, kind="stable")
    first = pd.Series(outcomes[in_time]).groupby(firms[in_time]).first()  # taken off: slopes are the same, and keep their digits
    table = np.column_stack([np.ones(len(y)), f, outcomes - first[firms].to_numpy()])
    sums = np.zeros((firms.max(initial=-1) + 1, table.shape[1], table.shape[1]))
    for t, rows in sorted(rows_of.items()):
        loadings = _loadings(sums)
        if loadings is not None:
            found[rows] = outcomes[rows] - (loadings[firms[rows]] * f[rows]).sum(axis=1)
        learned = learned_by.get(t, rows[:0])
        learned = learned[np.isfinite(outcomes[learned])]
        np.add.at(sums, firms[learned], table[learned, :, None] * table[learned, None, :])
    if not np.isfinite(found).any():
        needed = OUTCOMES_PER_SLOPE * (f.shape[1] + 1)
        why = f"the loadings of {f.shape[1]} factors need {needed} earlier outcomes of a firm"
        raise InputError(f"factors: no outcome is left net of them: {why}. Pass fewer factors or more periods.")
    return found


def _of_rows(factors: pd.DataFrame, rows: pd.Index, period: pd.Index, horizon: int) -> np.ndarray:
    """Return the factors of the time in which the outcome of each row is realised, (n, K)."""
    twice = factors.index[factors.index.duplicated()]
    if len(twice):
        raise InputError(f"factors: {show_label(twice[0])} occurs twice in its index; keep one row each.")
    if factors.index.nlevels == 1:
        return match_factors(factors, period.unique(), outcome_horizon=horizon).loc[period].to_numpy()
    own = factors.select_dtypes("number").astype(float)
    came = f"{own.index.nlevels} index levels and {own.shape[1]} columns of numbers"
    expect(own.index.nlevels == 2 and own.shape[1] > 0, "factors", "numbers by period, or by firm and period", came)
    if set(own.index.names) == set(rows.names):
        own = own.reorder_levels(list(rows.names))  # type: ignore[arg-type]  # of any kind of name
    found = own.reindex(rows)
    missing = found.isna().any(axis=1)
    if missing.any():
        label = show_label(rows[missing][0])
        raise InputError(f"factors: {missing.sum()} of {len(rows)} rows of the panel have none, {label} for one.")
    return found.to_numpy()


def _loadings(sums: np.ndarray) -> np.ndarray | None:
    """Return the shrunk slopes of every firm, (firms, K); None before enough firms have slopes of their own.

    ``sums`` are those of products of 1, the factors and the outcome, (firms, K + 2, K + 2).
    """
    K = sums.shape[1] - 2
    enough = np.flatnonzero(sums[:, 0, 0] >= OUTCOMES_PER_SLOPE * (K + 1))
    known = sums[enough]
    # net of the firm's means
    n = known[:, 0, 0]
    S = known[:, 1:, 1:] - known[:, 1:, :1] * known[:, :1, 1:] / n[:, None, None]
    # a firm that has seen a factor at one value only has no slope of its own
    size = np.sqrt(np.diagonal(known[:, 1:-1, 1:-1], axis1=1, axis2=2)) + 1e-300
    relative = S[:, :-1, :-1] / (size[:, :, None] * size[:, None, :])
    varied = np.linalg.matrix_rank(relative, tol=1e-10, hermitian=True) == K
    if varied.sum() < MIN_FIRMS:
        return None
    n = n[varied]
    S = S[varied]
    inverse = np.linalg.inv(S[:, :-1, :-1])
    slopes = (inverse @ S[:, :-1, -1:])[..., 0]
    total = S[:, -1, -1]
    noise = np.maximum(total - (slopes * S[:, :-1, -1]).sum(axis=1), 1e-12 * total + 1e-300) / (n - K - 1)
    variance = noise[:, None] * np.diagonal(inverse, axis1=1, axis2=2)
    shrunk, mean = _shrunk(slopes, variance)
    found = np.tile(mean, (len(sums), 1))
    found[enough[varied]] = shrunk
    return found


def _shrunk(slopes: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes drawn towards their mean by their variance beside that of true slopes, and the mean."""
    spread = np.zeros(slopes.shape[1])
    for _ in range(STEPS):
        # weights with the spread: firms of little noise, whose slopes are often small ones, must not stand for all
        weight = 1 / (variance + spread)
        mean = (weight * slopes).sum(axis=0) / weight.sum(axis=0)
        squares = (slopes - mean) ** 2
        # Newton's step to where squares are what variances and spread make them
        excess = (weight * squares).sum(axis=0) - (len(slopes) - 1)
        spread = np.maximum(spread + excess / np.maximum((weight**2 * squares).sum(axis=0), 1e-300), 0.0)
    return mean + spread / (spread + variance) * (slopes - mean), mean
