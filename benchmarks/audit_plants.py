"""How many planted leaks does ``audit`` find, and does it raise false alarms? Six batches of 45 plants, and 100 clean cases.

python benchmarks/audit_plants.py [--batch first "clean, real" ...] [--log plants.jsonl] [--only NAME]

Each batch was written before the audit's code was read: leaks in the data, in the splits and in the models. The audit was then
improved on general grounds with the first batch in view; the second was not run before that. The third, and its clean cases, are
of five real panels (the shared test data, see data/README.md), and so were the grounds of the improvements after it. The fourth
has other outcomes of these panels, and unbalanced simulated quarters; its author had read the audit's docstring only. So had the
authors of the fifth (audit_plants_fifth.py), of the same panels with other errors in them, and of the sixth
(audit_plants_sixth.py), whose leaks are common rather than rare. A plant counts as found where the audit refutes a claim or
refuses with an error that is the package's own.
"""

# ruff: noqa: D102
from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from audit_plants_fifth import CLEAN as CLEAN_FIFTH
from audit_plants_fifth import PLANTS as FIFTH
from audit_plants_sixth import CLEAN as CLEAN_SIXTH
from audit_plants_sixth import PLANTS as SIXTH
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.feature_selection import RFECV
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import ElasticNetCV, LassoCV, LinearRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    RandomizedSearchCV,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler

from peerattn import (
    IndustryPeerRegressor,
    PeerAttentionRegressor,
    PrecomputedPeerRegressor,
    WalkForward,
    audit,
)
from peerattn.exceptions import InputError
from peerattn.models import CrossSectionalRidge, LinearInMeansRegressor, NadarayaWatsonRegressor, make_model
from peerattn.network import PeerNetwork
from report import Row, publish

N, T, FIRST = 48, 18, 2000
BEFORE = {  # as first run
    "first": 24,
    "second": 19,
    "third": 27,
    "fourth": 32,
    "clean": 1,
    "clean, real": 3,
    "clean, fourth": 2,
    "fifth": 32,
    "clean, fifth": 2,
    "sixth": 41,
    "clean, sixth": 0,
}
Case = dict[str, Any]
BATCHES: dict[str, dict[str, Callable[[], Case]]] = {
    name: {} for name in ("first", "second", "third", "fourth", "clean", "clean, real", "clean, fourth")
} | {"fifth": FIFTH, "clean, fifth": CLEAN_FIFTH, "sixth": SIXTH, "clean, sixth": CLEAN_SIXTH}


def panel(seed: int, n: int = N, periods: int = T) -> tuple[pd.DataFrame, pd.Series]:
    """Persistent characteristics, an industry, firms' lasting levels, industry shocks, noise."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [[f"F{k:02d}" for k in range(n)], range(FIRST, FIRST + periods)], names=["firm", "period"]
    )
    x = rng.normal(size=(4, n, periods))
    for t in range(1, periods):
        x[:, :, t] = 0.7 * x[:, :, t - 1] + np.sqrt(1 - 0.49) * x[:, :, t]
    industry = rng.integers(0, 6, n)
    shock = 0.5 * rng.normal(size=(6, periods))[industry]
    y = 0.5 * x[0] - 0.3 * x[1] + 0.4 * rng.normal(size=(n, 1)) + shock + 0.8 * rng.normal(size=(n, periods))
    X = pd.DataFrame({f"x{k + 1}": x[k].ravel() for k in range(4)}, index)
    X["sic"] = pd.Series(
        np.repeat(np.array(["2834", "3711", "1311", "7372", "6021", "5311"])[industry], periods),
        index,
        dtype="string",
    )
    return X, pd.Series(y.ravel(), index, name="growth")


def noise(X: pd.DataFrame, seed: int = 99) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=len(X))


def case(X: pd.DataFrame, y: pd.Series, model: Any = None, cv: Any = None, **options: Any) -> Case:
    model = make_model("ols") if model is None else model
    return {
        "model": model,
        "X": X,
        "y": y,
        "cv": WalkForward(3, 3) if cv is None else cv,
        "codes": ("sic",),
    } | options


def plant(batch: str, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function (X, y) -> frame (of data) or -> case; the seed is the plant's number."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        seed = 1000 * len(BATCHES[batch]) + {"first": 1, "second": 2, "clean": 3}[batch]

        def built() -> Case:
            X, y = panel(seed)
            found = make(X.copy(), y.copy())
            return found if isinstance(found, dict) else case(found, y)

        assert name not in BATCHES[batch]
        BATCHES[batch][name] = built
        return make

    return register


def by(values: pd.Series, level: str) -> Any:
    return values.groupby(level=level)


def data(batch: str, name: str, make: Callable[[pd.DataFrame, pd.Series], Any]) -> None:
    """Register one more column made by a function."""
    plant(batch, f"data: {name}")(lambda X, y: X.assign(extra=make(X, y)))


def industry_period(X: pd.DataFrame, y: pd.Series, own: bool) -> pd.Series:
    groups = y.groupby([X["sic"], y.index.get_level_values("period")])
    total, count = groups.transform("sum"), groups.transform("count")
    return total / count if own else (total - y) / (count - 1).clip(lower=1)


def shifted(values: pd.Series, by_periods: int) -> pd.Series:
    """The firm's value so many periods later (negative: earlier), its own mean where there is none."""
    moved = values.groupby(level="firm").shift(-by_periods)
    return moved.fillna(values.groupby(level="firm").transform("mean") if by_periods > 0 else 0.0)


# ---------------------------------------------------------------- first batch: data

data("first", "copy of the outcome", lambda X, y: y)
data("first", "outcome with a tenth of noise", lambda X, y: y + 0.1 * y.std() * noise(X))
data("first", "rank of the outcome within the period", lambda X, y: by(y, "period").rank())
data("first", "exponential of the outcome", lambda X, y: np.exp(y))
data("first", "decile of the outcome", lambda X, y: pd.qcut(y, 10, labels=False).astype(float))
data("first", "sign of the outcome", lambda X, y: np.sign(y))
data("first", "square of the outcome", lambda X, y: y**2)
data("first", "the firm's mean outcome over all periods", lambda X, y: by(y, "firm").transform("mean"))
data("first", "industry-period mean outcome, own included", lambda X, y: industry_period(X, y, True))
data("first", "industry-period mean outcome of the others", lambda X, y: industry_period(X, y, False))
data("first", "next period's outcome", lambda X, y: shifted(y, 1))
data("first", "next period's characteristic", lambda X, y: shifted(X["x1"], 1))
data(
    "first",
    "centred moving average of the outcome",
    lambda X, y: by(y, "firm").transform(lambda s: s.rolling(3, center=True, min_periods=1).mean()),
)
data(
    "first",
    "centred moving average of a characteristic",
    lambda X, y: by(X["x1"], "firm").transform(lambda s: s.rolling(5, center=True, min_periods=1).mean()),
)
data(
    "first",
    "outcome from 2010 on",
    lambda X, y: np.where(y.index.get_level_values("period") >= 2010, y, noise(X)),
)
data("first", "outcome of one industry", lambda X, y: np.where(X["sic"] == "2834", y, noise(X)))
data("first", "outcome where it is large", lambda X, y: np.where(y.abs() > 1.5 * y.std(), y, 0.0))
data("first", "outcome in the last decimals of a characteristic", lambda X, y: X["x1"].round(3) + 1e-6 * y)
plant("first", "data: full-sample standardised characteristics, rounded")(
    lambda X, y: X.assign(
        **{
            c: ((3 + 2 * X[c] - (3 + 2 * X[c]).mean()) / (2 * X[c]).std()).round(3)
            for c in ("x1", "x2", "x3", "x4")
        }
    )
)
plant("first", "data: outcome split over two columns")(lambda X, y: X.assign(a=noise(X), b=y - noise(X)))
plant("first", "data: missing where the outcome is low")(
    lambda X, y: X.assign(x3=X["x3"].where(y > y.quantile(0.3)))
)
plant("first", "data: quintile of the outcome as a code")(
    lambda X, y: case(
        X.assign(band=pd.qcut(y, 5, labels=list("abcde")).astype(str)),
        y,
        codes=("sic", "band"),
        model=make_model("boosting"),
    )
)
plant("first", "data: rows of poor outcomes dropped")(
    lambda X, y: case(X[y > y.quantile(0.25)], y[y > y.quantile(0.25)])
)
plant("first", "data: firms end when they do badly, their last outcome missing")(
    lambda X, y: case(X, y.where(~((y < y.quantile(0.2)) & (noise(X) > 0))))
)


# ---------------------------------------------------------------- first batch: splits


class Folds:
    """A splitter that hands out the folds of a function of X, by position."""

    def __init__(self, make: Callable[[Any], list[tuple[np.ndarray, np.ndarray]]]) -> None:
        self.make = make

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        return iter(self.make(getattr(X, "X", X)))

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return 3


def periods_of(X: Any) -> np.ndarray:
    return np.asarray(X.index.get_level_values("period"))


def windows(
    train: Callable[[np.ndarray, int], np.ndarray], firsts: tuple[int, ...] = (2009, 2012, 2015)
) -> Folds:
    """Three test windows of three periods each, learned from the rows that ``train`` names."""
    return Folds(
        lambda X: [
            (
                np.flatnonzero(train(periods_of(X), s)),
                np.flatnonzero((periods_of(X) >= s) & (periods_of(X) < s + 3)),
            )
            for s in firsts
        ]
    )


def split(batch: str, name: str, cv: Callable[[], Any], **options: Any) -> None:
    plant(batch, f"split: {name}")(lambda X, y: case(X, y, cv=cv(), **options))


