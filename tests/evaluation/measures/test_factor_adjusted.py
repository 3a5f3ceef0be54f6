"""Outcomes net of factors: loadings are those of earlier periods, shrunk; a nowcast's peers are tested for what factors leave."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import brentq

from peerattn import WalkForward, compare
from peerattn.evaluation import factor_adjusted
from peerattn.evaluation.measures.factor_adjusted import net_of_factors
from peerattn.exceptions import InputError
from peerattn.models import OwnCharacteristicsRegressor, StackedPeerRegressor
from peerattn.panel import as_panel

N, T = 12, 20
YEARS = pd.Index(range(2001, 2001 + T))


def panel(seed=0, n=N, noise=0.5):
    """Outcomes of firms that load differently on two factors, and some that are unknown."""
    rng = np.random.default_rng(seed)
    f = pd.DataFrame(0.1 * rng.normal(size=(T, 2)), YEARS, columns=["market", "size"])
    beta = rng.normal(1, 0.5, size=(n, 2))
    index = pd.MultiIndex.from_product([[f"F{k:02d}" for k in range(n)], YEARS], names=["firm", "period"])
    y = (beta @ f.to_numpy().T + 0.02 + 0.1 * noise * rng.normal(size=(n, T))).ravel()
    y[rng.random(len(y)) < 0.1] = np.nan
    return pd.Series(y, index, name="ret"), f, beta


def by_hand(y, f, year):
    """Vasicek's loadings by firm in one year, from statsmodels' regressions of earlier years; the spread of Paule and Mandel."""
    slopes, variances, names = [], [], []
    for name, own in y.groupby("firm"):
        own = own.droplevel("firm").dropna()
        own = own[own.index < year]
        if len(own) >= 6:
            fit = sm.OLS(own, sm.add_constant(f.loc[own.index])).fit()
            slopes.append(fit.params.to_numpy()[1:])
            variances.append(fit.bse.to_numpy()[1:] ** 2)
            names.append(name)
    if len(names) < 2:
        return None
    b, v = np.array(slopes), np.array(variances)

    def mean_of(spread, k):
        weight = 1 / (v[:, k] + spread)
        return weight @ b[:, k] / weight.sum()

    def excess(spread, k):
        return ((b[:, k] - mean_of(spread, k)) ** 2 / (v[:, k] + spread)).sum() - (len(b) - 1)

    tau = np.array([brentq(excess, 0, 100, args=(k,), xtol=1e-14) if excess(0, k) > 0 else 0.0 for k in range(2)])
    mean = np.array([mean_of(tau[k], k) for k in range(2)])
    unknown = {name: mean for name in y.index.unique("firm")}
    return unknown | {name: mean + tau / (tau + v[k]) * (b[k] - mean) for k, name in enumerate(names)}


def test_loadings_are_those_of_statsmodels_drawn_towards_their_mean():
    y, f, _ = panel()
    net = factor_adjusted(y, f)
    loadings = {year: by_hand(y, f, year) for year in YEARS}
    for (firm, year), value in net.items():
        beta = loadings[year]
        expected = np.nan if beta is None else y[firm, year] - beta[firm] @ f.loc[year].to_numpy()
        assert np.allclose(value, expected, equal_nan=True), (firm, year)
    assert net.groupby("period").count().loc[:2006].eq(0).all()


def test_the_level_of_a_firm_stays_in_its_outcomes_and_costs_no_digits():
    y, f, _ = panel()
    level = 2.0**20 * (1 + pd.factorize(y.index.get_level_values("firm"))[0])
    np.testing.assert_allclose(factor_adjusted(y + level, f) - level, factor_adjusted(y, f), atol=1e-6)


def test_what_is_left_is_nearly_net_of_true_loadings():
    y, f, beta = panel(n=60)
    true = y - (beta @ f.to_numpy().T).ravel()
    late = y.index.get_level_values("period") > 2012
    net = factor_adjusted(y, f)
    assert ((net - true)[late] ** 2).mean() < 0.25 * ((y - true)[late] ** 2).mean()


def test_calm_firms_with_small_loadings_do_not_stand_for_all():
    rng = np.random.default_rng(0)
    beta = rng.uniform(0.4, 1.6, 200)
    noise = np.exp(3 * (beta - 1)) * 0.05  # volatile firms have large loadings
    market = pd.DataFrame({"market": 0.05 * rng.normal(size=61)}, index=range(61))
    y = beta[:, None] * market["market"].to_numpy() + noise[:, None] * rng.normal(size=(200, 61))
    y = pd.Series(y.ravel(), pd.MultiIndex.from_product([range(200), range(61)], names=["firm", "period"]))
    y.loc[(999, 60)] = 0.0  # a new firm
    used = (y - factor_adjusted(y, market)).xs(60, level="period") / market["market"].iloc[-1]
    assert used[999] == pytest.approx(beta.mean(), abs=0.15)  # .55 with weights of the sampling variances alone
    assert used.drop(999).mean() == pytest.approx(beta.mean(), abs=0.15)


def test_nothing_of_a_later_period_enters():
    y, f, _ = panel()
    before = factor_adjusted(y, f)
    later = y.index.get_level_values("period") >= 2012
    changed = y.mask(later, y + 10)
    moved = f.copy()
    moved.loc[2012:] *= -3
    after = factor_adjusted(changed, moved)
    assert after[~later].equals(before[~later])
    # in the period itself the own outcome enters its own difference alone
    one = y.copy()
    one["F03", 2012] += 1
    gap = (factor_adjusted(one, f) - before)[y.index.get_level_values("period") == 2012]
    assert np.isclose(gap["F03", 2012], 1) and (gap.drop(("F03", 2012)).fillna(0) == 0).all()


def test_an_outcome_enters_loadings_only_when_it_is_known():
    """With outcomes known two years later loadings are those of outcomes two years older."""
    y, f, _ = panel()
    X = pd.DataFrame({"x": np.arange(len(y), dtype=float)}, y.index)
    known_at = pd.Series(y.index.get_level_values("period") + 2, y.index)
    late = net_of_factors(as_panel(X, y, known_at=known_at), f, "nowcast", None, None, 1).y
    changed = y.mask(y.index.get_level_values("period") == 2012, y + 10)
    moved = net_of_factors(as_panel(X, changed, known_at=known_at), f, "nowcast", None, None, 1).y
    year = y.index.get_level_values("period")
    assert moved[(year == 2013) | (year == 2014)].equals(late[(year == 2013) | (year == 2014)])
    assert not moved[year == 2015].equals(late[year == 2015])


def test_outcomes_of_several_periods_enter_loadings_when_these_are_over():
    """An outcome of three years after 2010 is known in 2013: it had entered the loadings of 2011 and 2012."""
    y, f, _ = panel()
    year = y.index.get_level_values("period")
    y = y[year < 2016]
    f /= 10  # decimals, compounded
    year = y.index.get_level_values("period")
    changed = y.mask(year == 2010, y + 10)
    X = pd.DataFrame({"x": np.arange(len(y), dtype=float)}, y.index)
    ways = [
        lambda of: factor_adjusted(of, f, outcome_horizon=3),
        lambda of: net_of_factors(as_panel(X, of), f, "nowcast", 3, None, 1).y,
        lambda of: net_of_factors(as_panel(X, of), f, "nowcast", None, None, 3).y,
    ]
    for net in ways:
        before, after = net(y), net(changed)
        between = (year == 2011) | (year == 2012)
        assert before[between].notna().any() and after[between].equals(before[between])
        assert not after[year == 2013].equals(before[year == 2013])


def test_order_of_rows_and_levels_does_not_matter():
    y, f, _ = panel()
    net = factor_adjusted(y, f)
    shuffled = y.sample(frac=1, random_state=0)
    assert np.allclose(factor_adjusted(shuffled, f.iloc[::-1]), net[shuffled.index], equal_nan=True)
    swapped = y.swaplevel()
    assert np.allclose(factor_adjusted(swapped, f), net, equal_nan=True)


def test_labels_are_found_by_name():
    y, f, _ = panel()
    renamed = y.rename_axis(["permno", "year"])
    with pytest.raises(InputError, match="pass their names as firm= and period="):
        factor_adjusted(renamed, f)
    for each in (renamed, renamed.swaplevel()):
        assert np.allclose(factor_adjusted(each, f, firm="permno", period="year"), factor_adjusted(y, f), equal_nan=True)


def test_factors_of_each_firm_are_those_of_its_rows():
    y, f, _ = panel()
    own = f.loc[y.index.get_level_values("period")].set_axis(y.index)
    assert np.allclose(factor_adjusted(y, own), factor_adjusted(y, f), equal_nan=True)
    assert np.allclose(factor_adjusted(y, own.swaplevel()), factor_adjusted(y, f), equal_nan=True)


def test_a_factor_without_variance_gives_no_loading():
    y, f, _ = panel()
    with pytest.raises(InputError, match="no outcome is left"):
        factor_adjusted(y, f.assign(size=0.03))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda y, f: (y.to_numpy(), f), "y: expected Series"),
        (lambda y, f: (y.reset_index(drop=True), f), "y: expected a Series indexed by firm and period"),
        (lambda y, f: (y, f["market"]), "factors: expected DataFrame"),
        (lambda y, f: (y, f.iloc[:-1]), "factors: outcomes are realised in 1 periods that are not covered"),
        (lambda y, f: (y, f * 1000), "per cent"),
        (lambda y, f: (y[y.index.get_level_values("period") < 2005], f), "need 6 earlier outcomes of a firm"),
        (lambda y, f: (y[:0], f), "need 6 earlier outcomes of a firm"),
        (lambda y, f: (y, f.loc[y.index.get_level_values(1)].set_axis(y.index).iloc[1:]), "1 of 240 rows of the panel"),
    ],
)
def test_unusable_input_is_an_error_that_names_it(change, named):
    y, f, _ = panel()
    with pytest.raises(InputError, match=named):
        factor_adjusted(*change(y, f))


def test_peers_of_a_factor_are_gone_once_it_is_given():
    """Firms that load on one factor seem peers in a nowcast; net of the factor none is selected."""
    rng = np.random.default_rng(0)
    f = pd.DataFrame({"market": 0.1 * rng.normal(size=T)}, YEARS)
    index = pd.MultiIndex.from_product([range(40), YEARS], names=["firm", "period"])
    beta = rng.normal(size=(40, 1))
    y = pd.Series((beta * f["market"].to_numpy() + 0.05 * rng.normal(size=(40, T))).ravel(), index, name="ret")
    X = pd.DataFrame({"beta": np.repeat(beta, T) + 0.1 * rng.normal(size=40 * T)}, index)
    train = index.get_level_values("period") <= 2014

    def weight(outcome):
        model = StackedPeerRegressor(task="nowcast", random_state=0).fit(X[train], outcome[train])
        return model.evidence_.loc["peers", "factor"]

    assert weight(y) > 0.5
    assert weight(factor_adjusted(y, f)) == 0
    # compare tests what the factor leaves, and says so
    found = compare(
        {"OLS": OwnCharacteristicsRegressor()}, X, y, task="nowcast", factors=f, cv=WalkForward(6, 6),
        labels={"ret": "Return"}, decomposition=False, verbose=False,
    )  # fmt: skip
    assert found.outcome == "ret net of market" and "ret net of market" in str(found)
    assert any("net of the given factors" in note for note in found.notes)
    assert "Return" in str(found.panel.description)
    tested = found.predictions.set_index(["firm", "period"])["outcome"]
    assert np.allclose(tested, factor_adjusted(y, f)[tested.index])


def test_a_reference_with_outcomes_of_its_own_is_an_error():
    y, f, _ = panel()
    X = pd.DataFrame({"x": np.arange(len(y), dtype=float)}, y.index)
    with pytest.raises(InputError, match="factors: the outcomes of reference="):
        compare({"OLS": OwnCharacteristicsRegressor()}, X, y, task="nowcast", factors=f, reference=(X, y), verbose=False)
