"""Performance by subgroup: the scores by year, by size and by industry."""

from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.gains import labels_of
from peerattn.evaluation.measures.information import rank_ic
from peerattn.evaluation.measures.scores import errors_of
from peerattn.exceptions import InputError, expect, validate_arguments
from peerattn.panel.time_order import span_of

_SHOWN = ("r2_mean", "r2_mean_periods", "r2_within", "rmse", "rank_ic")


@validate_arguments
def scores_by(comparison: Compared, by: str | pd.Series) -> pd.DataFrame:
    """Return the scores of every model within groups of rows: by year, size group or industry.

    Parameters
    ----------
    comparison : Compared
    by : "year", "period", or Series indexed by (firm, period)
        "year" is the year of a row's period; its outcome may be realised in the next one. A Series holds
        codes, such as industries, or groups of size; ``comparison.panel.groups`` has those of ``compare(groups=...)``.

    Returns
    -------
    DataFrame
        Indexed by (group, model): number of rows, R² against the prevailing mean with rows equal and with periods
        equal, R² within periods, RMSE, rank IC. Rows without a group are group "unknown".
    """
    known = comparison.known
    rows = {}
    for label, part in known.groupby(_groups(known, by), sort=False):
        y, mean, period = (part[name] for name in ("outcome", "training_mean", "period"))
        for name in comparison.names:
            found = errors_of(y, part[name], mean, period) | {"rank_ic": rank_ic(y, part[name], period).mean}
            rows[label, name] = {"rows": len(part)} | {key: found[key] for key in _SHOWN}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["group", "model"])
    return table.sort_index(level="group", sort_remaining=False, key=lambda labels: labels.map(str))


def _groups(frame: pd.DataFrame, by: Any) -> np.ndarray:
    if isinstance(by, str) and by in ("period", "year"):
        labels = frame["period"].astype(object)
        if by == "year":
            labels = labels.map(_year)
        return labels.to_numpy(dtype=object)
    expect(isinstance(by, pd.Series), "by", "'year', 'period' or a Series indexed by firm and period", repr(by))
    values = pd.Series(labels_of(frame, by, "by"))
    if pd.api.types.is_numeric_dtype(by.dtype) and values.nunique() > 50:
        raise InputError("by holds more than 50 different numbers: pass groups of it, such as pandas.qcut makes.")
    return values.where(values.notna(), "unknown").to_numpy()


def _year(label: object) -> Any:
    """Return the year of a period label, or the label itself where it has none.

    >>> _year(201206), _year(2012), _year("2012-06"), _year(pd.Timestamp("2012-06-30"))
    (2012, 2012, 2012, 2012)
    """
    return getattr(span_of(label), "year", label)