split("first", "random rows", lambda: KFold(4, shuffle=True, random_state=0))
split("first", "random rows, many times", lambda: ShuffleSplit(4, random_state=0))
split("first", "rows in order of firms", lambda: TimeSeriesSplit(4))
split(
    "first", "learned from later periods only", lambda: windows(lambda t, s: t >= s + 3, (2002, 2005, 2008))
)
split("first", "learned from the test periods, too", lambda: windows(lambda t, s: t < s + 3))
split(
    "first", "learned from one period beyond the test", lambda: windows(lambda t, s: (t < s) | (t == s + 3))
)


@plant("first", "split: outcomes of three periods, no purge")
def _(X: pd.DataFrame, y: pd.Series) -> Case:
    """Outcomes overlap and are known three periods later; the split does not wait, known_at says so."""
    long = sum(shifted(y, k) for k in range(3))
    known = pd.Series(periods_of(X) + 3, X.index)
    return case(
        X.assign(known_at=known),
        long.rename("growth3"),
        cv=windows(lambda t, s: t < s),
        characteristics=("x1", "x2", "x3", "x4"),
    )


# ---------------------------------------------------------------- first batch: models


class Cheat(RegressorMixin, BaseEstimator):
    """Least squares on numbers; subclasses cheat in ``predict``."""

    def numbers(self, X: Any) -> np.ndarray:
        frame = pd.DataFrame(X)
        return frame.select_dtypes("number").fillna(0.0).to_numpy(float)

    def fit(self, X: Any, y: Any) -> Any:
        self.model_ = LinearRegression().fit(self.numbers(X), np.nan_to_num(np.asarray(y, float)))
        self.mean_ = float(np.nanmean(np.asarray(y, float)))
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model_.predict(self.numbers(X))


class Remembers(Cheat):
    """Holds a table of all outcomes by the firm's first characteristic."""

    def __init__(self, table: Any = None) -> None:
        self.table = table

    def predict(self, X: Any) -> np.ndarray:
        keys = self.numbers(X)[:, 0].round(9)
        return np.array([self.table.get(key, self.mean_) for key in keys])


class CallMean(Cheat):
    """Takes the mean over all rows of the call off, later periods among them."""

    def predict(self, X: Any) -> np.ndarray:
        x = self.numbers(X)
        return self.model_.predict(x - x.mean(axis=0))


class CallRank(Cheat):
    """Ranks predictions over all rows of the call."""

    def predict(self, X: Any) -> np.ndarray:
        return pd.Series(super().predict(X)).rank(pct=True).to_numpy()


class Learns(Cheat):
    """Learns from what it is asked for: its state changes in predict."""

    def predict(self, X: Any) -> np.ndarray:
        found = super().predict(X)
        self.model_.intercept_ = self.model_.intercept_ + 0.1
        return found


class Draws(Cheat):
    """Predictions drawn anew in each call."""

    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X) + 0.1 * np.random.default_rng().normal(size=len(X))


class ByPosition(Cheat):
    """What it predicts depends on where a row stands."""

    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X) + 0.5 * np.linspace(-1, 1, len(X))


SEEN: dict[float, float] = {}


class Shares(Cheat):
    """All instances share one memory of the outcomes they were ever fitted on."""

    def fit(self, X: Any, y: Any) -> Any:
        SEEN.update(zip(self.numbers(X)[:, 0].round(9), np.asarray(y, float)))
        return super().fit(X, y)

    def predict(self, X: Any) -> np.ndarray:
        own = super().predict(X)
        return np.array([SEEN.get(key, found) for key, found in zip(self.numbers(X)[:, 0].round(9), own)])


class NextRow(Cheat):
    """Looks at the next row's characteristics (the same firm's later period in a call)."""

    def predict(self, X: Any) -> np.ndarray:
        x = self.numbers(X)
        return self.model_.predict(np.roll(x, -1, axis=0))


def model(batch: str, name: str, make: Callable[[pd.DataFrame, pd.Series], Any], **options: Any) -> None:
    plant(batch, f"model: {name}")(lambda X, y: case(X, y, model=make(X, y), **options))


def memory(X: pd.DataFrame, y: pd.Series) -> dict[float, float]:
    return dict(zip(X["x1"].round(9), y, strict=True))


model("first", "remembers every outcome", lambda X, y: Remembers(memory(X, y)))
model("first", "centres by the call", lambda X, y: CallMean())
model("first", "ranks over the call", lambda X, y: CallRank())
model("first", "changes in predict", lambda X, y: Learns())
model("first", "draws anew", lambda X, y: Draws())
model("first", "predicts by position", lambda X, y: ByPosition())
model("first", "shares a memory between fits", lambda X, y: Shares())
model("first", "looks at the next row", lambda X, y: NextRow())
model(
    "first",
    "chooses by shuffled inner folds",
    lambda X, y: GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=KFold(3, shuffle=True, random_state=0)),
)
model(
    "first",
    "stops early on random rows",
    lambda X, y: HistGradientBoostingRegressor(early_stopping=True, max_iter=30),
)


def like_outcomes(
    X: pd.DataFrame, y: pd.Series, weights: Callable[[np.ndarray], np.ndarray], whole: bool = False
) -> PeerNetwork:
    """A network made of outcomes: of each period's, or of all periods' together."""
    table = y.unstack("period").fillna(0.0)
    firms, matrices = table.index, {}
    for period in table.columns:
        values = table.to_numpy() if whole else table[[period]].to_numpy()
        W = weights(values)
        np.fill_diagonal(W, 0.0)
        matrices[period] = (firms, None, W / W.sum(axis=1, keepdims=True))
    return PeerNetwork.from_matrices({None: matrices[FIRST]} if whole else matrices)


def near(values: np.ndarray) -> np.ndarray:
    return np.exp(-3 * np.abs(values[:, None, 0] - values[None, :, 0]))


def correlated(values: np.ndarray) -> np.ndarray:
    return np.maximum(np.corrcoef(values), 0.01)


model(
    "first",
    "network of the target period's outcomes",
    lambda X, y: PrecomputedPeerRegressor(network=like_outcomes(X, y, near)),
    task="explain",
)
model(
    "first",
    "undated network of all periods' outcomes",
    lambda X, y: PrecomputedPeerRegressor(network=like_outcomes(X, y, correlated, whole=True)),
    task="explain",
)
model(
    "first",
    "linear in means on a network of outcomes",
    lambda X, y: LinearInMeansRegressor(network=like_outcomes(X, y, near)),
    task="explain",
    codes=("sic",),
)


class OwnIncluded(IndustryPeerRegressor):
    """Industry means with the own outcome in them."""

    def predict(self, X: Any, *, outcomes: Any = None) -> Any:
        found = super().predict(X, outcomes=outcomes)
        return found if outcomes is None else 0.8 * found + 0.2 * np.asarray(outcomes, float)


model("first", "own outcome in the peers' mean", lambda X, y: OwnIncluded(industry="sic"), task="explain")


# ---------------------------------------------------------------- second batch: data

data("second", "outcome times minus a thousand", lambda X, y: -1000 * y)
data("second", "logistic of the outcome, rounded", lambda X, y: (1 / (1 + np.exp(-y))).round(2))
data("second", "outcome with equal noise", lambda X, y: y + y.std() * noise(X))
data(
    "second",
    "outcome above the period's median",
    lambda X, y: (y > by(y, "period").transform("median")).astype(float),
)
data("second", "outcome less its industry's mean", lambda X, y: y - industry_period(X, y, True))
data(
    "second",
    "the firm's volatility of outcomes over all periods",
    lambda X, y: by(y, "firm").transform("std"),
)
data("second", "the firm's largest outcome ever", lambda X, y: by(y, "firm").transform("max"))
data(
    "second",
    "mean outcome of the industry over all periods",
    lambda X, y: y.groupby(X["sic"]).transform("mean"),
)
data("second", "mean outcome of the period", lambda X, y: by(y, "period").transform("mean"))
data(
    "second",
    "sum of all later outcomes",
    lambda X, y: by(y, "firm").transform(lambda s: s[::-1].cumsum()[::-1] - s),
)
data("second", "outcome two periods on", lambda X, y: shifted(y, 2))
data("second", "change of a characteristic to the next period", lambda X, y: shifted(X["x2"], 1) - X["x2"])
data(
    "second",
    "outcome in every third period",
    lambda X, y: np.where(y.index.get_level_values("period") % 3 == 0, y, noise(X)),
)
data(
    "second",
    "outcome of half the firms",
    lambda X, y: np.where(y.index.get_level_values("firm") < "F24", y, noise(X)),
)
data(
    "second",
    "outcome of the last period only",
    lambda X, y: np.where(y.index.get_level_values("period") == 2017, y, noise(X)),
)
data(
    "second",
    "residual of the outcome on the characteristics",
    lambda X, y: y - LinearRegression().fit(X[["x1", "x2"]], y).predict(X[["x1", "x2"]]),
)
data(
    "second",
    "fitted value of a regression on all periods, with firm dummies",
    lambda X, y: (
        Ridge(0.1)
        .fit(pd.get_dummies(X.index.get_level_values(0)), y)
        .predict(pd.get_dummies(X.index.get_level_values(0)))
    ),
)
data(
    "second",
    "outcome as a time-reversed lag",
    lambda X, y: by(y, "firm").transform(lambda s: s.shift(-1).ffill()),
)
data(
    "second",
    "last known value, filled from the future",
    lambda X, y: X["x3"].where(noise(X) > 0).groupby(level="firm").bfill().fillna(0.0),
)
plant("second", "data: outcome as a ratio of two columns")(
    lambda X, y: X.assign(a=y * np.exp(noise(X)), b=np.exp(noise(X)))
)
plant("second", "data: full-sample ranks of a trending characteristic")(
    lambda X, y: X.assign(x1=(X["x1"] + 0.3 * (periods_of(X) - FIRST)).rank(pct=True))
)
plant("second", "data: missing where the outcome will fall")(
    lambda X, y: X.assign(x2=X["x2"].where(shifted(y, 1) > y - 0.5))
)
plant("second", "data: sign of the outcome as a code")(
    lambda X, y: case(
        X.assign(grade=np.where(y > 0, "good", "bad")),
        y,
        codes=("sic", "grade"),
        model=make_model("boosting"),
    )
)
plant("second", "data: only firms that survive with good outcomes")(
    lambda X, y: case(
        *(v[by(y, "firm").transform("mean") > by(y, "firm").transform("mean").median()] for v in (X, y))
    )
)

