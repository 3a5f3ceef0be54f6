"""The model under audit: one fit of a split, whose predictions are compared under changed inputs."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from peerattn.evaluation.leak_audit.columns import Rows
from peerattn.evaluation.measures.metrics import moments_within
from peerattn.evaluation.running.entries import Entry
from peerattn.evaluation.running.inputs import FoldRows
from peerattn.evaluation.splits import split_panel
from peerattn.exceptions import PeerAttnWarning
from peerattn.panel import Knowledge, Panel

MOST_PERIODS = 6  # tested in an audit


class Answering(NamedTuple):
    """A fitted model, whose predictions of any rows can be had."""

    entry: Entry
    model: Any
    rows: FoldRows

    def predict(self, X: pd.DataFrame, y: pd.Series) -> pd.Series:
        """Return predictions on the index of ``X``; outcomes are passed where the task uses them."""
        with quiet():
            return pd.Series(self.entry.predict_steps(self.model, self.rows.with_call(X, y))[:, -1], index=X.index)


@dataclass(frozen=True)
class Subject:
    """A model, a panel and a split: one fit, and the first periods that it is tested on.

    Attributes
    ----------
    entry : Entry
        With every ``random_state`` set.
    panel : Panel
    cv : splitter
    rng_seed : int
    fold : int
        Number of the fit.
    known : ndarray (n,) or None
        First period in which each outcome is known, as a whole number; None: as the horizon implies.
    """

    entry: Entry
    panel: Panel
    cv: Any
    rng_seed: int
    fold: int = 0
    known: np.ndarray | None = None

    @cached_property
    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The folds of the split."""
        with quiet():
            return [(np.asarray(a), np.asarray(b)) for a, b in split_panel(self.cv, self.panel)]

    @cached_property
    def knowledge(self) -> Knowledge:
        """When each outcome is known."""
        found = Knowledge.of(self.panel)
        return found if self.known is None else replace(found, known=self.known)

    @property
    def when(self) -> np.ndarray:
        """Period of each row, as a whole number in time order."""
        return self.knowledge.row

    @cached_property
    def rows(self) -> Rows:
        """Outcomes, columns and codes of the panel, as the check of columns takes them."""
        firm = pd.factorize(self.panel.labels.get_level_values("firm"))[0]
        return Rows.of(self.panel.X, self.panel.y.to_numpy(dtype=float), firm, self.when)

    @cached_property
    def tested(self) -> np.ndarray:
        """The first tested periods that the fold does not learn from, as whole numbers."""
        train, test = (np.unique(self.when[rows]) for rows in self.folds[self.fold])
        # periods of all folds, from the first that this one tests
        later = np.unique(np.concatenate([self.when[rows] for _, rows in self.folds]))
        unseen = np.setdiff1d(later[later >= test[0]], train)
        return (unseen if len(unseen) else test)[:MOST_PERIODS]

    @cached_property
    def call(self) -> np.ndarray:
        """Positions of all rows of those periods."""
        return np.flatnonzero(np.isin(self.when, self.tested))

    @property
    def train(self) -> np.ndarray:
        """Positions of the training rows of the fold."""
        return self.folds[self.fold][0]

    @property
    def X(self) -> pd.DataFrame:
        """Rows that the model predicts."""
        return self.panel.X.iloc[self.call]

    @property
    def y(self) -> pd.Series:
        """Their outcomes."""
        return self.panel.y.iloc[self.call]

    @property
    def period(self) -> np.ndarray:
        """Their periods."""
        return self.when[self.call]

    @property
    def scale(self) -> float:
        """Standard deviation of the known outcomes."""
        return float(self.panel.y.std()) or 1.0

    def with_panel(self, X: pd.DataFrame, y: pd.Series) -> Self:
        """Return the same model and split on changed values of the same rows."""
        X = X.reset_index(drop=True)
        numbers, codes = (X[list(part)] for part in (self.panel.characteristics, self.panel.codes))
        panel = replace(self.panel, characteristics=numbers, codes=codes, outcomes=y.to_numpy())
        return replace(self, panel=panel)

    def rng(self, purpose: int) -> np.random.Generator:
        """Return the generator of one check."""
        return np.random.default_rng([self.rng_seed, purpose])

    @cached_property
    def fitted(self) -> Answering:
        """The model fitted on the fold's training rows."""
        return self.fit(self.train)

    def fit(self, rows: np.ndarray) -> Answering:
        """Fit a clone on these rows."""
        fold = FoldRows(self.panel, rows, self.call)
        with quiet():
            return Answering(self.entry, self.entry.fit(fold), fold)

    @cached_property
    def base(self) -> pd.Series:
        """Its predictions as things are."""
        return self.fitted.predict(self.X, self.y)


def seeded(model: BaseEstimator, random_state: int) -> Any:
    """Return a clone whose every unset ``random_state`` is set."""
    model = clone(model)
    params = model.get_params().items()
    seeds = [name for name, value in params if name.split("__")[-1] == "random_state" and value is None]
    return model.set_params(**dict.fromkeys(seeds, random_state))


def skill(outcome: np.ndarray, prediction: np.ndarray, period: np.ndarray) -> tuple[float, float]:
    """Return the correlation of outcomes with predictions within periods, and four standard errors of none."""
    m = moments_within(outcome, prediction, period)
    xx, xy, yy = m[["xx", "xy", "yy"]].sum()
    found = xy / np.sqrt(xx * yy) if np.sqrt(xx) > 1e-12 * np.sqrt(yy) else 0.0
    return float(found), 4 / np.sqrt(max(m["n"].sum() - len(m), 1))


def quiet() -> warnings.catch_warnings:
    """Silence this package's warnings: the audit reports what it finds."""
    return warnings.catch_warnings(action="ignore", category=PeerAttnWarning)
