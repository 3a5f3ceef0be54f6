"""Forecasters that read the labels of a panel: a firm's mean, its last value, Fama–MacBeth, industry means as regressors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import ElasticNetCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from peerattn.exceptions import InputError
from peerattn.models.two_stage import independent_columns
from peerattn.panel import PanelLabels, panel_labels

ALPHAS = np.logspace(-2, 5, 15)


def own_columns(columns: Sequence[Any]) -> list[int]:
    """Return the positions of characteristics among encoded columns: no code levels (``sic=0100``), no missing-indicators.

    >>> own_columns(["size", "size_missing", "sic=0100", "lev"])
    [0, 3]
    """
    return [
        k for k, name in enumerate(columns) if "=" not in str(name) and not str(name).endswith("_missing")
    ]


class PanelForecaster(RegressorMixin, BaseEstimator):
    """Base class: numbers in, as scikit-learn has them, with firm and period read from the index where it has them."""

    firm: str
    period: str

    def _check_training(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, PanelLabels | None]:
        frame, labels = self._labelled(X)
        values, outcomes = validate_data(self, frame, y, dtype=np.float64, y_numeric=True)
        return values, np.asarray(outcomes, dtype=float), labels

    def _check_call(self, X: Any) -> tuple[np.ndarray, PanelLabels | None]:
        check_is_fitted(self)
        frame, labels = self._labelled(X)
        return validate_data(self, frame, reset=False, dtype=np.float64), labels

    def _labelled(self, X: Any) -> tuple[Any, PanelLabels | None]:
        labels = panel_labels(X, self.firm, self.period) if isinstance(X, pd.DataFrame) else None
        return (X if labels is None else X.drop(columns=list(labels.in_columns))), labels

    def _own(self) -> list[int]:
        return own_columns(getattr(self, "feature_names_in_", range(self.n_features_in_)))


class FirmMeanRegressor(PanelForecaster):
    """The firm's mean training outcome; a new firm gets the mean of all.

    ``ŷ_it = (1/T_i) Σ_s y_is``, the prevailing mean by firm.

    Parameters
    ----------
    firm, period : str
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

    def __init__(self, *, firm: str = "firm", period: str = "period") -> None:
        self.firm = firm
        self.period = period

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the means."""
        _, y, labels = self._check_training(X, y)
        self.mean_ = float(y.mean())
        self.by_firm_ = pd.Series(dtype=float) if labels is None else pd.Series(y).groupby(labels.firm).mean()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return each row's firm mean."""
        X, labels = self._check_call(X)
        if labels is None or not len(self.by_firm_):
            return np.full(len(X), self.mean_)
        return self.by_firm_.reindex(labels.firm).fillna(self.mean_).to_numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # reads no characteristic
        return tags


