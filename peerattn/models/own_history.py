"""A firm from itself alone: its characteristics, their curves and interactions, and its own past outcomes, combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import nnls
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import check_at_least, expect
from peerattn.models.learned import bounds_of, clipped
from peerattn.models.panel_forecasters import ALPHAS, PanelForecaster, period_ranks
from peerattn.models.pools import refuse_other_kinds
from peerattn.panel.design import Design
from peerattn.panel.panel import Panel

FEWEST_PERIODS = 4  # of which the last third weighs the candidates
MOST_LEVELS = 50  # of a code; more are left to the firm's own mean
LEAVES, TREES = 8, 100  # of a boosted fit
HISTORY = ("outcome", "earlier", "residual", "mean", "count")  # what a row reads of its firm


@dataclass(frozen=True)
class Past:
    """Known outcomes by firm and time, so that any row can be given what its firm's outcomes were before it.

    Attributes
    ----------
    firms : Index (F,)
        Sorted labels.
    rows : DataFrame
        One row a known outcome, by period: position of the firm, rank of the period, and what a later row of the firm reads: the
        outcome (its training mean taken off), the one before it, what own characteristics leave of it, net of its period's mean,
        the shrunken mean of that over the firm's rows so far, and the log of one more than their number.
    shrink : float
        Noise over persistence: a firm's mean of n residuals is the sum over ``n + shrink``.
    """

    firms: pd.Index
    rows: pd.DataFrame
    shrink: float

    @classmethod
    def of(
        cls, firm: pd.Index, rank: np.ndarray, outcome: np.ndarray, residual: np.ndarray, shrink: float | None
    ) -> Past:
        """Return the past that rows make; ``shrink=None`` estimates it from the firms' variance components."""
        code, firms = pd.factorize(firm, sort=True)
        rows = pd.DataFrame({"firm": code, "rank": rank, "outcome": outcome, "residual": residual})
        rows = rows.sort_values(["rank", "firm"], ignore_index=True)
        of_period, of_firm = rows.groupby("rank")["residual"], rows.groupby("firm")
        rows["residual"] -= of_period.transform("mean") * (1 - 1 / of_period.transform("size"))
        noise = _noise_over_persistence(rows["firm"], rows["residual"]) if shrink is None else shrink
        count = of_firm.cumcount() + 1
        rows["earlier"] = of_firm["outcome"].shift(fill_value=0.0)
        rows["mean"] = of_firm["residual"].cumsum() / (count + noise)  # of each firm alone: nothing cancels
        return cls(firms, rows.assign(count=np.log1p(count)), noise)

    def before(self, firm: pd.Index, rank: np.ndarray, gap: Any = 1) -> np.ndarray:
        """Return of each row's firm, ``gap`` periods before it and earlier, the features of its history, (n, 5)."""
        asked = pd.DataFrame({"firm": self.firms.get_indexer(firm), "rank": rank - gap}).rename_axis("at")
        found = pd.merge_asof(asked.reset_index().sort_values("rank"), self.rows, on="rank", by="firm")
        return found.sort_values("at")[list(HISTORY)].fillna(0.0).to_numpy()


def _noise_over_persistence(firm: pd.Series, values: pd.Series) -> float:
    """Return the variance within firms over that between them, by the analysis of variance."""
    of_firm = values.groupby(firm)
    count, means = of_firm.size(), of_firm.mean()
    within = float(((values - of_firm.transform("mean")) ** 2).sum() / max(len(values) - len(count), 1))
    between = float(means.var(ddof=0) - within * (1 / count).mean())
    return float(np.clip(within / max(between, 1e-12), 0.1, 1e6)) if within > 0 else 0.1