# ---------------------------------------------------------------- second batch: splits

split("second", "blocks of rows, neither time nor firm", lambda: KFold(5))
split(
    "second",
    "learned from both sides of the test without a gap",
    lambda: windows(lambda t, s: (t < s) | (t >= s + 3)),
)
split("second", "learned from the first test period", lambda: windows(lambda t, s: t <= s))
split(
    "second",
    "one random half of each period",
    lambda: Folds(
        lambda X: [
            (
                np.flatnonzero(np.random.default_rng(k).random(len(X)) < 0.5),
                np.flatnonzero(np.random.default_rng(k).random(len(X)) >= 0.5),
            )
            for k in range(3)
        ]
    ),
)
plant("second", "split: one period out")(
    lambda X, y: case(X, y, cv=Folds(lambda Z: list(LeaveOneGroupOut().split(Z, groups=periods_of(Z)))))
)
plant("second", "split: reversed time")(
    lambda X, y: case(
        X,
        y,
        cv=Folds(
            lambda Z: [
                (np.flatnonzero(periods_of(Z) > s), np.flatnonzero(periods_of(Z) == s))
                for s in (2004, 2006, 2008)
            ]
        ),
    )
)


@plant("second", "split: yearly outcomes each half-year, no gap")
def _(X: pd.DataFrame, y: pd.Series) -> Case:
    long = (y + shifted(y, 1)).rename("growth_two_periods")
    return case(
        X.assign(known_at=periods_of(X) + 2),
        long,
        cv=windows(lambda t, s: t < s),
        characteristics=("x1", "x2", "x3", "x4"),
    )


# ---------------------------------------------------------------- second batch: models


class CallScale(Cheat):
    """Divides by the standard deviation over the call."""

    def predict(self, X: Any) -> np.ndarray:
        x = self.numbers(X)
        return self.model_.predict(x / x.std(axis=0))


class CallMaximum(Cheat):
    """Predictions as a share of the largest of the call."""

    def predict(self, X: Any) -> np.ndarray:
        found = super().predict(X)
        return found / np.abs(found).max()


class Smooths(Cheat):
    """Averages a firm's predictions over the periods of the call."""

    def predict(self, X: Any) -> np.ndarray:
        found = super().predict(X)
        if not isinstance(X, pd.DataFrame) or "firm" not in X.index.names:
            return found
        return pd.Series(found).groupby(X.index.get_level_values("firm")).transform("mean").to_numpy()


class Neighbours(Cheat):
    """The mean of a row's prediction and those of the rows before and after it."""

    def predict(self, X: Any) -> np.ndarray:
        found = super().predict(X)
        return (found + np.roll(found, 1) + np.roll(found, -1)) / 3


class Global(Cheat):
    """Finds the outcome in a table outside."""

    TABLE: dict[float, float] = {}

    def predict(self, X: Any) -> np.ndarray:
        own = super().predict(X)
        hits = [self.TABLE.get(key) for key in self.numbers(X)[:, 0].round(9)]
        return np.array([own_ if hit is None else 0.5 * hit for hit, own_ in zip(hits, own)])


def with_table(X: pd.DataFrame, y: pd.Series) -> Any:
    Global.TABLE = memory(X, y)
    return Global()


class Pretrained(Cheat):
    """Its slopes were estimated on the whole sample; fit does nothing."""

    def __init__(self, coef: Any = None) -> None:
        self.coef = coef

    def fit(self, X: Any, y: Any) -> Any:
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> np.ndarray:
        x = self.numbers(X)
        return x[:, : len(self.coef)] @ np.asarray(self.coef)


class Counts(Cheat):
    """Adds the number of rows of the call."""

    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X) + 0.01 * len(X)


class Demeaned(IndustryPeerRegressor):
    """Peers' outcomes net of the period's mean, the own outcome among what is averaged."""

    def predict(self, X: Any, *, outcomes: Any = None) -> Any:
        if outcomes is None:
            return super().predict(X)
        values = pd.Series(np.asarray(outcomes, float), X.index if isinstance(X, pd.DataFrame) else None)
        mean = (
            values.groupby(level="period").transform("mean") if isinstance(X, pd.DataFrame) else values.mean()
        )
        return np.asarray(super().predict(X, outcomes=outcomes)) - np.asarray(mean)


class Later(IndustryPeerRegressor):
    """Adds the mean of all outcomes it is shown, of later periods, too."""

    def predict(self, X: Any, *, outcomes: Any = None) -> Any:
        found = super().predict(X, outcomes=outcomes)
        return found if outcomes is None else found + float(np.nanmean(np.asarray(outcomes, float)))


model("second", "scales by the call", lambda X, y: CallScale())
model("second", "divides by the call's largest", lambda X, y: CallMaximum())
model("second", "smooths over a firm's later periods", lambda X, y: Smooths())
model("second", "averages neighbouring rows", lambda X, y: Neighbours())
model("second", "finds outcomes in a table outside", with_table)
model(
    "second",
    "slopes of the whole sample",
    lambda X, y: Pretrained(LinearRegression().fit(X[["x1", "x2", "x3", "x4"]], y).coef_.tolist()),
)
model("second", "counts the rows of the call", lambda X, y: Counts())
model(
    "second",
    "chooses by random halves",
    lambda X, y: GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=ShuffleSplit(3, random_state=0)),
)
model(
    "second", "chooses by default folds of rows", lambda X, y: GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]})
)
model("second", "period's mean with the own outcome", lambda X, y: Demeaned(industry="sic"), task="explain")
model("second", "mean of all outcomes shown", lambda X, y: Later(industry="sic"), task="explain")
model(
    "second",
    "network of products of outcomes",
    lambda X, y: PrecomputedPeerRegressor(
        network=like_outcomes(X, y, lambda v: np.maximum(v[:, None, 0] * v[None, :, 0], 0.001))
    ),
    task="explain",
)
model(
    "second",
    "network of outcome quintiles",
    lambda X, y: PrecomputedPeerRegressor(
        network=like_outcomes(
            X, y, lambda v: (lambda q: (q[:, None] == q) + 0.01)(pd.qcut(v[:, 0], 5, labels=False))
        )
    ),
    task="explain",
)
model(
    "second",
    "linear in means on correlations of all outcomes",
    lambda X, y: LinearInMeansRegressor(network=like_outcomes(X, y, correlated, whole=True)),
    task="explain",
)


# ---------------------------------------------------------------- clean


def clean(name: str, make: Callable[[pd.DataFrame, pd.Series], Any]) -> None:
    plant("clean", name)(make)


def lagged(X: pd.DataFrame, y: pd.Series) -> pd.Series:
    return y.groupby(level="firm").shift(1)


clean("own characteristics", lambda X, y: X)
clean("ridge", lambda X, y: case(X, y, make_model("ridge")))
clean("boosting", lambda X, y: case(X, y, make_model("boosting")))
clean("Fama-MacBeth", lambda X, y: case(X, y, make_model("fama_macbeth")))
clean("firm's mean", lambda X, y: case(X, y, make_model("firm_mean")))
clean("last value", lambda X, y: case(X, y, make_model("last_value")))
clean("industry peers, forecast", lambda X, y: case(X, y, IndustryPeerRegressor(industry="sic")))
clean(
    "industry peers, explain", lambda X, y: case(X, y, IndustryPeerRegressor(industry="sic"), task="explain")
)
clean(
    "kernel, explain",
    lambda X, y: case(
        X.drop(columns="sic"), y, NadarayaWatsonRegressor(bandwidth=1.0), task="explain", codes=()
    ),
)
clean("cross-sectional ridge, explain", lambda X, y: case(X, y, CrossSectionalRidge(), task="explain"))
clean("lagged outcome as a characteristic", lambda X, y: X.assign(lag=lagged(X, y)))
clean(
    "the firm's past mean",
    lambda X, y: X.assign(past=y.groupby(level="firm").transform(lambda s: s.shift(1).expanding().mean())),
)
clean(
    "ranks within the period",
    lambda X, y: X.assign(**{c: X[c].groupby(level="period").rank(pct=True) for c in ("x1", "x2")}),
)
clean(
    "standardised within the period",
    lambda X, y: X.assign(
        **{
            c: X[c].groupby(level="period").transform(lambda s: (s - s.mean()) / s.std())
            for c in ("x1", "x2")
        }
    ),
)
clean(
    "a strong characteristic (R² .8)",
    lambda X, y: case(
        X.assign(x1=y.sample(frac=1, random_state=0).to_numpy()), (2 * X["x1"] + 0.3 * y).rename("growth")
    ),
)
clean("values missing at random", lambda X, y: X.assign(x3=X["x3"].where(noise(X) > -0.5)))
clean("rows missing at random", lambda X, y: case(X[noise(X) > -0.7], y[noise(X) > -0.7]))
clean(
    "a given network of characteristics",
    lambda X, y: case(
        X, y, PrecomputedPeerRegressor(network=like_outcomes(X, X["x2"], near)), task="explain"
    ),
)
clean(
    "a given network of past outcomes",
    lambda X, y: case(
        X,
        y,
        PrecomputedPeerRegressor(network=like_outcomes(X, lagged(X, y).fillna(0.0), near)),
        task="explain",
    ),
)
clean(
    "inner folds that walk forward",
    lambda X, y: case(X, y, GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=WalkForward(2, 2))),
)


# ---------------------------------------------------------------- third batch: real panels

SHARED = Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")) / "firm"
Panel = tuple[pd.DataFrame, pd.Series, tuple[str, ...], WalkForward]


