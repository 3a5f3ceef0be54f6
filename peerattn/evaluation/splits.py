"""Splitting a panel by period, so that a model, whatever the splitter, is tested only on periods after those it learned from."""

import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from peerattn.evaluation.running.fitting import Folds
from peerattn.evaluation.running.inputs import LABELS
from peerattn.exceptions import InputError, PeerAttnWarning, check_at_least, expect, validate_methods, warn_user
from peerattn.panel import Knowledge, Panel, as_panel, sorted_periods
from peerattn.panel.frames import as_pandas
from peerattn.render import show_label
from peerattn.seeds import check_seed
from peerattn.types import OutcomesLike, PanelLike


class ShortPanelWarning(PeerAttnWarning):
    """The panel has too few periods for the requested split; fewer are tested."""


@dataclass(frozen=True)
class Fold:
    """One fit of a walk-forward split and the periods it is tested on.

    ``train`` and ``test`` are positions into the rows of X; ``periods`` are the labels of the tested periods and
    ``train_periods`` those of the periods learned from, both in time order.
    """

    train: np.ndarray
    test: np.ndarray
    train_periods: pd.Index
    periods: pd.Index

    def __repr__(self) -> str:
        learned = f"{self.train_periods[0]} to {self.train_periods[-1]}"
        return f"Fold(train {learned}, test {self.periods[0]} to {self.periods[-1]}, {len(self.test)} rows)"


