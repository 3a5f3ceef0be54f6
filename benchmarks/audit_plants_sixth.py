"""Sixth batch of planted leaks, and clean cases: written from the audit's docstring alone, before its first run.

The errors are those that empirical finance and machine learning make most often: a target encoding of the whole sample, a merge
that is one period off, a peer mean with the own outcome in it, folds of rows. Run by ``audit_plants.py``.
"""

# ruff: noqa: D101, D102
from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, StackingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, ShuffleSplit, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerattn import CrossSectionalRidge, IndustryPeerRegressor, PrecomputedPeerRegressor, WalkForward
from peerattn.evaluation import PurgedKFold
from peerattn.models import make_model

SHARED = Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2] / "shared/data"))
Data = tuple[pd.DataFrame, pd.Series]
Case = dict[str, Any]
PLANTS: dict[str, Callable[[], Case]] = {}
CLEAN: dict[str, Callable[[], Case]] = {}


# The panels: at most 2,000 rows each


def tidy(frame: pd.DataFrame, period: str, outcome: str, codes: tuple[str, ...]) -> Data:
    frame = frame.rename(columns={period: "period"}).assign(firm=frame["firm"].astype(str))
    for code in codes:
        frame[code] = frame[code].astype("string")
    frame = frame.set_index(["firm", "period"]).sort_index()
    X = frame[[c for c in frame if not c.endswith("_next")]]
    return X, frame[outcome].astype(float)


def read(name: str) -> pd.DataFrame:
    return pd.read_parquet(SHARED / "firm" / f"{name}.parquet")