def read(
    file: str, period: str, outcome: str, columns: list[str], rows: str
) -> tuple[pd.DataFrame, pd.Series]:
    frame = pd.read_parquet(SHARED / f"{file}.parquet").rename(columns={period: "period"}).query(rows)
    frame = frame.astype({"firm": str}).set_index(["firm", "period"]).sort_index()
    frame = frame[frame[outcome].notna()]
    numbers = frame.select_dtypes("float").columns
    frame[numbers] = frame[numbers].astype(float)
    return frame[columns], frame[outcome].rename(outcome.removesuffix("_next") + "_later")


def some(frame_firms: pd.Series, share: int) -> pd.Series:
    """Every ``share``-th firm, in alphabetical order."""
    return frame_firms.isin(sorted(frame_firms.astype(str).unique())[::share])


@cache
def real(source: str) -> Panel:
    """One of five real panels: characteristics and codes, the next period's outcome, names of the codes, a split."""
    if source == "grunfeld":
        X, y = read("us_annual_grunfeld", "year", "invest_next", ["invest", "value", "capital"], "period > 0")
        return X, y, (), WalkForward(6, 2)
    if source == "empluk":
        columns = ["lemp", "lwage", "lcapital", "loutput", "dlemp", "sector"]
        X, y = read("uk_annual_empluk", "year", "dlemp_next", columns, "period > 1976")
        return X.astype({"sector": str}), y, ("sector",), WalkForward(3, 1)
    if source == "tobinq":
        columns = ["ikn", "qn", "lk", "omphi", "sic2"]
        X, y = read("us_annual_tobinq", "year", "ikn_next", columns, "1960 <= period <= 1979")
        X = X[some(pd.Series(X.index.get_level_values(0), X.index), 2)]
        return X.astype({"sic2": str}), y.loc[X.index], ("sic2",), WalkForward(6, 3)
    if source == "r3000":
        columns = ["size", "lev", "cash_ta", "ppe_ta", "ebit_ta", "ni_ta", "ff12"]
        X, y = read("us_annual_r3000", "year", "ebit_ta_next", columns, "period < 2016")
        X = X[some(pd.Series(X.index.get_level_values(0), X.index), 6)]
        return X.astype({"ff12": str}), y.loc[X.index].clip(-0.6, 0.6), ("ff12",), WalkForward(1, 1)
    columns = ["rev1", "mom12_2", "vol12", "beta", "ldolvol12", "ff12"]
    X, y = read("us_monthly_2000_2012", "date", "ret_next", columns, "'2005-01' <= period < '2007-01'")
    X = X[some(pd.Series(X.index.get_level_values(0), X.index), 16)]
    return X.astype({"ff12": str}), y.loc[X.index].clip(-0.5, 1.0), ("ff12",), WalkForward(6, 3)


def on(batch: str, source: str, name: str, make: Callable[[pd.DataFrame, pd.Series], Any]) -> None:
    """Register a function of a real panel: its column ``extra``, its frame, or the options of its case."""

    def built() -> Case:
        X, y, codes, cv = real(source)
        options: Any = make(X.copy(), y.copy())
        if isinstance(options, (pd.Series, np.ndarray)):
            options = {"X": X.assign(extra=options)}
        return case(X, y, codes=codes, cv=cv) | options

    assert name not in BATCHES[batch]
    BATCHES[batch][f"{source}, {name}"] = built


def within(y: pd.Series, *groups: Any) -> Any:
    return y.groupby([y.index.get_level_values(g) if isinstance(g, str) else g for g in groups])


def ahead(x: pd.Series) -> pd.Series:
    """The firm's value in the next period, its own where there is none."""
    return x.groupby(level="firm").shift(-1).fillna(x)


def slopes(y: pd.Series, z: pd.Series) -> pd.Series:
    """The slope of a firm's outcomes on z over all its periods."""
    a, b = y - by(y, "firm").transform("mean"), z - by(z, "firm").transform("mean")
    return by(a * b, "firm").transform("sum") / by(b * b, "firm").transform("sum").clip(lower=1e-12)


def numbers(X: pd.DataFrame) -> pd.DataFrame:
    return X.select_dtypes("number").fillna(0.0)


def imputed(x: pd.Series, y: pd.Series) -> pd.Series:
    """Three of ten values replaced by what a regression on the outcome says."""
    line = np.polyfit(y, x, 1)
    return x.where(noise(x.to_frame()) > -0.52, np.polyval(line, y))


def rank_one(y: pd.Series) -> np.ndarray:
    """Outcomes as the first principal component has them: a firm's loading times the period's factor."""
    table = y.unstack().fillna(y.mean())
    mean = table.to_numpy().mean()
    U, s, V = np.linalg.svd(table.to_numpy() - mean, full_matrices=False)
    return pd.DataFrame(s[0] * np.outer(U[:, 0], V[0]), table.index, table.columns).stack().reindex(y.index)


def trend(x: pd.Series) -> pd.Series:
    """A firm's two-sided trend (Hodrick and Prescott, lambda 6.25, of annual series)."""

    def smooth(values: pd.Series) -> pd.Series:
        if len(values) < 4:
            return values
        D = np.diff(np.eye(len(values)), 2, axis=0)
        return pd.Series(np.linalg.solve(np.eye(len(values)) + 6.25 * D.T @ D, values), values.index)

    return x.groupby(level="firm", group_keys=False).apply(smooth)


on("third", "tobinq", "data: outcome less the firm's mean", lambda X, y: y - by(y, "firm").transform("mean"))
on("third", "monthly", "data: outcome with a third of noise", lambda X, y: y + 0.33 * y.std() * noise(X))
on(
    "third",
    "monthly",
    "data: beta over all months",
    lambda X, y: slopes(y, by(y, "period").transform("mean")),
)
on(
    "third",
    "monthly",
    "data: price at the end of the tested month",
    lambda X, y: by(np.log1p(y), "firm").cumsum(),
)
on(
    "third",
    "tobinq",
    "data: average of opening and closing capital",
    lambda X, y: (X["lk"] + ahead(X["lk"])) / 2,
)
on(
    "third",
    "grunfeld",
    "data: every second year interpolated from the next",
    lambda X, y: (
        X["capital"]
        .where(X.index.get_level_values("period") % 2 == 1)
        .groupby(level="firm")
        .transform(lambda s: s.interpolate().ffill().bfill())
    ),
)
on("third", "empluk", "data: two-sided trend of employment", lambda X, y: trend(X["lemp"]))
on("third", "tobinq", "data: first principal component of all outcomes", lambda X, y: rank_one(y))
on(
    "third",
    "tobinq",
    "data: fixed effect of a regression over all years",
    lambda X, y: by(y - LinearRegression().fit(numbers(X), y).predict(numbers(X)), "firm").transform("mean"),
)
on(
    "third",
    "r3000",
    "data: restated values of a third of the firms",
    lambda X, y: {
        "X": X.assign(
            ebit_ta=np.where(
                pd.factorize(X.index.get_level_values(0))[0] % 3 == 0, ahead(X["ebit_ta"]), X["ebit_ta"]
            )
        )
    },
)
on("third", "r3000", "data: outcome rounded to five points", lambda X, y: (20 * y).round() / 20)
on("third", "r3000", "data: next year's net income under another name", lambda X, y: ahead(X["ni_ta"]))
on("third", "monthly", "data: size of the move, ranked", lambda X, y: by(y.abs() ** 0.5, "period").rank())
on(
    "third",
    "monthly",
    "data: months the firm still has in the panel",
    lambda X, y: by(y, "firm").cumcount(ascending=False).astype(float),
)
on(
    "third",
    "monthly",
    "data: momentum with the tested month in it",
    lambda X, y: by(y, "firm").transform(lambda s: s.rolling(6, min_periods=1).sum()),
)
on(
    "third",
    "monthly",
    "data: rank of the outcome within its industry",
    lambda X, y: within(y, X["ff12"], "period").rank(),
)
on(
    "third",
    "tobinq",
    "data: a lag taken without groups, another firm's outcome of the same year",
    lambda X, y: y.sort_index(level=["period", "firm"]).shift(1).reindex(y.index).fillna(0.0),
)
on(
    "third",
    "empluk",
    "data: the other rows' mean outcome of the sector",
    lambda X, y: (
        (within(y, X["sector"]).transform("sum") - y) / (within(y, X["sector"]).transform("count") - 1)
    ),
)
on(
    "third",
    "empluk",
    "data: mean outcome of the sector's year, weighted by employment",
    lambda X, y: (
        within(y * np.exp(X["lemp"]), X["sector"], "period").transform("sum")
        / within(np.exp(X["lemp"]), X["sector"], "period").transform("sum")
    ),
)
on(
    "third",
    "monthly",
    "data: beta times the market's return of the tested month",
    lambda X, y: X["beta"] * by(y, "period").transform("mean"),
)
on(
    "third",
    "tobinq",
    "data: a forest's predictions in its own sample",
    lambda X, y: RandomForestRegressor(50, random_state=0).fit(numbers(X), y).predict(numbers(X)),
)
on(
    "third",
    "grunfeld",
    "data: missing values imputed from the outcome",
    lambda X, y: {"X": X.assign(value=imputed(X["value"], y))},
)
on(
    "third",
    "r3000",
    "data: outcome's side in an industry's code",
    lambda X, y: {
        "X": X.assign(segment=X["ff12"] + np.where(y > y.median(), "a", "b")),
        "codes": ("ff12", "segment"),
        "model": make_model("boosting"),
    },
)


def positions(make: Callable[[pd.DataFrame, int], tuple[np.ndarray, np.ndarray]], folds: int) -> Folds:
    """Folds by masks of rows."""
    return Folds(lambda X: [tuple(np.flatnonzero(mask) for mask in make(X, k)) for k in range(folds)])  # type: ignore[misc]


