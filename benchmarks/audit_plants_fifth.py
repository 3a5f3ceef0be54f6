"""The fifth batch of planted leaks for ``audit_plants.py``: 45 plants and 20 clean cases, written before their first run.

Their author had read the docstrings of ``audit`` and ``compare``, and the code by which ``compare`` calls models and splitters,
but nothing of the audit's code, tests, results or pages, and no earlier plant. Five real panels (data/README.md), cut to at most
3,000 rows, and simulated quarters from which firms enter and exit. A row (firm, t) holds what is known at the end of t; its
outcome is that of t + 1, or of t where the task is to explain.
"""

# ruff: noqa: D101, D102
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import spsolve
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import BaseCrossValidator, train_test_split
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerattn import IndustryPeerRegressor, PrecomputedPeerRegressor, WalkForward
from peerattn.models import FirmMeanRegressor, make_model

SHARED = Path(os.environ.get("PEERATTN_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data")) / "firm"
Case = dict[str, Any]
Data = tuple[pd.DataFrame, pd.Series]
PLANTS: dict[str, Callable[[], Case]] = {}
CLEAN: dict[str, Callable[[], Case]] = {}


def plant(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    return _registering(PLANTS, name)


def clean(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    return _registering(CLEAN, name)


def _registering(into: dict[str, Callable[[], Case]], name: str) -> Callable[..., Callable[[], Case]]:
    def register(build: Callable[[], Case]) -> Callable[[], Case]:
        assert name not in into
        into[name] = build
        return build

    return register


def case(X: pd.DataFrame, y: pd.Series, model: Any = None, cv: Any = None, **options: Any) -> Case:
    model = make_model("ols") if model is None else model
    codes = tuple({"sic", "sic2", "ff49", "sector", "cluster"} & set(X.columns))
    return {
        "model": model,
        "X": X,
        "y": y,
        "cv": WalkForward(3, 3) if cv is None else cv,
        "codes": codes,
    } | options


# ------------------------------------------------------------------ panels


@cache
def source(file: str, period: str) -> pd.DataFrame:
    frame = pd.read_parquet(SHARED / f"{file}.parquet").rename(columns={period: "period"})
    return frame.assign(firm=frame["firm"].astype(str)).set_index(["firm", "period"]).sort_index()


def firms_of(frame: pd.DataFrame, n: int, seed: int) -> pd.DataFrame:
    names = np.sort(frame.index.unique("firm").to_numpy())
    kept = np.random.default_rng(seed).choice(names, n, replace=False)
    return frame[frame.index.get_level_values("firm").isin(kept)]


def split_of(frame: pd.DataFrame, columns: str, outcome: str, clip: float | None = None) -> Data:
    y = frame[outcome].astype(float)
    X = frame[columns.split()].copy()
    numeric = [c for c in X if not isinstance(X[c].dtype, pd.CategoricalDtype) and str(X[c].dtype) != "Int16"]
    X[numeric] = X[numeric].astype(float)
    for code in set(X) - set(numeric):
        X[code] = X[code].astype("string")
    return X, y if clip is None else y.clip(-clip, clip)


def russell(columns: str, outcome: str, clip: float, seed: int) -> Data:
    """700 firms, fiscal years 2013 to 2016."""
    return split_of(firms_of(source("us_annual_r3000", "year"), 700, seed), columns, outcome, clip)


def tobin(columns: str, outcome: str, seed: int) -> Data:
    """80 firms, 1951 to 1985."""
    return split_of(firms_of(source("us_annual_tobinq", "year"), 80, seed), columns, outcome)


def uk(columns: str, outcome: str) -> Data:
    return split_of(source("uk_annual_empluk", "year"), columns, outcome)


def grunfeld() -> Data:
    return split_of(source("us_annual_grunfeld", "year"), "invest value capital", "invest_next")


def months(columns: str, seed: int) -> pd.DataFrame:
    """60 firms with all 48 months of 2004 to 2007; ``ret_next`` clipped to [-0.5, 1]."""
    frame = source("us_monthly_2000_2012", "date").loc[(slice(None), slice("2004", "2007")), :]
    frame = frame[frame.groupby(level="firm")["rev1"].transform("size") == 48]
    frame = firms_of(frame, 60, seed)[[*columns.split(), "ret_next"]].copy()
    return frame.assign(ret_next=frame["ret_next"].astype(float).clip(-0.5, 1))


RETURNS = "rev1 mom12_2 vol1 vol12 beta ivol ldolvol12 hi52"


def quarters(seed: int, n: int = 90, periods: int = 28, exits: float = 0.25) -> Data:
    """Simulated growth: firms enter late, exit after bad quarters, and miss some; ``growth`` is the last known outcome."""
    rng = np.random.default_rng(seed)
    when = pd.period_range("2001Q1", periods=periods + 1, freq="Q")
    industry = rng.integers(0, 8, n)
    size, margin = (np.cumsum(0.2 * rng.normal(size=(n, periods + 1)), axis=1) for _ in range(2))
    shocks = 0.5 * rng.normal(size=(8, periods + 1))[industry]
    lasting, rows = 0.5 * rng.normal(size=n), []
    for i in range(n):
        growth, start = 0.0, int(rng.integers(0, 10))
        for t in range(start, periods):
            following = (
                0.4 * growth
                + lasting[i]
                - 0.3 * size[i, t]
                + 0.3 * margin[i, t]
                + shocks[i, t + 1]
                + 0.7 * rng.normal()
            )
            if rng.random() < 0.95:
                rows.append(
                    (
                        f"S{i:02d}",
                        when[t],
                        size[i, t],
                        margin[i, t],
                        growth,
                        str(2000 + 300 * industry[i]),
                        following,
                    )
                )
            growth = following
            if growth < -1.2 and rng.random() < exits:
                break
    frame = pd.DataFrame(rows, columns=["firm", "period", "size", "margin", "growth", "sic", "next"])
    frame = frame.astype({"sic": "string"}).set_index(["firm", "period"])
    return frame.drop(columns="next"), frame["next"].rename("growth_ahead")


def filed_late(seed: int) -> Data:
    """Quarters by number, whose outcomes are filed one to three quarters later."""
    X, y = quarters(seed)
    number = {q: 4 * q.year + q.quarter for q in X.index.unique("period")}
    X, y = (
        X.drop(columns="growth").rename(index=number, level="period"),
        y.rename(index=number, level="period"),
    )
    late = np.random.default_rng(seed).integers(1, 4, len(X))
    return X.assign(outcome_known_at=X.index.get_level_values("period") + late), y


def by_firm(values: pd.Series | pd.DataFrame) -> Any:
    return values.groupby(level="firm", sort=False)


def by_period(values: pd.Series | pd.DataFrame) -> Any:
    return values.groupby(level="period", sort=False)


def ahead(values: pd.Series) -> pd.Series:
    """Return each row's value of the firm's next row."""
    return by_firm(values).shift(-1)


def past_mean(values: pd.Series) -> pd.Series:
    """Return the firm's mean up to the row's period, the row's own value included."""
    return by_firm(values).expanding().mean().droplevel(0).reindex(values.index)


def co_moving(y: pd.Series) -> pd.DataFrame:
    """Return a network of the four firms whose outcomes, net of the period's mean, are most correlated with each firm's."""
    correlation = (y - by_period(y).transform("mean")).unstack("firm").corr().fillna(0.0)
    return (correlation.rank(axis=1, ascending=False) <= 5).astype(
        float
    )  # the firm itself counts, and is left out by the model


def hodrick_prescott(values: np.ndarray, smoothing: float) -> np.ndarray:
    n = len(values)
    D = sparse.diags([1.0, -2.0, 1.0], [0, 1, 2], shape=(n - 2, n))
    return spsolve((sparse.eye(n) + smoothing * D.T @ D).tocsc(), values)


# ------------------------------------------------------------------ leaks in the data (23)


@plant("Russell: operating margin of the fiscal year after, joined by the date of the report")
def _() -> Case:
    X, y = russell("size lev cash_ta ppe_ta ebit_sales ni_ta ff49", "ni_ta_next", 0.5, 1)
    X["margin"] = X["ebit_sales"].clip(-1, 1)
    X["margin_reported"] = ahead(X["margin"])
    return case(X.drop(columns="ebit_sales"), y, cv=WalkForward(2))


@plant("Russell: change in earnings, dated by the year it ends in, beside this year's earnings")
def _() -> Case:
    X, y = russell("size lev cash_ta ni_ta turn ff49", "ni_ta_next", 0.5, 2)
    X["ni_ta"] = X["ni_ta"].clip(-0.5, 0.5)
    return case(X.assign(earnings_change=y - X["ni_ta"]), y, cv=WalkForward(2))


@plant("Russell: quintile of next year's growth within its sector and year")
def _() -> Case:
    X, y = russell("size lev ppe_ta ebit_ta sector", "sales_growth_next", 1.0, 3)
    group = [X["sector"], X.index.get_level_values("period")]
    X["growth_class"] = np.ceil(5 * y.groupby(group, dropna=False).rank(pct=True))
    return case(X, y, cv=WalkForward(2))


@plant("Russell, explain: industry mean of the year with the firm itself in it")
def _() -> Case:
    X, y = russell("size lev cash_ta gw_ta sic2", "ebit_ta", 0.5, 4)
    X["industry_roa"] = y.groupby([X["sic2"].fillna("none"), X.index.get_level_values("period")]).transform(
        "mean"
    )
    return case(X, y, cv=WalkForward(2), task="explain")


@plant("Russell: missing profitability imputed by a regression that has the outcome among its regressors")
def _() -> Case:
    X, y = russell("size lev cash_ta ppe_ta ebit_ta", "ni_ta_next", 0.5, 5)
    X["ebit_ta"] = X["ebit_ta"].clip(-0.5, 0.5).where(np.random.default_rng(5).random(len(X)) > 0.4)
    known = X.drop(columns="ebit_ta").assign(y=y)
    complete, gap = known.notna().all(axis=1), X["ebit_ta"].isna()
    imputer = LinearRegression().fit(known[complete & ~gap], X.loc[complete & ~gap, "ebit_ta"])
    X.loc[complete & gap, "ebit_ta"] = imputer.predict(known[complete & gap])
    return case(X, y, cv=WalkForward(2))


@plant("Tobin's q: firm effects of a regression on the whole sample")
def _() -> Case:
    X, y = tobin("qn lk omphi sic2", "ikn_next", 6)
    within = X[["qn", "lk", "omphi"]] - by_firm(X[["qn", "lk", "omphi"]]).transform("mean")
    known = y.notna()
    slopes = LinearRegression().fit(within[known], (y - by_firm(y).transform("mean"))[known])
    X["firm_effect"] = by_firm(y - X[["qn", "lk", "omphi"]] @ slopes.coef_).transform("mean")
    return case(X, y, cv=WalkForward(12, 12))


@plant("Tobin's q: trend of investment by the two-sided Hodrick-Prescott filter")
def _() -> Case:
    X, y = tobin("qn lk omphi ikn", "ikn_next", 7)
    X["trend"] = by_firm(X["ikn"]).transform(lambda v: hodrick_prescott(v.to_numpy(), 6.25))
    return case(X.drop(columns="ikn"), y, cv=WalkForward(10, 5))


@plant("Tobin's q: centred three-year average of q")
def _() -> Case:
    X, y = tobin("qn lk omphi ikn sic2", "qn_next", 8)
    X["qn_smooth"] = by_firm(X["qn"]).transform(lambda v: v.rolling(3, center=True, min_periods=1).mean())
    return case(X.drop(columns="qn"), y, cv=WalkForward(8, 4))


@plant("Tobin's q: groups of firms by k-means of their investment in the tested years")
def _() -> Case:
    X, y = tobin("qn lk omphi", "ikn_next", 9)
    late = y[y.index.get_level_values("period") >= 1976].unstack("period").ffill(axis=1).bfill(axis=1)
    groups = pd.Series(KMeans(12, n_init=4, random_state=0).fit_predict(late), late.index).map("g{}".format)
    X["cluster"] = groups.reindex(X.index.get_level_values("firm")).to_numpy()
    return case(X.astype({"cluster": "string"}), y, make_model("boosting"), WalkForward(10, 10))


@plant("Tobin's q: four-digit industry encoded by its mean outcome over the whole sample")
def _() -> Case:
    X, y = tobin("qn lk omphi sic", "ikn_next", 10)
    X["industry_mean"] = y.groupby(X["sic"]).transform("mean")
    return case(X.drop(columns="sic"), y, cv=WalkForward(10, 10))


@plant("Tobin's q: missing investment interpolated between the year before and the year after")
def _() -> Case:
    X, y = tobin("qn lk omphi ikn", "ikn_next", 11)
    X["ikn"] = X["ikn"].where(np.random.default_rng(11).random(len(X)) > 0.3)
    X["ikn"] = by_firm(X["ikn"]).transform(lambda v: v.interpolate(limit_direction="both"))
    return case(X, y, cv=WalkForward(10, 5))


@plant("UK firms: growth of wages and capital in the year to come beside this year's levels")
def _() -> Case:
    X, y = uk("lemp lwage lcapital loutput sector", "dlemp_next")
    X["capital_growth"] = ahead(X["lcapital"]) - X["lcapital"]
    X["wage_growth"] = ahead(X["lwage"]) - X["lwage"]
    return case(X, y, cv=WalkForward(2))


@plant("UK firms: output per worker with next year's workers below the line")
def _() -> Case:
    X, y = uk("lwage lcapital loutput dlemp sector", "lemp_next")
    return case(X.assign(productivity=X["loutput"] - y), y, cv=WalkForward(2))


@plant("Tobin's q: investment standardised by the firm's mean and deviation of all years, beside investment")
def _() -> Case:
    X, y = tobin("qn lk ikn", "ikn_next", 14)
    X["ikn_standardised"] = by_firm(X["ikn"]).transform(lambda v: (v - v.mean()) / v.std())
    return case(X, y, cv=WalkForward(12, 6))


@plant("Months: the market's return of the month to come, joined on the month of the outcome")
def _() -> Case:
    frame = months(RETURNS, 15)
    y = frame.pop("ret_next")
    return case(frame.assign(market=by_period(y).transform("mean")), y, cv=WalkForward(12, 6))


@plant("Months: the firm's last row of overlapping three-month returns, not known for two months")
def _() -> Case:
    frame = months("mom12_2 vol12 beta ldolvol12 hi52", 16)
    r = frame.pop("ret_next")
    y = (r + ahead(r) + ahead(ahead(r))).rename("three_months")
    return case(frame.assign(last_outcome=by_firm(y).shift(1)), y, cv=WalkForward(12, 6, horizon=3))


@plant("Months: first component of a principal component analysis with the outcome in it")
def _() -> Case:
    frame = months("rev1 vol1 vol12 beta ivol maxret hi52", 17)
    y = ahead(np.log(frame["vol1"])).rename("log_vol_ahead")
    known = frame.drop(columns="ret_next").assign(y=y).dropna()
    first = PCA(1).fit_transform(StandardScaler().fit_transform(known))[:, 0]
    X = frame.drop(columns="ret_next").assign(component=pd.Series(first, known.index))
    return case(X, y, cv=WalkForward(12, 6))


@plant("Months: a flag for the crashes of the month to come, as a delisting code merged without its date")
def _() -> Case:
    frame = months(RETURNS, 18)
    y = frame.pop("ret_next")
    return case(
        frame.assign(distress=(y < by_period(y).transform(lambda v: v.quantile(0.08))).astype(float)),
        y,
        cv=WalkForward(12, 6),
    )


@plant("Grunfeld: capital at the end of the year to come, by perpetual inventory")
def _() -> Case:
    X, y = grunfeld()
    return case(X.assign(capital_end=0.9 * X["capital"] + y), y, cv=WalkForward(5, 1))


@plant("Quarters: number of quarters until the firm leaves the sample")
def _() -> Case:
    X, y = quarters(20, exits=0.7)
    when = X.index.get_level_values("period")
    left = by_firm(y).cumcount(ascending=False).clip(upper=4).astype(float)
    X["quarters_left"] = left.where(
        pd.Series(when, X.index).groupby(level="firm").transform("max") < when.max(), 4.0
    )
    return case(X, y, cv=WalkForward(8, 4))


@plant("Quarters: margins restated later in a third of the rows, towards the growth that followed")
def _() -> Case:
    X, y = quarters(21)
    restated = np.random.default_rng(21).random(len(X)) < 0.33
    X["margin_restated"] = X["margin"] + np.where(restated, 0.5 * y, 0.0)
    return case(X, y, cv=WalkForward(8, 4))


@plant("Quarters: mean growth of the industry's other firms in the quarter to come")
def _() -> Case:
    X, y = quarters(22)
    group = y.groupby([X["sic"], X.index.get_level_values("period")])
    others = group.transform("count") - 1
    X["industry_growth"] = ((group.transform("sum") - y) / others.where(others > 0)).fillna(0.0)
    return case(X, y, cv=WalkForward(8, 4))


@plant("Quarters, explain: the mean of all firms beside the mean of all others")
def _() -> Case:
    X, y = quarters(23)
    total, n = by_period(y).transform("sum"), by_period(y).transform("count")
    X = X.assign(all_firms=total / n, other_firms=(total - y) / (n - 1))
    return case(X, y, cv=WalkForward(8, 4), task="explain")


# ------------------------------------------------------------------ leaks in the splits (6)


class Split(BaseCrossValidator):
    """Walk forward over given tested periods, with a rule of its own for the training rows."""

    def _rows(self, X: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        raise NotImplementedError

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for train, test in self._rows(X):
            yield np.flatnonzero(train), np.flatnonzero(test)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return sum(1 for _ in self._rows(X))


class FirmsHeldOut(Split):
    """Other firms of all periods are learned from: a split by firm."""

    def _rows(self, X: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        fold = pd.factorize(X.index.get_level_values("firm"))[0] % 4
        for k in range(4):
            yield fold != k, fold == k


class HalfOfTheYear(Split):
    """Half of the firms of the tested period are learned from."""

    def _rows(self, X: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        when = X.index.get_level_values("period")
        odd = pd.factorize(X.index.get_level_values("firm"), sort=True)[0] % 2 == 1
        for t in np.sort(when.unique())[-6:]:
            yield (when < t) | ((when == t) & odd), (when == t) & ~odd


class SortedElsewhere(Split):
    """Positions of the rows sorted by period, used on rows that are not."""

    def _rows(self, X: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        in_order = X.sort_index(level="period")
        when, n = in_order.index.get_level_values("period"), len(X)
        for t in np.sort(when.unique())[-6::3]:
            yield (
                np.arange(n) < (when < t).sum(),
                (np.arange(n) >= (when < t).sum()) & (np.arange(n) < (when < t).sum() + 150),
            )


class MonthsAsText(Split):
    """Months written MM/YYYY and sorted as text."""

    def _rows(self, X: pd.DataFrame) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        text = X.index.get_level_values("period").strftime("%m/%Y")
        names = np.sort(text.unique())
        for block in np.array_split(names[-12:], 3):
            yield text < block[0], text.isin(block)


@plant("split: three-month returns overlap, the month's return is a column, and nothing is purged")
def _() -> Case:
    frame = months(RETURNS, 24)
    r = frame.pop("ret_next")
    y = (r + ahead(r) + ahead(ahead(r))).rename("three_months")
    forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0)
    return case(frame, y, forest, WalkForward(12))


@plant("split: reports are filed one to three quarters later, and learned from at once")
def _() -> Case:
    X, y = filed_late(25)
    return case(X, y, make_model("last_value"), WalkForward(8))


@plant("split: a quarter of the firms held out, the others' later years learned from")
def _() -> Case:
    return case(*tobin("qn lk omphi sic2", "ikn_next", 26), cv=FirmsHeldOut())


@plant("split: half of the firms of the tested year are learned from")
def _() -> Case:
    return case(*quarters(27), cv=HalfOfTheYear())


@plant("split: positions of rows sorted by year, applied to rows sorted by firm")
def _() -> Case:
    return case(*tobin("qn lk omphi ikn", "qn_next", 28), cv=SortedElsewhere())


@plant("split: months sorted as text, so that November of all years comes before December of the first")
def _() -> Case:
    frame = months(RETURNS, 29)
    y = ahead(np.log(frame["vol1"])).rename("log_vol_ahead")
    return case(frame.drop(columns="ret_next"), y, cv=MonthsAsText())


# ------------------------------------------------------------------ leaks in the models (16)


class Plain(RegressorMixin, BaseEstimator):
    """A ridge on features that a subclass makes."""

    def _features(self, X: pd.DataFrame) -> Any:
        return X

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Plain:
        self.model_ = make_pipeline(StandardScaler(), Ridge(1.0)).fit(np.asarray(self._features(X)), y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.model_.predict(np.asarray(self._features(X)))


class LatestInFile(Plain):
    """Joins the firm's latest outcome in a vendor's file, which goes on after the tested years."""

    def __init__(self, file: pd.Series | None = None) -> None:
        self.file = file

    def _features(self, X: pd.DataFrame) -> pd.DataFrame:
        latest = by_firm(self.file.dropna()).last().reindex(X.index.get_level_values("firm"))
        return X.assign(latest=latest.fillna(self.file.mean()).to_numpy())


@plant("model: joins the firm's latest outcome from a file that goes on after the tested years")
def _() -> Case:
    X, y = tobin("lk omphi ikn", "qn_next", 30)
    return case(X, y, LatestInFile(y), WalkForward(6, 3))


class RunningScale(Plain):
    """Standardises by means and deviations of all rows it was ever called with, the call's included."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> RunningScale:
        self.seen_ = X
        self.model_ = Ridge(1.0).fit((X - X.mean()) / X.std().replace(0, 1), y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        self.seen_ = pd.concat([self.seen_, X])
        return self.model_.predict((X - self.seen_.mean()) / self.seen_.std().replace(0, 1))


@plant("model: a running mean and deviation that every call to predict moves on")
def _() -> Case:
    X, y = tobin("qn lk omphi ikn", "ikn_next", 31)
    return case(X, y, RunningScale(), WalkForward(8, 4))


class MemoryOfRuns(RegressorMixin, BaseEstimator):
    """Nearest neighbours in a memory shared by all fits of the session."""

    memory: ClassVar[list[tuple[np.ndarray, np.ndarray]]] = []

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> MemoryOfRuns:
        self.mean_, self.scale_ = X.mean().to_numpy(), X.std().replace(0, 1).to_numpy()
        self.memory.append((X.to_numpy(), y))
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        rows, y = map(np.concatenate, zip(*self.memory))
        model = KNeighborsRegressor(5).fit((rows - self.mean_) / self.scale_, y)
        return model.predict((X.to_numpy() - self.mean_) / self.scale_)


@plant("model: neighbours from a memory that all fits of the session share")
def _() -> Case:
    MemoryOfRuns.memory.clear()
    X, y = quarters(32)
    return case(X.drop(columns="sic"), y, MemoryOfRuns(), WalkForward(9, 3))


class BestOfTheYear(PrecomputedPeerRegressor):
    """Takes in each industry and year the forecast that came closest to its outcomes, the firm's own among them."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BestOfTheYear:
        super().fit(X, y)
        numbers = X.select_dtypes("number").fillna(0.0)
        self.members_ = [
            make_pipeline(StandardScaler(), member).fit(numbers[y.notna()], y.dropna())
            for member in (Ridge(1.0), KNeighborsRegressor(10), KNeighborsRegressor(60))
        ]
        return self

    def predict(self, X: Any, *, outcomes: Any = None) -> Any:
        numbers = X.select_dtypes("number").fillna(0.0)
        forecasts = np.column_stack(
            [*(member.predict(numbers) for member in self.members_), super().predict(X, outcomes=outcomes)]
        )
        group = pd.factorize(
            pd.MultiIndex.from_arrays([X["ff49"].fillna("none"), X.index.get_level_values("period")])
        )[0]
        errors = np.nan_to_num((forecasts - np.asarray(outcomes)[:, None]) ** 2)
        total = np.zeros((group.max() + 1, forecasts.shape[1]))
        np.add.at(total, group, errors)
        return pd.Series(forecasts[np.arange(len(X)), total.argmin(axis=1)[group]], X.index)


@plant("model, explain: of four forecasts, the one with the least error in the industry's year")
def _() -> Case:
    X, y = russell("size lev cash_ta ppe_ta ff49", "ebit_ta", 0.5, 33)
    return case(X, y, BestOfTheYear(), WalkForward(2), task="explain")


class WithinCall(Plain):
    """Has characteristics, and the same net of the firm's mean over the call."""

    def _features(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.join(X - by_firm(X).transform("mean"), rsuffix="_within")


@plant("model: characteristics, and the same net of the firm's mean over the years of the call")
def _() -> Case:
    X, y = tobin("qn lk omphi ikn", "ikn_next", 34)
    return case(X, y, WithinCall(), WalkForward(12, 6))


class StoppedOnRandomRows(RegressorMixin, BaseEstimator):
    """Boosting stopped on a random fifth of its rows."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> StoppedOnRandomRows:
        booster = GradientBoostingRegressor(
            n_estimators=300, max_depth=5, n_iter_no_change=5, validation_fraction=0.2, random_state=0
        )
        self.model_ = booster.fit(X, y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.model_.predict(X)


@plant("model: boosting inside a wrapper, stopped on a random fifth of its rows")
def _() -> Case:
    X, y = tobin("lk omphi", "qn_next", 35)
    return case(X, y, StoppedOnRandomRows(), WalkForward(10, 5))


class NeighboursByHoldout(RegressorMixin, BaseEstimator):
    """Number of neighbours chosen on a random quarter of the rows, other years of the same firms beside them."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> NeighboursByHoldout:
        X, Z, y_fit, y_held = train_test_split(X, y, test_size=0.25, random_state=1)
        models = [
            make_pipeline(StandardScaler(), KNeighborsRegressor(k)).fit(X, y_fit)
            for k in (1, 2, 5, 15, 40, 100)
        ]
        self.model_ = max(models, key=lambda model: model.score(Z, y_held))
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.model_.predict(X)


@plant("model: number of neighbours chosen on a random quarter of the training rows")
def _() -> Case:
    X, y = tobin("lk omphi", "qn_next", 36)
    return case(X, y, NeighboursByHoldout(), WalkForward(10, 10))


class Explains(PrecomputedPeerRegressor):
    """Reads the outcomes of the call, period by period."""

    def predict(self, X: Any, *, outcomes: Any = None) -> Any:
        numbers = X.select_dtypes("number").fillna(0.0)
        found = pd.Series(self.mean_, X.index)
        for _, rows in by_period(X).indices.items():
            x = StandardScaler().fit_transform(numbers.iloc[rows])
            y = np.nan_to_num(np.asarray(outcomes, dtype=float)[rows], nan=self.mean_)
            found.iloc[rows] = self._period(x, y)
        return found

    def _period(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class NearestWithItself(Explains):
    """Mean outcome of the six nearest firms; the nearest is the firm itself."""

    def _period(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return KNeighborsRegressor(min(6, len(x))).fit(x, y).predict(x)


@plant("model, explain: the six nearest firms, the firm itself the first")
def _() -> Case:
    X, y = russell("size lev cash_ta gw_ta ppe_ta", "ebit_ta", 0.5, 37)
    return case(X, y, NearestWithItself(), WalkForward(2), task="explain")


class PeersOfPeers(Explains):
    """Averages peers' averages: the firm is a peer of its peers, and its outcome comes back."""

    def _period(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        W = NearestNeighbors(n_neighbors=4).fit(x).kneighbors_graph(x).toarray()
        np.fill_diagonal(W, 0.0)
        W /= W.sum(axis=1, keepdims=True)
        return 0.5 * W @ y + 0.5 * W @ (W @ y)


@plant("model, explain: peers of peers, through whom the own outcome comes back")
def _() -> Case:
    X, y = uk("lemp lwage lcapital loutput", "dlemp")
    X, y = X[y.notna()], y.dropna()
    return case(X, y, PeersOfPeers(), WalkForward(3), task="explain")


class FittedValues(Explains):
    """Fitted values of each period's regression of the outcomes it is shown."""

    def _period(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return LinearRegression().fit(x, y).predict(x)


@plant("model, explain: fitted values of the month's own cross-sectional regression")
def _() -> Case:
    frame = months(f"{RETURNS} mom6_2 maxret volchg lamihud", 39)
    y = frame.pop("ret_next").rename("ret")
    return case(frame.drop(columns="rev1"), y, FittedValues(), WalkForward(12, 6), task="explain")


class IndustryYearEffect(PrecomputedPeerRegressor):
    """Own characteristics, plus the mean residual of the industry's year with the firm in it."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> IndustryYearEffect:
        super().fit(X, y)
        known = y.notna()
        self.own_ = make_pipeline(StandardScaler(), Ridge(1.0)).fit(self._numbers(X)[known], y[known])
        return self

    def _numbers(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.select_dtypes("number").fillna(0.0)

    def predict(self, X: Any, *, outcomes: Any = None) -> Any:
        own = pd.Series(self.own_.predict(self._numbers(X)), X.index)
        rest = pd.Series(np.asarray(outcomes, dtype=float), X.index) - own
        effect = rest.groupby([X["sic"].fillna("none"), X.index.get_level_values("period")]).transform("mean")
        return own + effect.fillna(0.0)


@plant("model, explain: effects of four-digit industries and years, estimated on the rows they explain")
def _() -> Case:
    X, y = russell("size lev cash_ta ppe_ta sic", "ebit_ta", 0.5, 40)
    return case(X, y, IndustryYearEffect(), WalkForward(2), task="explain")


@plant("model, explain: peers by the correlation of returns in the tested year")
def _() -> Case:
    frame = months("mom12_2 vol12 beta ldolvol12", 41)
    y = frame.pop("ret_next").rename("ret")
    network = co_moving(y[y.index.get_level_values("period") >= "2007-01"])
    return case(frame, y, PrecomputedPeerRegressor(network=network), WalkForward(12, 12), task="explain")


class Embedded(Plain):
    """Appends a given vector for each firm."""

    def __init__(self, table: pd.DataFrame | None = None) -> None:
        self.table = table

    def _features(self, X: pd.DataFrame) -> np.ndarray:
        vectors = self.table.reindex(X.index.get_level_values("firm")).fillna(0.0).to_numpy()
        return np.column_stack([X, vectors])


@plant("model: vectors of firms, trained beforehand on the outcomes of all years")
def _() -> Case:
    X, y = tobin("qn lk omphi", "ikn_next", 42)
    wide = y.unstack("period")
    wide = (wide - wide.mean()).dropna(axis=1)
    table = pd.DataFrame(PCA(3).fit_transform(wide), wide.index)
    return case(X, y, Embedded(table), WalkForward(8, 8))


class FilledBackwards(FirmMeanRegressor):
    """Fills a firm's missing reports by its next report in the rows of the call."""

    def _filled(self, X: pd.DataFrame) -> pd.DataFrame:
        numbers = X.select_dtypes("number").sort_index(level="period")
        return by_firm(numbers).bfill().fillna(0.0).reindex(X.index)

    def fit(self, X: Any, y: Any = None) -> FilledBackwards:
        super().fit(X, y)
        self.model_ = Ridge(1.0).fit(self._filled(X)[y.notna()], y.dropna())
        return self

    def predict(self, X: Any) -> Any:
        return pd.Series(self.model_.predict(self._filled(X)), X.index)


@plant("model: missing reports filled backwards by the firm's next report")
def _() -> Case:
    X, y = quarters(43)
    X["growth"] = X["growth"].where(np.random.default_rng(43).random(len(X)) > 0.5)
    return case(X.drop(columns="sic"), y, FilledBackwards(), WalkForward(9, 9))


@plant("model: ten of 300 characteristics, chosen beforehand by their correlation over all quarters")
def _() -> Case:
    X, y = quarters(44, n=20, periods=22)
    noise = np.random.default_rng(44).normal(size=(len(X), 300))
    noisy = pd.DataFrame(noise, X.index, [f"signal_{k}" for k in range(300)])
    chosen = noisy.corrwith(y).abs().nlargest(10).index.tolist()
    X = X[["size", "margin"]].join(noisy)
    keep = make_column_transformer(("passthrough", ["size", "margin", *chosen]))
    return case(X, y, make_pipeline(keep, StandardScaler(), Ridge(1.0)), WalkForward(8, 4))


class WrongSign(Plain):
    """Changes of characteristics, by a shift with the wrong sign."""

    def _features(self, X: pd.DataFrame) -> pd.DataFrame:
        in_order = X.sort_index(level="period")
        change = (by_firm(in_order).shift(-1) - in_order).fillna(0.0).reindex(X.index)
        return X.join(change, rsuffix="_change")


@plant("model: changes of characteristics by a shift with the wrong sign")
def _() -> Case:
    X, y = tobin("qn lk omphi", "ikn_next", 45)
    return case(X, y, WrongSign(), WalkForward(12, 6))


# ------------------------------------------------------------------ clean cases (20)


@clean("Tobin's q: q of this year and of the two before, R² above 0.8")
def _() -> Case:
    X, y = tobin("qn lk omphi sic2", "qn_next", 51)
    return case(
        X.assign(lag1=by_firm(X["qn"]).shift(1), lag2=by_firm(X["qn"]).shift(2)), y, cv=WalkForward(8, 4)
    )


@clean("Tobin's q: the firm's mean of known investment, up to this year")
def _() -> Case:
    X, y = tobin("qn lk omphi ikn", "ikn_next", 52)
    return case(X.assign(mean_so_far=past_mean(X["ikn"])), y, cv=WalkForward(8, 4))


@clean("Tobin's q: standardised by the mean and deviation of all rows up to the year")
def _() -> Case:
    X, y = tobin("qn lk omphi ikn", "ikn_next", 53)
    years, sums = X.index.get_level_values("period"), by_period(X).sum().sort_index().cumsum()
    squares, n = by_period(X**2).sum().sort_index().cumsum(), by_period(X["qn"]).size().sort_index().cumsum()
    mean = sums.div(n, axis=0)
    deviation = (squares.div(n, axis=0) - mean**2) ** 0.5
    return case((X - mean.loc[years].to_numpy()) / deviation.loc[years].to_numpy(), y, cv=WalkForward(8, 4))


@clean("Tobin's q: four-digit industry encoded by the mean of its outcomes known by then")
def _() -> Case:
    X, y = tobin("qn lk omphi sic ikn", "ikn_next", 54)
    yearly = X.groupby(["sic", "period"])["ikn"].agg(["sum", "count"]).groupby(level="sic").cumsum()
    mean = (yearly["sum"] / yearly["count"]).rename("industry_so_far")
    X = X.join(mean, on=["sic", "period"])
    return case(X.drop(columns=["sic", "ikn"]), y, cv=WalkForward(8, 4))


@clean("Russell: ranks within the year of known characteristics")
def _() -> Case:
    X, y = russell("size lev cash_ta ppe_ta ebit_ta turn", "ni_ta_next", 0.5, 55)
    return case(by_period(X).rank(pct=True), y, cv=WalkForward(2))


@clean("Russell, explain: industry peers of the year, and the other firms' mean of the year before")
def _() -> Case:
    X, y = russell("size lev cash_ta ni_ta sic", "ebit_ta", 0.5, 56)
    last = by_firm(y).shift(1)
    group = last.groupby([X["sic"].str[:2].fillna("none"), X.index.get_level_values("period")])
    others = group.transform("count") - last.notna()
    X["others_before"] = (group.transform("sum") - last.fillna(0.0)) / others.where(others > 0)
    model = IndustryPeerRegressor(industry="sic", min_peers=3, shrinkage=5)
    return case(X.drop(columns="ni_ta"), y, model, WalkForward(2), task="explain", industry="sic")


@clean("Russell: 30 % missing cash flows, the year's median and an indicator")
def _() -> Case:
    X, y = russell("size lev cash_ta ebit_ta cfoa", "roa_next", 0.5, 57)
    gap = X["cfoa"].isna()
    filled = X["cfoa"].fillna(by_period(X["cfoa"]).transform("median")).fillna(0.0)
    return case(X.assign(cfoa=filled, cfoa_missing=gap.astype(float)), y, cv=WalkForward(2))


@clean("Russell, explain: net income by this year's operating income, correlation 0.9")
def _() -> Case:
    X, y = russell("size lev ebit_ta cash_ta sector", "ni_ta", 0.5, 58)
    return case(X, y, cv=WalkForward(2), task="explain")


@clean("UK firms: log employment by last year's, R² 0.99")
def _() -> Case:
    X, y = uk("lemp lwage lcapital loutput sector", "lemp_next")
    return case(X, y, cv=WalkForward(3))


@clean("UK firms: growth by the sector's mean of known growth, the firm's own included")
def _() -> Case:
    X, y = uk("lemp lwage lcapital dlemp sector", "dlemp_next")
    X["sector_growth"] = (
        X["dlemp"].groupby([X["sector"], X.index.get_level_values("period")]).transform("mean")
    )
    return case(X, y, cv=WalkForward(3))


@clean("Months: next month's log volatility by this month's, smoothed over the past")
def _() -> Case:
    frame = months("vol1 vol12 beta ivol ldolvol12 maxret", 61)
    log = np.log(frame["vol1"])
    X = frame.drop(columns="ret_next").assign(
        smooth=by_firm(log).transform(lambda v: v.ewm(halflife=3).mean())
    )
    return case(X, ahead(log).rename("log_vol_ahead"), cv=WalkForward(12, 6))


@clean("Months: overlapping three-month returns, purged, and the last one that is known")
def _() -> Case:
    frame = months("mom12_2 vol12 beta ldolvol12 hi52", 62)
    r = frame.pop("ret_next")
    y = (r + ahead(r) + ahead(ahead(r))).rename("three_months")
    return case(frame.assign(last_known=by_firm(y).shift(3)), y, cv=WalkForward(12, 6, horizon=3))


@clean("Months: this month's mean return of the five firms nearest in last month's characteristics")
def _() -> Case:
    frame = months(RETURNS, 63)
    y = frame.pop("ret_next")
    before = by_firm(frame[["mom12_2", "vol12", "beta", "ldolvol12"]]).shift(1).fillna(0.0)
    frame["peers_return"] = np.nan
    for rows in by_period(frame).indices.values():
        x = StandardScaler().fit_transform(before.iloc[rows])
        near = NearestNeighbors(n_neighbors=6).fit(x).kneighbors(x, return_distance=False)[:, 1:]
        frame.iloc[rows, -1] = frame["rev1"].to_numpy()[rows][near].mean(axis=1)
    return case(frame, y, cv=WalkForward(12, 6))


@clean("Grunfeld: investment of the years before, and the firm's mean so far")
def _() -> Case:
    X, y = grunfeld()
    return case(
        X.assign(before=by_firm(X["invest"]).shift(1), mean_so_far=past_mean(X["invest"])),
        y,
        cv=WalkForward(5, 1),
    )


@clean("Quarters: age since entry, while exits follow bad quarters")
def _() -> Case:
    X, y = quarters(65)
    return case(X.assign(age=by_firm(X["size"]).cumcount().astype(float)), y, cv=WalkForward(8, 4))


@clean("Quarters: late filings, which the split is told")
def _() -> Case:
    X, y = filed_late(66)
    return case(X, y, make_model("last_value"), WalkForward(8, known_at=X["outcome_known_at"]))


@clean("Months, explain: peers by the correlation of returns before the tested year")
def _() -> Case:
    frame = months("mom12_2 vol12 beta ldolvol12", 67)
    y = frame.pop("ret_next").rename("ret")
    network = co_moving(y[y.index.get_level_values("period") < "2006-06"])
    return case(frame, y, PrecomputedPeerRegressor(network=network), WalkForward(12, 12), task="explain")


class LastKnown(RegressorMixin, BaseEstimator):
    """Remembers each firm's last training outcome, in fit alone."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> LastKnown:
        in_order = pd.Series(y, X.index).sort_index(level="period")
        self.last_, self.mean_ = by_firm(in_order).last(), float(np.mean(y))
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.last_.reindex(X.index.get_level_values("firm")).fillna(self.mean_).to_numpy()


@clean("model: the firm's last training outcome, remembered by fit")
def _() -> Case:
    X, y = quarters(68)
    return case(X, y, LastKnown(), WalkForward(8, 2))


class RanksOfTheYear(RegressorMixin, BaseEstimator):
    """Boosting on ranks within the period, taken in fit and in predict."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> RanksOfTheYear:
        self.model_ = HistGradientBoostingRegressor(max_iter=60, early_stopping=False).fit(self._ranks(X), y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.model_.predict(self._ranks(X))

    def _ranks(self, X: pd.DataFrame) -> pd.DataFrame:
        return by_period(X).rank(pct=True)


@clean("model: boosting on ranks within the year of the call")
def _() -> Case:
    X, y = tobin("qn lk omphi ikn", "ikn_next", 69)
    return case(X, y, RanksOfTheYear(), WalkForward(8, 4))


class PenaltyByLastPeriods(RegressorMixin, BaseEstimator):
    """Ridge whose penalty is chosen on the last training periods, by periods."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> PenaltyByLastPeriods:
        when = X.index.get_level_values("period")
        held = when > np.sort(when.unique())[-4]
        models = [make_pipeline(StandardScaler(), Ridge(a)) for a in (0.1, 10.0, 100.0, 1000.0)]
        scores = [model.fit(X[~held], y[~held]).score(X[held], y[held]) for model in models]
        self.model_ = models[int(np.argmax(scores))].fit(X, y)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return self.model_.predict(X)


@clean("model: a penalty chosen on the last three training quarters")
def _() -> Case:
    X, y = quarters(70)
    return case(X, y, PenaltyByLastPeriods(), WalkForward(8, 4))
