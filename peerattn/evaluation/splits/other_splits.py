"""A split that answers another question than a forecast of known firms: firms never seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from peerattn.evaluation.splits.walk_forward import WalkForward, labelled
from peerattn.exceptions import InputError, check_at_least, checked


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
        panel = labelled(self._walk, X)
        assert panel.firm is not None
        firms = panel.firm[np.argsort(panel.order)]
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