def late(X: pd.DataFrame) -> np.ndarray:
    """The last third of the periods."""
    t = np.asarray(X.index.get_level_values("period"))
    periods = np.unique(t)
    return t >= periods[-(len(periods) // 3)]


def half(X: pd.DataFrame) -> np.ndarray:
    return pd.factorize(X.index.get_level_values("firm"))[0] % 2 == 0


on(
    "third",
    "monthly",
    "split: outcomes filed three months later, not waited for",
    lambda X, y: {
        "X": X.assign(known_at=X.index.get_level_values("period") + pd.offsets.MonthEnd(3)),
        "cv": positions(lambda Z, k: (~late(Z), late(Z)), 1),
        "characteristics": ("rev1", "mom12_2", "vol12", "beta", "ldolvol12"),
    },
)
on(
    "third",
    "empluk",
    "split: other firms of all years",
    lambda X, y: {
        "cv": positions(
            lambda Z, k: ((m := pd.factorize(Z.index.get_level_values(0))[0] % 4 == k) == 0, m), 4
        )
    },
)
on(
    "third",
    "tobinq",
    "split: half of the firms learned from in the tested years",
    lambda X, y: {"cv": positions(lambda Z, k: (~late(Z) | half(Z), late(Z) & ~half(Z)), 1)},
)
on(
    "third",
    "tobinq",
    "split: one tested row in twenty learned from",
    lambda X, y: {
        "cv": positions(
            lambda Z, k: (~late(Z) | (np.random.default_rng(k).random(len(Z)) < 0.05), late(Z)), 1
        )
    },
)
on(
    "third",
    "monthly",
    "split: outcomes of six months, no purge, nothing said",
    lambda X, y: {"y": sum(y.groupby(level="firm").shift(-k).fillna(0.0) for k in range(6)).rename("ret6")},
)
on(
    "third",
    "empluk",
    "split: learned from odd years, tested in even ones",
    lambda X, y: {
        "cv": positions(lambda Z, k: ((m := np.asarray(Z.index.get_level_values("period")) % 2 == 1), ~m), 1)
    },
)


class LooksUp(Cheat):
    """Mixes in the outcome of the row's labels."""

    def __init__(self, table: Any = None) -> None:
        self.table = table

    def predict(self, X: Any) -> np.ndarray:
        own = super().predict(X)
        if not isinstance(X, pd.DataFrame) or "period" not in X.index.names:
            return own
        known = self.table.reindex(X.index.reorder_levels(["firm", "period"])).to_numpy()
        return np.where(np.isnan(known), own, 0.7 * own + 0.3 * np.nan_to_num(known))


class Components(Cheat):
    """Principal components of the call's own rows."""

    def fit(self, X: Any, y: Any) -> Any:
        self.model_ = LinearRegression().fit(self.scores(X), np.nan_to_num(np.asarray(y, float)))
        return self

    def scores(self, X: Any) -> np.ndarray:
        x = self.numbers(X)
        x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
        V = np.linalg.svd(x, full_matrices=False)[2][:2]
        return x @ (V * np.sign(V.sum(axis=1, keepdims=True))).T

    def predict(self, X: Any) -> np.ndarray:
        return self.model_.predict(self.scores(X))


class Winsorises(Cheat):
    """Winsorises at quantiles of the call, whatever its periods."""

    def predict(self, X: Any) -> np.ndarray:
        x = self.numbers(X)
        return self.model_.predict(np.clip(x, *np.quantile(x, [0.1, 0.9], axis=0)))


class Preselected(Cheat):
    """Uses the columns that predict best in the whole sample."""

    def __init__(self, columns: Any = None) -> None:
        self.columns = columns

    def numbers(self, X: Any) -> np.ndarray:
        return super().numbers(X)[:, list(self.columns)]


class Survives(Cheat):
    """Adds something for every later period the firm has in the call."""

    def predict(self, X: Any) -> np.ndarray:
        found = super().predict(X)
        if not isinstance(X, pd.DataFrame) or "firm" not in X.index.names:
            return found
        order = pd.Series(np.arange(len(X)), X.index).sort_index(level=["firm", "period"])
        left = order.groupby(level="firm").cumcount(ascending=False)
        return found + 0.02 * left.reindex(X.index).to_numpy()


class Shown(IndustryPeerRegressor):
    """Subclasses change what the industry's mean makes of the outcomes shown."""

    def predict(self, X: Any, *, outcomes: Any = None) -> Any:
        if outcomes is None or not isinstance(X, pd.DataFrame):
            return super().predict(X, outcomes=outcomes)
        return self.made(X, pd.Series(np.asarray(outcomes, float), X.index))

    def made(self, X: Any, y: pd.Series) -> np.ndarray:
        raise NotImplementedError


class Nearest(Shown):
    """The mean of the five firms whose outcomes are nearest to the own one."""

    def made(self, X: Any, y: pd.Series) -> np.ndarray:
        found = pd.Series(0.0, y.index)
        for _, values in y.groupby(level="period"):
            v = values.fillna(values.mean()).to_numpy()
            away = np.abs(v[:, None] - v[None, :])
            np.fill_diagonal(away, np.inf)
            found[values.index] = v[np.argsort(away, axis=1)[:, :5]].mean(axis=1)
        return found.to_numpy()


class PerDeviation(Shown):
    """The mean of the others over the period's standard deviation, the own outcome in the latter."""

    def made(self, X: Any, y: pd.Series) -> np.ndarray:
        total, n = (y.groupby(level="period").transform(how) for how in ("sum", "count"))
        return ((total - y) / (n - 1) / y.groupby(level="period").transform("std")).fillna(0.0).to_numpy()


def rolling_correlations(y: pd.Series, periods: int = 6, lag: int = 0) -> PeerNetwork:
    """Correlations of outcomes over the last periods, the tested one among them unless there is a lag."""
    table = y.unstack().fillna(y.mean())
    names, made = table.columns, {}
    for k in range(periods + lag, len(names)):
        with np.errstate(invalid="ignore", divide="ignore"):
            W = np.nan_to_num(np.corrcoef(table.to_numpy()[:, k - lag - periods + 1 : k - lag + 1])).clip(0.0)
        np.fill_diagonal(W, 0.0)
        W[W.sum(axis=1) == 0, :] = 1e-3
        np.fill_diagonal(W, 0.0)
        made[names[k]] = (table.index, None, W / W.sum(axis=1, keepdims=True))
    return PeerNetwork.from_matrices(made)


def noisy_columns(X: pd.DataFrame, n: int = 30) -> pd.DataFrame:
    draws = np.random.default_rng(5).normal(size=(len(X), n))
    return X.assign(**{f"signal{k}": draws[:, k] for k in range(n)})


def preselected(X: pd.DataFrame, y: pd.Series) -> Case:
    wide = noisy_columns(X)
    strength = numbers(wide).corrwith(y).abs().to_numpy()
    return {"X": wide, "model": Preselected(np.argsort(-strength)[:5].tolist())}


def best_penalty(X: pd.DataFrame, y: pd.Series) -> Case:
    wide = noisy_columns(X)
    test, x = late(X), numbers(wide)
    loss = {
        a: ((Ridge(a).fit(x[~test], y[~test]).predict(x[test]) - y[test]) ** 2).mean()
        for a in np.geomspace(0.1, 1e5, 25)
    }
    return {"X": wide, "model": Ridge(min(loss, key=lambda a: loss[a]))}


def frozen(step: Any) -> Callable[[pd.DataFrame, pd.Series], Case]:
    """A pipeline whose first step was fitted on all rows and is fitted no more; no codes, so that the columns agree."""

    def make(X: pd.DataFrame, y: pd.Series) -> Case:
        x = numbers(X)
        return {"X": x, "codes": (), "model": make_pipeline(FrozenEstimator(step.fit(x)), Ridge(1.0))}

    return make


def using(model: Any, **options: Any) -> Callable[[pd.DataFrame, pd.Series], Case]:
    return lambda X, y: {"model": model} | options


on("third", "tobinq", "model: components of all years, then frozen", frozen(PCA(2)))
on(
    "third",
    "monthly",
    "model: quantiles of all months, then frozen",
    frozen(QuantileTransformer(n_quantiles=200)),
)
on("third", "empluk", "model: mixes the outcome of the labels in", lambda X, y: {"model": LooksUp(y)})
on("third", "tobinq", "model: components of the call", using(Components()))
on("third", "monthly", "model: winsorises by the call", using(Winsorises()))
on("third", "monthly", "model: columns chosen on all months", preselected)
on(
    "third",
    "tobinq",
    "model: randomised search over repeated random folds",
    using(
        RandomizedSearchCV(
            Ridge(),
            {"alpha": [0.1, 1.0, 10.0]},
            n_iter=2,
            random_state=0,
            cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
        )
    ),
)
on(
    "third",
    "r3000",
    "model: lasso with shuffled folds",
    using(LassoCV(cv=KFold(5, shuffle=True, random_state=0))),
)
on(
    "third",
    "empluk",
    "model: stacking over shuffled folds, in a pipeline",
    using(
        make_pipeline(
            StandardScaler(),
            StackingRegressor(
                [("a", Ridge()), ("b", LinearRegression())], cv=KFold(3, shuffle=True, random_state=0)
            ),
        )
    ),
)
on(
    "third",
    "r3000",
    "model: a vote with a network that stops early on random rows",
    using(
        VotingRegressor(
            [
                ("a", Ridge()),
                (
                    "b",
                    MLPRegressor(hidden_layer_sizes=(4,), early_stopping=True, max_iter=30, random_state=0),
                ),
            ]
        )
    ),
)
on(
    "third",
    "monthly",
    "model: network of the next month's outcomes",
    lambda X, y: {
        "task": "explain",
        "model": PrecomputedPeerRegressor(network=like_outcomes(X, ahead(y).fillna(0.0), near)),
    },
)
on(
    "third",
    "tobinq",
    "model: network of correlations, the tested year in the window",
    lambda X, y: {"task": "explain", "model": PrecomputedPeerRegressor(network=rolling_correlations(y))},
)
on("third", "monthly", "model: peers nearest in outcome", using(Nearest(industry="ff12"), task="explain"))
on(
    "third",
    "empluk",
    "model: over the deviation, the own outcome in it",
    using(PerDeviation(industry="sector"), task="explain"),
)
on("third", "monthly", "model: penalty chosen in the tested months", best_penalty)
on("third", "tobinq", "model: counts the firm's later years", using(Survives()))

# ---------------------------------------------------------------- clean, real panels


def behind(x: pd.Series, k: int = 1) -> pd.Series:
    return x.groupby(level="firm").shift(k)


on("clean, real", "grunfeld", "own characteristics", lambda X, y: {})
on("clean, real", "tobinq", "own characteristics", lambda X, y: {})
on("clean, real", "r3000", "own characteristics", lambda X, y: {})
on("clean, real", "monthly", "boosting", using(make_model("boosting")))
on("clean, real", "empluk", "Fama-MacBeth", using(make_model("fama_macbeth")))
on("clean, real", "tobinq", "firm's mean", using(make_model("firm_mean")))
on("clean, real", "r3000", "last value", using(make_model("last_value")))
on("clean, real", "tobinq", "industry peers, forecast", using(IndustryPeerRegressor(industry="sic2")))
on(
    "clean, real",
    "monthly",
    "industry peers, explain",
    using(IndustryPeerRegressor(industry="ff12"), task="explain"),
)
on("clean, real", "r3000", "cross-sectional ridge, explain", using(CrossSectionalRidge(), task="explain"))
on(
    "clean, real",
    "empluk",
    "kernel, explain",
    lambda X, y: {
        "X": numbers(X),
        "codes": (),
        "model": NadarayaWatsonRegressor(bandwidth=0.5),
        "task": "explain",
    },
)
on(
    "clean, real",
    "empluk",
    "employment in levels, which repeats itself",
    lambda X, y: {"y": (X["lemp"] + y).rename("lemp_later")},
)
on(
    "clean, real",
    "monthly",
    "log price up to the month",
    lambda X, y: by(np.log1p(X["rev1"]), "firm").cumsum(),
)
on(
    "clean, real",
    "monthly",
    "the market's return of the month",
    lambda X, y: by(X["rev1"], "period").transform("mean"),
)
on(
    "clean, real",
    "tobinq",
    "trailing mean of five years",
    lambda X, y: by(X["ikn"], "firm").transform(lambda s: s.rolling(5, min_periods=1).mean()),
)
on("clean, real", "tobinq", "change since last year", lambda X, y: X["lk"] - behind(X["lk"]))
on(
    "clean, real",
    "r3000",
    "winsorised within the year",
    lambda X, y: {
        "X": X.assign(
            **{
                c: by(X[c], "period").transform(lambda s: s.clip(*s.quantile([0.05, 0.95])))
                for c in ("size", "lev", "ebit_ta")
            }
        )
    },
)
on(
    "clean, real",
    "tobinq",
    "industry's mean of last year's outcomes",
    lambda X, y: within(X["ikn"], X["sic2"], "period").transform("mean"),
)
on(
    "clean, real",
    "tobinq",
    "network of correlations up to last year",
    lambda X, y: {
        "task": "explain",
        "model": PrecomputedPeerRegressor(network=rolling_correlations(y, lag=1)),
    },
)
on(
    "clean, real",
    "monthly",
    "inner folds that walk forward",
    using(GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=WalkForward(3, 3))),
)


# ---------------------------------------------------------------- fourth batch: other outcomes, simulated quarters


def quarters(seed: int, n: int = 60, periods: int = 24) -> Panel:
    """Firms that enter and leave, persistent characteristics with heavy tails, shocks of industries; quarter-ends."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(5, size=(3, n, periods))
    for t in range(1, periods):
        x[:, :, t] = 0.8 * x[:, :, t - 1] + 0.6 * x[:, :, t]
    industry = rng.integers(0, 5, n)
    shock = 0.4 * rng.normal(size=(5, periods))[industry]
    y = (
        0.4 * x[0]
        - 0.2 * x[1]
        + 0.5 * rng.normal(size=(n, 1))
        + shock
        + 0.7 * rng.standard_t(5, size=(n, periods))
    )
    firms, dates = [f"C{k:03d}" for k in range(n)], pd.date_range("2010-03-31", periods=periods, freq="QE")
    index = pd.MultiIndex.from_product([firms, dates], names=["firm", "period"])
    X = pd.DataFrame({f"z{k + 1}": x[k].ravel() for k in range(3)}, index)
    X["naics"] = np.repeat(np.array(["311", "325", "334", "517", "522"])[industry], periods)
    first, last = rng.integers(0, 6, n), periods - rng.integers(0, 5, n)
    lives = (np.arange(periods) >= first[:, None]) & (np.arange(periods) < last[:, None])
    return (
        X[lives.ravel()],
        pd.Series(y.ravel(), index, name="margin_later")[lives.ravel()],
        ("naics",),
        WalkForward(6, 2),
    )


@cache
def other(source: str) -> Panel:
    """Another outcome, other characteristics or another time of the real panels."""
    if source == "grunfeld":
        X, y = read("us_annual_grunfeld", "year", "invest_next", ["value", "capital"], "period > 0")
        return X, y, (), WalkForward(6, 3)
    if source == "empluk":
        columns = ["lemp", "lwage", "lcapital", "loutput", "sector"]
        X, y = read("uk_annual_empluk", "year", "lemp_next", columns, "period > 0")
        return X.astype({"sector": str}), y, ("sector",), WalkForward(3, 1)
    if source == "tobinq":
        X, y = read("us_annual_tobinq", "year", "qn_next", ["ikn", "qn", "lk", "ff12"], "1966 <= period")
        X = X[some(pd.Series(X.index.get_level_values(0), X.index), 3)]
        return X.astype({"ff12": str}), np.log1p(y.loc[X.index].clip(-0.5)), ("ff12",), WalkForward(6, 2)
    if source == "r3000":
        columns = ["lsales", "lev", "eq_ta", "ni_ta", "ret_fy", "ff12"]
        X, y = read("us_annual_r3000", "year", "ret_fy_next", columns, "period < 2016")
        X = X[some(pd.Series(X.index.get_level_values(0), X.index), 5)]
        return X.astype({"ff12": str}), y.loc[X.index].clip(-0.9, 2.0), ("ff12",), WalkForward(1, 1)
    columns = ["rev1", "mom6_2", "ivol", "lamihud", "hi52", "ff12"]
    X, y = read("us_monthly_2000_2012", "date", "ret_next", columns, "'2009-06' <= period < '2011-07'")
    X = X[some(pd.Series(X.index.get_level_values(0), X.index), 20)]
    return X.astype({"ff12": str}), y.loc[X.index].clip(-0.5, 1.0), ("ff12",), WalkForward(6, 2)


def fresh(batch: str, source: str, name: str, make: Callable[[pd.DataFrame, pd.Series], Any]) -> None:
    """Register a function of a panel: its column ``extra``, its frame, or the options of its case."""
    seed = 4000 + 100 * len(BATCHES[batch]) + batch.startswith("clean")

    def built() -> Case:
        X, y, codes, cv = quarters(seed) if source == "quarters" else other(source)
        options: Any = make(X.copy(), y.copy())
        if isinstance(options, (pd.Series, np.ndarray)):
            options = {"X": X.assign(extra=options)}
        elif isinstance(options, pd.DataFrame):
            options = {"X": options}
        return case(X, y, codes=codes, cv=cv) | options

    assert f"{source}, {name}" not in BATCHES[batch]
    BATCHES[batch][f"{source}, {name}"] = built


def when(X: Any) -> np.ndarray:
    """The number of each row's period, from 0."""
    return pd.factorize(X.index.get_level_values("period"), sort=True)[0]


def leaks(source: str, name: str, make: Callable[[pd.DataFrame, pd.Series], Any]) -> None:
    fresh("fourth", source, f"data: {name}", make)


def bands(x: pd.Series, n: int) -> pd.Series:
    return x.rank(method="first", pct=True).mul(n).sub(1e-9).floordiv(1)


leaks("quarters", "arc tangent of the outcome, three digits", lambda X, y: np.arctan(y).round(3))
leaks(
    "monthly",
    "outcome standardised within the month",
    lambda X, y: (y - within(y, "period").transform("mean")) / within(y, "period").transform("std"),
)
leaks("monthly", "outcome in whole basis points", lambda X, y: (1e4 * y).round().astype("int64"))
leaks(
    "r3000",
    "quintile of the outcome within industry and year",
    lambda X, y: bands(within(y, X["ff12"], "period").rank(pct=True), 5),
)
leaks(
    "empluk",
    "employment and wages scaled to [0, 1] over all years, rounded",
    lambda X, y: X.assign(
        **{
            c: ((X[c] - X[c].min()) / (X[c].max() - X[c].min())).round(4)
            for c in ("lemp", "lwage", "lcapital")
        }
    ),
)
leaks(
    "quarters",
    "running mean of outcomes, the tested one in it",
    lambda X, y: by(y, "firm").transform(lambda s: s.expanding().mean()),
)
leaks(
    "monthly",
    "exponentially weighted outcomes, the tested month in it",
    lambda X, y: by(y, "firm").transform(lambda s: s.ewm(halflife=2).mean()),
)
leaks(
    "quarters",
    "outcome's sign from the second fold on",
    lambda X, y: np.where(when(X) >= when(X).max() - 2, np.sign(y), np.sign(noise(X))),
)
leaks("tobinq", "the firm's median outcome over all years", lambda X, y: by(y, "firm").transform("median"))
leaks(
    "quarters",
    "the firm's rank by its average outcome",
    lambda X, y: by(y, "firm").transform("mean").rank(method="dense"),
)
leaks(
    "r3000",
    "mean outcome by industry and fifth of sales, all years",
    lambda X, y: within(y, X["ff12"], bands(X["lsales"], 5)).transform("mean"),
)
leaks(
    "monthly",
    "median return of the industry in the tested month",
    lambda X, y: within(y, X["ff12"], "period").transform("median"),
)
leaks("empluk", "number of employees after the tested year", lambda X, y: np.exp(y))
leaks("r3000", "gain on sales, the outcome times exp(log sales)", lambda X, y: y * np.exp(X["lsales"]))
leaks("quarters", "outcome with its sign turned every second quarter", lambda X, y: y * (-1.0) ** when(X))
leaks(
    "monthly",
    "volatility of this and the two coming months",
    lambda X, y: by(y, "firm").transform(lambda s: s[::-1].rolling(3, min_periods=2).std()[::-1]).fillna(0.1),
)
leaks(
    "tobinq",
    "outcome less the firm's straight line over all years",
    lambda X, y: by(y, "firm").transform(
        lambda s: s - np.polyval(np.polyfit(np.arange(len(s)), s, 1), np.arange(len(s)))
    ),
)
leaks("r3000", "distress flag dated a year early", lambda X, y: (y < y.quantile(0.1)).astype(float))
leaks(
    "empluk",
    "the year's effect in a regression over all years",
    lambda X, y: within(y - by(y, "firm").transform("mean"), "period").transform("mean"),
)
leaks(
    "quarters",
    "a characteristic set to zero where the outcome is negative",
    lambda X, y: X.assign(z2=X["z2"].where(y > 0, 0.0)),
)
leaks("quarters", "change of the outcome to the next quarter", lambda X, y: ahead(y) - y)
leaks(
    "grunfeld",
    "cubic trend of the outcome, fitted over all years",
    lambda X, y: by(y, "firm").transform(
        lambda s: np.polyval(np.polyfit(np.arange(len(s)), s, 3), np.arange(len(s)))
    ),
)


def folds(source: str, name: str, make: Callable[[pd.DataFrame, pd.Series], Any]) -> None:
    fresh("fourth", source, f"split: {name}", make)


def spans(train: Callable[[np.ndarray, int], np.ndarray], firsts: tuple[int, ...], length: int = 2) -> Folds:
    """Test windows of some periods each; ``train`` names the rows learned from, by period and start."""
    return Folds(
        lambda X: [
            (np.flatnonzero(train(when(X), s)), np.flatnonzero((when(X) >= s) & (when(X) < s + length)))
            for s in firsts
        ]
    )


@partial(folds, "quarters", "known three quarters later, waited for two")
def _(X: pd.DataFrame, y: pd.Series) -> Case:
    return {
        "X": X.assign(known_at=X.index.get_level_values("period") + pd.offsets.QuarterEnd(3)),
        "cv": spans(lambda t, s: t + 1 < s, (18, 20, 22)),
        "characteristics": ("z1", "z2", "z3"),
    }


@partial(folds, "empluk", "a third of the firms publish a year late")
def _(X: pd.DataFrame, y: pd.Series) -> Case:
    late_firms = pd.factorize(X.index.get_level_values("firm"))[0] % 3 == 0
    known = X.index.get_level_values("period") + 1 + late_firms
    return {
        "X": X.assign(outcome_known_at=known),
        "cv": spans(lambda t, s: t < s, (4, 5), 1),
        "characteristics": ("lemp", "lwage", "lcapital", "loutput"),
    }


folds(
    "monthly",
    "each month of the year out in turn",
    lambda X, y: {
        "cv": positions(
            lambda Z, k: ((m := Z.index.get_level_values("period").month == 3 * k + 1) == 0, m), 4
        )
    },
)
folds(
    "tobinq",
    "purged folds of years, later years learned from after a gap",
    lambda X, y: {"cv": spans(lambda t, s: (t < s - 1) | (t > s + 4), (2, 8), 4)},
)
folds(
    "quarters",
    "honest at first, a period beyond the test from the second fold on",
    lambda X, y: {"cv": spans(lambda t, s: (t < s) | ((s > 16) & (t == s + 2)), (16, 18, 20))},
)
folds(
    "r3000",
    "rows drawn with replacement, tested on those not drawn",
    lambda X, y: {
        "cv": positions(
            lambda Z, k: (
                (m := np.isin(np.arange(len(Z)), np.random.default_rng(k).integers(0, len(Z), len(Z)))),
                ~m,
            ),
            2,
        )
    },
)
folds(
    "quarters",
    "other industries of the tested quarters",
    lambda X, y: {
        "cv": positions(
            lambda Z, k: (
                ~late(Z) | (Z["naics"] != "334").to_numpy(),
                late(Z) & (Z["naics"] == "334").to_numpy(),
            ),
            1,
        )
    },
)


def cheats(source: str, name: str, make: Callable[[pd.DataFrame, pd.Series], Any]) -> None:
    fresh("fourth", source, f"model: {name}", make)


def spanning_tree(y: pd.Series) -> PeerNetwork:
    """The minimum spanning tree of correlations over all periods (Mantegna 1999), undated."""
    table = y.unstack().T.fillna(y.mean())
    tree = minimum_spanning_tree(
        np.sqrt(np.maximum(2 * (1 - np.nan_to_num(np.corrcoef(table.T))), 1e-6))
    ).toarray()
    W = (tree + tree.T > 0).astype(float)
    return PeerNetwork.from_matrices({None: (table.columns, None, W / W.sum(axis=1, keepdims=True))})


def half_industry(X: pd.DataFrame, y: pd.Series, code: str) -> PeerNetwork:
    """Half of the weight on the own industry, half on firms whose outcome of the period is near."""
    made = {}
    for t, rows in X.groupby(level="period"):
        v, group = y.loc[rows.index].to_numpy(), rows[code].to_numpy()
        parts = [
            (group[:, None] == group[None, :]) + 1e-6,
            np.exp(-((v[:, None] - v[None, :]) ** 2) / v.var()),
        ]
        for W in parts:
            np.fill_diagonal(W, 0.0)
        made[t] = (
            rows.index.get_level_values("firm"),
            None,
            sum(W / W.sum(axis=1, keepdims=True) for W in parts) / 2,
        )
    return PeerNetwork.from_matrices(made)


class FirmDemeaned(Cheat):
    """Takes the firm's mean over the call's periods off its characteristics."""

    def predict(self, X: Any) -> np.ndarray:
        frame = X.select_dtypes("number").fillna(0.0)
        return self.model_.predict((frame - by(frame, "firm").transform("mean")).to_numpy(float))


class FilledBackwards(Cheat):
    """Fills what is missing from the firm's next period in the call."""

    def predict(self, X: Any) -> np.ndarray:
        return super().predict(X.select_dtypes("number").groupby(level="firm").bfill())


class NextPeriod(Cheat):
    """Takes half of a firm's characteristics from its next period, where the call has it."""

    def predict(self, X: Any) -> np.ndarray:
        frame = X.select_dtypes("number").sort_index(level="period")
        later = frame.groupby(level="firm").shift(-1).fillna(frame)
        return super().predict((0.5 * frame + 0.5 * later).reindex(X.index))


class PeriodEffects(Cheat):
    """Adds the effect of the period from a table of all periods."""

    def __init__(self, table: Any = None) -> None:
        self.table = table

    def predict(self, X: Any) -> np.ndarray:
        return (
            super().predict(X)
            + pd.Series(X.index.get_level_values("period")).map(self.table).fillna(0.0).to_numpy()
        )


class PeersOfPeers(Shown):
    """The mean of the others' means of their others: the own outcome comes back."""

    def made(self, X: Any, y: pd.Series) -> np.ndarray:
        def others(v: pd.Series) -> pd.Series:
            groups = within(v, X[self.industry], "period")
            return (groups.transform("sum") - v) / (groups.transform("count") - 1).clip(lower=1)

        return others(others(y.fillna(0.0)).fillna(0.0)).fillna(0.0).to_numpy()


class Refits(Shown):
    """Regresses the outcomes shown on the characteristics of the call, the own outcome among them."""

    def made(self, X: Any, y: pd.Series) -> np.ndarray:
        x = numbers(X).to_numpy()
        return LinearRegression().fit(x, y.fillna(y.mean())).predict(x)


class Median(Shown):
    """The industry's median, the own outcome in it."""

    def made(self, X: Any, y: pd.Series) -> np.ndarray:
        return within(y, X[self.industry], "period").transform("median").fillna(0.0).to_numpy()


def demeaned(x: Any) -> Any:
    return x - np.asarray(x, float).mean(axis=0)


def prefitted(X: pd.DataFrame, y: pd.Series) -> Case:
    """A stack of a forest that was fitted on all years."""
    x = numbers(X)
    forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0).fit(x, y)
    return {
        "X": x,
        "codes": (),
        "model": StackingRegressor([("forest", FrozenEstimator(forest))], Ridge(), cv="prefit"),
    }


