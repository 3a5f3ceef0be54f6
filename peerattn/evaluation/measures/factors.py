"""Factor returns, dated as the outcomes are: which row of a factor file belongs to which tested period."""

import re
from numbers import Integral

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError, PeerAttnWarning, expect, warn_user
from peerattn.panel import Panel
from peerattn.panel.time_order import span_of
from peerattn.render import show_label

NEXT = re.compile(r"_(next|(lead|fwd)_?1[mqy]?)$", re.IGNORECASE)
_FREQUENCY = {12: "M", 4: "Q", 1: "Y"}
_PER_CENT = 0.2  # a factor whose typical return is larger is in per cent


def periods_per_year(periods: pd.Index) -> float | None:
    """Return how many periods make a year, inferred from the labels; None where they do not show it.

    >>> periods_per_year(pd.Index([200911, 200912, 201001])), periods_per_year(pd.Index([2009, 2010]))
    (12.0, 1.0)
    >>> periods_per_year(pd.Index(["2012-01", "2012-02"])), periods_per_year(pd.Index([20120131, 20120229]))
    (12.0, 12.0)
    >>> periods_per_year(pd.period_range("2001Q1", periods=4, freq="Q")), periods_per_year(pd.bdate_range("2001", periods=9))
    (4.0, 252.0)
    """
    spans = [span_of(label) for label in periods]
    if len(spans) < 2 or None in spans:
        return None
    starts = pd.DatetimeIndex([span.start_time for span in spans if span is not None])
    years = float(np.median(np.diff(starts.to_numpy()) / np.timedelta64(1, "D"))) / 365.25
    if 0.68 < 252 * years < 1.5 and starts.day_of_week.max() < 5:  # of 365 days 252 are trading days
        return 252.0
    return next((float(n) for n in (52, 12, 4, 2, 1) if 0.7 < years * n < 1.5), None)


def match_factors(factors: pd.DataFrame, periods: pd.Index, *, outcome_horizon: int | None = None) -> pd.DataFrame:
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
    source = f" ({factors.attrs.get('path')})" * ("path" in factors.attrs)
    if isinstance(outcome_horizon, bool) or not isinstance(outcome_horizon, Integral) or outcome_horizon < 0:
        when = "0 where the outcome labelled t is realised in t, 1 where it is in t + 1 (ret_next), which factors are matched to"
        raise InputError(f"outcome_horizon must be a whole number from 0, got {outcome_horizon!r}: {when}.")
    expect(outcome_horizon <= len(factors), "outcome_horizon", f"at most the {len(factors)} periods of factors", outcome_horizon)
    table = factors.select_dtypes("number").astype(float)
    expect(table.shape[1] > 0, f"factors{source}", "a column of numbers beside the period", "none")
    decimals = not float(table.abs().median().max()) > _PER_CENT
    expect(decimals, f"factors{source}", "returns in decimals", "what looks like per cent", "Divide by 100.")
    frequency = _frequency(periods)
    calendar = _read(periods, frequency)
    try:
        table.index = _read(factors.index, frequency).astype(calendar.dtype)
    except (TypeError, ValueError) as error:
        ends = f"{show_label(factors.index[0])} is not read as a period such as {show_label(calendar[0])}"
        raise InputError(f"factors{source}: {ends}: {error}.") from error
    table = table.sort_index()
    _check_span(calendar, table.index, outcome_horizon)
    twice = table.index[table.index.duplicated()].map(show_label)
    expect(twice.empty, f"factors{source}", "one row for each period", f"{', '.join(twice[:1])} more than once")
    steps = _later(calendar, table.index, outcome_horizon) if outcome_horizon else [calendar]
    _check_gaps(table.dropna().index, pd.Index(np.concatenate(steps)).unique(), source)
    total = np.prod([1 + table.loc[step].to_numpy() for step in steps], axis=0) - 1
    return pd.DataFrame(total, index=periods, columns=table.columns)


def _frequency(periods: pd.Index) -> str | None:
    """Return the frequency of the panel's calendar; None where its labels are no dates."""
    if isinstance(periods, pd.PeriodIndex):
        return periods.freqstr
    per_year = int(periods_per_year(periods.unique().sort_values()) or 0)
    if per_year not in _FREQUENCY and isinstance(periods, pd.DatetimeIndex):
        return "D"
    # of one period, or of some with gaps: what a label spans
    spans = {getattr(span_of(label), "freqstr", None) for label in periods}
    return _FREQUENCY.get(per_year) or (spans.pop() if len(spans) == 1 else None)


