"""The numbers of a comparison: every metric of every model on one common sample."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import ForecastTest, diebold_mariano, mean_error, mean_test
from peerattn.evaluation.measures.information import InformationCoefficient, ic, rank_ic
from peerattn.evaluation.measures.metrics import mae, r2_out_of_sample, r2_within_period, rmse
from peerattn.evaluation.measures.valuation import median_ape, share_near


@dataclass(frozen=True)
class Metric:
    """A column of the table: its key in ``scores``, its head, and how its numbers are written."""

    key: str
    head: str
    format: str


#: Of an outcome in logs: the median absolute error in per cent of the level, and the share within 15 per cent of it.
LOG_METRICS = ("median_ape", "within_15")
#: R² against zero, against the prevailing mean (rows equal, and periods equal) and between the firms of a period; errors;
#: correlation within periods (of ranks, with its t, and of values) and its mean over its standard
#: deviation; the panel Diebold–Mariano t against the baseline (positive = better) with its two-sided p-value.
METRICS = (
    Metric("r2_zero", "R² zero", ".4f"),
    Metric("r2_mean", "R² mean", ".4f"),
    Metric("r2_se", "s.e.", ".4f"),
    Metric("r2_within", "R² within period", ".4f"),
    Metric("rmse", "RMSE", "#.4g"),
    Metric("mae", "MAE", "#.4g"),
    Metric("median_ape", "Median |e|", ".1%"),
    Metric("within_15", "|e| ≤ 15%", ".1%"),
    Metric("r2_mean_periods", "R² mean, periods equal", ".4f"),
    Metric("rank_ic", "Rank IC", ".4f"),
    Metric("rank_ic_t", "IC t", ".2f"),
    Metric("rank_icir", "Rank ICIR", ".3f"),
    Metric("ic", "IC", ".4f"),
    Metric("icir", "ICIR", ".3f"),
    Metric("dm_t", "DM t", ".2f"),
    Metric("dm_p", "p", ".3f"),
)
#: Those of the order of firms.
ORDER_METRICS = ("rank_ic", "rank_ic_t", "rank_icir", "ic", "icir")
#: Fama and MacBeth's mean slope of outcome on prediction with its t; Mincer and Zarnowitz's slope, with the p-value of a
#: calibrated prediction. They take a regression for each period, and are made when a table asks for them.
REGRESSION_METRICS = (
    Metric("fm_slope", "FM slope", ".3f"),
    Metric("fm_t", "FM t", ".2f"),
    Metric("cal_slope", "Slope", ".3f"),
    Metric("cal_p", "p slope 1", ".3f"),
)


@dataclass(frozen=True)
class Scores:
    """All numbers of a comparison.

    Attributes
    ----------
    frame : DataFrame
        One row for each model, one column for each key of ``METRICS``; NaN where a number does not exist.
    rank_ics : dict of str to InformationCoefficient
    tests : dict of str to ForecastTest
        Each model but the baseline against it.
    losses : DataFrame
        Mean squared error of each period (rows) and model (columns).
    """

    frame: pd.DataFrame
    rank_ics: dict[str, InformationCoefficient]
    tests: dict[str, ForecastTest]
    losses: pd.DataFrame


def errors_of(y: pd.Series, forecast: pd.Series, mean: pd.Series, period: pd.Series) -> dict[str, float]:
    """Return the metrics of a forecast's errors, by their keys in ``METRICS``."""
    return {
        "r2_zero": r2_out_of_sample(y, forecast),
        "r2_mean": r2_out_of_sample(y, forecast, mean),
        "r2_within": r2_within_period(y, forecast, period),
        "rmse": rmse(y, forecast),
        "mae": mae(y, forecast),
        "r2_mean_periods": r2_out_of_sample(y, forecast, mean, period),
    }


def r2_error(errors: np.ndarray, base: np.ndarray, period: pd.Series, firm: pd.Series, horizon: int) -> float:
    r"""Return the standard error of an out-of-sample R², from the influence of each row.

    .. math:: \psi_{it} = -\frac{e_{it}^2 - (1 - R^2)\, b_{it}^2}{\overline{b^2}}, \ R^2 = 1 - \overline{e^2} / \overline{b^2},

    b the errors of the prevailing mean. Over time, with the variance of
    :func:`~peerattn.evaluation.inference.forecast_tests.mean_test`, where the periods allow it; otherwise clustered by firm, and
    conditional on these periods. NaN with one firm.

    Parameters
    ----------
    errors, base : ndarray (n,)
        Squared errors of the model and of the prevailing mean.
    period, firm : Series (n,)
    horizon : int
    """
    if not base.mean() > 0:
        return float("nan")
    # the delta method, row by row
    influence = -(errors - errors.mean() / base.mean() * base) / base.mean()
    sums = pd.Series(influence).groupby(period.to_numpy()).sum().to_numpy() * period.nunique() / len(period)
    if mean_test(sums, horizon).t is not None:
        return mean_error(sums - sums.mean(), horizon)[0]
    clusters = pd.Series(influence).groupby(firm.to_numpy()).sum().to_numpy()
    n = len(clusters)
    return float(np.sqrt(n / (n - 1) * (clusters**2).sum()) / len(period)) if n > 1 else float("nan")


def score(known: pd.DataFrame, models: Sequence[str], baseline: str, horizon: int, logs: bool) -> Scores:
    """Score every model.

    Parameters
    ----------
    known : DataFrame
        The rows whose outcome is known: columns firm, period, outcome, training_mean (the mean of the training outcomes of the
        row's fold), and one for each model.
    models : sequence of str
    baseline : str
    horizon : int
    logs : bool, default False
        Whether the outcome is a natural log.

    Returns
    -------
    Scores
    """
    y, mean, period, firm = (known[name] for name in ("outcome", "training_mean", "period", "firm"))
    errors = pd.DataFrame({name: (y - known[name]) ** 2 for name in models})
    base = ((y - mean) ** 2).to_numpy()
    rank_ics = {}
    tests = {}
    rows = {}
    for name in models:
        forecast = known[name]
        error = errors[name].to_numpy()
        ranked, linear = (measure(y, forecast, period, horizon=horizon) for measure in (rank_ic, ic))
        order = (ranked.mean, ranked.t, ranked.icir, linear.mean, linear.icir)
        row = errors_of(y, forecast, mean, period) | dict(zip(ORDER_METRICS, order, strict=True))
        row["r2_se"] = r2_error(error, base, period, firm, horizon)
        rank_ics[name] = ranked
        if logs:
            row |= {"median_ape": median_ape(y, forecast), "within_15": share_near(y, forecast)}
        if name != baseline:
            names = {"model": name, "baseline": baseline}
            tests[name] = test = diebold_mariano(error, errors[baseline], period, horizon=horizon, **names)
            row |= {"dm_t": test.t, "dm_p": test.p_value}
        rows[name] = row
    table = pd.DataFrame.from_dict(rows, orient="index", columns=[m.key for m in METRICS], dtype=float)
    losses = errors.groupby(period.to_numpy()).mean().rename_axis("period")
    return Scores(table.rename_axis("model"), rank_ics, tests, losses)
