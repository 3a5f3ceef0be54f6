"""Factor returns, dated as the outcomes are: which row of a factor file belongs to which tested period."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.panel import Panel
from peerattn.render import show_label

_NEXT = re.compile(r"_(next|(lead|fwd)_?1[mqy]?)$", re.IGNORECASE)
_FREQUENCY = {12: "M", 4: "Q", 1: "Y"}
_PER_CENT = 0.2  # a factor whose typical return is larger is in per cent


def periods_per_year(periods: pd.Index) -> float | None:
    """Return how many periods make a year, inferred from the labels; None where they do not show it.

    >>> periods_per_year(pd.Index([200911, 200912, 201001])), periods_per_year(pd.Index([2009, 2010]))
    (12.0, 1.0)
    >>> periods_per_year(pd.period_range("2001Q1", periods=4, freq="Q"))
    4.0
    """
    if len(periods) < 2:
        return None
    if isinstance(periods, pd.PeriodIndex):
        periods = periods.to_timestamp()
    if isinstance(periods, pd.DatetimeIndex):
        days = float(np.median(np.diff(periods.to_numpy()) / np.timedelta64(1, "D")))
        return next((float(n) for n in (252, 52, 12, 4, 1) if 0.7 < days * n / 365.25 < 1.5), None)
    if not pd.api.types.is_integer_dtype(periods.dtype):
        return None
    labels = periods.to_numpy()
    if ((labels >= 1800) & (labels <= 2200)).all():
        return 1.0
    months = labels % 100
    if ((labels >= 180001) & (labels <= 220012) & (months >= 1) & (months <= 12)).all():
        step = float(np.median(np.diff(labels // 100 * 12 + months)))
        return 12 / step if step > 0 else None
    return None


def horizon_named(outcome: str) -> int | None:
    """Return 1 where an outcome's name says that it is realised in the period after its label; else None.

    >>> horizon_named("ret_next"), horizon_named("ret_exc_lead1m"), horizon_named("ret")
    (1, 1, None)
    """
    return 1 if _NEXT.search(outcome) else None


def realised_words(horizon: int) -> str:
    """Return which factors those of a label are, for a sentence.

    >>> realised_words(0), realised_words(1)
    ('the same period', 'the next period')
    """
    return {0: "the same period", 1: "the next period"}.get(
        horizon, f"the next {horizon} periods, compounded"
    )


def match_factors(
    factors: pd.DataFrame, periods: pd.Index, *, outcome_horizon: int | None = None
) -> pd.DataFrame:
    r"""Return the factor returns of the time in which the outcomes of each period are realised.

    An outcome labelled t is realised over the periods t + 1 to t + h, or in t itself for h = 0. Its factor return is

    .. math:: F_t = f_t \;\; (h = 0), \qquad F_t = \prod_{k=1}^{h} (1 + f_{t+k}) - 1 \;\; (h \ge 1).

    Parameters
    ----------
    factors : DataFrame
        Returns in decimals, indexed by period: timestamps, Periods, or numbers and text such as 201207, "2012-07", 20120731.
        A month matches whatever day of it is written.
    periods : Index
        Labels of the outcomes' rows.
    outcome_horizon : int, optional
        h. Months, quarters and years are counted by the calendar, days by the dates of the factors.

    Returns
    -------
    DataFrame
        Indexed by ``periods``.

    Raises
    ------
    InputError
        Without ``outcome_horizon``, where figures are per cent, or a period is missing, twice there, or unknown.

    Examples
    --------
    >>> french = pd.DataFrame({"mkt": [0.01, 0.02, 0.03]}, index=[201206, 201207, 201208])
    >>> match_factors(french, pd.PeriodIndex(["2012-06", "2012-07"], freq="M"), outcome_horizon=1)["mkt"].round(6).tolist()
    [0.02, 0.03]
    """
    source = f" ({factors.attrs['path']})" if "path" in factors.attrs else ""
    if (
        isinstance(outcome_horizon, bool)
        or not isinstance(outcome_horizon, int | np.integer)
        or outcome_horizon < 0
    ):
        raise InputError(
            f"outcome_horizon must be a whole number from 0, got {outcome_horizon!r}: factors are matched to the time in which "
            "an outcome is realised, 0 where the outcome labelled t is realised in t, 1 where it is in t + 1 (ret_next)."
        )
    table, calendar = _numbers(factors, source), _read(periods, periods)
    try:
        table.index = _read(factors.index, periods)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"factors{source}: {show_label(factors.index[0])} is not read as a period such as {show_label(calendar[0])}: {error}."
        ) from error
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise InputError(
            f"factors{source}: {show_label(twice[0])} is there more than once; the panel's periods are such as "
            f"{show_label(periods[0])}, and one row of factor returns is expected for each."
        )
    table = table.sort_index()
    steps = _later(calendar, table.index, outcome_horizon) if outcome_horizon else [calendar]
    _refuse_gaps(table, pd.Index(np.concatenate(steps)).unique(), source)
    total = np.prod([1 + table.loc[step].to_numpy() for step in steps], axis=0) - 1
    return pd.DataFrame(total, index=periods, columns=table.columns)


def _numbers(factors: Any, source: str) -> pd.DataFrame:
    if not isinstance(factors, pd.DataFrame):
        raise InputError(f"factors: expected a DataFrame indexed by period, got {type(factors).__name__}.")
    table = factors.select_dtypes("number").astype(float)
    if not table.shape[1]:
        raise InputError(f"factors{source}: no column of numbers beside the period.")
    if float(table.abs().median().max()) > _PER_CENT:
        raise InputError(
            f"factors{source}: returns in decimals are expected (0.01 = 1 %); these look like per cent. Divide by 100."
        )
    return table


def _read(labels: pd.Index, periods: pd.Index) -> pd.Index:
    """Return labels as the panel's calendar has them: months, quarters and years as Periods, days, others as they are."""
    per_year = periods_per_year(periods.unique().sort_values())
    frequency = periods.freqstr if isinstance(periods, pd.PeriodIndex) else _FREQUENCY.get(int(per_year or 0))
    if not frequency and not isinstance(periods, pd.DatetimeIndex):
        return labels.astype(periods.dtype)
    if isinstance(labels, pd.PeriodIndex):
        return labels.asfreq(frequency) if frequency else labels.to_timestamp().normalize()
    dates = labels if isinstance(labels, pd.DatetimeIndex) else _dates(labels)
    return dates.to_period(frequency) if frequency else dates.normalize()