def _read(labels: pd.Index, frequency: str | None) -> pd.Index:
    """Return labels such as 2012, 201207, 20120731 or "2012-07" as periods of a frequency; without one as they are."""
    if frequency is None:
        if isinstance(labels, pd.DatetimeIndex | pd.PeriodIndex):  # their numbers would count from 1970
            raise TypeError("dates beside labels that are none")
        return labels
    if isinstance(labels, pd.DatetimeIndex):
        return labels.to_period(frequency)
    spans = [span_of(label) or pd.Period(label, "D") for label in labels.astype(str).str.strip()]
    return pd.PeriodIndex([span.asfreq(frequency) for span in spans])


def _later(calendar: pd.Index, dates: pd.Index, horizon: int) -> list[pd.Index]:
    """Return the labels of each of the periods after, days by the dates of the factors."""
    if isinstance(calendar, pd.PeriodIndex) and calendar.freqstr == "D":
        # trading days, not calendar days
        last = dates.searchsorted(calendar, side="right") - 1
        later = dates.append(pd.PeriodIndex([pd.NaT] * horizon, freq="D"))
        return [later[last + k] for k in range(1, horizon + 1)]
    if not isinstance(calendar, pd.PeriodIndex) and not pd.api.types.is_integer_dtype(calendar.dtype):
        such = f"labels such as {show_label(calendar[0])} cannot be counted on; convert them to dates, or pass factors of the"
        raise InputError(f"outcome_horizon={horizon}: {such} time in which outcomes are realised, with outcome_horizon=0.")
    return [calendar + k for k in range(1, horizon + 1)]


def _check_span(calendar: pd.Index, dates: pd.Index, horizon: int) -> None:
    """Warn where the panel's dates are much farther apart than the rows of the factors, of which one is matched to an outcome."""
    of_days = isinstance(calendar, pd.PeriodIndex) and calendar.freqstr == "D"
    if horizon > 1 or not of_days or min(calendar.nunique(), dates.nunique()) < 2:
        return
    days = [each.unique().sort_values().astype(np.int64) for each in (calendar, dates)]
    apart, step = (float(np.median(np.diff(each))) for each in days)
    if step < apart / 2:
        got = f"factors: periods of the panel are {apart:g} days apart, rows of the factors {step:g}"
        remedy = "If outcomes are realised over more, compound the factors first, or count outcome_horizon in their rows"
        warn_user(PeerAttnWarning(f"{got}, of which one is matched to each outcome. {remedy}."))


def _check_gaps(complete: pd.Index, wanted: pd.Index, source: str) -> None:
    missing = wanted[~wanted.isin(complete)]
    if not len(missing):
        return
    labels = ", ".join(map(show_label, missing[:3])).replace("NaT", "a later date") + ", ..." * (len(missing) > 3)
    span = " to ".join(map(show_label, complete[[0, -1]])) if len(complete) else "nothing"
    wording = f"outcomes are realised in {len(missing)} periods that are not covered ({labels})"
    raise InputError(f"factors{source}: {wording}; complete rows: {span}. Pass factors of more periods, or a panel of fewer.")


def factors_realised(
    factors: pd.DataFrame | None, panel: Panel, tested: np.ndarray, task: str, horizon: int | None
) -> pd.DataFrame | None:
    """Return the factors of the time in which the tested outcomes are realised, by the period of their rows.

    ``horizon`` is 1 where it is not given and the outcome's name implies that it is realised in the period after (``ret_next``).
    """
    if factors is None or task != "forecast":  # a nowcast makes no portfolios; its outcomes are net of factors
        return None
    expect(factors.index.nlevels == 1, "factors", "one row for each period in forecasts", "an index of several levels")
    rows = tested[panel.y.notna().to_numpy()[tested]]
    periods = panel.X.index[rows].get_level_values(1).unique().sort_values()
    if horizon is None and NEXT.search(panel.outcome):
        horizon = 1
    found = match_factors(factors, periods, outcome_horizon=horizon)
    found.attrs["realised"] = {0: "the same period", 1: "the next period"}.get(horizon or 0, f"the next {horizon} periods")
    return found