@validate_methods
@dataclass(eq=False, repr=False)
class WalkForward(BaseCrossValidator):
    r"""Walk forward through a panel: learn from the past, predict the periods after it, move on.

    Periods are grouped by label and sorted; a row (firm, t) carries the outcome of t + h, h the ``horizon``.
    A model for origin s is fitted on the rows

    .. math:: \{(i, t) : t \le s - h\},

    so a purge of h − 1 periods keeps outcomes unknown at s out of the fit. One fit serves ``refit_every`` periods s, s + 1, …;
    then the origin moves on.

    Parameters
    ----------
    test_periods : int or None, default None
        Number of periods tested in all: the last of the panel. None tests the last third, as does, with a warning, a panel too
        short for the number requested.
    refit_every : int, default 1
        Periods predicted by one fit.
    window : {"expanding", "rolling"}, default "expanding"
        Learn from all past periods, or from the last ``train_periods`` of them.
    train_periods : int or None, default None
        Length of the rolling window, in periods; only with ``window="rolling"``.
    horizon : int, default 1
        Periods between a row and the period in which its outcome is known.
    known_at : str, Series, or None, default None
        When each row's outcome is known, as period labels of the type of X's: a column of X, or a Series aligned with X by
        label, where it may have further rows (by position where it has no labels). Rows known only after the origin, or never
        (missing), are not learned from, beyond what the horizon leaves out: such as reports filed late. They leave the folds
        if they have an outcome, since scikit-learn would learn from it; ``compare`` keeps them as peers, without it.
    firm, period : str, default "firm", "period"
        Names of the two index levels (or columns) of X that carry the labels.

    Notes
    -----
    Rows may come in any order and the index levels in either order. Periods without a single known outcome are not tested (pass
    ``y``); their rows, and all rows with an unknown outcome, stay in the folds as peers. The time needed is O(n log n).

    References
    ----------
    Welch, I. and Goyal, A. (2008), A comprehensive look at the empirical performance of equity premium prediction, Review of
    Financial Studies 21(4) (expanding window). López de Prado, M. (2018), Advances in Financial Machine Learning, ch. 7.

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([["A", "B"], range(2001, 2007)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": range(12)}, index=index)
    >>> for fold in WalkForward(test_periods=4, refit_every=2).folds(X):
    ...     print(fold)
    Fold(train 2001 to 2002, test 2003 to 2004, 4 rows)
    Fold(train 2001 to 2004, test 2005 to 2006, 4 rows)
    >>> WalkForward(test_periods=4, refit_every=2).get_n_splits(X)
    2
    """

    test_periods: int | None = None
    refit_every: int = 1
    _: KW_ONLY
    window: Literal["expanding", "rolling"] = "expanding"
    train_periods: int | None = None
    horizon: int = 1
    known_at: Any = None
    firm: str = "firm"
    period: str = "period"

    def split(self, X: PanelLike, y: OutcomesLike = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (training positions, test positions), one pair for each fit, in time order.

        Parameters
        ----------
        X : DataFrame of n rows
            Carries firm and period as index levels or as columns.
        y : Series or array-like of length n, or None
            Outcomes, NaN = unknown; periods without any are not tested. Aligned by label where y has X's, else by position.
        groups : ignored
            There for scikit-learn's calls.

        Yields
        ------
        train, test : ndarray of int
            Positions into the rows of X, ascending.
        """
        for fold in self.folds(X, y):
            yield fold.train, fold.test

    def get_n_splits(self, X: PanelLike = None, y: OutcomesLike = None, groups: Any = None) -> int:
        """Return the number of fits; it depends on the panel's periods, so X is needed."""
        expect(X is not None, "X", "a panel, on whose periods the number of splits depends", None)
        with warnings.catch_warnings(action="ignore", category=ShortPanelWarning):
            return len(self.folds(X, y))

    def folds(self, X: PanelLike, y: OutcomesLike = None) -> list[Fold]:
        """Return the folds of the panel with their period labels.

        Parameters
        ----------
        X, y
            As in :meth:`split`.

        Returns
        -------
        list of Fold

        Raises
        ------
        InputError
            For a parameter out of its range, X without labels, one period only, or no period to learn from.
        """
        names = ("test_periods", "train_periods", "refit_every", "horizon")
        check_at_least(1, **{name: n for name in names if (n := getattr(self, name)) is not None})
        both = (self.window == "rolling") == (self.train_periods is not None)
        came = f"window={self.window!r}, train_periods={self.train_periods!r}"
        expect(both, "WalkForward", "window='rolling' with train_periods=, its length, or neither", came)
        panel = labelled(self, X, y, self.known_at)
        knowledge = Knowledge.of(panel, self.horizon)
        unknown = np.zeros(len(panel), dtype=bool)
        if panel.outcomes is not None:
            unknown = np.isnan(panel.outcomes)
        tested = self._tested(np.unique(knowledge.row[~unknown]), knowledge.periods)
        every = self.refit_every
        # one fit serves refit_every periods
        blocks = (tested[start : start + every] for start in range(0, len(tested), every))
        return [self._fold(knowledge, unknown, block) for block in blocks]

    def _tested(self, known: np.ndarray, periods: pd.Index) -> np.ndarray:
        """Return the tested periods as positions into ``periods``."""
        # those from the first origin on that has anything to learn from
        possible = known[known >= known.min(initial=len(periods)) + self.horizon]
        if not len(possible):
            few = f"no period can be tested: {len(known)} of {len(periods)} periods have a known outcome"
            need = f"and horizon={self.horizon} needs one at least {self.horizon} period(s) before a tested one"
            raise InputError(f"WalkForward: {few}, {need}. Pass more periods, or y with more known outcomes.")
        third = min(max(1, len(known) // 3), len(possible))
        requested = self.test_periods or third
        if requested <= len(possible):
            return possible[-requested:]
        why = f"{len(known)} periods have a known outcome, {len(possible)} can be tested"
        warn_user(ShortPanelWarning(f"test_periods={self.test_periods} is too many: {why}; the last third instead, {third}."))
        return possible[-third:]

    def _fold(self, knowledge: Knowledge, unknown: np.ndarray, tested: np.ndarray) -> Fold:
        periods = knowledge.periods
        last = tested[0] - self.horizon
        first = max(0, last - (self.train_periods or len(periods)) + 1)
        # nothing that is known only after the first tested period
        learned = (knowledge.row >= first) & knowledge.by(periods[tested[0]])
        # a row without an outcome is a peer of these, whatever its date
        train = np.flatnonzero(learned | (unknown & np.isin(knowledge.row, knowledge.row[learned])))
        test = np.flatnonzero(np.isin(knowledge.row, tested))
        return Fold(train, test, periods[first : last + 1], periods[tested])


def labelled(splitter: WalkForward, X: PanelLike, y: OutcomesLike = None, known_at: Any = None) -> Panel:
    """Return X's labels, and what belongs to them, as a panel; or raise naming the splitter."""
    names: dict[str, Any] = {"firm": splitter.firm, "period": splitter.period}
    if isinstance(known_at, pd.Series):
        known_at = known_at.rename_axis(index={name: ours for ours, name in names.items()})
        rows = as_panel(X, characteristics=(), **names)
        if rows.dated and set(known_at.index.names) == {*names}:  # X may be some rows of the panel, as inside a search
            known_at = known_at[known_at.index.reorder_levels([*names]).isin(rows.labels)]
    outcomes: Any = as_pandas(y)
    # of classes only those that are known count
    if not isinstance(outcomes, pd.DataFrame | None) and np.asarray(outcomes).dtype.kind in "OUS":
        known = np.where(pd.isna(outcomes), np.nan, 1.0)
        outcomes = pd.Series(known, outcomes.index) if isinstance(outcomes, pd.Series) else known
    panel = as_panel(X, outcomes, known_at=known_at, characteristics=(), **names)
    named = f"index levels or columns named {splitter.firm!r} and {splitter.period!r}"
    expect(panel.dated, "X", named, "neither", "Set a (firm, period) index, or name the levels with firm= and period=.")
    return panel


@validate_methods
@dataclass(eq=False, repr=False)
class NewFirms(BaseCrossValidator):
    r"""Test on later periods and on firms never seen: the split by period, crossed with a split by firm.

    Firms are split at random into ``n_splits`` groups. For each fold of ``walk`` and each group G

    .. math:: \text{train} = \{(i, t) \in \text{walk's train} : i \notin G\}, \qquad
              \text{test} = \{(i, t) \in \text{walk's test} : i \in G\}.

    Parameters
    ----------
    walk : WalkForward or None, default None
        The split by period; None: ``WalkForward()``.
    n_splits : int, default 5
        Groups of firms.
    random_state : int, RandomState or None, default 0
        Deals the firms.

    Notes
    -----
    ``compare`` gives a model all rows of the tested periods and scores those of the new firms, so that no firm loses its peers;
    scikit-learn's own functions pass the test rows alone. Firms are split in the order of their labels, whatever that of rows.

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([list("ABCD"), range(2001, 2004)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": range(12)}, index=index)
    >>> for train, test in NewFirms(WalkForward(1), n_splits=2).split(X):
    ...     print(sorted(set(X.index[train].get_level_values(0))), X.index[test].tolist())
    ['B', 'C'] [('A', 2003), ('D', 2003)]
    ['A', 'D'] [('B', 2003), ('C', 2003)]
    """

    walk: WalkForward | None = None
    _: KW_ONLY
    n_splits: int = 5
    random_state: Any = 0

    @property
    def horizon(self) -> int:
        """Horizon of the split by period."""
        return self._walk.horizon

    @property
    def _walk(self) -> WalkForward:
        return self.walk or WalkForward()

    def get_n_splits(self, X: PanelLike = None, y: OutcomesLike = None, groups: Any = None) -> int:
        """Return the number of fits; it depends on the panel's periods, so X is needed."""
        return self.n_splits * self._walk.get_n_splits(X, y)

    def split(self, X: PanelLike, y: OutcomesLike = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (training positions, test positions), for each fold in time and each group of firms.

        Raises
        ------
        InputError
            For fewer firms than groups, and whatever ``walk`` raises.
        """
        check_at_least(2, n_splits=self.n_splits)
        panel = labelled(self._walk, X)
        place, distinct = pd.factorize(panel.labels.get_level_values("firm"), sort=True)
        expect(len(distinct) >= self.n_splits, "n_splits", f"at most the {len(distinct)} firms of X", self.n_splits)
        check_seed(self.random_state)
        dealt = check_random_state(self.random_state).permutation(len(distinct)) % self.n_splits
        group = dealt[place]
        for fold in self._walk.folds(X, y):
            for number in range(self.n_splits):
                test = fold.test[group[fold.test] == number]
                if len(test):
                    yield fold.train[group[fold.train] != number], test


class Split(NamedTuple):
    """A splitter, its folds, and what a reader must know of them."""

    cv: Any
    folds: Folds
    notes: list[str]

    @property
    def tested(self) -> np.ndarray:
        """Positions of the tested rows, one fold after another."""
        return np.concatenate([test for _, test in self.folds])


def horizon_of(cv: Any, panel: Panel, outcome_horizon: int | None) -> int:
    """Return after how many periods outcomes are known: the splitter's horizon, or that of the outcome where it has none."""
    least = max(1, outcome_horizon or 1)
    if panel.known_at is not None:  # where outcomes have dates, these are kept
        least = 1
    horizon = int(getattr(cv, "horizon", least))
    realised = f"a horizon of {least} at least, as outcomes are realised over outcome_horizon={least} periods"
    expect(horizon >= least, "cv", realised, horizon, f"Set horizon={least} in the splitter, or pass known_at.")
    return horizon


def split_of(cv: Any, panel: Panel, horizon: int) -> Split:
    """Return the folds of any splitter, checked for leaks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folds = [(np.asarray(train), np.asarray(test)) for train, test in split_panel(cv, panel)]
    # recorded only to be noted in the report: the user sees them as well
    for entry in caught:
        warn_user(entry.message)
    _check_leaks(cv, panel, folds, horizon)
    return Split(cv, folds, [str(entry.message) for entry in caught if isinstance(entry.message, ShortPanelWarning)])


def split_panel(cv: object, panel: Panel) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return the folds of a splitter; ours are given the panel, others a frame and its outcome."""
    if not hasattr(cv, "split") or isinstance(cv, str | bytes):
        raise InputError(f"cv must be a splitter such as WalkForward(test_periods=12), got {type(cv).__name__}.")
    if type(cv) in (WalkForward, NewFirms):
        return cv.split(panel)
    # other splitters look for labels under names of their own
    names = [getattr(cv, "firm", LABELS[0]), getattr(cv, "period", LABELS[1])]
    return cv.split(panel.X.rename_axis(names), panel.y.rename_axis(names))


def _check_leaks(cv: object, panel: Panel, folds: Folds, horizon: int) -> None:
    """Raise where a tested period or a later one is learned from, or nothing is."""
    knowledge = Knowledge.of(panel)
    unknown = panel.y.isna().to_numpy()
    tested = np.concatenate([np.empty(0, dtype=int), *(test for _, test in folds)])
    tested_once = 0 < len(np.unique(tested)) == len(tested)
    expect(tested_once, "cv", "tested rows, none of them twice", "none, or some twice", "Use WalkForward.")
    for train, test in folds:
        if why := too_late((train, test), knowledge, horizon, unknown):
            raise InputError(f"cv: {type(cv).__name__} {why}; tested periods come after those learned from. Use WalkForward.")
        if (~unknown[train]).sum() < 2:
            few = f"in the rows that a model for {show_label(knowledge.periods[knowledge.row[test].min()])} may learn from"
            raise InputError(f"cv: fewer than two outcomes are known {few}; test fewer periods.")


def too_late(fold: tuple[np.ndarray, np.ndarray], knowledge: Knowledge, ahead: int, unknown: np.ndarray) -> str:
    """Describe how a fold learns from outcomes that are not known at the first period it tests; empty where it does not."""
    train, test = fold
    if not len(train):
        return ""
    periods = knowledge.periods
    last = knowledge.row[train].max()
    origin = knowledge.row[test].min()
    if last > origin - ahead:
        return f"learns from {show_label(periods[last])} to predict {show_label(periods[origin])} at horizon {ahead}"
    # reports filed late are known after the period that they are of; a row of unknown outcome has nothing to learn from
    late = int((~knowledge.by(periods[origin]) & ~unknown)[train].sum())
    if not late:
        return ""
    wording = f"whose outcome is not yet known (known_at) in {show_label(periods[origin])}, which it predicts"
    return f"learns from {late:,} rows {wording}: outcomes that are known after the origin"


def split_words(cv: object, dated: bool = False) -> str:
    """Return a splitter in words; ``dated``: the panel knows when its outcomes are known."""
    if isinstance(cv, NewFirms):
        return f"{split_words(cv.walk or WalkForward(), dated)}, on firms never seen ({cv.n_splits} groups)"
    if not isinstance(cv, WalkForward):
        return " ".join(str(cv).split())
    tested = {None: "third of the periods", 1: "period"}.get(cv.test_periods, f"{cv.test_periods} periods")
    every = {1: "period"}.get(cv.refit_every, f"{cv.refit_every} periods")
    length = f" of {cv.train_periods} periods" * (cv.train_periods is not None)
    words = f"walk forward over the last {tested}, refitted every {every}, {cv.window} window{length}, horizon {cv.horizon}"
    return words + ", rows learned from when known" * (dated or cv.known_at is not None)


def gaps_of(panel: Panel, folds: Folds, task: str) -> tuple[int, ...]:
    """Return the periods between tested rows and the last ones learned from: the least, the middle and the largest.

    A nowcast observes the outcomes of all earlier periods, so that there the gap is one; not where they have dates.
    """
    if task == "nowcast" and panel.known_at is None:
        return (1,)
    rank = sorted_periods(panel.X.index.get_level_values(1))[0]
    found = np.unique(np.concatenate([rank[test] - rank[train].max() for train, test in folds]))
    return tuple(sorted({int(found[at]) for at in (0, len(found) // 2, -1)}))
