"""One check of columns: what was made of the unknown, each recipe beside the same made of what was known."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation.leak_audit.checks import columns
from peerattn.evaluation.leak_audit.columns import Rows, function_of, left_out, noisy_copy, sum_of

FIRMS, YEARS = 60, 16


@pytest.fixture(scope="module")
def panel():
    """A persistent outcome with shocks of industries, its value of the year before among the characteristics."""
    rng = np.random.default_rng(2)
    index = pd.MultiIndex.from_product([[f"F{k:02d}" for k in range(FIRMS)], range(2000, 2000 + YEARS)], names=["firm", "period"])
    sic, shock = np.arange(FIRMS) % 5, rng.normal(size=(5, YEARS + 1))
    size, roa = rng.normal(size=(FIRMS, YEARS + 1)), np.zeros((FIRMS, YEARS + 1))
    for t in range(1, YEARS + 1):
        size[:, t] = 0.9 * size[:, t - 1] + 0.4 * size[:, t]
        roa[:, t] = 0.5 * roa[:, t - 1] + 0.4 * size[:, t - 1] + shock[sic, t] + rng.normal(size=FIRMS)
    X = pd.DataFrame({"size": size[:, :-1].ravel(), "roa": roa[:, :-1].ravel()}, index)
    X["lev"] = rng.normal(size=len(X))
    X["sic"] = np.repeat(sic.astype(str), YEARS)
    return X, pd.Series(roa[:, 1:].ravel(), index, name="roa_next")


def firms(values):
    return values.groupby(level="firm")


def years(values):
    return values.groupby(level="period")


def industry(values, X):
    return values.groupby([X["sic"], X.index.get_level_values("period")])


def noise(X, seed=0):
    return pd.Series(np.random.default_rng(seed).normal(size=len(X)), X.index)


# made of (characteristics, an outcome): a leak where that is the row's, a characteristic where it is the year's before
RECIPES = {
    "copy": lambda X, v: 3 - 2 * v,
    "exponential": lambda X, v: np.exp(v),
    "square": lambda X, v: v**2,
    "sign": lambda X, v: np.sign(v),
    "rank in the year": lambda X, v: years(v).rank(),
    "rank in the industry's year": lambda X, v: industry(v, X).rank(),
    "industry's mean": lambda X, v: industry(v, X).transform("mean"),
    "industry's mean of others": lambda X, v: (industry(v, X).transform("sum") - v) / 11,
    "year's mean": lambda X, v: years(v).transform("mean"),
    "partly restated": lambda X, v: 0.6 * X["size"] + 0.4 * v,
    "amount, of which it is the ratio to size": lambda X, v: 2 * v * X["size"] + X["lev"],
    "level that moves by it": lambda X, v: firms(v.fillna(0)).cumsum(),
    "missing where it is low": lambda X, v: X["lev"].where(v > -0.5),
    "with noise, correlated .97": lambda X, v: v + 0.25 * v.std() * noise(X),
    "with equal noise": lambda X, v: v + v.std() * noise(X),
}
# made of all of a firm's years, or of later values
LATER = {
    "firm's mean": lambda X, y: firms(y).transform("mean"),
    "firm's mean of other years": lambda X, y: (firms(y).transform("sum") - y) / (YEARS - 1),
    "mean of the industry, all years": lambda X, y: y.groupby(X["sic"]).transform("mean"),
    "next year's outcome": lambda X, y: firms(y).shift(-1),
    "sum of later outcomes": lambda X, y: firms(y).transform("sum") - firms(y).cumsum(),
    "centred average": lambda X, y: (firms(X["lev"]).shift(1) + X["lev"] + firms(X["lev"]).shift(-1)) / 3,
    "next year's characteristic": lambda X, y: firms(X["lev"]).shift(-1),
}
CLEAN = {
    "lag": lambda X, y: firms(X["lev"]).shift(1),
    "change": lambda X, y: X["roa"] - firms(X["roa"]).shift(1),
    "trailing average": lambda X, y: firms(X["roa"]).transform(lambda s: s.rolling(3, min_periods=1).mean()),
    "firm's mean so far": lambda X, y: firms(X["roa"]).transform(lambda s: s.expanding().mean()),
    "strong predictor": lambda X, y: 0.4 * X["size"] + industry(X["roa"], X).transform("mean"),
    "ratio": lambda X, y: X["roa"] / (5 + X["size"]),
    "trend": lambda X, y: pd.Series(X.index.get_level_values("period").astype(float), X.index),
    "lasting": lambda X, y: firms(X["size"]).transform("first"),
    "last one carried on": lambda X, y: firms(noise(X).where(noise(X, 1) > -0.5)).transform(lambda s: s.ffill()),
}  # fmt: skip


def said(X, y):
    firm, when = (pd.factorize(X.index.get_level_values(k), sort=True)[0] for k in ("firm", "period"))
    line, found = columns(Rows.of(X, y.to_numpy(), firm, when))
    assert line.passed == (line.evidence.endswith("no undeclared code"))
    return line.evidence if not line.passed else ""


@pytest.mark.parametrize("name", RECIPES)
def test_what_is_made_of_the_outcome_is_found_and_the_same_of_the_last_one_is_not(panel, name):
    X, y = panel
    assert "'extra'" in said(X.assign(extra=RECIPES[name](X, y)), y)
    assert said(X.assign(extra=RECIPES[name](X, X["roa"])), y) == ""


@pytest.mark.parametrize("name", LATER)
def test_what_later_years_are_in_is_found(panel, name):
    X, y = panel
    assert "'extra'" in said(X.assign(extra=LATER[name](X, y)), y)


@pytest.mark.parametrize("growth", [np.log, lambda ratio: ratio - 1])
def test_growth_of_the_coming_year_is_found_and_that_of_the_last_is_not(panel, growth):
    X, y = panel
    X = X.assign(assets=np.exp(0.1 * firms(noise(X)).cumsum() + 2 * X["size"]))
    later, before = firms(X["assets"]).shift(-1), firms(X["assets"]).shift(1)
    assert "'extra' is made of 'assets' of later periods" in said(X.assign(extra=growth(later / X["assets"])), y)
    assert said(X.assign(extra=growth(X["assets"] / before)), y) == ""


@pytest.mark.parametrize("name", CLEAN)
def test_what_was_known_is_not_refuted(panel, name):
    X, y = panel
    assert said(X.assign(extra=CLEAN[name](X, y)), y) == ""


def test_a_characteristic_that_explains_nearly_all_is_no_leak(panel):
    X, y = panel
    driver = noise(X, 3)
    assert said(X.assign(extra=driver), 0.2 * y + driver + 0.1 * noise(X, 4)) == ""


def test_pairs_and_codes_that_make_the_outcome_are_found(panel):
    X, y = panel
    other = noise(X)
    assert said(X.assign(extra=other, rest=y - other), y) and said(X.assign(extra=other), y) == ""
    fifths = pd.cut(y, 4, labels=list("abcd")).astype(object)
    assert "'extra'" in said(X.assign(extra=fifths), y)
    before = pd.cut(X["roa"], 4, labels=list("abcd")).astype(object)
    assert said(X.assign(extra=before), y) == ""


def test_the_measures():
    rng = np.random.default_rng(0)
    u, z, e = rng.normal(size=(3, 500))
    assert function_of(np.cos(u), u) and function_of((u > 0).astype(float), u) and not function_of(u + e, u)
    one = np.ones((500, 1))
    assert sum_of(u + z, z[:, None], u[:, None]) and not sum_of(u + z, e[:, None], np.column_stack([u, z]))
    assert not sum_of(u, z[:, None], one)
    y = z + u
    assert noisy_copy(y + e, y, z[:, None]) and not noisy_copy(z + e, y, z[:, None]) and not noisy_copy(e, y, z[:, None])
    firm, when = np.repeat(np.arange(2), 3), np.tile(np.arange(3), 2)
    rows, x = Rows(np.zeros(6), firm, when, {}, {}), np.arange(6.0)
    np.testing.assert_array_equal(rows.moved(x, 1), [1, 2, np.nan, 4, 5, np.nan])
    np.testing.assert_array_equal(rows.moved(x, -2), [np.nan, np.nan, 0, np.nan, np.nan, 3])


def test_rows_that_are_missing_because_of_their_outcome_are_found(panel):
    X, y = panel
    rank = y.rank(pct=True)

    def found(kept):
        index = X.index[kept]
        firm, when = (pd.factorize(index.get_level_values(name), sort=True)[0] for name in X.index.names)
        return left_out(Rows.of(X[kept], y[kept].to_numpy(), firm, when))

    assert "'roa' 1 later" in found((rank > 0.2).to_numpy())
    # firms that do well report more often
    likely = np.random.default_rng(0).random(len(y)) < 0.3 + 0.5 * rank
    assert found(likely.to_numpy()) == "" and found(np.ones(len(y), dtype=bool)) == ""
    late = X.index.get_level_values("period") > 2000 + np.arange(len(X)) % 7  # firms enter at different times
    assert found(np.asarray(late)) == ""
