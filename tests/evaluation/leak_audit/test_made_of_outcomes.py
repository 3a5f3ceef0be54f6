"""Rules that tell what was made of outcomes or later values from what is known, each beside its clean counterpart."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation.leak_audit.checks import columns
from peerattn.evaluation.leak_audit.labels import labels_of

INDEX = pd.MultiIndex.from_product(
    [[f"F{k:02d}" for k in range(40)], range(2000, 2015)], names=["firm", "period"]
)
LABELS = labels_of(INDEX.get_level_values(0), INDEX.get_level_values(1))


@pytest.fixture(scope="module")
def panel():
    """Persistent characteristics, industries' shocks, exits: 24 of 40 firms leave early."""
    rng = np.random.default_rng(2)
    stock = np.cumsum(rng.normal(size=(40, 15)), axis=1) + 5 * rng.normal(size=(40, 1))
    X = pd.DataFrame({"size": stock.ravel(), "lev": rng.normal(size=600)}, INDEX)
    X["sic"] = np.repeat(np.array(["28", "37", "13", "73"])[np.arange(40) % 4], 15)
    common = rng.normal(size=15)[LABELS[1]]
    y = pd.Series(0.3 * X["lev"] + common + rng.normal(size=600), INDEX)
    last = np.repeat(np.where(np.arange(40) < 24, 2004 + np.arange(40) % 10, 2014), 15)
    kept = INDEX.get_level_values("period") <= last
    return X[kept], y[kept]


def of_firm(values):
    return values.groupby(level="firm")


def of_period(values):
    return values.groupby(level="period")


def said(X, y, extra):
    frame = X.assign(extra=extra)
    labels = labels_of(frame.index.get_level_values(0), frame.index.get_level_values(1))
    line, found = columns(frame, y.to_numpy(), {"sic"}, labels)
    assert line.passed == (not found) and set(found) <= {"extra"}
    return line.evidence if found else ""


def leaves(y):
    return of_firm(pd.Series(y.index.get_level_values(1), y.index)).transform("max") < 2014


def beta(y):
    common = of_period(y).transform("mean")
    a, b = (v - of_firm(v).transform("mean") for v in (y, common))
    return of_firm(a * b).transform("sum") / of_firm(b**2).transform("sum")


