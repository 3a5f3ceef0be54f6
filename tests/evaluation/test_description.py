"""Table 1, and what the report shows of portfolios, halves and stability."""

import numpy as np
import pandas as pd
import pytest

from peerattn import WalkForward, compare, describe_panel
from peerattn.exceptions import InputError
from peerattn.models import OwnCharacteristicsRegressor, PeerAttentionRegressor

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point


def panel(n=30, periods=24):
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product(
        [range(n), pd.period_range("2010-01", periods=periods, freq="M")], names=["firm", "period"]
    )
    X = pd.DataFrame({"size": rng.normal(size=len(index)), "value": 3.0 + rng.normal(size=len(index))}, index)
    X["sic"] = "28"
    X.iloc[:50, 1] = np.nan
    y = 0.02 * X["size"] + 0.05 * rng.normal(size=len(index))
    return X, y.rename("ret_next")


def test_describe_panel_is_pandas_describe():
    X, y = panel()
    labels = {"value": ("Book-to-market", "book equity over market value"), "size": "Size"}
    found = describe_panel(X, y, labels=labels, codes=["sic"])
    theirs = X.assign(ret_next=y).drop(columns="sic").describe(percentiles=[0.05, 0.25, 0.5, 0.75, 0.95]).T
    assert list(found.frame.index) == ["ret_next", "value", "size"]  # the outcome, then as labelled
    np.testing.assert_allclose(found.frame[["n", "mean", "sd", "p5", "p25", "p50", "p75", "p95"]],
        theirs.loc[found.frame.index, ["count", "mean", "std", "5%", "25%", "50%", "75%", "95%"]])  # fmt: skip
    assert found.frame.loc["value", "missing"] == pytest.approx(50 / 720)
    firms = y.groupby(level="firm").transform("mean")
    assert found.frame.loc["ret_next", "between"] == pytest.approx(firms.var(ddof=0) / y.var(ddof=0))
    for shown in (
        str(found),
        found.to_markdown(),
        found.to_latex(caption="Table 1", label="tab:1"),
        found._repr_html_(),
    ):
        assert "Size" in shown and "book equity over market value" in shown
    assert r"\label{tab:1}" in found.to_latex(label="tab:1") and (found.n_firms, found.n_periods) == (30, 24)


@pytest.mark.parametrize(("given", "message"), [({"labels": {"sise": "Size"}}, "no variable is named 'sise'.*'size'"),
                                                ({"quantiles": [5]}, "between 0 and 1")])  # fmt: skip
def test_bad_descriptions_are_named(given, message):
    with pytest.raises(InputError, match=message):
        describe_panel(*panel(), codes=["sic"], **given)


def test_an_outcome_with_the_name_of_a_characteristic_has_a_row_of_its_own():
    X, y = panel()
    found = describe_panel(X, y.rename("size"), codes=["sic"]).frame["mean"]
    assert found["size (outcome)"] == pytest.approx(y.mean()) and found["size"] == pytest.approx(X["size"].mean())


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.UnitWarning")  # one industry
@pytest.mark.usefixtures("heads_in_full")
def test_the_report_shows_table_1_halves_and_the_spread_as_a_strategy(tmp_path):
    X, y = panel()
    months = X.index.get_level_values("period").unique()
    factors = pd.DataFrame({"mkt": np.random.default_rng(1).normal(size=24) * 0.04}, index=months)
    labels = {"size": ("Size", "log of assets")}
    models = {
        "OLS": OwnCharacteristicsRegressor(),
        "Peers": PeerAttentionRegressor(n_heads=1, own="linear", kappa=None, random_state=0),
    }
    result = compare(models, X, y, codes=["sic"], cv=WalkForward(12, 12), factors=factors,
                     outcome_horizon=0, labels=labels, decomposition=False, verbose=False)  # fmt: skip
    page = result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    for words in ("Descriptive statistics", "Size: log of assets", "The spread as a strategy", "net of cost", "Alpha"):
        assert words in page
    found = result.portfolios("OLS")
    traded = np.r_[2.0, found.turnover]
    net = found.spread - 0.001 * traded
    assert found.net_sharpe(0.001) == pytest.approx(net.mean() / net.std() * np.sqrt(12))
    assert found.net_sharpe(0.001) < found.sharpe
    assert found.betas.index.tolist() == ["mkt"]