cheats(
    "tobinq",
    "spanning tree of correlations of all outcomes",
    lambda X, y: {"task": "explain", "model": PrecomputedPeerRegressor(network=spanning_tree(y))},
)
cheats(
    "monthly",
    "network of industries and of near outcomes, half each",
    lambda X, y: {"task": "explain", "model": PrecomputedPeerRegressor(network=half_industry(X, y, "ff12"))},
)
cheats(
    "quarters",
    "a search over shuffled folds under a transformed outcome",
    using(
        TransformedTargetRegressor(
            GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=KFold(3, shuffle=True, random_state=0)),
            transformer=StandardScaler(),
        )
    ),
)
cheats("empluk", "elastic net with ten folds of rows", using(ElasticNetCV(cv=10, alphas=10)))
cheats(
    "r3000",
    "gradient boosting that stops on a random tenth, in a pipeline",
    using(
        make_pipeline(
            SimpleImputer(), GradientBoostingRegressor(n_estimators=40, n_iter_no_change=3, random_state=0)
        )
    ),
)
cheats("tobinq", "firm's mean of the call taken off", using(FirmDemeaned()))
cheats(
    "monthly",
    "means of the call taken off by a function in a pipeline",
    lambda X, y: {
        "X": numbers(X),
        "codes": (),
        "model": make_pipeline(FunctionTransformer(demeaned), LinearRegression()),
    },
)
cheats("r3000", "a stack of a forest fitted on all years", prefitted)
cheats(
    "monthly",
    "peers of peers, the own outcome among them",
    using(PeersOfPeers(industry="ff12"), task="explain"),
)
cheats(
    "empluk",
    "regression on the outcomes shown, the own among them",
    using(Refits(industry="sector"), task="explain"),
)
cheats(
    "quarters",
    "median of the industry, the own outcome in it",
    using(Median(industry="naics"), task="explain"),
)
cheats(
    "monthly",
    "month effects from a table of all months",
    lambda X, y: {"model": PeriodEffects(by(y, "period").mean() - y.mean())},
)
cheats("quarters", "half of the next quarter's characteristics", using(NextPeriod()))
cheats(
    "quarters",
    "missing values filled from the firm's next quarter",
    lambda X, y: {"X": X.assign(z1=X["z1"].where(noise(X) > -0.7)), "model": FilledBackwards()},
)
cheats(
    "tobinq",
    "a search over TimeSeriesSplit of rows in order of firms",
    using(GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=TimeSeriesSplit(3))),
)
cheats(
    "monthly",
    "columns eliminated over shuffled folds, in a pipeline",
    using(
        make_pipeline(
            StandardScaler(), RFECV(Ridge(), cv=KFold(3, shuffle=True, random_state=0)), LinearRegression()
        )
    ),
)