class LastValueRegressor(PanelForecaster):
    """The firm's last training outcome before the row's period; a firm without any gets the mean of all.

    ``ŷ_it = y_is``, s the latest training period before t: a random walk.

    Parameters
    ----------
    firm, period : str
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
    >>> model.predict(X.assign(period=3)).tolist()
    [3.0, 3.0, 8.0]
    """

    def __init__(self, *, firm: str = "firm", period: str = "period") -> None:
        self.firm = firm
        self.period = period

    def fit(self, X: Any, y: Any) -> Self:
        """Remember the outcomes."""
        _, y, labels = self._check_training(X, y)
        self.mean_ = float(y.mean())
        self.history_ = pd.DataFrame({"firm": [], "period": [], "outcome": []})
        if labels is not None:
            history = pd.DataFrame({"firm": labels.firm, "period": labels.period, "outcome": y})
            self.history_ = history.sort_values("period", kind="stable").reset_index(drop=True)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return each firm's latest outcome before the row's period."""
        X, labels = self._check_call(X)
        if labels is None or not len(self.history_):
            return np.full(len(X), self.mean_)
        asked = pd.DataFrame({"firm": labels.firm, "period": labels.period, "row": np.arange(len(X))})
        asked["when"] = _ranks(labels.period, self.history_["period"])[0]
        history = self.history_.assign(when=_ranks(labels.period, self.history_["period"])[1])
        merged = pd.merge_asof(
            asked.sort_values("when", kind="stable"),
            history[["firm", "when", "outcome"]].sort_values("when", kind="stable"),
            on="when",
            by="firm",
            allow_exact_matches=False,
        )
        return merged.sort_values("row")["outcome"].fillna(self.mean_).to_numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # reads no characteristic
        return tags


class FamaMacBethRegressor(PanelForecaster):
    """Forecast from the average of cross-sectional regressions.

    ``ŷ_it = ā + x_it'b̄``, the means over training periods of the coefficients of each period's regression across firms
    (linearmodels' ``FamaMacBeth``). Uses characteristics only: dummies of codes and missing-indicators are left out.

    Parameters
    ----------
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    coef_ : ndarray (p,)
    intercept_ : float
    tvalues_ : Series or None
        t statistics of the coefficients' time series, Newey–West from 10 periods on; None on arrays or one period.

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

    def __init__(self, *, firm: str = "firm", period: str = "period") -> None:
        self.firm = firm
        self.period = period

    def fit(self, X: Any, y: Any) -> Self:
        """Regress period by period, and average."""
        X, y, labels = self._check_training(X, y)
        self.coef_, self.tvalues_ = np.zeros(X.shape[1]), None
        own = self._own()
        if labels is None or labels.period.nunique() == 1:
            center, mean = X.mean(axis=0), y.mean()
            self.coef_[own] = np.linalg.lstsq((X - center)[:, own], y - mean, rcond=None)[0]
            self.intercept_ = float(mean - center @ self.coef_)
            return self
        from linearmodels.panel import FamaMacBeth

        index = pd.MultiIndex.from_arrays(
            [pd.factorize(labels.firm)[0], pd.factorize(labels.period, sort=True)[0]]
        )
        when = index.get_level_values(1)
        large = [np.flatnonzero(when == period) for period in when.unique()]
        large = [at for at in large if len(at) > len(own) + 1]
        if not large:
            raise InputError(
                f"FamaMacBethRegressor: no period has more than {len(own) + 1} firms for {len(own)} characteristics."
            )
        used = own
        for at in large:  # a column that is a combination of others in one period would cost that period
            used = [used[k - 1] for k in np.flatnonzero(independent_columns(_with_one(X[at][:, used]))) if k]
        rows = np.sort(np.concatenate(large))
        frame = pd.DataFrame(X[rows][:, used], index=index[rows], columns=[str(column) for column in used])
        frame.insert(0, "intercept", 1.0)
        covariance = "kernel" if len(large) >= 10 else "robust"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of too few periods for t statistics, which are then NaN
            fit = FamaMacBeth(pd.Series(y[rows], index=index[rows], name="y"), frame, check_rank=False).fit(
                cov_type=covariance
            )
        self.intercept_ = float(fit.params["intercept"])
        self.coef_[used] = fit.params[[str(column) for column in used]]
        self.tvalues_ = fit.tstats
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the linear forecast."""
        X, _ = self._check_call(X)
        return self.intercept_ + X @ self.coef_


class ElasticNetRegressor(PanelForecaster):
    """Elastic net on the firm's own characteristics, standardised, its penalty chosen on later periods than those learned from.

    ``min_b ½n⁻¹ Σ (y_i − a − x_i'b)² + λ (r ‖b‖₁ + ½ (1 − r) ‖b‖₂²)``, λ and r in {.1, .5, .9} by ``ElasticNetCV`` with forward
    folds: the periods are cut into six blocks, and each block but the first validates what all earlier ones teach.

    Parameters
    ----------
    random_state : int, optional
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Notes
    -----
    On arrays, and with one period, there are scikit-learn's five folds of rows. Dummies of codes and missing-indicators are left
    out.

    References
    ----------
    Zou, H. and Hastie, T. (2005), Regularization and variable selection via the elastic net, Journal of the Royal Statistical
    Society B 67(2).

    Examples
    --------
    >>> index = pd.MultiIndex.from_product([range(30), range(8)], names=["firm", "period"])
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(240, 2)), index=index, columns=["size", "lev"])
    >>> ElasticNetRegressor().fit(X, X["size"]).predict(X[:1]).round(1).tolist() == X["size"][:1].round(1).tolist()
    True
    """

    def __init__(
        self, *, random_state: int | None = None, firm: str = "firm", period: str = "period"
    ) -> None:
        self.random_state = random_state
        self.firm = firm
        self.period = period

    def fit(self, X: Any, y: Any) -> Self:
        """Choose the penalty and fit."""
        values, y, labels = self._check_training(X, y)
        own = self._own() or list(range(values.shape[1]))
        cv = None if labels is None else forward_folds(labels.period)
        search = ElasticNetCV(l1_ratio=[0.1, 0.5, 0.9], cv=cv or 5, random_state=self.random_state)
        self.net_ = make_pipeline(ColumnTransformer([("own", StandardScaler(), own)]), search).fit(values, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the linear forecast."""
        return np.asarray(self.net_.predict(self._check_call(X)[0]))