LEAKS = {
    "level with the outcome in it": (lambda X, y: of_firm(y).cumsum() + 5 * of_firm(X["size"]).transform("first"),
        "moves from the period before by a function",
    ),
    "another firm's outcome": (
        lambda X, y: y.sort_index(level=[1, 0]).shift(1).reindex(y.index).fillna(0),
        "holds outcomes of the period",
    ),
    "rank in the industry's period": (
        lambda X, y: y.groupby([X["sic"], y.index.get_level_values(1)]).rank(),
        "within 'sic' in the period, a function of the outcome",
    ),
    "a line in a part of the rows": (
        lambda X, y: X["lev"].where(np.arange(len(y)) % 5 > 0, 2 - 3 * y),
        "is a line in the outcome in",
    ),
    "beta over all periods": (lambda X, y: beta(y), "is the beta of the firm's outcomes over all periods"),
    "fixed effect of all periods": (
        lambda X, y: of_firm(y - 0.3 * X["lev"] - 0.1 * X["size"]).transform("mean"),
        "is the mean of the firm's outcomes over all periods, net of its characteristics",
    ),
    "beta times the period's outcome": (
        lambda X, y: (1 + 0.1 * X["lev"]) * of_period(y).transform("mean"),
        "has means by the period closer to those of the outcome than errors of rows would be",
    ),
    "periods left": (
        lambda X, y: of_firm(y).cumcount(ascending=False).astype(float),
        "is the number of periods the firm stays in the panel",
    ),
    "average of opening and closing stock": (
        lambda X, y: (X["size"] + of_firm(X["size"]).shift(-1)) / 2,
        "averages 'size' over earlier and later periods",
    ),
    "interpolated from the next": (
        lambda X, y: of_firm(X["size"].where(X.index.get_level_values(1) % 2 == 0)).transform(lambda s: s.interpolate()),
        "averages 'size' over earlier and later periods",
    ),
    "fifth in the industry's period": (
        lambda X, y: np.ceil(5 * y.groupby([X["sic"], y.index.get_level_values(1)]).rank(pct=True)),
        "within 'sic' in the period, a function of the outcome",
    ),
    "sign of the outcome in late periods": (
        lambda X, y: np.sign(y.where(y.index.get_level_values(1) < 2003, X["lev"] - 0.1)),
        "of 15 parts by period",
    ),
    "order of the firms' means": (
        lambda X, y: of_firm(y).transform("mean").rank(method="dense") ** 2,
        "is the mean of the firm's outcomes over all periods, or its order",
    ),
    "mean outcome of a cell": (
        lambda X, y: y.groupby([X["sic"], X["lev"].rank(pct=True).mul(4).round()]).transform("mean"),
        "is the mean outcome of the rows that have its value",
    ),
    "period's effect net of firms": (
        lambda X, y: of_period(y - of_firm(y).transform("mean")).transform("mean"),
        "less the firms' means",
    ),
    "zero where the outcome is negative": (
        lambda X, y: X["lev"].where(y > 0, 0.0),
        "has its commonest value where the outcome decides it",
    ),
    "spread of the coming periods": (
        lambda X, y: of_firm(y).transform(lambda s: s[::-1].rolling(3).std()[::-1]),
        "is the std of the outcomes of periods 0 to 2 from the tested one",
    ),
    "parabola through all periods": (
        lambda X, y: of_firm(y).transform(lambda s: np.polyval(np.polyfit(np.arange(len(s)), s, 2), np.arange(len(s)))),
        "is a parabola through the firm's outcomes over all periods",
    ),
    "share of the period's outcomes above zero": (
        lambda X, y: of_period((y > 0).astype(float)).transform("mean"), "share of outcomes above zero of the period",
    ),
    "mean outcome of the sector's period, weighted": (
        lambda X, y: (y * np.exp(X["lev"])).groupby([X["sic"], y.index.get_level_values(1)]).transform("sum")
        / np.exp(X["lev"]).groupby([X["sic"], y.index.get_level_values(1)]).transform("sum"),
        "mean outcome of 'sic' in the period, weighted by 'exp lev'",
    ),
    "a regression's fit over all rows": (
        lambda X, y: np.polyval(np.polyfit(X["lev"] + X["lev"] ** 3, y, 1), X["lev"] + X["lev"] ** 3),
        "is the outcome's fit, or its residual, in a regression over all rows",
    ),
    "mean of the sector drawn to the grand mean": (
        lambda X, y: (y.groupby(X["sic"]).transform("sum") + 20 * y.mean()) / (y.groupby(X["sic"]).transform("count") + 20),
        "is the mean outcome of 'sic', of all rows or of other folds",
    ),
    "effects of firms and periods": (
        lambda X, y: of_firm(y).transform("mean") + 2 * of_period(y).transform("mean"), "closer to those of the outcome",
    ),
    "rank less last period's": (
        lambda X, y: of_period(y).rank(pct=True) - of_firm(of_period(y).rank(pct=True)).shift(1), "is made up of outcomes",
    ),
    "the last row of firms that leave": (
        lambda X, y: (of_firm(y).cumcount(ascending=False) == 0).astype(float),
        "is decided by the number of periods until the firm leaves",
    ),
    "a lag taken without groups": (lambda X, y: y.shift(1).fillna(0.0), "holds, where firms begin, outcomes of others"),
    "a characteristic's lag without groups": (
        lambda X, y: X["size"].shift(1), "is the 'size' of the row before, where a firm begins of another firm's later one",
    ),
    "periods until exit, four at most": (
        lambda X, y: of_firm(y).cumcount(ascending=False).clip(upper=4).where(leaves(y), 4).astype(float),
        "is decided by the number of periods until the firm leaves",
    ),
    "restated towards the outcome": (
        lambda X, y: X["lev"] + np.where(np.arange(len(y)) % 3 == 0, 0.5 * y, 0.0), "with the outcome added in",
    ),
    "change to the next period": (
        lambda X, y: of_firm(X["size"]).shift(-1) - X["size"], "is the change of 'size' to the next period",
    ),
    "the firm's last value": (lambda X, y: of_firm(X["size"]).transform("last"), "is the last, largest or smallest 'size'"),
    "the sum of what is to come": (
        lambda X, y: of_firm(X["lev"]).transform("sum") - of_firm(X["lev"]).cumsum(), "is a sum of later 'lev'",
    ),
    "odd where the outcome is high": (
        lambda X, y: 2 * (50 * X["lev"]).round() + (y > y.median()), "is odd where the outcome decides it",
    ),
}  # fmt: skip
CLEAN = {
    "level of past outcomes": lambda X, y: 3 + of_firm(y).cumsum() - y,
    "another firm's outcome of last period": lambda X, y: (
        of_firm(y).shift(1).sort_index(level=[1, 0]).shift(1).reindex(y.index)
    ),
    "past rank in the industry": lambda X, y: (
        of_firm(y).shift(1).groupby([X["sic"], y.index.get_level_values(1)]).rank()
    ),
    "rolling beta": lambda X, y: of_firm(y * of_period(y).transform("mean")).transform(
        lambda s: s.shift(1).expanding(2).mean()
    ),
    "mean characteristics of the firm": lambda X, y: of_firm(X["lev"]).transform("mean"),
    "last period's mean": lambda X, y: of_period(of_firm(y).shift(1)).transform("mean"),
    "age": lambda X, y: of_firm(y).cumcount().astype(float),
    "average of the last two": lambda X, y: (X["size"] + of_firm(X["size"]).shift(1)) / 2,
    "growth": lambda X, y: X["size"] - of_firm(X["size"]).shift(1),
    "flow until the next stock": lambda X, y: of_firm(X["size"]).shift(-1) - 0.9 * X["size"],
    "fifth of last period's in the industry": lambda X, y: np.ceil(
        5 * of_firm(y).shift(1).groupby([X["sic"], y.index.get_level_values(1)]).rank(pct=True)
    ),
    "mean past outcome of a code": lambda X, y: (
        of_firm(y).shift(1).groupby([X["sic"], y.index.get_level_values(1)]).transform("mean")
    ),
    "zero where last period's outcome was negative": lambda X, y: X["lev"].where(
        of_firm(y).shift(1) > 0, 0.0
    ),
    "spread of the last periods": lambda X, y: of_firm(y).transform(lambda s: s.shift(1).rolling(3).std()),
    "highest of the last twelve periods": lambda X, y: of_firm(y).transform(
        lambda s: s.shift(1).rolling(12, min_periods=2).max()
    ),
    "trend up to the last period": lambda X, y: of_firm(y).transform(
        lambda s: s.shift(1).expanding(3).mean()
    ),
    "a strong cause that firms share": lambda X, y: y + np.random.default_rng(3).normal(size=len(y)),
    "quarter of the year": lambda X, y: (LABELS[1][: len(y)] % 4 == 0).astype(float),
    "missing in each firm's first period": lambda X, y: X["lev"].where(of_firm(y).cumcount() > 0),
    "last period's share above zero": lambda X, y: of_period(
        (of_firm(y).shift(1) > 0).astype(float)
    ).transform("mean"),
    "the firm's first value": lambda X, y: of_firm(X["size"]).transform("first"),
    "carried forward": lambda X, y: of_firm(X["size"].where(X.index.get_level_values(1) % 2 == 0)).ffill(),
}


