"""Forecasters from a panel: a firm's mean, its last value, own characteristics, Fama–MacBeth, industry means as regressors."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerattn.exceptions import InputError
from peerattn.models.base import PanelEstimator
from peerattn.models.cross_section import check_same_kind, others_mean
from peerattn.models.learned import warn_of_shared_periods
from peerattn.models.mixins import OwnFirmMixin, PanelRegressorMixin
from peerattn.panel.design import Design
from peerattn.panel.effects import independent_columns
from peerattn.panel.knowledge import first_known
from peerattn.panel.panel import Panel
from peerattn.panel.time_order import check_comparable
from peerattn.types import OutcomesLike, PanelLike

ALPHAS = np.logspace(-2, 5, 15)


@dataclass(eq=False, repr=False, kw_only=True)
class PanelForecaster(OwnFirmMixin, PanelRegressorMixin, PanelEstimator):
    """Base class of forecasters: a panel in, learned from the rows of known outcome, a prediction for each row out."""

    firm: str = "firm"
    period: str = "period"

    def predict(self, X: PanelLike) -> np.ndarray:  # type: ignore[override]
        """Predict the outcome of each row: an ndarray (n,), in the order of ``X``'s rows."""
        return self._predictions(X)

    def _gate_call(self, X: PanelLike, outcomes: OutcomesLike) -> tuple[Panel, Any]:
        if outcomes is not None:
            raise InputError(f"outcomes: {type(self).__name__} uses none; leave them out.")
        return self._check(X, fitting=False), None

    def _predicted(self, panel: Panel, call: Any) -> np.ndarray:
        predicted = self._predict(panel)
        warn_of_shared_periods(panel, self.learned_rows_)
        return panel.restore(predicted)

    @abstractmethod
    def _predict(self, panel: Panel) -> np.ndarray:
        """Return one prediction for each of the panel's rows."""


