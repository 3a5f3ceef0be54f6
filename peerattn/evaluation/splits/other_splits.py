"""Splits that answer other questions than a forecast: blocks of periods in turn, and firms never seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.evaluation.splits.walk_forward import WalkForward, source_rows
from peerattn.exceptions import InputError, check_at_least, checked


@checked
@dataclass(eq=False, repr=False)
class PurgedKFold(BaseCrossValidator):
    r"""Leave out one block of periods after the other, with a purge around it. Not a forecast.

    Periods a, …, b of a block are tested; the training rows are those of all other periods but

    .. math:: t \in [a - h + 1,\; b + h - 1 + e],

    whose outcomes overlap with the block's (h the ``horizon``), and e periods of ``embargo`` after it. A model
    learns from periods *after* those it is tested on: use it to explain, or to choose a setting; ``compare``
    refuses it for ``task="forecast"``.

    Parameters
    ----------
    n_splits : int, default 5
        Number of blocks.
    horizon : int, default 1
        Periods between a row and the period in which its outcome is known.
    embargo : int, default 0
        Further periods left out after the block.
    firm, period : str, default "firm", "period"
        Names of the two index levels (or columns) of X that carry the labels.

    Notes
    -----
    Blocks are contiguous and as equal in number of periods as can be. Whole periods are tested, so no firm
    loses peers.

    References
    ----------
    López de Prado, M. (2018), Advances in Financial Machine Learning, Wiley, ch. 7.

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([["A"], range(2001, 2010)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": range(9)}, index=index)
    >>> for train, test in PurgedKFold(3, horizon=2).split(X):
    ...     print(2001 + train, 2001 + test)
    [2005 2006 2007 2008 2009] [2001 2002 2003]
    [2001 2002 2008 2009] [2004 2005 2006]
    [2001 2002 2003 2004 2005] [2007 2008 2009]
    """

    forecasts = False  #: a model may learn from later periods than those tested

    n_splits: int = 5
    _: KW_ONLY
    horizon: int = 1
    embargo: int = 0
    firm: str = "firm"
    period: str = "period"

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of blocks."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (training positions, test positions), one pair for each block, in time order.

        Raises
        ------
        InputError
            For a parameter out of its range, X without labels, or fewer periods than blocks.
        """
        check_at_least(2, n_splits=self.n_splits)
        check_at_least(1, horizon=self.horizon)
        check_at_least(0, embargo=self.embargo)
        when, periods = sorted_periods(source_rows(self, X)[1])
        if len(periods) < self.n_splits:
            raise InputError(
                f"PurgedKFold: n_splits={self.n_splits} is more than the {len(periods)} periods of X; use fewer blocks."
            )
        for block in np.array_split(np.arange(len(periods)), self.n_splits):
            purged = (when > block[0] - self.horizon) & (when < block[-1] + self.horizon + self.embargo)
            train = np.flatnonzero(~purged)
            if not len(train):
                raise InputError(
                    f"PurgedKFold: nothing is left to learn from besides {periods[block[0]]} to {periods[block[-1]]}; "
                    "use more blocks, a shorter horizon or embargo."
                )
            yield train, np.flatnonzero((when >= block[0]) & (when <= block[-1]))


@checked
@dataclass(eq=False, repr=False)
class NewFirms(BaseCrossValidator):
    r"""Test on later periods and on firms never seen: the split by period, crossed with a split by firm.

    Firms are dealt at random into ``n_splits`` groups. For each fold of ``walk`` and each group G

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
    ``compare`` gives a model all rows of the tested periods and scores those of the new firms, so that no firm
    loses its peers; scikit-learn's own functions pass the test rows alone. Firms are dealt in the order of
    their labels, so the order of rows plays no part.

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
        return WalkForward() if self.walk is None else self.walk

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of fits; it depends on the panel's periods, so X is needed."""
        return self.n_splits * self._walk.get_n_splits(X, y)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (training positions, test positions), for each fold in time and each group of firms.

        Raises
        ------
        InputError
            For fewer firms than groups, and whatever ``walk`` raises.
        """
        check_at_least(2, n_splits=self.n_splits)
        firms = source_rows(self._walk, X)[0]
        distinct = firms.unique().sort_values()
        if len(distinct) < self.n_splits:
            raise InputError(
                f"NewFirms: n_splits={self.n_splits} is more than the {len(distinct)} firms of X; use fewer groups."
            )
        dealt = check_random_state(self.random_state).permutation(len(distinct)) % self.n_splits
        group = dealt[distinct.get_indexer(firms)]
        for fold in self._walk.folds(X, y):
            for number in range(self.n_splits):
                test = fold.test[group[fold.test] == number]
                if len(test):
                    yield fold.train[group[fold.train] != number], test