# ---------------------------------------------------------------- clean, beside the fourth batch


def honest(source: str, name: str, make: Callable[[pd.DataFrame, pd.Series], Any]) -> None:
    fresh("clean, fourth", source, name, make)


def similar(X: pd.DataFrame) -> PeerNetwork:
    """Firms near in the period's characteristics."""
    made = {}
    for t, rows in X.groupby(level="period"):
        x = numbers(rows).to_numpy()
        W = np.exp(-0.5 * ((x[:, None] - x[None, :]) ** 2).sum(axis=2))
        np.fill_diagonal(W, 0.0)
        made[t] = (
            rows.index.get_level_values("firm"),
            None,
            W / np.maximum(W.sum(axis=1, keepdims=True), 1e-300),
        )
    return PeerNetwork.from_matrices(made)


def same_industry(X: pd.DataFrame, code: str) -> PeerNetwork:
    groups = X[code].groupby(level="firm").first()
    W = (groups.to_numpy()[:, None] == groups.to_numpy()[None, :]).astype(float)
    np.fill_diagonal(W, 0.0)
    return PeerNetwork.from_matrices(
        {None: (groups.index, None, W / np.maximum(W.sum(axis=1, keepdims=True), 1.0))}
    )


honest("quarters", "own characteristics", lambda X, y: {})
honest(
    "quarters", "outcomes of the last two quarters", lambda X, y: X.assign(lag1=behind(y), lag2=behind(y, 2))
)
honest(
    "tobinq",
    "deviation of past outcomes",
    lambda X, y: by(X["qn"], "firm").transform(lambda s: s.rolling(4, min_periods=2).std()).fillna(0.0),
)
honest(
    "monthly",
    "mean of the firm's past returns",
    lambda X, y: by(X["rev1"], "firm").transform(lambda s: s.expanding().mean()),
)
honest(
    "r3000",
    "ranks within the year",
    lambda X, y: X.assign(**{c: within(X[c], "period").rank(pct=True) for c in ("lsales", "lev", "ni_ta")}),
)
honest("empluk", "level of this year beside next year's level", lambda X, y: {})
honest(
    "grunfeld",
    "logarithms, forecast by the firm's mean",
    lambda X, y: {"X": np.log(X), "model": make_model("firm_mean")},
)
honest(
    "quarters",
    "mean characteristic of the industry's quarter",
    lambda X, y: within(X["z1"], X["naics"], "period").transform("mean"),
)
honest(
    "quarters",
    "a flag, an age and nearly the same column twice",
    lambda X, y: X.assign(
        big=(X["z1"] > 1).astype(float), age=by(y, "firm").cumcount().astype(float), twin=X["z2"].round(2)
    ),
)
honest("quarters", "a third missing at random", lambda X, y: X.assign(z3=X["z3"].where(noise(X) > -0.43)))