@pytest.mark.parametrize("name", LEAKS)
def test_what_was_made_of_outcomes_or_later_values_is_said(panel, name):
    make, why = LEAKS[name]
    assert why in said(*panel, make(*panel))


@pytest.mark.parametrize("name", CLEAN)
def test_what_was_known_is_not_refuted(panel, name):
    assert said(*panel, CLEAN[name](*panel)) == ""


def test_an_outcome_that_repeats_itself_is_held_against_its_past(panel):
    """A level explains the next one almost wholly, and is known; a copy of the next one is not."""
    X, _ = panel
    level = (100 + X["size"]).rename("assets")
    later = of_firm(level).shift(-1)
    known = later.notna()
    assert np.corrcoef(level[known], later[known])[0, 1] > 0.98
    X, later = X[known].drop(columns="size"), later[known]
    assert said(X, later, level[known]) == ""
    assert "correlates above 0.98 with the outcome" in said(X, later, later + 0.01 * X["lev"])


def test_levels_of_a_code_that_are_ranges_within_another_are_said(panel):
    X, y = panel
    side = X["sic"] + np.where(y > y.median(), "a", "b")
    labels = labels_of(X.index.get_level_values(0), X.index.get_level_values(1))
    line, _ = columns(X.assign(side=side), y.to_numpy(), {"sic", "side"}, labels)
    assert "'side' has levels that are, within" in line.evidence
    other = X["sic"] + np.where(X["lev"] > 0, "a", "b")
    assert columns(X.assign(side=other), y.to_numpy(), {"sic", "side"}, labels)[0].passed
