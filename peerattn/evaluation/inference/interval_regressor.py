"""A regressor with prediction intervals: any estimator, calibrated on later periods than it learned from."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, check_at_least, check_names, expect
from peerattn.models.base import PanelEstimator
from peerattn.panel import Knowledge, Panel, PanelEncoder, as_panel
from peerattn.panel.knowledge import dated_by_horizon
from peerattn.types import LabelsLike, OutcomesLike, PanelLike

_FIFTHS = 5


@dataclass(eq=False, repr=False)
class IntervalRegressor(RegressorMixin, BaseEstimator):
    r"""Any regressor on a panel, with intervals that hold a new period's firm with a given probability.

    The last K training periods are predicted by clones that were fitted on earlier ones. With
    :math:`s_{ik} = |y_{ik} - \hat y_{ik}|` and :math:`F_k` its distribution over the firms of period k, the margin is the
    smallest q with :math:`\tfrac{1}{K+1} \sum_k F_k(q) \ge \text{level}`; the interval of a new row is ``ŷ ± q``.

    Parameters
    ----------
    estimator : regressor
        A model of this package, or of scikit-learn (which gets the panel through :class:`~peerattn.panel.PanelEncoder`).
    level : float, default 0.9
    calibration_periods : int, optional
        K, at least ⌈level / (1 − level)⌉ (9 at 90 %, 19 at 95 %); with so few the interval is as wide as the largest error.
        Default: two thirds of the periods, or that number.
    n_refits : int, default 3
        Clones that are fitted for the calibration periods.
    by : str, optional
        A code, or a characteristic in fifths of each period (such as size), for which margins are calibrated apart, so that large
        and small firms are covered alike.
    horizon : int, default 1
        Periods until an outcome is known.
    firm, period : str, default "firm", "period"
        Names of the labels.

    Attributes
    ----------
    estimator_ : regressor
        Fitted on all training rows; it predicts.
    margins_ : DataFrame
        Of each group (rows; the one under ``None`` is of all firms, for groups that calibration did not see), for predictions
        that observe peers' outcomes of the period (column True) and those without (False).
    residuals_ : DataFrame
        Firm, period, outcome, prediction, group of the calibration rows, and ``observed``: whether peers' outcomes were.

    Notes
    -----
    Whole periods are the draws: firms of one period share its shocks, so K periods are K draws, however many firms they
    have, and with fewer than ⌈level / (1 − level)⌉ of them no finite interval has the level: such a panel raises an error. If
    periods are exchangeable, coverage is at least the level for a firm drawn from a new period (of each group, with ``by``).
    It holds on average over calibration samples, not given one. The final estimator has seen the calibration periods, its
    clones had not: if anything its errors are smaller.

    References
    ----------
    Dunn, R., Wasserman, L. and Ramdas, A. (2023), Distribution-free prediction sets for two-layer hierarchical models,
    Journal of the American Statistical Association 118(544), 2491–2502. Vovk, V. (2012), Conditional validity of inductive
    conformal predictors, Asian Conference on Machine Learning (groups).

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from peerattn import load_grunfeld
    >>> panel = load_grunfeld()
    >>> model = IntervalRegressor(Ridge(), level=0.8).fit(panel)
    >>> model.predict_interval(panel).columns.tolist()
    ['prediction', 'lower', 'upper']
    """

    estimator: Any
    level: float = 0.9
    calibration_periods: int | None = None
    n_refits: int = 3
    by: str | None = None
    horizon: int = 1
    firm: str = "firm"
    period: str = "period"

    def fit(self, X: PanelLike, y: OutcomesLike = None) -> Self:
        """Calibrate on the last periods, then fit on all.

        Raises
        ------
        InputError
            For an unknown level or group, or too few periods.
        """
        share = isinstance(self.level, int | float) and 0 < self.level < 1
        expect(share, "level", "a number between 0 and 1", repr(self.level))
        check_at_least(1, horizon=self.horizon, n_refits=self.n_refits, calibration_periods=self.calibration_periods or 1)
        fits = hasattr(self.estimator, "fit") and not isinstance(self.estimator, type)
        expect(fits, "estimator", "an estimator, such as Ridge()", repr(self.estimator))
        panel = self._read(X, y).sorted()
        expect(panel.outcomes is not None, "y", "outcomes, or a Panel that holds them", None)
        self.residuals_ = self._calibrated(panel)
        calls = self.residuals_.groupby("observed")
        self.margins_ = pd.DataFrame({observed: _margins(rows, self.level) for observed, rows in calls})
        self.estimator_ = self._fitted(panel)
        return self

    def predict(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> Any:
        """Predict as the estimator does; ``outcomes`` as it takes them."""
        check_is_fitted(self)
        return self._requested(self.estimator_, self._read(X), outcomes)

    def predict_interval(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> pd.DataFrame:
        """Return prediction, lower and upper end of each row, on the index of ``X``.

        Raises
        ------
        InputError
            For outcomes that the estimator does not read, or needs.

        Notes
        -----
        An end is infinite where a group was missing in a calibration period. Predictions with and without ``outcomes`` have
        margins of their own.
        """
        check_is_fitted(self)
        observed = outcomes is not None
        verb = "uses none: leave them out" if observed else "needs them: pass those of the rows"
        if observed not in self.margins_:
            raise InputError(f"outcomes: {type(self.estimator).__name__} {verb}.")
        margins = self.margins_[observed]
        panel = self._read(X)
        predicted = pd.Series(np.asarray(self.predict(X, outcomes=outcomes)), panel.index)
        groups = pd.Series(self._groups(panel).to_numpy(), panel.index)
        margin = groups.map(margins[1:].astype(float)).astype(float).fillna(margins.iloc[0])
        return pd.DataFrame({"prediction": predicted, "lower": predicted - margin, "upper": predicted + margin})

    # ------------------------------------------------------------------ calibration

    def _calibrated(self, panel: Panel) -> pd.DataFrame:
        assert panel.outcomes is not None
        # with fewer draws no finite interval has the level
        needed = math.ceil(self.level / (1 - self.level) - 1e-9)
        known = panel.period[np.isfinite(panel.outcomes)].unique()
        requested = max(needed, 2 * len(known) // 3)
        if self.calibration_periods is not None:
            requested = self.calibration_periods
        wanted = f"{needed} calibration periods and one before them to learn from (horizon {self.horizon})"
        wording = f"{wanted}; X has {len(known)} with outcomes, and {requested} are to calibrate. Lower the level."
        if requested < needed or len(known) < requested + self.horizon:
            raise InputError(f"level={self.level:g} needs {wording}")
        knowledge = Knowledge.of(panel, self.horizon)
        parts = []
        for block in np.array_split(known[-requested:], min(self.n_refits, requested)):
            model = self._fitted(self._known_by(block[0], panel, knowledge))
            call = panel.take(panel.period.isin(block))
            frame = call.labels.to_frame(index=False)
            frame = frame.assign(outcome=call.outcomes, group=self._groups(call).to_numpy())
            # predictions that observe outcomes have smaller errors: margins of their own
            reads, needs = (getattr(model, name, False) for name in ("reads_outcomes", "needs_outcomes"))
            for observed, outcomes, possible in ((True, call.y, reads), (False, None, not needs)):
                if possible:
                    predicted = self._requested(model, call, outcomes)
                    parts.append(frame.assign(prediction=np.asarray(predicted), observed=observed))
        return pd.concat(parts, ignore_index=True)

    def _known_by(self, period: LabelsLike, panel: Panel, knowledge: Knowledge) -> Panel:
        """Return the rows that a model for a period learns from; outcomes that are not known by then are NaN."""
        rows = knowledge.row <= knowledge.place(period) - self.horizon
        outcomes = np.where(knowledge.by(period), panel.outcomes, np.nan)  # type: ignore[arg-type]
        if not np.isfinite(outcomes[rows]).any():
            when = f"{period}, the first calibration period of a clone, at horizon {self.horizon}"
            raise InputError(f"no outcome is known by {when}: pass fewer calibration_periods, or earlier rows.")
        return replace(panel, outcomes=outcomes).take(rows)

    def _fitted(self, panel: Panel) -> Any:
        if isinstance(self.estimator, PanelEstimator):
            return clone(self.estimator).fit(panel)
        known = panel.take(np.isfinite(panel.outcomes))  # type: ignore[arg-type]
        return make_pipeline(PanelEncoder(), clone(self.estimator)).fit(known.X, known.y)

    def _requested(self, model: Any, panel: Panel, outcomes: OutcomesLike) -> Any:
        observed = {} if outcomes is None else {"outcomes": outcomes}
        if isinstance(model, PanelEstimator):  # to which a Panel passes when outcomes are known
            return model.predict(panel.with_outcomes(None), **observed)
        return model.predict(panel.X.rename_axis([self.firm, self.period]), **observed)

    def _groups(self, panel: Panel) -> pd.Series:
        """Return the group of each row, in the panel's order."""
        if self.by is None:
            return pd.Series([None] * len(panel), dtype=object)
        if self.by in panel.codes:
            return panel.codes[self.by].astype(object).reset_index(drop=True)
        check_names("by", "column", [self.by], panel.columns)
        rank = panel.characteristics[self.by].groupby(np.asarray(panel.period)).rank(pct=True)
        return np.ceil(rank * _FIFTHS).astype(object).where(rank.notna(), None).reset_index(drop=True)

    def _read(self, X: PanelLike, y: OutcomesLike = None) -> Panel:
        panel = as_panel(X, y, firm=self.firm, period=self.period)
        expect(panel.dated, "X", f"{self.period!r}, as intervals are calibrated on periods", "rows without it")
        if getattr(self.estimator, "reads_outcomes", False):  # of earlier periods those that are known by then
            panel = dated_by_horizon(panel, "nowcast", self.horizon)
        return panel


def _margins(residuals: pd.DataFrame, level: float) -> pd.Series:
    """Return the margin of all firms, under None, and that of each group; infinite where a period lacks the group."""
    missed = (residuals["outcome"] - residuals["prediction"]).abs()
    periods = residuals["period"].nunique()
    known = residuals.assign(missed=missed)[np.isfinite(missed)]
    groups = {group: known[known["group"] == group] for group in residuals["group"].dropna().unique()}
    margins = {group: _margin(rows, periods, level) for group, rows in ({None: known} | groups).items()}
    return pd.Series(margins, dtype=float)


def _margin(rows: pd.DataFrame, periods: int, level: float) -> float:
    """Return the smallest error at which the periods' mean distribution, times K / (K + 1), reaches the level."""
    # every period counts once, whatever its number of firms
    rows = rows.assign(share=1 / rows.groupby("period")["missed"].transform("size")).sort_values("missed")
    if rows["period"].nunique() < periods:
        return math.inf
    reached = rows["share"].cumsum() >= (level - 1e-9) * (periods + 1)
    return float(min(rows["missed"][reached], default=math.inf))
