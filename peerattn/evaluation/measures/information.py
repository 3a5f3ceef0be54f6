"""Does a prediction order the firms of a period? Correlations period by period."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import MeanTest, OfPeriods, mean_test
from peerattn.evaluation.measures.metrics import moments_within
from peerattn.exceptions import validate_arguments
from peerattn.scaling import ROUNDING
from peerattn.types import LabelsLike, OutcomesLike


@dataclass(frozen=True)
class InformationCoefficient(OfPeriods):
    """Mean correlation of predictions with outcomes within periods, and the series it is the mean of.

    Attributes
    ----------
    test : MeanTest
        Of the mean against zero, as in :func:`diebold_mariano`.
    by_period : Series
        Correlation of each period that has one, in time order.
    kind : str
        "rank" (Spearman) or "linear" (Pearson).
    """

    test: MeanTest
    by_period: pd.Series
    kind: str = "rank"

    @property
    def n_periods(self) -> int:
        """Number of periods with a correlation."""
        return len(self.by_period)

    @property
    def icir(self) -> float:
        """Mean over standard deviation of the series, not annualised; NaN where there is no deviation."""
        spread = float(self.by_period.std())
        return self.mean / spread if spread > ROUNDING * abs(self.mean) else float("nan")

    def __repr__(self) -> str:
        name = {"rank": "RankIC", "linear": "IC"}[self.kind]
        if not self.n_periods:
            return f"{name}(none: the predictions do not differ within any period)"
        return f"{name}(mean={self.mean:.4f}, t={self._t_text}, periods={self.n_periods})"


@validate_arguments
def rank_ic(outcome: Any, prediction: OutcomesLike, period: LabelsLike, *, horizon: int = 1) -> InformationCoefficient:
    r"""Return the rank information coefficient: the mean over periods of the Spearman correlation.

    .. math::

        \mathrm{IC} = \tfrac{1}{T} \sum_t
            \operatorname{corr}_i(\operatorname{rank} y_{it}, \operatorname{rank} \hat y_{it})

    Ties share their mean rank. The test of the mean is ``mean_test``: Student's t with an equal-weighted cosine variance.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        Rows in which one is NaN are left out.
    period : array-like of length n
        Period labels; periods with fewer than two firms, or where either side is constant, have no
        correlation.
    horizon : int, default 1
        Forecast horizon in periods, for the variance of the mean.

    Returns
    -------
    InformationCoefficient

    References
    ----------
    Spearman, C. (1904), American Journal of Psychology 15(1), 72–101. Grinold, R. and Kahn, R. (2000), Active Portfolio
    Management, McGraw-Hill, ch. 6. Lazarus, E., Lewis, D., Stock, J. and Watson, M. (2018), HAR inference, Journal of
    Business & Economic Statistics 36(4), 541–559.

    Examples
    --------
    >>> rank_ic([1.0, 2.0, 3.0, 1.0, 2.0, 3.0], [0.1, 0.2, 0.3, 0.3, 0.2, 0.1], [1, 1, 1, 2, 2, 2])
    RankIC(mean=0.0000, t=n/a (T=2, 12 needed), periods=2)
    """
    return _coefficient(outcome, prediction, period, horizon, "rank")


@validate_arguments
def ic(outcome: Any, prediction: OutcomesLike, period: LabelsLike, *, horizon: int = 1) -> InformationCoefficient:
    r"""Return the information coefficient: the mean over periods of the Pearson correlation.

    .. math:: \mathrm{IC} = \tfrac{1}{T} \sum_t \operatorname{corr}_i(y_{it}, \hat y_{it})

    Parameters, t-statistic and references are those of :func:`rank_ic`.

    Returns
    -------
    InformationCoefficient

    Examples
    --------
    >>> ic([1.0, 2.0, 3.0], [0.1, 0.2, 0.3], [1, 1, 1])
    IC(mean=1.0000, t=n/a (T=1, 12 needed), periods=1)
    """
    return _coefficient(outcome, prediction, period, horizon, "linear")


def _coefficient(y: OutcomesLike, x: OutcomesLike, period: LabelsLike, horizon: int, kind: str) -> InformationCoefficient:
    m = moments_within(y, x, period, ranks=kind == "rank")
    m = m[(m["xx"] > 0) & (m["yy"] > 0)]
    series: pd.Series = m["xy"] / np.sqrt(m["xx"] * m["yy"])
    return InformationCoefficient(mean_test(series, horizon), series, kind)