class FirmMeanRegressor(PanelForecaster):
    """The firm's mean training outcome; a new firm gets the mean of all.

    ``ŷ_it = (1/T_i) Σ_s y_is``, the prevailing mean by firm.

    Parameters
    ----------
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    mean_ : float
    by_firm_ : Series

    Examples
    --------
    >>> X = pd.DataFrame({"firm": ["A", "A", "B"], "period": [1, 2, 1], "size": [1.0, 2.0, 3.0]})
    >>> FirmMeanRegressor().fit(X, [1.0, 3.0, 8.0]).predict(X).tolist()
    [2.0, 2.0, 8.0]
    """

    _reads_characteristics = False

    def _learn_from(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        self.mean_ = float(y.mean())
        self.by_firm_ = pd.Series(dtype=float)
        if panel.firm is not None:
            self.by_firm_ = pd.Series(y).groupby(panel.firm[known]).mean()

    def _predict(self, panel: Panel) -> np.ndarray:
        if panel.firm is None or not len(self.by_firm_):
            return np.full(len(panel), self.mean_)
        check_same_kind(self.by_firm_.index, panel.firm)
        return self.by_firm_.reindex(panel.firm).fillna(self.mean_).to_numpy()


class LastValueRegressor(PanelForecaster):
    """The firm's last training outcome before the row's period; a firm without any gets the mean of all.

    ``ŷ_it = y_is``, s the latest training period before t: a random walk.

    Parameters
    ----------
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    mean_ : float
    history_ : DataFrame
        Columns firm, period, outcome.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": ["A", "A", "B"], "period": [1, 2, 1], "size": [1.0, 2.0, 3.0]})
    >>> model = LastValueRegressor().fit(X, [1.0, 3.0, 8.0])
    >>> model.predict(X.iloc[1:].assign(period=3)).tolist()
    [3.0, 8.0]
    """

    _reads_characteristics = False

    def _learn_from(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        self.mean_ = float(y.mean())
        learned = pd.DataFrame({"firm": panel.firm, "period": panel.period, "outcome": panel.outcomes})
        self.history_ = learned.dropna(subset=["firm", "outcome"])  # nothing, of rows without labels

    def _predict(self, panel: Panel) -> np.ndarray:
        if panel.firm is None or not len(self.history_):
            return np.full(len(panel), self.mean_)
        return last_outcomes(self.history_, panel).fillna(self.mean_).to_numpy()


class FamaMacBethRegressor(PanelForecaster):
    """Forecast from the average of cross-sectional regressions.

    ``ŷ_it = ā + x_it b̄``, the means over training periods of the coefficients of each period's regression across firms,
    as in linearmodels' ``FamaMacBeth``, but without periods of no more firms than coefficients, which any outcome fits exactly.
    Uses characteristics only: codes and missing-indicators are left out.

    Parameters
    ----------
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    coef_ : ndarray (p,)
        Of the characteristics, in the order of ``design_.characteristics``.
    intercept_ : float
    slopes_ : DataFrame or None
        Coefficients of each period's regression, the intercept first; None on arrays or one period.

    Notes
    -----
    On arrays, one cross-section, it is least squares. Columns that are combinations of others in some period are left out.

    References
    ----------
    Fama, E. F. and MacBeth, J. D. (1973), Risk, return, and equilibrium: empirical tests, Journal of Political Economy 81(3).
    Lewellen, J. (2015), The cross-section of expected stock returns, Critical Finance Review 4(1).

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("ABC") * 3, "period": np.repeat([1, 2, 3], 3), "size": [1.0, 2, 3] * 3})
    >>> FamaMacBethRegressor().fit(X, [1.0, 2, 3, 2, 4, 6, 4, 7, 10]).coef_.round(6).tolist()
    [2.0]
    """

    def _learn_from(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        self.design_ = Design.fit(panel)
        X = self.design_.filled(panel)[known]
        period = panel.period[known]
        groups = {when: np.flatnonzero(period == when) for when in period.unique()}
        if several := panel.dated and len(groups) > 1:
            groups = {when: at for when, at in groups.items() if len(at) > X.shape[1] + 1}
        if not groups:
            size = f"{X.shape[1] + 1} firms for {X.shape[1]} characteristics"
            raise InputError(f"FamaMacBethRegressor: no period has more than {size}.")
        used = np.arange(X.shape[1])
        for at in groups.values():  # a column that is a combination of others in a period would cost it
            used = used[independent_columns(np.column_stack([np.ones(len(at)), X[at][:, used]]))[1:]]
        with_one = np.column_stack([np.ones(len(X)), X[:, used]])
        size = np.abs(with_one).max(axis=0)  # whatever the units
        slopes = [np.linalg.lstsq(with_one[at] / size, y[at])[0] / size for at in groups.values()]
        names = ["intercept", *(self.design_.characteristics[k] for k in used)]
        self.slopes_ = None
        if several:
            self.slopes_ = pd.DataFrame(slopes, pd.Index(list(groups), name="period"), names)
        self.coef_ = np.zeros(X.shape[1])
        mean = np.mean(slopes, axis=0)
        self.intercept_ = float(mean[0])
        self.coef_[used] = mean[1:]

    def _predict(self, panel: Panel) -> np.ndarray:
        return self.intercept_ + self.design_.filled(panel) @ self.coef_


@dataclass(eq=False, repr=False, kw_only=True)
class IndustryMeansRegressor(PanelForecaster):
    """Ridge regression on own characteristics and their means over the other firms of the industry and period.

    ``ŷ_i = a + x_i β + x̄_{g(i), −i} γ``: what peers look like, not what their outcomes were. λ by leave-one-out (``RidgeCV``).

    Parameters
    ----------
    industry : str, optional
        Column of ``X`` with the code. None: the other firms of the period are the industry.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Notes
    -----
    On arrays there are no peers: ridge on own characteristics. A firm alone in its industry, or of unknown industry, takes the
    mean of all other firms. Codes are used only in the means.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("ABCD"), "period": 1, "size": [1.0, 2, 3, 5], "sic": [3711, 3711, 2911, 2911]})
    >>> IndustryMeansRegressor(industry="sic").fit(X, [2.0, 1, 5, 3]).predict(X).round().tolist()
    [2.0, 1.0, 5.0, 3.0]
    """

    industry: str | None = None

    def _learn_from(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        self.design_ = Design.fit(panel)
        self.with_peers_ = panel.dated
        self.ridge_ = make_pipeline(StandardScaler(), RidgeCV(alphas=ALPHAS))
        self.ridge_.fit(self._regressors(panel)[known], y)

    def _predict(self, panel: Panel) -> np.ndarray:
        return self.ridge_.predict(self._regressors(panel))

    def _regressors(self, panel: Panel) -> np.ndarray:
        """Return own characteristics and those of the other firms of the industry and period."""
        own = self.design_.filled(panel)
        if not own.shape[1]:  # nothing but the code itself
            own = self.design_.transform(panel)
        if not self.with_peers_:
            return own
        if not panel.dated:  # a firm without its period stands for its peers
            return np.hstack([own, own])
        period = pd.factorize(panel.period)[0]
        peers = others_mean(own, period, own)
        if self.industry is not None:
            code = pd.factorize(panel.codes[self.industry])[0]  # -1 = unknown
            # of an unknown industry a firm is in no group, and keeps the mean of all
            group = np.where(code < 0, -1, period * (code.max() + 1) + code)
            peers = others_mean(own, group, peers)
        return np.hstack([own, peers])


def last_outcomes(learned: pd.DataFrame, panel: Panel, horizon: int = 1) -> pd.Series:
    """Return the last outcome of each row's firm that is known by its period, (n,); NaN where none is.

    ``learned`` has the columns firm, period, outcome, and known_at where outcomes have dates. An outcome is known ``horizon``
    periods later: one of the row's own period is not known yet.
    """
    assert panel.firm is not None
    check_same_kind(pd.Index(learned["firm"]), panel.firm)
    check_comparable(panel.period, pd.Index(learned["period"]))
    # the horizon counts the periods of fit and of the call
    place, periods = pd.factorize(pd.Index(learned["period"]).append(panel.period), sort=True)
    row, now = np.split(place, [len(learned)])
    known = row + horizon
    if "known_at" in learned:
        known = np.maximum(known, first_known(pd.Index(learned["known_at"]), periods))
    arrivals = pd.DataFrame({"known": known, "row": row, "firm": learned["firm"], "outcome": learned["outcome"]})
    arrivals = arrivals.sort_values(["known", "row"])
    # what is filed late does not replace a later period's outcome
    latest = arrivals[arrivals["row"] == arrivals.groupby("firm")["row"].cummax()]
    requested = pd.DataFrame({"firm": panel.firm, "known": now})
    return pd.merge_asof(requested, latest, on="known", by="firm")["outcome"]
