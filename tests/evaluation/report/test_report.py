"""What a comparison tells besides its table: the sample, its limits, groups, regressions, portfolios."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from peerattn.evaluation import WalkForward, compare, fama_macbeth, quantile_portfolios
from peerattn.evaluation.report.network import _one_sided
from peerattn.evaluation.report.words import few_codes
from peerattn.exceptions import InputError
from peerattn.models import CrossSectionalRidge, IndustryPeerRegressor
from peerattn.network import PeerNetwork

pytestmark = pytest.mark.usefixtures("fewest_steps", "blank_pictures")  # what is found is beside the point

CV = WalkForward(test_periods=12, refit_every=12)
MODELS = {"Peers": IndustryPeerRegressor(industry="sic"), "Linear": CrossSectionalRidge(), "Ridge": Ridge()}


@pytest.fixture(scope="module")
def panel():
    """A ragged monthly panel of 30 firms in 35 industries, some of whose outcomes are unknown."""
    rng = np.random.default_rng(2)
    months = pd.date_range("2001-01-31", periods=24, freq="ME")
    index = pd.MultiIndex.from_product([[f"F{k:02d}" for k in range(40)], months], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=len(index)), "lev": rng.normal(size=len(index))}, index=index)
    X["sic"] = [str(3700 + int(firm[1:]) % 35) for firm, _ in index]
    y = (0.05 * X["size"] + 0.1 * rng.normal(size=len(index))).rename("ret_next")
    y[rng.random(len(y)) < 0.1] = np.nan
    left = (index.get_level_values(0) == "F07") & (index.get_level_values(1) > months[15])
    X.loc[rng.random(len(X)) < 0.3, "lev"] = np.nan
    return X[~left], y[~left]


@pytest.fixture(scope="module")
def result(panel):
    X, y = panel
    return compare(MODELS, X, y, industry="sic", groups=["size"], limits=["Made up."], cv=CV, decomposition=False, verbose=False)


def test_sample_loss_counts_rows_firms_and_periods(panel, result):
    X, y = panel
    tested = X.index.get_level_values(1) > pd.Timestamp("2001-12-31")
    known = y.notna().to_numpy()
    loss = result.panel.sample_loss.set_index("step")
    for step, kept in (
        ("in the panel", np.ones(len(X), dtype=bool)),
        ("of tested periods", tested),
        ("scored: outcome known", tested & known),
    ):
        firms, periods = (X.index[kept].get_level_values(k).nunique() for k in (0, 1))
        assert loss.loc[step, ["rows", "firms", "periods"]].tolist() == [kept.sum(), firms, periods], step
    assert loss["rows lost"].sum() == len(X) - result.n_outcomes


def test_groups_are_fifths_and_broad_industries(panel, result):
    assert list(result.panel.groups) == ["size, fifths", "Fama–French 12 industry from sic"]
    size = panel[0]["size"]
    fifths = result.panel.groups["size, fifths"]
    shares = size.groupby(level=1).rank(pct=True).reindex(fifths.index)
    assert (fifths[shares > 0.8] == "5 (highest)").all() and (fifths[shares <= 0.2] == "1 (lowest)").all()
    by = result.by(fifths)
    rows = by["rows"].xs("Ridge", level="model")
    known = panel[1].reindex(fifths.index).notna()
    assert rows.to_dict() == fifths[known].value_counts().to_dict()
    with pytest.raises(InputError, match="groups: no column is named 'sise'. Near matches: 'size'"):
        compare(MODELS, *panel, groups=["sise"], industry="sic", decomposition=False, verbose=False)


def test_limits_are_told_and_found(panel, result):
    X, y = panel
    said = " ".join(result.panel.limits)
    assert result.panel.limits[0] == "Made up." and "never change within a firm" in said and "lev 30%" in said
    assert "No firm leaves" not in said and "Outliers" not in said
    staying = X.index.get_level_values(0) != "F07"
    wild = y[staying].copy()
    wild.iloc[17] = 50.0  # a tested row
    alone = compare({"Ridge": Ridge()}, X.loc[staying, ["size"]], wild, cv=CV, decomposition=False, verbose=False)
    said = " ".join(alone.panel.limits)
    assert "No firm leaves before the last period" in said and "Outliers decide" in said
    assert "never change" not in said and "missing" not in said
    wild.iloc[[17, 5]] = [0.0, 50.0]  # R² is not of training rows
    alone = compare({"Ridge": Ridge()}, X.loc[staying, ["size"]], wild, cv=CV, decomposition=False, verbose=False)
    assert "Outliers" not in " ".join(alone.panel.limits)


def test_regression_metrics_and_stars(result):
    frame = result.predictions
    table = result.table(["fm_slope", "fm_t", "cal_slope", "dm_t"], stars=True)
    found = fama_macbeth(frame["outcome"], frame["Ridge"], frame["period"])
    assert table.loc["Ridge", "FM slope"] == found.slope and table.loc["Ridge", "FM t"] == found.t
    made = {name: test for name, test in result.tests.items() if test.p_value is not None}
    assert {"Own characteristics (OLS)", "Prevailing mean"} <= set(made)
    for name, test in made.items():
        marks = "*" * sum(test.p_value < level for level in (0.1, 0.05, 0.01))
        assert table.loc[name, "DM t"] == f"{test.statistic:.2f}{marks}".replace("-", "−")
    assert "* p < 0.10, ** p < 0.05, *** p < 0.01" in result.to_latex(metrics=["dm_t"], stars=True).replace(r"\textless{}", "<")
    assert "p <" not in result.to_latex(metrics=["dm_t"]).replace(r"\textless{}", "<")


def test_portfolios_and_their_words(result, tmp_path):
    frame = result.predictions
    found = result.portfolios("Ridge")
    same = quantile_portfolios(frame["outcome"], frame["Ridge"], frame["firm"], frame["period"], n_quantiles=5)
    pd.testing.assert_frame_equal(found.returns, same.returns)
    assert found.sharpe == pytest.approx(same.sharpe * np.sqrt(12))
    assert result.panel.is_return and "Sharpe" in result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="no model is named 'ridge'"):
        result.portfolios("ridge")


def test_an_explanation_has_no_portfolios(panel, tmp_path):
    X, y = panel
    models = {"Peers": MODELS["Peers"], "Ridge": Ridge()}
    explained = compare(models, X, y, industry="sic", task="nowcast", cv=CV, decomposition=False, verbose=False)
    text = explained.to_html(tmp_path / "e.html").read_text(encoding="utf-8")
    assert explained.panel.is_return and not any(word in text for word in ("Sharpe", "Turnover", "Sorted by forecast"))
    with pytest.raises(InputError, match="portfolios: a nowcast .* cannot be traded on"):
        explained.portfolios("Ridge")


def test_labels_of_the_page(result, tmp_path):
    text = result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "R² within period" in text and not re.search("R² within(?! period)", text) and "00:00:00" not in text


def test_portfolios_weighted_by_market_value(panel, tmp_path):
    X, y = panel
    value = pd.Series(np.exp(np.random.default_rng(3).normal(size=len(X))), X.index)
    value.iloc[::50] = np.nan
    result = compare({"Ridge": Ridge()}, X.assign(me=value), y, market_value="me", cv=CV, decomposition=False, verbose=False)
    frame = result.predictions
    weight = value.reindex(pd.MultiIndex.from_frame(frame[["firm", "period"]])).to_numpy()
    known = frame[~np.isnan(weight)]
    columns = (known[name] for name in ("outcome", "Ridge", "firm", "period"))
    same = quantile_portfolios(*columns, n_quantiles=5, weight=weight[~np.isnan(weight)])
    found = result.portfolios("Ridge", weighting="value")
    pd.testing.assert_frame_equal(found.returns, same.returns)
    assert found.weighting == "value" and not found.returns.equals(result.portfolios("Ridge").returns)
    words = "Portfolios weighted by me"
    assert words in result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    other = compare(
        {"Ridge": Ridge()}, X.assign(me=value), y, market_value="me", is_return=False, cv=CV, decomposition=False, verbose=False
    )
    assert words not in other.to_html(tmp_path / "r.html").read_text(encoding="utf-8")


def test_market_values_must_be_there_and_positive(panel, result):
    X, y = panel
    with pytest.raises(InputError, match=r"'size' is -[0-9.]+ for \(\w+, [-\d]+\); pass the market value itself, no"):
        compare({"Ridge": Ridge()}, X, y, industry="sic", market_value="size", cv=CV, decomposition=False, verbose=False)
    with pytest.raises(InputError, match="market_value: no characteristic is named 'sise'.* 'size'"):
        compare({"Ridge": Ridge()}, X, y, industry="sic", market_value="sise", cv=CV, decomposition=False, verbose=False)
    with pytest.raises(InputError, match=r"weighting='value' needs market values: compare\(..., market_value"):
        result.portfolios("Ridge", weighting="value")
    with pytest.raises(InputError, match="weighting: expected 'equal' or 'value', got 'vw'"):
        result.portfolios("Ridge", weighting="vw")


def test_methods_say_what_was_done(result):
    said = result.methods()
    for needed in (
        "ret_next",
        "2 characteristics (size, lev)",
        "Peers, Linear, Ridge",
        "walk forward",
        "not causal",
        "scikit-learn",
    ):
        assert needed in said, needed
    assert result.sample in said and "{" not in said
    assert "walk forward over the last 12 periods, refitted every 12 periods, expanding window, horizon 1" in said
    assert not re.search(r"[a-z]_[a-z]*=|=|peerattn\.", said)


def test_the_methods_of_a_decomposition_define_its_terms():
    index = pd.MultiIndex.from_product([range(15), range(2001, 2021)], names=["firm", "period"])
    X = pd.DataFrame({"size": np.random.default_rng(0).normal(size=300)}, index)
    y = (X["size"] + np.random.default_rng(1).normal(size=300)).rename("roa")
    made = compare({"Ridge": Ridge()}, X, y, cv=WalkForward(4, 4), verbose=False)
    said = made.methods()
    assert "We compare Ridge, Own" in said and "Prevailing mean; the baseline is Ridge." in said
    assert "the predictions of a combination of models after own characteristics (linear), " in said
    assert "the last step (Stack with peers against Stack without peers)" in said and "symmetric sums" not in said


def test_industries_made_of_another_code_are_named(result, tmp_path):
    assert few_codes(result).name == "Fama–French 12 industry from sic"
    assert "Within the Fama–French 12 industry from sic" in result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_symmetric_kernel_has_no_direction_by_construction():
    distance = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0) ** 1.5))
    weights = np.exp(-distance - distance.T) * (1 - np.eye(5))
    network = PeerNetwork.from_matrices({1: (list("ABCDE"), None, weights / weights.sum(axis=1, keepdims=True))})
    assert str(_one_sided(network)).endswith("; with a symmetric kernel none can be.")