def _dates(labels: pd.Index) -> pd.DatetimeIndex:
    """Return labels such as 2012, 201207, 20120731 or "2012-07" as the first day that they may mean."""
    text = pd.Series(labels.astype(str)).str.strip()
    sizes = set(text.str.len()) if text.str.fullmatch(r"\d+").all() else set()
    forms = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d"}
    form = forms.get(sizes.pop(), "mixed") if len(sizes) == 1 else "mixed"
    return pd.DatetimeIndex(pd.to_datetime(text, format=form))


def _later(calendar: pd.Index, dates: pd.Index, horizon: int) -> list[pd.Index]:
    """Return the labels of each of the periods after, days by the dates of the factors."""
    if isinstance(calendar, pd.DatetimeIndex):
        last = dates.searchsorted(calendar, side="right") - 1
        later = dates.append(pd.DatetimeIndex([pd.NaT] * horizon))
        return [later[last + k] for k in range(1, horizon + 1)]
    if not isinstance(calendar, pd.PeriodIndex) and not pd.api.types.is_integer_dtype(calendar.dtype):
        raise InputError(
            f"outcome_horizon={horizon}: labels such as {show_label(calendar[0])} cannot be counted on; convert them to dates, "
            "or label the factors by the rows whose outcome is realised then, with outcome_horizon=0."
        )
    return [calendar + k for k in range(1, horizon + 1)]


def _refuse_gaps(table: pd.DataFrame, wanted: pd.Index, source: str) -> None:
    complete = table.dropna()
    missing = wanted[~wanted.isin(complete.index)]
    if len(missing):
        shown = ", ".join("a later date" if pd.isna(label) else show_label(label) for label in missing[:3])
        span = (
            f"{show_label(complete.index[0])} to {show_label(complete.index[-1])}"
            if len(complete)
            else "nothing"
        )
        raise InputError(
            f"factors{source}: outcomes of the tested periods are realised in {len(missing)} periods that are not covered "
            f"({shown}{', ...' if len(missing) > 3 else ''}); complete rows: {span}. Pass a longer file, or test fewer periods."
        )


def factors_realised(
    factors: pd.DataFrame | None, panel: Panel, tested: np.ndarray, task: str, horizon: int | None
) -> pd.DataFrame | None:
    """Return the factors of the time in which the tested outcomes are realised, by the period of their rows."""
    if factors is None or task != "forecast":  # an explanation makes no portfolios
        return None
    rows = tested[panel.y.notna().to_numpy()[tested]]
    periods = panel.X.index[rows].get_level_values(1).unique().sort_values()
    horizon = horizon_named(panel.outcome) if horizon is None else horizon
    found = match_factors(factors, periods, outcome_horizon=horizon)
    found.attrs = {"realised": realised_words(horizon or 0)}
    return found