def complete(frame: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    """N firms that are there in every period."""
    counts = frame.groupby("firm", observed=True).size()
    firms = np.sort(counts.index[counts == counts.max()].astype(str).to_numpy())
    chosen = np.random.default_rng(seed).choice(firms, min(n, len(firms)), replace=False)
    return frame[frame["firm"].astype(str).isin(chosen)]


@cache
def r3000_of(outcome: str) -> Data:
    frame = complete(read("us_annual_r3000"), 480, 6)
    columns = [
        "size",
        "lsales",
        "turn",
        "lev",
        "cash_ta",
        "ppe_ta",
        "cogs_sales",
        "ebit_ta",
        "ni_ta",
        "roa",
        "sales",
    ]
    frame = frame[["firm", "year", "sector", "ff49", outcome, *columns]]
    X, y = tidy(frame, "year", outcome, ("sector", "ff49"))
    return X, y.clip(-0.6, 0.6)


@cache
def tobinq_of(outcome: str) -> Data:
    frame = read("us_annual_tobinq")
    frame = complete(frame[frame["year"] >= 1960], 72, 7)
    X, y = tidy(
        frame[["firm", "year", "ikn", "qn", "qb", "lk", "omphi", "ff12", outcome]], "year", outcome, ("ff12",)
    )
    return X, y


@cache
def empluk_of(outcome: str) -> Data:
    columns = ["firm", "year", "lemp", "lwage", "lcapital", "loutput", "dlemp", "sector", outcome]
    return tidy(read("uk_annual_empluk")[columns], "year", outcome, ("sector",))


@cache
def grunfeld_of() -> Data:
    return tidy(read("us_annual_grunfeld"), "year", "invest_next", ())


@cache
def monthly_of() -> Data:
    frame = read("us_monthly_2000_2012")
    frame = frame[(frame["date"] >= "2006-01-01") & (frame["date"] < "2009-01-01") & frame["ff12"].notna()]
    frame = complete(frame, 54, 8)
    columns = ["rev1", "mom12_2", "vol12", "beta", "ivol", "ldolvol12", "hi52"]
    X, y = tidy(frame[["firm", "date", "ff12", "ret_next", *columns]], "date", "ret_next", ("ff12",))
    return X, y.clip(-0.5, 1.0)


@cache
def quarters() -> Data:
    """Simulated: return on assets of 60 firms in 30 quarters, to be forecast a quarter ahead."""
    rng = np.random.default_rng(66)
    n, periods = 60, 31
    industry = rng.integers(0, 8, n)
    level, shock = 0.5 * rng.normal(size=n), 0.4 * rng.normal(size=(8, periods))
    x = rng.normal(size=(2, n, periods))
    roa = np.zeros((n, periods))
    for t in range(1, periods):
        x[:, :, t] = 0.6 * x[:, :, t - 1] + 0.8 * x[:, :, t]
        roa[:, t] = 0.4 * roa[:, t - 1] + 0.6 * level + 0.3 * x[0, :, t - 1] + shock[industry, t]
        roa[:, t] += 0.5 * rng.normal(size=n)
    index = pd.MultiIndex.from_product(
        [[f"Q{k:02d}" for k in range(n)], range(1, periods)], names=["firm", "period"]
    )
    X = pd.DataFrame({"margin": x[0, :, 1:].ravel(), "accruals": x[1, :, 1:].ravel()}, index)
    X["roa"] = roa[:, 1:].ravel()
    X["industry"] = pd.Series(np.repeat(industry, periods - 1).astype(str), index, dtype="string")
    return X, X["roa"].groupby("firm").shift(-1).rename("roa_next")


@cache
def half_years() -> Data:
    """Simulated: log returns of 60 firms in 32 months; the outcome is the sum of the next three."""
    rng = np.random.default_rng(67)
    n, periods = 60, 35
    signal = rng.normal(size=(n, periods))
    ret = 0.02 * rng.normal(size=periods) + 0.08 * rng.normal(size=(n, periods))
    ret[:, 1:] += 0.02 * signal[:, :-1]
    index = pd.MultiIndex.from_product(
        [[f"H{k:02d}" for k in range(n)], range(1, periods + 1)], names=["firm", "period"]
    )
    X = pd.DataFrame({"signal": signal.ravel(), "ret": ret.ravel()}, index)
    ahead = sum(X["ret"].groupby("firm").shift(-k) for k in (1, 2, 3))
    known = X.index.get_level_values("period") <= periods - 3
    return X[known], ahead[known].rename("ret3_next")


SOURCES: dict[str, tuple[Callable[[], Data], tuple[str, ...], tuple[int, int]]] = {
    "r3000 ebit": (lambda: r3000_of("ebit_ta_next"), ("sector", "ff49"), (2, 1)),
    "r3000 sales": (lambda: r3000_of("sales_growth_next"), ("sector", "ff49"), (2, 1)),
    "tobinq q": (lambda: tobinq_of("qn_next"), ("ff12",), (8, 4)),
    "tobinq investment": (lambda: tobinq_of("ikn_next"), ("ff12",), (8, 4)),
    "empluk growth": (lambda: empluk_of("dlemp_next"), ("sector",), (3, 1)),
    "empluk level": (lambda: empluk_of("lemp_next"), ("sector",), (3, 1)),
    "grunfeld": (grunfeld_of, (), (6, 3)),
    "monthly": (monthly_of, ("ff12",), (12, 6)),
    "quarters": (quarters, ("industry",), (8, 4)),
    "overlapping": (half_years, (), (9, 3)),
}


def add(to: dict[str, Callable[[], Case]], source: str, reason: str) -> Callable[[Any], Any]:
    """Register a function (X, y) -> frame, or dict of what differs from an honest audit of OLS."""

    def register(make: Callable[[pd.DataFrame, pd.Series], Any]) -> Any:
        def built() -> Case:
            data, codes, (tested, refit) = SOURCES[source]
            X, y = data()
            found = make(X.copy(), y.copy())
            found = found if isinstance(found, dict) else {"X": found}
            horizon = {"horizon": 3} if source == "overlapping" else {}
            default = {"model": make_model("ols"), "X": X.copy(), "y": y.copy(), "codes": codes}
            return default | {"cv": WalkForward(tested, refit, **horizon)} | found

        name = f"{source}: {reason}"
        assert name not in to
        to[name] = built
        return make

    return register


def leak(source: str, reason: str) -> Callable[[Any], Any]:
    return add(PLANTS, source, reason)


def honest(source: str, reason: str) -> Callable[[Any], Any]:
    return add(CLEAN, source, reason)


def periods_of(X: pd.DataFrame | pd.Series) -> pd.Index:
    return X.index.get_level_values("period")


def firms_of(X: pd.DataFrame | pd.Series) -> pd.Index:
    return X.index.get_level_values("firm")


def others(y: pd.Series, by: list[Any]) -> pd.Series:
    """Mean of the other rows of the group."""
    groups = y.groupby(by)
    return (groups.transform("sum") - y.fillna(0)) / (groups.transform("count") - y.notna()).replace(
        0, np.nan
    )


# 23 leaks in the data


@leak("r3000 ebit", "industry encoded by the mean outcome of the whole sample")
def _(X, y):
    return X.assign(ff49_level=y.groupby(X["ff49"].fillna("none")).transform("mean"))


@leak("tobinq q", "firm encoded by its mean outcome of all years")
def _(X, y):
    return X.assign(firm_level=y.groupby("firm").transform("mean"))


@leak("monthly", "industry return of the month that is forecast, own firm left out")
def _(X, y):
    return X.assign(industry_ret=others(y, [X["ff12"], periods_of(X)]))


@leak("r3000 sales", "sales merged from next year's report, beside this year's")
def _(X, y):
    return X.assign(sales_report=X["sales"] * (1 + y))


@leak("empluk growth", "scaled by the average of opening and closing employment")
def _(X, y):
    return X.assign(
        capital_to_average=X["lcapital"] - np.log((np.exp(X["lemp"]) + np.exp(X["lemp"] + y)) / 2)
    )


@leak("empluk growth", "employment demeaned within firm over all years")
def _(X, y):
    return X.assign(lemp_within=X["lemp"] - X["lemp"].groupby("firm").transform("mean"))


@leak("tobinq q", "principal components of all columns, the outcome among them")
def _(X, y):
    numbers = X.drop(columns="ff12").assign(outcome=y)
    parts = PCA(3).fit_transform(StandardScaler().fit_transform(numbers.fillna(numbers.mean())))
    return X.assign(**{f"pc{k + 1}": parts[:, k] for k in range(3)})


@leak("r3000 ebit", "missing roa imputed by a regression that has the outcome in it")
def _(X, y):
    inputs = X[["size", "lev", "cash_ta", "ni_ta"]].assign(outcome=y.fillna(y.mean()))
    inputs = inputs.fillna(inputs.mean())
    empty = X["roa"].isna()
    target = y.where(X["roa"].isna(), X["roa"].clip(-1, 1)).fillna(0)  # the filled ones follow the outcome
    filled = LinearRegression().fit(inputs, target).predict(inputs)
    return X.assign(roa=X["roa"].mask(empty, filled))


@leak("quarters", "reports that are missing interpolated linearly between the quarters around them")
def _(X, y):
    gaps = np.random.default_rng(1).random(len(X)) < 0.35
    roa = X["roa"].mask(gaps).groupby("firm", group_keys=False).apply(lambda s: s.interpolate())
    return X.assign(roa=roa)


@leak("tobinq investment", "missing investment rates filled backwards from the year after")
def _(X, y):
    gaps = np.random.default_rng(2).random(len(X)) < 0.3
    return X.assign(ikn=X["ikn"].mask(gaps).groupby("firm").bfill())


@leak("monthly", "three-month average of returns that ends a month too late")
def _(X, y):
    rolled = y.groupby("firm").rolling(3, min_periods=1).mean().droplevel(0)
    return X.assign(ret_avg3=rolled)


@leak("r3000 ebit", "performance fifth of the coming year as a code")
def _(X, y):
    fifth = y.groupby("period").rank(pct=True).mul(5).clip(upper=4.99)
    code = np.floor(fifth).map(lambda v: "none" if np.isnan(v) else str(int(v)))
    return {
        "X": X.assign(performer=code.astype("string")),
        "codes": ("sector", "ff49", "performer"),
        "model": make_model("boosting"),
    }


@leak("tobinq investment", "firms clustered by their outcomes of all years")
def _(X, y):
    paths = y.unstack("period").fillna(y.mean())
    group = pd.Series(KMeans(12, n_init=4, random_state=0).fit_predict(paths), paths.index)
    code = pd.Series(group.loc[firms_of(X)].astype(str).to_numpy(), X.index, dtype="string")
    return {
        "X": X.assign(cluster=code),
        "codes": ("ff12", "cluster"),
        "model": make_model("boosting"),
    }


@leak("grunfeld", "dummy of a slump, dated by the mean outcome of the year that is forecast")
def _(X, y):
    level = y.groupby("period").mean().diff()
    return X.assign(slump=(level.loc[periods_of(X)].to_numpy() < 0).astype(float))


@leak("tobinq investment", "two-sided moving average of the firm's investment rate")
def _(X, y):
    rate = X["ikn"].groupby("firm").rolling(3, center=True, min_periods=1).mean().droplevel(0)
    return X.assign(trend=rate)


@leak("empluk growth", "abnormal growth: the residual of the outcome on characteristics")
def _(X, y):
    inputs = X[["lemp", "lwage", "lcapital", "loutput"]]
    known = y.notna()
    fitted = LinearRegression().fit(inputs[known], y[known]).predict(inputs)
    return X.assign(abnormal=y - fitted)


@leak("r3000 ebit", "industry mean of the year, own outcome in it, explain")
def _(X, y):
    return {
        "X": X.assign(industry_mean=y.groupby([X["ff49"].fillna("none"), periods_of(X)]).transform("mean")),
        "task": "explain",
    }


@leak("empluk growth", "percentile of the own outcome among the sector's of the year, explain")
def _(X, y):
    rank = y.groupby([X["sector"], periods_of(X)]).rank(pct=True)
    return {"X": X.assign(percentile=rank), "task": "explain"}


@leak("tobinq q", "distance of the own outcome to the industry's median of the year, explain")
def _(X, y):
    median = y.groupby([X["ff12"], periods_of(X)]).transform("median")
    return {"X": X.assign(distance=y - median), "task": "explain"}


@leak("r3000 ebit", "figures as restated in the next report, partly those of next year")
def _(X, y):
    return X.assign(ebit_restated=X["ebit_ta"] + 0.4 * (y - X["ebit_ta"]))


@leak("quarters", "vendor filled the history in later, for firms that did well since")
def _(X, y):
    poor = y < y.groupby("period").transform(lambda s: s.quantile(0.25))
    return X.assign(accruals=X["accruals"].mask(poor))


@leak("overlapping", "last period's outcome, which reaches two months into this one's")
def _(X, y):
    return X.assign(ret3_last=y.groupby("firm").shift(1))


@leak("monthly", "price index merged from the end of the month that is forecast")
def _(X, y):
    return X.assign(log_price=np.log1p(y.fillna(0)).groupby("firm").cumsum())


# 6 leaks in the splits


class FirmFolds(BaseEstimator):
    """Other firms are tested than learned from: of all periods."""

    def __init__(self, n_splits: int = 4) -> None:
        self.n_splits = n_splits

    def get_n_splits(self, X=None, y=None, groups=None):
        return self.n_splits

    def split(self, X, y=None, groups=None):
        codes = pd.factorize(firms_of(X), sort=True)[0] % self.n_splits
        for k in range(self.n_splits):
            yield np.flatnonzero(codes != k), np.flatnonzero(codes == k)


class UpToAndWith(BaseEstimator):
    """Expanding window with <= where < was meant."""

    def __init__(self, tested: int = 6) -> None:
        self.tested = tested

    def get_n_splits(self, X=None, y=None, groups=None):
        return self.tested

    def split(self, X, y=None, groups=None):
        at = np.asarray(periods_of(X))
        last = len(np.unique(at)) - (0 if y is None else int(np.isnan(y[at == at.max()]).all()))
        for period in np.unique(at)[:last][-self.tested :]:
            yield np.flatnonzero(at <= period), np.flatnonzero(at == period)


@leak("monthly", "shuffled folds of rows")
def _(X, y):
    return {"cv": KFold(5, shuffle=True, random_state=0)}


@leak("tobinq q", "folds of firms, in a forecast: the tested years of the other firms are learned from")
def _(X, y):
    return {"cv": FirmFolds()}


@leak("overlapping", "no purge: outcomes of three months, walked forward as if of one")
def _(X, y):
    return {"X": X.assign(outcome_known_at=periods_of(X) + 3), "cv": WalkForward(9, 3)}


@leak("tobinq investment", "TimeSeriesSplit over rows that are sorted by firm")
def _(X, y):
    return {"cv": TimeSeriesSplit(5)}


@leak("quarters", "expanding window that learns from the tested period itself")
def _(X, y):
    return {"cv": UpToAndWith()}


@leak("empluk growth", "purged cross-validation taken for a backtest")
def _(X, y):
    return {"cv": PurgedKFold(4)}


# 16 leaks in the models


class Plain(RegressorMixin, BaseEstimator):
    """Ridge on what ``inputs`` makes of the numbers of a call."""

    def fit(self, X, y):
        self.columns_ = [c for c in X.columns if "=" not in c]
        self.prepare(X)
        self.ridge_ = make_pipeline(StandardScaler(), Ridge(1.0)).fit(self.inputs(X), y)
        return self

    def prepare(self, X):
        pass

    def inputs(self, X):
        return X[self.columns_].to_numpy(float)

    def predict(self, X):
        return self.ridge_.predict(self.inputs(X))


class ScaledByCall(Plain):
    def inputs(self, X):
        values = X[self.columns_].to_numpy(float)
        return (values - values.mean(0)) / (values.std(0) + 1e-9)


class ComponentsOfCall(Plain):
    def inputs(self, X):
        values = super().inputs(X)
        parts = PCA(2, random_state=0).fit_transform(StandardScaler().fit_transform(values))
        return np.column_stack([parts, values[:, :2]])


class NextRow(Plain):
    """A lag with the wrong sign."""

    def __init__(self, column: str = "qn") -> None:
        self.column = column

    def inputs(self, X):
        values = X[self.column].groupby(firms_of(X)).shift(-1).fillna(X[self.column])
        return np.column_stack([super().inputs(X), values])


class SmoothedPath(Plain):
    """Forecasts smoothed over a firm's rows of the call, on both sides."""

    def predict(self, X):
        raw = pd.Series(super().predict(X), X.index).sort_index()
        smooth = raw.groupby("firm").rolling(3, center=True, min_periods=1).mean().droplevel(0)
        return smooth.loc[X.index].to_numpy()


class ShrunkToHistory(Plain):
    """Own ridge, half shrunk to the firm's mean in a table of all years."""

    def __init__(self, history: Any = None) -> None:
        self.history = history

    def predict(self, X):
        level = self.history.groupby("firm").mean().reindex(firms_of(X)).fillna(self.history.mean())
        return 0.5 * super().predict(X) + 0.5 * level.to_numpy()


CACHE: dict[str, list[float]] = {}


class CachedMeans(Plain):
    """Fills a cache of the module in every fit, and never empties it."""

    def fit(self, X, y):
        for firm, value in zip(firms_of(X), np.asarray(y, dtype=float)):
            CACHE.setdefault(firm, []).append(value)
        return super().fit(X, y)

    def predict(self, X):
        level = np.array([np.mean(CACHE.get(firm, [0.0])) for firm in firms_of(X)])
        return 0.5 * super().predict(X) + 0.5 * level


class RunningScale(Plain):
    """The mean of the inputs goes on being learned in predict."""

    def prepare(self, X):
        self.seen_ = [X[self.columns_].mean().to_numpy(float)]

    def predict(self, X):
        self.seen_.append(X[self.columns_].mean().to_numpy(float))
        return self.ridge_.predict(self.inputs(X) - np.mean(self.seen_, axis=0) + self.seen_[0])


class MergedByDate(TransformerMixin, BaseEstimator):
    """Merges a column from a table by period."""

    def __init__(self, table: Any = None) -> None:
        self.table = table

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X.assign(merged=self.table.reindex(periods_of(X)).fillna(0).to_numpy())


class IndustryWithOwn(IndustryPeerRegressor):
    """Mean of the industry's outcomes, that of the firm itself among them."""

    def predict(self, X, *, outcomes=None):
        without = super().predict(X, outcomes=outcomes)
        if outcomes is None:
            return without
        own = pd.Series(np.asarray(outcomes, dtype=float), X.index)
        n = own.groupby([X[self.industry].astype("string").fillna("none"), periods_of(X)]).transform("count")
        return without + ((own - without) / n.clip(lower=1)).fillna(0)


class PeriodEffect(PrecomputedPeerRegressor):
    """The mean of the period, taken over all its firms."""

    def predict(self, X, *, outcomes=None):
        without = super().predict(X, outcomes=outcomes)
        if outcomes is None:
            return without
        own = pd.Series(np.asarray(outcomes, dtype=float), X.index)
        return own.groupby(periods_of(X)).transform("mean").fillna(without)


def near(values: pd.Series, width: float = 0.1) -> dict[Any, pd.DataFrame]:
    """Networks by period of the firms whose values are close."""
    found = {}
    for period, part in values.groupby("period"):
        v, names = part.fillna(part.mean()).to_numpy(float), firms_of(part)
        weights = np.exp(-0.5 * ((v[:, None] - v) / (width * v.std() + 1e-9)) ** 2)
        np.fill_diagonal(weights, 0.0)
        found[period] = pd.DataFrame(weights, names, names)
    return found


def correlated(values: pd.Series) -> pd.DataFrame:
    """Positive correlations of the firms' paths."""
    wide = values.unstack("firm").corr(min_periods=5).fillna(0).clip(lower=0)
    weights = wide.to_numpy(copy=True)
    np.fill_diagonal(weights, 0.0)
    return pd.DataFrame(weights**4, list(wide.index), list(wide.columns))


@leak("tobinq q", "predict standardises by the mean and deviation of its call")
def _(X, y):
    return {"model": ScaledByCall()}


@leak("monthly", "principal components computed anew over the call, in predict")
def _(X, y):
    return {"model": ComponentsOfCall()}


@leak("monthly", "neighbours and their number chosen on shuffled rows")
def _(X, y):
    search = RandomizedSearchCV(
        KNeighborsRegressor(),
        {"n_neighbors": [2, 5, 10, 25, 60, 120], "weights": ["uniform", "distance"]},
        n_iter=6,
        cv=ShuffleSplit(4, test_size=0.25, random_state=0),
        random_state=0,
    )
    return {"model": make_pipeline(StandardScaler(), search)}


@leak("tobinq investment", "boosting that stops early on rows drawn at random")
def _(X, y):
    return {"model": HistGradientBoostingRegressor(early_stopping=True, max_iter=300, random_state=0)}


@leak("quarters", "stacking weights learned on shuffled folds of rows")
def _(X, y):
    members = [("ridge", Ridge()), ("neighbours", KNeighborsRegressor(10))]
    return {
        "model": StackingRegressor(members, LinearRegression(), cv=KFold(5, shuffle=True, random_state=0))
    }


@leak("tobinq q", "a forest pretrained on all years supplies a feature")
def _(X, y):
    X = X.drop(columns="ff12")
    known = y.notna()
    forest = RandomForestRegressor(40, min_samples_leaf=2, random_state=0).fit(X[known], y[known])
    members = [("pretrained", FrozenEstimator(forest))]
    stack = StackingRegressor(members, LinearRegression(), cv="prefit", passthrough=True)
    return {"X": X, "codes": (), "model": stack}


@leak("tobinq investment", "shrinks to the firm's mean in a table of all years")
def _(X, y):
    return {"model": ShrunkToHistory(y.dropna())}


@leak("quarters", "cache of firms' outcomes that outlives a fit")
def _(X, y):
    CACHE.clear()
    return {"model": CachedMeans()}


@leak("monthly", "scale of the inputs goes on being learned from call to call")
def _(X, y):
    return {"model": RunningScale()}


@leak("r3000 ebit", "industry mean that counts the own outcome, explain")
def _(X, y):
    X = X.assign(ff49=X["ff49"].fillna("none"))
    return {"X": X, "model": IndustryWithOwn(industry="ff49"), "task": "explain"}


@leak("empluk growth", "network of firms whose outcomes of the year are close, explain")
def _(X, y):
    return {"model": PrecomputedPeerRegressor(network=near(y)), "task": "explain"}


@leak("grunfeld", "effect of the year with the own outcome in it, explain")
def _(X, y):
    return {"model": PeriodEffect(), "task": "explain"}


@leak("tobinq q", "network of correlations of the outcomes of all years")
def _(X, y):
    return {"model": PrecomputedPeerRegressor(network=correlated(y))}


@leak("tobinq q", "predict makes a lag with the wrong sign: the firm's next row of the call")
def _(X, y):
    return {"model": NextRow("qn")}


@leak("quarters", "forecasts smoothed over the quarters before and after")
def _(X, y):
    return {"model": SmoothedPath()}


@leak("monthly", "market return of the month that is forecast merged inside the model")
def _(X, y):
    table = y.groupby("period").mean()
    return {"model": make_pipeline(MergedByDate(table), StandardScaler(), Ridge(1.0))}


# 20 clean cases


@honest("tobinq q", "lagged outcomes of this year and the year before")
def _(X, y):
    return X.assign(q_before=X["qn"].groupby("firm").shift(1), q_change=X["qn"].groupby("firm").diff())


@honest("empluk level", "outcome that hardly moves, with its own last value")
def _(X, y):
    return X


@honest("tobinq q", "standardised by firm over an expanding window")
def _(X, y):
    past = X["qn"].groupby("firm")
    mean = past.expanding(2).mean().droplevel(0)
    return X.assign(q_z=(X["qn"] - mean) / past.expanding(3).std().droplevel(0))


@honest("tobinq investment", "firm's mean of outcomes known so far")
def _(X, y):
    past = y.groupby("firm").shift(1)
    return X.assign(firm_past=past.groupby("firm").expanding().mean().droplevel(0))


@honest("quarters", "a characteristic that explains nearly all of the outcome")
def _(X, y):
    driver = pd.Series(np.random.default_rng(3).normal(size=len(X)), X.index)
    noise = 0.1 * np.random.default_rng(4).normal(size=len(X))
    return {"X": X.assign(contracted=driver), "y": (0.2 * y + driver + noise).rename("earned_next")}


@honest("r3000 ebit", "ranks within the year of known characteristics")
def _(X, y):
    numbers = ["size", "lev", "cash_ta", "ppe_ta", "ebit_ta", "ni_ta", "roa"]
    return X[numbers].groupby("period").rank(pct=True).join(X[["sector", "ff49"]])


@honest("monthly", "industry return of this month, which is known")
def _(X, y):
    return X.assign(industry_ret=others(X["rev1"].astype(float), [X["ff12"], periods_of(X)]))


@honest("tobinq q", "network of firms of near lagged q and size, explain")
def _(X, y):
    return {"model": PrecomputedPeerRegressor(network=near(X["qn"], 0.3)), "task": "explain"}


@honest("overlapping", "outcomes of three months, purged, dates known")
def _(X, y):
    return {"X": X.assign(outcome_known_at=periods_of(X) + 3)}


@honest("tobinq investment", "penalty searched by walking forward")
def _(X, y):
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 10.0, 100.0]}, cv=WalkForward(6, 3))
    return {"model": search}


