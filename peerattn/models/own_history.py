"""A firm from itself alone, its characteristics and its own past outcomes; and from what all firms of its period share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from peerattn.exceptions import InputError, check_at_least
from peerattn.models.base import PanelEstimator
from peerattn.models.by_period import periods_of
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learned import bounds_of, clipped, known_from, warn_of_shared_periods
from peerattn.models.learners.losses import squared_error
from peerattn.models.learners.past_outcomes import History
from peerattn.models.learners.training import Problem, Training
from peerattn.models.mixins import OwnFirmMixin, PanelRegressorMixin
from peerattn.models.pools import places_of, row_labels
from peerattn.models.stacking.candidates import common_candidates, own_candidates
from peerattn.models.stacking.fit import Stack, fit_stack
from peerattn.models.stacking.groups import HISTORY, Candidate
from peerattn.panel.design import Design
from peerattn.panel.panel import Panel
from peerattn.panel.time_order import check_comparable
from peerattn.types import OutcomesLike, PanelLike


class Past(NamedTuple):
    """What was known before a call: outcomes, and the periods up to then."""

    history: History
    periods: pd.Index


@dataclass(eq=False, repr=False, kw_only=True)
class OwnHistoryRegressor(OwnFirmMixin, PanelRegressorMixin, PanelEstimator):
    r"""A firm from its own characteristics and its own past; no peers are used.

    .. math:: \hat y_{it} = l(x_{it}) + \sum_m w_m \big( f_m(x_{it}, h_{it}) - l(x_{it}) \big), \qquad w \ge 0,\ \sum_m w_m \le 1

    l is linear in the characteristics. The other candidates are those of :class:`~peerattn.models.StackedPeerRegressor` that read
    the firm alone: curves with products, gradient boosting and forests of its characteristics, an empirical-Bayes firm effect of
    its past outcomes, the same with a trend, an autoregression (a ridge on the last outcome and all lags), and boosting of
    characteristics and past. They are weighed by the same problem on the same forward origins, without its penalty (κ = 0). Lags
    are in standard deviations from the mean of their period, so that a shock which all firms shared is no news on one of them:
    of other firms these two numbers are read, of the past, and a call should hold whole periods.

    It is what a peer model is to be compared with: the same rows, the same characteristics and the same past, without peers.

    Parameters
    ----------
    gaps : sequence of int, default (1,)
        Periods between a row and the last outcome that is known when it is predicted. Of several, what reads the past is learned
        once for each, and a row is predicted by the nearest; the candidates are weighed at the smallest.
    random_state : int, RandomState or None, default 0
        Seed of the forests.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    design_ : Design or None
        How characteristics and codes become numbers; None without any.
    stacks_ : list of Stack
        Of each gap, the smallest first: own characteristics, what was selected, its weights.
    gain_ : DataFrame
        Held-out R² step by step, as :meth:`~peerattn.models.PeerAttentionRegressor.explain_gain` gives it.

    Notes
    -----
    With fewer than 50 rows of known outcome there is nothing to weigh candidates on: least squares on the characteristics. On
    arrays there is no history. O(n) memory; about nine boosted fits of 150 small trees and six forests of 100.

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
    random_state: int | np.random.RandomState | None = 0
    firm: str = "firm"
    period: str = "period"
    _parameter_constraints = PanelEstimator._parameter_constraints | {"gaps": [list, tuple]}

    def predict(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> np.ndarray:
        """Predict each row.

        Parameters
        ----------
        X : Panel, DataFrame or array-like (n, p)
        outcomes : Series or array-like (n,), optional
            Outcomes of the rows of ``X``: a row reads those of earlier periods, never its own period's. Beyond
            the training outcomes' range and three times its length around it they count as that bound, with a warning.

        Returns
        -------
        ndarray (n,), in the order of ``X``'s rows.
        """
        return self._predictions(X, outcomes=outcomes)

    def _gate_call(self, X: PanelLike, outcomes: OutcomesLike, past: Past | None = None) -> tuple[Panel, Any]:
        panel = self._check(X, outcomes, fitting=False)
        if panel.outcomes is not None:
            panel = replace(panel, outcomes=clipped(panel.outcomes, self.outcome_bounds_))
        return panel, self._informed(panel, past)

    def _by_period(self, X: PanelLike, outcomes: OutcomesLike = None, **options: Any) -> Iterator[tuple[Panel, Any]]:
        past = None  # the outcomes of earlier periods are those of the firms' past
        for panel, observed in periods_of(self, X, outcomes):
            called, (sections, periods) = self._gate_call(panel, observed, past=past)
            past = Past(sections[-1].past.since(panel.period[0]), periods)
            yield called, (sections, periods)

    def _informed(self, panel: Panel, past: Past | None) -> tuple[list[CrossSection], pd.Index]:
        """Return the cross-sections of a call with their firms' past, and all periods up to its end."""
        view = self.stacks_[0].view
        if past is None:
            # what is not known by then is not shown
            past = Past(replace(view.history, purge=0), view.history.table.columns)
        sections = past.history.informed([view.prepared(section) for section in self._sections(panel)])
        own = panel.period.unique()
        if not (panel.dated and len(past.periods)):
            return sections, own
        check_comparable(own, past.periods)
        return sections, past.periods.append(own).unique().sort_values()

    def _sections(self, panel: Panel) -> Iterator[CrossSection]:
        """Yield the firms of each period; a firm's own row is all that its prediction reads of them."""
        n = len(panel)
        x = np.zeros((n, 1))
        codes = np.zeros((n, 0), dtype=int)
        if self.design_ is not None:
            x = self.design_.numbers(panel)
            codes = self.design_.integers(panel)
        label = row_labels(panel)
        everyone = Rows(x, codes, panel.outcomes, None, np.arange(n), label, label, known_from=known_from(panel))
        for place, period, at in places_of(panel):
            rows = everyone.take(at)
            yield CrossSection(period, at, rows, rows, place=place)

    def _learn_from(self, panel: Panel, known: np.ndarray, y: np.ndarray) -> None:
        """Learn the stack of the smallest gap, and again for the others what reads the past."""
        if not self.gaps:
            raise InputError(f"gaps: expected a sequence of whole numbers from 1, got {self.gaps!r}.")
        check_at_least(1, **{f"gaps[{k}]": gap for k, gap in enumerate(self.gaps)})
        self.outcome_bounds_ = bounds_of(y)
        self.design_ = None  # type: ignore[assignment]
        levels: tuple[int, ...] = ()
        if panel.X.notna().any(axis=None):
            self.design_ = Design.fit(panel, scale="standard")
            levels = tuple(len(each) for each in self.design_.levels.values())
        gaps = sorted(set(self.gaps))
        problem = Problem(squared_error, 1, levels, True, panel.dated, purge=gaps[0] - 1)
        # nobody reads peers, so that rows of unknown outcome teach nothing
        learning = panel.take(known)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        sections = list(self._sections(learning))
        candidates = self._candidates(problem, seed)
        stack = fit_stack(sections, candidates, problem, kappa=0.0)
        self.gain_ = stack.steps
        self.stacks_ = []
        reading = [each for each in candidates if each.group == HISTORY]
        for gap in gaps:
            again = dict[str, Any]()
            if gap > gaps[0]:  # what reads the past is learned again
                training = Training.of(sections, replace(problem, purge=gap - 1))
                for each in reading:
                    again |= each.fit(training, {})
            fitted = {name: again.get(name, part) for name, part in stack.fitted.items()}
            self.stacks_.append(replace(stack, fitted=fitted, held_out=()))

    def _candidates(self, problem: Problem, seed: int) -> list[Candidate]:
        """Return what is weighed; a subclass adds to it."""
        return own_candidates(problem, seed)

    def _predicted(self, panel: Panel, call: Any) -> np.ndarray:
        warn_of_shared_periods(panel, self.learned_rows_)
        sections, periods = call
        found = [self._nearest(section, periods).predict([section])[0][:, 0] for section in sections]
        return panel.restore(np.concatenate(found))

    def _nearest(self, section: CrossSection, periods: pd.Index) -> Stack:
        """Return the stack whose gap is nearest to the periods since the last one of known outcomes."""
        since = 1
        if section.period is not None:
            last = section.past.last_before(section.period)
            since = int(periods.searchsorted(section.period)) + 1
            if last is not None:
                since -= int(periods.searchsorted(last)) + 1
        gaps = np.array(sorted(set(self.gaps)))
        return self.stacks_[int(np.abs(since - gaps).argmin())]


@dataclass(eq=False, repr=False, kw_only=True)
class CommonShocksRegressor(OwnHistoryRegressor):
    r"""A firm from its own characteristics and past, and from the shocks that all firms of a period or industry share.

    .. math:: \hat y_{it} = o_{it} + w_s \big(s_{it} - \bar s_t\big) + w_p \bar r_{-i,t} + w_g \hat g_{-i,t},
              \qquad r_{it} = y_{it} - o_{it}

    o is :class:`OwnHistoryRegressor`; :math:`o + s` the line in own characteristics with slopes of random effects of periods,
    which shocks do not move, bars the period's mean; :math:`\bar r_{-i,t}` the mean residual of the period's *other* firms and
    :math:`\hat g_{-i,t}` its best linear unbiased prediction from them where the industry has a shock of its own, too: the mean
    of the other firms of the industry, shrunk towards that of all by the variances within and between industries (Henderson
    1975). Peers are not chosen: every firm of the period counts alike, and every firm of the industry. The weights, at least 0,
    :math:`w_s` and :math:`w_p + w_g` at most 1, are those of least squares on the same later periods as the weights in o.

    Parameters
    ----------
    industry : str, optional
        Column of ``X`` with the code. None: periods only.
    gaps, random_state, firm, period
        As in :class:`OwnHistoryRegressor`.

    Attributes
    ----------
    design_, stacks_, gain_
        As of :class:`OwnHistoryRegressor`.

    Notes
    -----
    ``predict(X)`` without outcomes is the prediction from the own firm and the period's characteristics.

    References
    ----------
    Henderson, C. (1975), Best linear unbiased estimation and prediction under a selection model, Biometrics 31(2).

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([range(20), range(2001, 2013)], names=["firm", "period"])
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"size": rng.normal(size=240)}, index=index)
    >>> y = pd.Series(np.tile(3 * rng.normal(size=12), 20), index) + 0.1 * rng.normal(size=240)
    >>> past = X.index.get_level_values("period") < 2012
    >>> model = CommonShocksRegressor().fit(X[past], y[past])
    >>> bool(np.abs(model.predict(X[~past], outcomes=y[~past]) - y[~past]).max() < 1)
    True
    """

    industry: str | None = None

    def _candidates(self, problem: Problem, seed: int) -> list[Candidate]:
        found = super()._candidates(problem, seed)
        codes: list[int] = []
        if self.design_ is not None:
            codes = [c for c, name in enumerate(self.design_.levels) if name == self.industry]
        if problem.dated:
            found += common_candidates(problem, codes)
        return found

    def _informed(self, panel: Panel, past: Past | None) -> tuple[list[CrossSection], pd.Index]:
        # outcomes that were not passed are unknown, and the shocks with them
        if panel.outcomes is None:
            panel = replace(panel, outcomes=np.full(len(panel), np.nan))
        return super()._informed(panel, past)