@partial(honest, "quarters", "known three quarters later, and waited for")
def _(X: pd.DataFrame, y: pd.Series) -> Case:
    known = pd.Series(X.index.get_level_values("period") + pd.offsets.QuarterEnd(3), X.index)
    return {
        "X": X.assign(known_at=known),
        "cv": WalkForward(6, 2, horizon=3, known_at=known),
        "characteristics": ("z1", "z2", "z3"),
    }


honest(
    "quarters",
    "an outcome of yes and no",
    lambda X, y: {
        "X": X.assign(before=(behind(y) > 0).astype(float)),
        "y": (y > 0).astype(float).rename("up_later"),
    },
)
honest(
    "quarters",
    "an outcome in whole steps",
    lambda X, y: {"y": y.round().rename("grade_later"), "model": make_model("boosting")},
)
honest(
    "quarters",
    "an outcome of noise, a forest",
    lambda X, y: {
        "y": pd.Series(noise(X), X.index, name="noise_later"),
        "model": RandomForestRegressor(20, random_state=0),
        "X": numbers(X),
        "codes": (),
    },
)
honest("tobinq", "scaled in a pipeline", using(make_pipeline(StandardScaler(), Ridge())))
honest(
    "monthly",
    "a search that walks forward under a transformed outcome",
    using(
        TransformedTargetRegressor(
            GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}, cv=WalkForward(3, 3)), transformer=StandardScaler()
        )
    ),
)
honest("r3000", "gradient boosting that does not stop early", using(make_model("boosting")))
honest(
    "empluk",
    "network of near characteristics, explain",
    lambda X, y: {"task": "explain", "model": PrecomputedPeerRegressor(network=similar(X))},
)
honest(
    "tobinq",
    "network of industries, linear in means",
    lambda X, y: {"task": "explain", "model": LinearInMeansRegressor(network=same_industry(X, "ff12"))},
)
honest("monthly", "attention of few steps", using(PeerAttentionRegressor(max_steps=40, random_state=0)))


def run(batch: str, name: str) -> Row:
    """Audit one case."""
    start = time.process_time()
    SEEN.clear()
    arguments = BATCHES[batch][name]()
    try:
        found = audit(
            arguments.pop("model"), arguments.pop("X"), arguments.pop("y"), arguments.pop("cv"), **arguments
        )
        alarm, said = not found.passed, ", ".join(map(str, found.refuted))
    except InputError as error:
        alarm, said = True, f"refused: {str(error)[:100]}"
    return {
        "batch": batch,
        "case": name,
        "alarm": "yes" if alarm else "no",
        "what": said,
        "seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", nargs="+", choices=list(BATCHES), default=list(BATCHES))
    parser.add_argument("--log", type=Path, help="JSON lines; cases that are there are not run again")
    parser.add_argument("--only", help="part of a case's name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    done: dict[tuple[str, str], Row] = {}
    if options.log and options.log.exists():
        rows = [json.loads(line) for line in options.log.read_text(encoding="utf-8").splitlines()]
        done = {(row["batch"], row["case"]): row for row in rows}
    for batch in options.batch:
        for name in BATCHES[batch]:
            if (batch, name) in done or (options.only and options.only not in name):
                continue
            done[batch, name] = run(batch, name)
            print(
                batch, "|", name, "|", done[batch, name]["alarm"], "|", done[batch, name]["what"], flush=True
            )
            if options.log:
                with options.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(done[batch, name]) + "\n")
    if options.only:
        return
    rows = [
        {k: v for k, v in row.items() if k != "seconds"}
        for (batch, _), row in done.items()
        if batch in options.batch
    ]
    counts = {b: [row["alarm"] == "yes" for row in rows if row["batch"] == b] for b in options.batch}
    what = {b: "false alarms" if "clean" in b else "plants found" for b in counts}
    notes = [f"{b}: {sum(c)} of {len(c)} {what[b]}; {BEFORE[b]} before." for b, c in counts.items()]
    notes.append(
        "Before: the audit as it was when the batch was written. All plants of a batch have one author."
    )
    notes.append(
        "Third batch, first run: one of the 27 was found by a false alarm of its panel alone, since mended."
    )
    notes.append(
        "Fourth batch: 11 of the 13 missed at first were found after general improvements made with them in view. Of the two "
        "still missed, one fills missing values that the package has filled before, so that nothing leaks."
    )
    notes.append(
        "Fifth batch, blind: 32 of 45, 2 false alarms of 20; its author and that of the improvements before it did not see "
        "each other's work. The goal, 36 of 45 and none, was missed. Six more were found, and the two alarms mended, with the "
        "batch in view."
    )
    notes.append(
        "Run again when the rules were put into modules of their own: the fifth batch, 39 of 45, none lost and one more found, "
        "and all 100 clean cases, no false alarm. The 40th, overlapping returns without a purge, is found by a rule on sums of "
        "later values that was written with it in view, and that says nothing in the clean cases. Of all other plants only what "
        "is said of their columns was held against what was said before: it is the same in all 370 cases."
    )
    notes.append(
        "Sixth batch, blind, run once after all of that: 41 of 45, no false alarm in 20. One of the 41 was refused for weights "
        "that are NaN, not for the leak. Its author was told to choose leaks that are common in practice, not rare ones."
    )
    publish("audit_plants", "Planted leaks that audit finds, and its false alarms", rows, notes)


if __name__ == "__main__":
    main()