@dataclass(eq=False, repr=False, kw_only=True)
class OwnHistoryRegressor(PanelForecaster):
    r"""A firm from its own characteristics and its own past; no other firm is read.

    .. math:: \hat y_{it} = l(x_{it}) + \sum_m w_m \big( f_m(x_{it}, h_{it}) - l(x_{it}) \big), \qquad w \ge 0,\ \sum_m w_m \le 1

    l is linear in the characteristics. The other candidates are boosted trees of the characteristics, a regression on them and on
    h, and that with trees of both on what it leaves. The history h of a firm is its last two known outcomes, what characteristics
    leave of the last one, the mean of all such residuals shrunk towards zero (an empirical-Bayes firm effect), and how many there
    are. Weights are by non-negative least squares on the last third of the training periods, predicted from those before;
    then every candidate learns from all of them.

    It is what a peer model is to be compared with: the same rows, the same characteristics and the same past, without peers.

    Parameters
    ----------
    gaps : sequence of int, default (1,)
        Periods between a row and the last outcome that is known when it is predicted. Of several, every training row is learned
        from once for each.
    random_state : int, default 0
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    design_ : Design or None
        How characteristics and codes become numbers; None without any. Codes of more than 50 levels are left out.
    weights_ : dict of str to float
        Of ``"curves"``, ``"history"`` and ``"history and curves"``.
    past_ : Past
        The training outcomes by firm.

    Notes
    -----
    Under four training periods there is nothing to weigh candidates on: the regression on characteristics and history is taken.
    On arrays there is no history. O(n) memory; about eight boosted fits of 100 small trees.

    References
    ----------
    Robbins, H. (1956), An empirical Bayes approach to statistics, Proceedings of the Third Berkeley Symposium. Breiman, L.
    (1996), Stacked regressions, Machine Learning 24(1).

    Examples
    --------
    >>> index = pd.MultiIndex.from_product([range(20), range(2001, 2013)], names=["firm", "period"])
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"size": rng.normal(size=240)}, index=index)
    >>> y = X["size"] + np.repeat(rng.normal(size=20), 12) + 0.1 * rng.normal(size=240)
    >>> past = X.index.get_level_values("period") < 2012
    >>> predicted = OwnHistoryRegressor().fit(X[past], y[past]).predict(X[~past])
    >>> bool(np.corrcoef(predicted, y[~past])[0, 1] > 0.98)
    True
    """

    gaps: Sequence[int] = (1,)
    random_state: int = 0

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit on training rows; see :class:`PanelForecaster`."""
        listed = isinstance(self.gaps, list | tuple) and len(self.gaps) > 0
        expect(listed, "gaps", "a sequence of whole numbers from 1", repr(self.gaps))
        check_at_least(1, **{f"gaps[{k}]": gap for k, gap in enumerate(self.gaps)})
        return super().fit(X, y)

    def predict(self, X: Any, *, outcomes: Any = None) -> np.ndarray | pd.Series:
        """Predict each row.

        Parameters
        ----------
        X : Panel, DataFrame or array-like (n, p)
        outcomes : Series or array-like (n,), optional
            Outcomes of the rows of ``X``: of its own firm a row reads those of earlier periods, never its own period's. Beyond
            the training outcomes' range and three times its length around it they count as that bound, with a warning.

        Returns
        -------
        Series on ``X``'s index when ``X`` carries firm and period, else ndarray (n,).
        """
        return self._predictions(X, outcomes=outcomes)

    def _gate_call(self, X: Any, outcomes: Any) -> tuple[Panel, None]:
        check_is_fitted(self)
        panel = self._check(X, outcomes, fitting=False)
        if panel.outcomes is not None:
            panel = replace(panel, outcomes=clipped(panel.outcomes, self.outcome_bounds_))
        return panel, None

    def _learn(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        self.mean_, self.outcome_bounds_ = float(y.mean()), bounds_of(y)
        many = [name for name, column in panel.codes.items() if column.nunique() > MOST_LEVELS]
        usable = pd.concat([panel.characteristics, panel.codes.drop(columns=many)], axis=1)
        some = usable.notna().any(axis=None)
        self.design_ = Design.fit(panel, without=many, scale="standard") if some else None
        self.with_history_ = panel.firm is not None and panel.dated
        learning, fitting = panel.take(known), _Fitted(self)
        rank = pd.factorize(learning.period, sort=True)[0]
        self.weights_ = {"curves": 0.0, "history": 1.0, "history and curves": 0.0}
        if self.with_history_ and rank.max() + 1 >= FEWEST_PERIODS:
            self._weigh(learning, y, rank)
        self.fitted_ = fitting.fit(learning, y, rank)
        self.past_, self.periods_ = self.fitted_.past, pd.Index(learning.period.unique())

    def _weigh(self, panel: Panel, y: np.ndarray, rank: np.ndarray) -> None:
        """Weigh the candidates by how those of the first periods predict the last third."""
        n_periods = rank.max() + 1
        later = rank >= n_periods - max(n_periods // 3, 1)
        first = _Fitted(self).fit(panel.take(~later), y[~later], rank[~later])
        left = y - first.lines.predict(first.numbers(panel))
        assert panel.firm is not None
        past = Past.of(panel.firm, rank, y - self.mean_, left, first.past.shrink)
        candidates = first.candidates(panel.take(later), rank[later], past, min(self.gaps))
        lines, others = candidates[:, 0], candidates[:, 1:]
        found = nnls(others - lines[:, None], y[later] - lines)[0]
        found /= max(found.sum(), 1.0)
        self.weights_ = dict(zip(self.weights_, found.tolist(), strict=True))
        self._learn_rest(panel.take(later), y[later] - lines - (others - lines[:, None]) @ found)

    def _learn_rest(self, panel: Panel, left: np.ndarray) -> None:
        """Learn what a subclass adds, from the rows that weighed the candidates and what was left of them."""

    def _predict(self, panel: Panel) -> np.ndarray:
        past, rank = self.past_, np.ones(len(panel), dtype=int)
        if self.with_history_ and panel.firm is not None:
            refuse_other_kinds(past.firms, panel.firm)
            now, then = period_ranks(panel.period, self.periods_)
            past, rank = self._with_call(panel, now, then), now
        candidates = self.fitted_.candidates(panel, rank, past)
        lines = candidates[:, 0]
        return lines + (candidates[:, 1:] - lines[:, None]) @ np.array(list(self.weights_.values()))

    def _with_call(self, panel: Panel, now: np.ndarray, then: np.ndarray) -> Past:
        """Return the training past on the ranks of all periods, and with it the outcomes of the call, where they are shown."""
        past, rows = self.past_, self.past_.rows
        firm, rank = past.firms[rows["firm"]], then[rows["rank"]]
        outcome, left = rows["outcome"].to_numpy(), rows["residual"].to_numpy()
        if panel.outcomes is not None and np.isfinite(panel.outcomes).any():
            known = np.isfinite(panel.outcomes) & ~np.isin(now, then)  # training rows are there already
            shown = panel.outcomes[known] - self.mean_
            lines = self.fitted_.lines.predict(self.fitted_.numbers(panel))[known] - self.mean_
            assert panel.firm is not None
            firm = firm.append(panel.firm[known])
            rank, outcome, left = np.r_[rank, now[known]], np.r_[outcome, shown], np.r_[left, shown - lines]
        return Past.of(firm, rank, outcome, left, past.shrink)


class _Fitted:
    """The candidates, fitted on some of the training rows."""

    def __init__(self, model: OwnHistoryRegressor) -> None:
        self.design, self.mean, self.gaps = model.design_, model.mean_, tuple(model.gaps)
        self.with_history = model.with_history_
        options: dict[str, Any] = {"max_iter": TREES, "max_leaf_nodes": LEAVES, "early_stopping": False}
        options["random_state"] = model.random_state
        self.lines, self.history = (make_pipeline(StandardScaler(), RidgeCV(alphas=ALPHAS)) for _ in range(2))
        self.curves, self.rest = (HistGradientBoostingRegressor(**options) for _ in range(2))

    @np.errstate(invalid="ignore")  # one row leaves nothing to validate the penalty on
    def fit(self, panel: Panel, y: np.ndarray, rank: np.ndarray) -> _Fitted:
        """Learn from rows of known outcome."""
        X = self.numbers(panel)
        self.lines.fit(X, y)
        self.curves.fit(X, y)
        left = y - self.lines.predict(X)
        firm = pd.Index(np.arange(len(y))) if panel.firm is None else panel.firm
        self.past = Past.of(firm, rank, y - self.mean, left, None)
        rows = [self._features(X, panel, rank, self.past, gap) for gap in self.gaps]
        features, again = np.concatenate(rows), np.tile(y, len(self.gaps))
        self.history.fit(features, again)
        self.rest.fit(features, again - self.history.predict(features))
        return self

    def numbers(self, panel: Panel) -> np.ndarray:
        """Return characteristics and codes as numbers, (n, p); a column of zeros where there is none."""
        return np.zeros((len(panel), 1)) if self.design is None else self.design.transform(panel)

    def candidates(self, panel: Panel, rank: np.ndarray, past: Past, gap: int = 0) -> np.ndarray:
        """Return the predictions of lines, curves, history, and history with curves, (n, 4); ``gap`` as in ``before``."""
        X = self.numbers(panel)
        known = past.rows["rank"].unique()
        at = np.searchsorted(known, rank)
        since = np.where(at > 0, rank - known[np.maximum(at - 1, 0)], 1) if self.with_history else rank
        gaps = np.array(self.gaps)
        nearest = gaps[np.abs(since[:, None] - gaps).argmin(axis=1)]
        features = self._features(X, panel, rank, past, gap or nearest, newest=not gap)
        history = self.history.predict(features)
        both = history + self.rest.predict(features)
        return np.column_stack([self.lines.predict(X), self.curves.predict(X), history, both])

    def _features(
        self, X: np.ndarray, panel: Panel, rank: np.ndarray, past: Past, gap: Any, newest: bool = False
    ) -> np.ndarray:
        """Return characteristics beside the history that is known ``gap`` periods before, once more for each of several gaps."""
        if not self.with_history or panel.firm is None:
            return X
        seen = past.before(panel.firm, rank, 1 if newest else gap)
        there = np.equal.outer(np.broadcast_to(gap, len(X)), np.array(self.gaps))
        apart = [seen * there[:, [k]] for k in range(len(self.gaps))]
        return np.column_stack([X, *apart])
