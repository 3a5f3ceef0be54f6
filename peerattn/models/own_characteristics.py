"""Regressions on the firm's own characteristics, whatever else the panel holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import ElasticNetCV, LinearRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import HasMethods, Interval

from peerattn.exceptions import InputError, reworded_values
from peerattn.models.learned import check_effect_labels, last_known
from peerattn.models.mixins import Mixed
from peerattn.models.panel_forecasters import PanelForecaster
from peerattn.options import COLUMNS
from peerattn.panel.design import Design
from peerattn.panel.effects import effect_codes, effect_labels, effect_parts, estimated_effects, known_effects, net_of
from peerattn.panel.knowledge import Knowledge
from peerattn.panel.panel import Panel


class OwnRegressionMixin(Mixed):
    """Makes a forecaster of ``model_``, a scaler and an estimator that are fitted to the numbers of ``design_``."""

    model_: Pipeline

    @property
    def slopes_(self) -> pd.Series:
        """Slopes of a linear estimator, in units of the outcome for one unit of each column; empty for others."""
        slopes = np.ravel(getattr(self.model_[-1], "coef_", ()))
        names = [column.name for column in self.design_.columns]
        if len(slopes) != len(names):
            return pd.Series(dtype=float)
        if self.model_[0].scale_ is not None:
            slopes = slopes / self.model_[0].scale_
        return pd.Series(slopes, names, name="slope")

    def _predict(self, panel: Panel) -> np.ndarray:
        with reworded_values():
            return np.asarray(self.model_.predict(self.design_.numbers(panel)), dtype=float)


@dataclass(eq=False, repr=False)
class OwnCharacteristicsRegressor(OwnRegressionMixin, PanelForecaster):
    """A regression on the firm's own characteristics, whatever else the panel holds.

    ``ŷ_it = f(x_it)``: standardised characteristics and their missing-indicators; codes are left out.

    Parameters
    ----------
    estimator : regressor, optional
        Any of scikit-learn's; by default ``LinearRegression()``.
    effects : sequence of str, default ()
        Effects absorbed by least squares (without ``estimator``): ``"firm"``, ``"period"``, a column with codes, or several
        joined by ``×``. A prediction adds those known from training; a new firm or period has the mean effect.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    design_ : Design
        What the columns that ``estimator`` sees are.
    effects_ : dict of str to Series
        Absorbed effects, their mean over the training rows zero.
    model_ : Pipeline
        The fitted scaler and estimator.
    slopes_ : Series
        Of a linear estimator, for one unit of each column; empty for others.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("ABC"), "period": 1, "size": [1.0, 2, 3], "sic": ["37", "37", "29"]})
    >>> OwnCharacteristicsRegressor().fit(X, [2.0, 4, 6]).predict(X).round(6).tolist()
    [2.0, 4.0, 6.0]
    """

    estimator: Any = None
    effects: Sequence[str] = ()
    _parameter_constraints = PanelForecaster._parameter_constraints | {
        "estimator": [HasMethods(["fit", "predict", "get_params"]), None],
        "effects": [*COLUMNS],
    }

    @property
    def _needs_labels(self) -> bool:
        return any({"firm", "period"} & set(parts) for parts in effect_parts(self.effects).values())

    def _groupings(self) -> tuple[Any, ...]:
        return tuple(effect_codes(self.effects))

    def _learn_from(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        self.design_ = Design.fit(panel, without=list(panel.codes))
        self.effects_: dict[str, pd.Series] = {}
        X = self.design_.numbers(panel)[known]
        if self.effects and self.estimator is not None:
            raise InputError("effects are absorbed by least squares: leave estimator out, or effects.")
        self.learned_until_ = last_known(panel)
        groups = self._groups(panel)
        if groups.shape[1]:
            self._absorb(X, y, groups[known])
            return
        estimator = LinearRegression()
        if self.estimator is not None:
            estimator = clone(self.estimator)
        with reworded_values():
            self.model_ = make_pipeline(StandardScaler(), estimator).fit(X, y)

    def _absorb(self, X: np.ndarray, y: np.ndarray, groups: pd.DataFrame) -> None:
        """Learn slopes and effects by least squares."""
        raw = np.column_stack([X, y])
        both = net_of(groups, raw)
        size = np.linalg.norm(both, axis=0)
        gone = size <= 1e-9 * np.linalg.norm(raw, axis=0)
        # in units of what is left of each column, since least squares drops small singular values
        unit = np.where(gone, np.inf, size)[:-1]
        slopes = LinearRegression(fit_intercept=False).fit(both[:, :-1] / unit, both[:, -1])
        slopes.coef_ /= unit
        self.model_ = make_pipeline(StandardScaler(with_mean=False, with_std=False).fit(X), slopes)
        slopes.intercept_, self.effects_ = estimated_effects(y - X @ slopes.coef_, groups)

    def _groups(self, panel: Panel) -> pd.DataFrame:
        """Return the group of each row in each effect; rows without labels have those of codes alone."""
        own = {"firm": panel.firm, "period": panel.period}
        effects = effect_parts(self.effects)
        if panel.firm is None:
            effects = {name: parts for name, parts in effects.items() if own.keys().isdisjoint(parts)}
            own = {}
        return effect_labels(list(effects), dict(panel.codes) | own)

    def _predict(self, panel: Panel) -> np.ndarray:
        own = super()._predict(panel)
        groups = self._groups(panel)
        # rows without labels have the mean effect of firms and periods, zero
        effects = {name: effect for name, effect in self.effects_.items() if name in groups}
        if not effects:
            return own
        if panel.period is not None:
            check_effect_labels(effects, groups, pd.Index(panel.period), self.learned_until_)
        return own + known_effects(effects, groups)


@dataclass(eq=False, repr=False, kw_only=True)
class ElasticNetRegressor(OwnRegressionMixin, PanelForecaster):
    """Elastic net on the firm's own characteristics, standardised, its penalty chosen on later periods than those learned from.

    ``min_b ½n⁻¹ Σ (y_i − a − x_i b)² + λ (r ‖b‖₁ + ½ (1 − r) ‖b‖₂²)``, y in standard deviations, λ and r in {.1, .5, .9} by
    ``ElasticNetCV`` with forward folds: the periods are cut into six blocks, and each block but the first validates what is
    learned from the outcomes known by its first period.

    Parameters
    ----------
    random_state : int, optional
    purge : int, default 0
        Periods before a block that are not learned from, because their outcomes are not yet known.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Notes
    -----
    On arrays, and with one period, there are scikit-learn's five folds of rows. Codes are left out.

    References
    ----------
    Zou, H. and Hastie, T. (2005), Regularization and variable selection via the elastic net, Journal of the Royal Statistical
    Society B 67(2).

    Examples
    --------
    >>> index = pd.MultiIndex.from_product([range(30), range(8)], names=["firm", "period"])
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(240, 2)), index=index, columns=["size", "lev"])
    >>> y = X["size"] + 0.5 * X["lev"]
    >>> ElasticNetRegressor().fit(X, y).predict(X[:1]).round(1).tolist() == y[:1].round(1).tolist()
    True
    """

    random_state: int | None = None
    purge: int = 0
    _needs_labels = False
    _parameter_constraints = PanelForecaster._parameter_constraints | {"purge": [Interval(Integral, 0, None, closed="left")]}

    def _learn_from(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        if len(y) < 5:
            raise InputError(f"y: the penalty is chosen on five folds, and {len(y)} outcomes are known.")
        self.design_ = Design.fit(panel, without=list(panel.codes))
        folds: Any = 5
        # on arrays, and in one period, there is no order of time to keep
        if panel.dated and panel.period[known].nunique() > 1:
            knowledge = Knowledge.of(panel, self.purge + 1)
            folds = forward_folds(knowledge.row[known], knowledge.known[known])
        net = ElasticNetCV(l1_ratio=[0.1, 0.5, 0.9], cv=folds, random_state=self.random_state)
        # absolute and squared slopes weigh one against the other the same in every unit of the outcome
        unit = float(y.std()) or 1.0
        with reworded_values():
            self.model_ = make_pipeline(StandardScaler(), net).fit(self.design_.numbers(panel)[known], y / unit)
        net.coef_ *= unit
        net.intercept_ *= unit


def forward_folds(row: np.ndarray, known: np.ndarray, n_blocks: int = 6) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds that validate each block of periods on what was known by its first one.

    ``row`` and ``known`` are the places of each row's period and of the first by which its outcome is known.

    >>> [(train.tolist(), test.tolist()) for train, test in forward_folds(np.array([2, 0, 1, 0]), np.array([3, 1, 2, 2]), 3)]
    [([1], [2]), ([1, 2, 3], [0])]
    """
    blocks = [np.flatnonzero(np.isin(row, block)) for block in np.array_split(np.unique(row), n_blocks)]
    folds = [(np.flatnonzero(known <= row[block].min()), block) for block in blocks if len(block)]
    folds = [(train, block) for train, block in folds if len(train)]
    if not folds:
        raise InputError("y: the penalty is chosen on later periods, and by the last one no outcome is known to learn from.")
    return folds