@honest("monthly", "boosting of a fixed number of rounds")
def _(X, y):
    return {"model": HistGradientBoostingRegressor(early_stopping=False, max_iter=60, random_state=0)}


@honest("grunfeld", "forest on a small panel of persistent firms")
def _(X, y):
    return {"model": RandomForestRegressor(60, random_state=0)}


@honest("r3000 ebit", "industry encoded by the mean of outcomes known so far")
def _(X, y):
    known = y.groupby("firm").shift(1)
    code = X["ff49"].fillna("none")
    by = known.groupby([code, periods_of(X)]).agg(["sum", "count"]).unstack(fill_value=0)
    total = by["sum"].cumsum(axis=1) / by["count"].cumsum(axis=1).replace(0, np.nan)
    return X.assign(
        ff49_past=total.stack().reindex(pd.MultiIndex.from_arrays([code, periods_of(X)])).to_numpy()
    )


@honest("grunfeld", "dummy of a slump, dated by the year that has ended")
def _(X, y):
    level = X["invest"].groupby("period").mean().diff()
    return X.assign(slump=(level.loc[periods_of(X)].to_numpy() < 0).astype(float))


@honest("r3000 ebit", "means of the industry, forecast")
def _(X, y):
    return {"model": IndustryPeerRegressor(industry="ff49")}


@honest("r3000 ebit", "ridge within the year, own firm left out, explain")
def _(X, y):
    model = CrossSectionalRidge(scale="rank", codes=("sector", "ff49"))
    return {"model": model, "task": "explain"}


@honest("monthly", "network of correlations of returns up to the month, explain")
def _(X, y):
    months = np.unique(periods_of(X))
    by = {month: correlated(X["rev1"][periods_of(X) <= month]) for month in months[12:]}
    return {"model": PrecomputedPeerRegressor(network=by), "task": "explain"}


@honest("quarters", "reports that are missing filled with the last one")
def _(X, y):
    gaps = np.random.default_rng(1).random(len(X)) < 0.35
    return X.assign(roa=X["roa"].mask(gaps).groupby("firm").ffill())


@honest("tobinq q", "principal components learned from the training rows")
def _(X, y):
    return {"model": make_pipeline(StandardScaler(), PCA(4, random_state=0), Ridge())}


@honest("overlapping", "last outcome that was known in full, three months old")
def _(X, y):
    return X.assign(ret3_known=y.groupby("firm").shift(3))