def forward_folds(period: pd.Index, n_blocks: int = 6) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds that validate each block of periods on what all earlier blocks teach; none with one period.

    >>> [(train.tolist(), test.tolist()) for train, test in forward_folds(pd.Index([3, 1, 2, 1]), 3)]
    [([1, 3], [2]), ([1, 2, 3], [0])]
    """
    when, periods = pd.factorize(period, sort=True)
    starts = np.unique(
        [block[0] for block in np.array_split(np.arange(len(periods)), n_blocks) if len(block)]
    )
    ends = [*starts[2:], len(periods)]
    return [
        (np.flatnonzero(when < start), np.flatnonzero((when >= start) & (when < end)))
        for start, end in zip(starts[1:], ends)
    ]


class IndustryMeansRegressor(PanelForecaster):
    """Ridge regression on own characteristics and their means over the other firms of the industry and period.

    ``ŷ_i = a + x_i'γ + x̄_{g(i), −i}'δ``: what peers look like, not what their outcomes were. λ by leave-one-out (``RidgeCV``).

    Parameters
    ----------
    industry : str, optional
        Name of the code, whose levels are columns ``<industry>=<level>`` as :class:`~peerattn.panel.PanelEncoder` makes them.
        None: the other firms of the period are the industry.
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Notes
    -----
    On arrays there are no peers: ridge on own characteristics. A firm alone in its industry, or of unknown industry, takes the
    mean of all other firms. Codes enter only through the means.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("ABCD"), "period": 1, "size": [1.0, 2, 3, 5], "sic=37": [1, 1, 0, 0]})
    >>> X["sic=29"] = 1 - X["sic=37"]
    >>> IndustryMeansRegressor(industry="sic").fit(X, [2.0, 1, 5, 3]).predict(X).round().tolist()
    [2.0, 1.0, 5.0, 3.0]
    """

    def __init__(self, *, industry: str | None = None, firm: str = "firm", period: str = "period") -> None:
        self.industry = industry
        self.firm = firm
        self.period = period

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the ridge."""
        values, y, labels = self._check_training(X, y)
        self.levels_ = [
            k
            for k, name in enumerate(getattr(self, "feature_names_in_", ()))
            if str(name).startswith(f"{self.industry}=")
        ]
        if self.industry is not None and labels is not None and not self.levels_:
            raise InputError(
                f"industry: X has no column {self.industry}=<level>; encode it with PanelEncoder."
            )
        self.with_peers_ = labels is not None
        self.ridge_ = make_pipeline(StandardScaler(), RidgeCV(alphas=ALPHAS)).fit(
            self._regressors(values, labels), y
        )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict from own and peers' characteristics; peers are the rows of the call."""
        values, labels = self._check_call(X)
        return self.ridge_.predict(self._regressors(values, labels))

    def _regressors(self, X: np.ndarray, labels: PanelLabels | None) -> np.ndarray:
        own = X[:, self._own()] if self._own() else X
        if not self.with_peers_ or labels is None:
            return np.hstack([own, own]) if self.with_peers_ else own
        period = pd.factorize(labels.period)[0]
        everybody = _leave_out_means(own, period)
        if not self.levels_:
            return np.hstack([own, everybody])
        known = X[:, self.levels_].any(axis=1)
        code = X[:, self.levels_].argmax(axis=1)
        group = np.where(known, period * (len(self.levels_) + 1) + code, -1 - np.arange(len(X)))
        group = pd.factorize(group)[0]
        alone = np.bincount(group)[group] == 1
        return np.hstack([own, np.where(alone[:, None], everybody, _leave_out_means(own, group))])


def _with_one(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def _leave_out_means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the mean of the group's other rows; a row alone keeps its own values."""
    total = np.zeros((group.max() + 1, values.shape[1]))
    np.add.at(total, group, values)
    others = (np.bincount(group)[group] - 1)[:, None]
    return np.where(others > 0, (total[group] - values) / np.maximum(others, 1), values)


def _ranks(asked: pd.Index, known: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return common integer ranks of two sets of period labels."""
    both = pd.Index(asked).append(pd.Index(known))
    ranks = pd.factorize(both, sort=True)[0]
    return ranks[: len(asked)], ranks[len(asked) :]
