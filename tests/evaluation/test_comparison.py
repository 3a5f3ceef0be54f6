import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge

from peerattn.evaluation import WalkForward, compare, r2_out_of_sample
from peerattn.evaluation.comparison import Comparison, ModelNote
from peerattn.evaluation.inference.forecast_tests import p_words
from peerattn.evaluation.report.answer import r2_intervals
from peerattn.evaluation.report.verdict import robustness
from peerattn.exceptions import InputError
from peerattn.models.industry import IndustryPeerRegressor
from peerattn.models.wild_bootstrap import wild_cluster_p
from peerattn.network import PeerNetwork
from peerattn.panel.columns import ColumnChoice

NASTY = "<script>alert(1)</script> & $x$ {{ 7*7 }} αβ'\""


def made(n_periods=12, n_firms=20, noise=(0.5, 1.0), seed=0, peers=(), task="forecast", names=None):
    """A comparison of forecasts with given noise; the first is the baseline."""
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(2001, 2001 + n_periods), n_firms)
    y = rng.normal(size=len(period))
    names = names or [f"Model {k}" for k in range(len(noise))]
    forecasts = {name: y + size * rng.normal(size=len(y)) for name, size in zip(names, noise, strict=True)}
    frame = pd.DataFrame({"firm": np.tile(np.arange(n_firms), n_periods), "period": period, "outcome": y})
    frame = frame.assign(**forecasts, **{"Prevailing mean": 0.01})
    frame.loc[3, "outcome"] = np.nan
    notes = tuple(
        ModelNote(name, "peer model" if name in peers else "plain regressor", False, f"{name}()")
        for name in (*names, "Prevailing mean")
    )
    return Comparison(
        frame,
        np.full(len(frame), 0.01),
        notes,
        names[0],
        task,
        "roa_next",
        choice=ColumnChoice(("size", "lev"), ("sic",), {"ret_next": "looks like another outcome"}),
        settings={"split": "WalkForward()", "pandas": "3.0"},
    )


@pytest.fixture(scope="module")
def real():
    rng = np.random.default_rng(3)
    index = pd.MultiIndex.from_product(
        [[f"F{i:02d}" for i in range(12)], range(2001, 2015)], names=["firm", "period"]
    )
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index=index)
    X["sic"] = [["3711", "2911", "3570", "3571"][int(firm[1:]) % 4] for firm, _ in index]
    y = (X["size"] + rng.normal(size=len(index))).rename("roa_next")
    models = {NASTY: IndustryPeerRegressor(industry="sic"), "OLS": LinearRegression()}
    return compare(models, X, y, cv=WalkForward(10, 5), verbose=False)


def test_scores_use_the_common_sample_and_the_prevailing_mean():
    result = made()
    frame = result.predictions.dropna()
    assert result.n_outcomes == len(frame) == 239
    expected = 1 - ((frame["outcome"] - frame["Model 1"]) ** 2).sum() / ((frame["outcome"] - 0.01) ** 2).sum()
    assert result.scores.loc["Model 1", "r2_mean"] == pytest.approx(expected)
    assert result.scores.loc["Model 1", "r2_zero"] == pytest.approx(
        r2_out_of_sample(frame["outcome"], frame["Model 1"])
    )
    assert result.scores.loc["Prevailing mean", "r2_mean"] == pytest.approx(0)
    assert np.isnan(result.scores.loc["Model 0", "dm_t"])
    assert set(result.tests) == {"Model 1", "Prevailing mean"}
    assert result.tests["Model 1"].statistic < 0
    assert result.losses.shape == (12, 3)


def test_the_table_has_words_where_there_is_no_number():
    long, short = made().table(), made(n_periods=2).table()
    assert long.loc["Model 0", "DM t"] == "baseline" and isinstance(long.loc["Model 1", "DM t"], float)
    assert short.loc["Model 1", "DM t"] == "n/a (T=2)" and short.loc["Model 1", "IC t"] == "n/a (T=2)"
    for result in (made(), made(n_periods=2), made(n_periods=1)):
        shown = str(result) + result._repr_html_()
        assert "nan" not in shown.lower() and "*" not in shown
    assert made().table(["mae"]).columns.tolist() == ["MAE"]
    with pytest.raises(InputError, match="no metric is named 'maee'.*'mae'"):
        made().table(["maee"])


@pytest.mark.parametrize("n_periods", [1, 2, 12])
@pytest.mark.parametrize("task", ["forecast", "explain"])
def test_the_text_fits_the_terminal(n_periods, task):
    result = made(n_periods, task=task, names=["Own characteristics (OLS)", "Kernel"])
    for width in (80, 100):
        assert max(map(len, result.text(width).splitlines())) <= width
    assert result.text(100).count("Kernel") >= 1
    heads = [line for line in result.text(100).splitlines() if line.startswith("Model ")]
    assert len(heads) == 1  # one block


def test_the_table_is_as_wide_as_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, str(made()).splitlines())) <= 60


def test_repr_is_one_line():
    assert repr(made()) == (
        "Comparison(forecast of roa_next: 3 models, baseline 'Model 0', 20 firms, 12 periods, 239 outcomes)"
    )


def test_a_control_that_wins_is_said_to_win():
    words = made(noise=(1.5, 0.5), peers=["Model 0"]).summary()
    assert words[0].startswith("Model 1, a control that uses no peers, has the smallest squared error: R² ")
    assert (
        "below that of the baseline, Model 0; significant at the 5% level, the search among 2 models accounted for "
        "(Diebold–Mariano, one-sided p = " in words[0]
    )


def test_peers_that_win_are_set_against_the_best_control():
    words = made(36, noise=(1.5, 0.3, 0.6), peers=["Model 1"]).summary()
    assert words[0].startswith("Model 1, a peer model, ")
    assert words[1].startswith(
        "Do peers help? Yes: the mean squared error of Model 1, the best peer model, is 7"
    )
    assert "below that of the best control, Model 2; significant" in words[1]


def test_peers_that_lose_are_said_to_lose():
    words = made(36, noise=(1.5, 0.3, 1.0), peers=["Model 0", "Model 2"]).summary()
    assert words[1].startswith(
        "Do peers help? No: the mean squared error of Model 2, the best peer model, is "
    )
    assert words[1].endswith("times that of the best control, Model 1.")


def test_a_gain_of_one_lucky_period_may_be_chance():
    result = replace(made(noise=(1.0, 1.0)), baseline="Prevailing mean")
    frame = result.predictions
    lucky = frame["Prevailing mean"].where(frame["period"] != 2005, frame["outcome"].fillna(0))
    words = replace(result, predictions=frame.assign(**{"Model 1": lucky})).summary()
    assert words[0].startswith("Model 1, a control that uses no peers, has the smallest squared error: R² 0.")
    assert "not significant, the search among 2 models accounted for: it may be chance" in words[0]
    (decided,) = (said for said in words if said.startswith("A handful of rows decides this"))
    errors = (frame["outcome"] - frame["Prevailing mean"]) ** 2
    kept = errors[frame["period"] != 2005].sum() / errors.sum()
    assert f"is {kept:.3f};" in decided and "1.00 without any one period (2005 moves it most)" in decided


def test_a_gain_in_the_common_level_alone_is_said_to_be_one():
    result = made(noise=(1.0, 1.0))
    frame = result.predictions.copy()
    frame["outcome"] += np.sin(frame["period"])
    frame["Model 0"] = 5.0
    frame["Model 1"] = np.sin(frame["period"]) - 0.1 * (frame["outcome"] - np.sin(frame["period"]))
    words = replace(result, predictions=frame).summary()
    assert words[0].startswith("Model 1, a control")
    assert (
        words[1].startswith("That gain is in the level that all firms of a period share")
        and "(R² within period -0." in words[1]
    )
    frame["Model 1"] = frame["outcome"].fillna(0) * 0.9
    assert not any(
        "That gain is in the level" in word for word in replace(result, predictions=frame).summary()
    )


def test_no_gain_is_said_plainly():
    words = made(noise=(3.0, 4.0)).summary()
    assert words[0].startswith(
        "No gain: no model has a smaller squared error than the prevailing mean (best: Prevailing"
    )


def test_a_baseline_that_wins():
    assert made().summary()[0].endswith("against the prevailing mean. No model beats the baseline, Model 0.")


def test_one_ground_for_all_tests_over_time():
    """A gain that grows period by period: one degree of freedom, in Diebold and Mariano's test as in the joint one."""
    result = made(n_periods=20, n_firms=200, noise=(1.0, 1.0), peers=["Model 1"])
    frame = result.predictions
    shrinks = (frame["period"] - 2001) / 20
    ours = frame["outcome"] + (1 - 0.7 * shrinks) * (frame["Model 1"] - frame["outcome"])
    result = replace(result, predictions=frame.assign(**{"Model 1": ours}))
    assert result.tests["Model 1"].freedom == 1 and result.tests["Model 1"].p_value > 0.05
    assert "Model 1" not in result.superior().superior
    assert result.summary()[1].startswith("Do peers help? Not shown")


def test_few_periods_have_no_test_over_time():
    words = " ".join(made(2, noise=(1.5, 0.5)).summary())
    assert "2 periods are too few for a test over time: what differs in these may not in others." in words
    assert "1 period is too few" in " ".join(made(1, noise=(1.5, 0.5)).summary())
    assert "significant" not in words
    given = r"\(paired, one-sided, clustered by firm, given these 2 periods: p [<=] [\d.]+, the search among "
    assert re.search(given + "2 models accounted for", words)


def test_the_headline_takes_the_joint_test():
    """One of many equally good models looks significant on its own; the headline does not say so."""
    result = made(noise=(1.0,) * 25, seed=3)
    best = result.scores["rmse"].idxmin()
    assert result.tests[best].p_value < 0.05 and best not in result.superior().superior
    (headline, *_) = result.summary()
    assert "not significant, the search among 25 models accounted for: it may be chance" in headline
    assert p_words(result.superior().p_value) in headline and "; significant" not in " ".join(
        result.summary()
    )


def test_whether_peers_help_is_always_answered():
    def answer(*args, **options):
        (said,) = (word for word in made(*args, **options).summary() if word.startswith("Do peers help?"))
        return said

    assert answer() == "Do peers help? This comparison cannot tell: it has no peer model."
    alone = answer(n_periods=4, noise=(1.5, 0.3), peers=["Model 1"])
    assert alone.startswith("Do peers help? Yes, in these 4 periods: the mean squared error of Model 1, the ")
    assert alone.endswith("(paired, one-sided, clustered by firm, given these 4 periods: p < 0.001).")
    assert "Not shown" in answer(n_periods=1, noise=(1.0, 0.9), peers=["Model 1"], seed=3)
    many = {
        "n_periods": 4,
        "noise": (1.0, 0.95, 0.9, 3.0),
        "peers": ["Model 1", "Model 2", "Model 3"],
        "seed": 3,
    }
    p = made(**many).test("Model 2", "Model 0").test.p_value / 2
    assert f"{p_words(min(1, 3 * p))}, the search among 3 peer models accounted for" in answer(**many)
    assert answer(n_periods=4, n_firms=1, noise=(1.5, 0.3), peers=["Model 1"]).startswith(
        "Do peers help? It cannot be tested here: the mean squared error of Model 1, the best peer model, is "
    )
    assert "Not shown" in answer(noise=(0.5, 0.48), peers=["Model 1"], seed=3)


def test_shocks_of_industries_are_no_gain_of_peers():
    """One period, errors that the firms of an industry share: by firm the gain is sure, by industry it is not."""
    rng = np.random.default_rng(4)
    industry = np.arange(600) % 12
    result = made(n_periods=1, n_firms=600, noise=(1.0, 0.9), peers=["Model 1"])
    frame = result.predictions.copy()
    shared = 0.7 * rng.normal(size=12)[industry]
    frame["Model 0"] = frame["outcome"] + shared + 0.3 * rng.normal(size=600)
    frame["Model 1"] = frame["outcome"] + 0.5 * rng.normal(size=12)[industry] + 0.3 * rng.normal(size=600)
    labels = pd.Series(
        industry.astype(str), pd.MultiIndex.from_frame(frame[["firm", "period"]]), dtype=object
    )
    labels.iloc[:20] = "unknown"
    result = replace(result, predictions=frame, groups={"sic": labels, "size, fifths": labels})
    (said,) = (words for words in result.summary() if words.startswith("Do peers help?"))
    gain = (frame["outcome"] - frame["Model 0"]) ** 2 - (frame["outcome"] - frame["Model 1"]) ** 2
    known, cluster = gain.notna(), labels.to_numpy().copy()
    cluster[:20] = [f"alone {k}" for k in range(20)]
    none, one = np.zeros((known.sum(), 0)), np.ones((known.sum(), 1))
    p = wild_cluster_p(gain[known].to_numpy(), none, one, pd.factorize(cluster[known])[0], n_draws=9_999)
    assert f"(paired, one-sided, clustered by sic, given this period: {p_words(p / 2)})" in said
    by_firm = replace(result, groups={})
    assert by_firm.test("Model 1", "Model 0").test.p_value < 0.001 < 0.05 < p and "Not shown" in said
    assert "clustered by firm" in " ".join(by_firm.summary())
    by_industry = result.test("Model 1", "Model 0").test
    assert by_industry.test == "paired by sic" and by_industry.p_value == pytest.approx(p)
    assert "clustered by sic, 31 clusters" in str(by_industry)
    (wide, how), (narrow, _) = (r2_intervals(each, "Model 0") for each in (result, by_firm))
    assert how == "clustered by firm or sic, the wider, given these periods"
    assert (
        wide.loc["Model 1", "high"] - wide.loc["Model 1", "r2"]
        > 2 * (narrow["high"] - narrow["r2"])["Model 1"]
    )


def test_of_models_that_share_the_smallest_error_a_control_is_named():
    """A peer model that equals its control has no merit of its own."""
    result = made(noise=(1.0, 0.5, 0.5), peers=["Model 1"])
    result = replace(
        result, predictions=result.predictions.assign(**{"Model 1": result.predictions["Model 2"]})
    )
    words = result.summary()
    assert words[0].startswith("Model 2, a control that uses no peers, has the smallest squared error")
    assert words[1] == "Do peers help? No: Model 1, the best peer model, predicts the same as Model 2."


def test_a_gain_over_least_squares_alone_may_be_curvature():
    names = ["Peers", "Own characteristics (OLS)", "Gradient boosting"]
    curved = made(noise=(0.6, 1.0, 0.5), peers=["Peers"], names=names).summary()
    assert any(
        said.startswith("Peers improves on OLS with own characteristics (its mean squared error is 5")
        and said.endswith("the gain may be curvature of own characteristics rather than peers.")
        for said in curved
    )
    real = made(40, noise=(0.3, 1.0, 0.6), peers=["Peers"], names=names).summary()
    none = made(noise=(1.5, 1.0, 0.6), peers=["Peers"], names=names).summary()
    assert "curvature" not in " ".join(real + none)


def test_an_empty_network_orders_no_firms():
    result = made(noise=(0.3, 1.0), peers=["Model 0"])
    firms = [f"F{i}" for i in range(3)]
    empty = PeerNetwork.from_matrices({2012: (firms, firms, np.zeros((3, 3)))})
    words = replace(result, networks={"Model 0": empty}).summary()
    assert "a peer model whose network is empty" in words[0] and words[1].startswith("Do peers help? No: ")
    assert words[-1].endswith(
        "is that of Model 0; its network is empty, so the order is that of its own term."
    )


def test_a_gain_that_is_mostly_one_firms_is_said_to_be():
    result = made(noise=(0.5, 1.0), peers=["Model 0"])
    frame = result.predictions.copy()
    spread_out = result.summary()[1]
    first = frame["firm"].iloc[0]
    frame.loc[frame["firm"] == first, ["Model 1", "Prevailing mean"]] += 30
    assert result.summary()[1].startswith("Do peers help? ") and "of that gain is in one" not in spread_out
    assert f"of that gain is in one firm, {first}." in replace(result, predictions=frame).summary()[1]


def test_leaving_out_equals_a_literal_loop():
    result = made(noise=(1.0, 0.5))
    ((said, decides),) = robustness(result)
    frame = result.predictions.dropna()
    for what in ("firm", "period"):
        ratios = []
        for label in frame[what].unique():
            left = frame[frame[what] != label]
            ours, theirs = (((left["outcome"] - left[name]) ** 2).sum() for name in ("Model 1", "Model 0"))
            ratios.append(ours / theirs)
        assert f"{min(ratios):#.3g} and {max(ratios):#.3g} without any one {what}" in said
    assert not decides and said.startswith("No single firm or period decides this")


def test_parquet_holds_all_predictions(real, tmp_path):
    path = real.to_parquet(tmp_path / "predictions.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(path), real.predictions)
    with pytest.raises(InputError, match="cannot write"):
        real.to_parquet(tmp_path / "missing" / "predictions.parquet")


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.sections, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "section":
            self.sections.append(dict(attrs)["id"])
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("#", "data:")), value

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_safe_and_offline(real, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # matplotlib's complaints about names
        text = real.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags
    assert page.sections == [
        "findings",
        "the-comparison",
        "statistical-tests",
        "over-time",
        "sorted-by-forecast",
        "calibration",
        "the-ladder",
        "whom-firms-look-to",
        "performance-by-subgroup",
        "descriptive-statistics",
        "the-sample-and-its-limits",
        "inputs",
        "reproduction",
    ]
    words = " ".join(page.words)
    assert NASTY in words and "{{ 7*7 }}" in words
    for needed in (
        "not causal peer effects",
        "reflection problem",
        "Prevailing mean",
        "MAE",
        "Goyal and Welch",
        "By year of the row",
        "scikit-learn",
    ):
        assert needed in words
    assert page.tags.count("svg") == 6 and page.tags.count("iframe") == 1
    assert "nan" not in re.sub(r"<(svg|iframe).*?</\1>", "", text, flags=re.DOTALL).lower()


def test_codes_are_clusters_whether_named_as_groups_or_not():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(48), range(2001, 2009)], names=["firm", "period"])
    sector = pd.Series([f"s{firm % 12:02d}" for firm, _ in index], index)
    X = pd.DataFrame({"size": rng.normal(size=len(index)), "sector": sector})
    y = (
        X["size"]
        + 2 * rng.normal(size=(12, 8))[index.get_level_values(0) % 12, index.get_level_values(1) - 2001]
    )
    models = {"OLS": LinearRegression(), "Mean": DummyRegressor()}
    options = {"cv": WalkForward(2, 2), "verbose": False}
    plain, named = (compare(models, X, y, groups=groups, **options) for groups in ((), ["sector"]))
    assert plain.summary() == named.summary()
    assert "clustered by sector" in " ".join(plain.summary())


def test_the_page_of_a_short_panel(tmp_path):
    for n_periods, pictures in ((1, 2), (2, 4)):
        text = made(n_periods).to_html(tmp_path / "report.html").read_text(encoding="utf-8")
        page = Page(text)
        words = " ".join(page.words)
        assert page.tags.count("svg") == pictures
        assert (
            f"T = {n_periods} period{'s are' * (n_periods > 1) or ' is'} too few" in words
            and "DM t" not in words
        )
        assert "12 are needed for a test over time" in words
    assert "Over time" not in made(1).to_html(tmp_path / "a.html").read_text(encoding="utf-8")


def test_an_empty_network_is_said_to_be_empty(real, tmp_path):
    firms = [f"F{i:02d}" for i in range(12)]
    empty = PeerNetwork.from_matrices({2014: (firms, firms, np.zeros((12, 12)))})
    [(name, network)] = real.networks.items()
    alone = replace(real, networks={name: empty})
    text = alone.to_html(tmp_path / "a.html").read_text(encoding="utf-8")
    assert "found no peers that help to predict: its network is empty." in text and text.count("<svg") == 4
    models = (*real.models, ModelNote("Learned", "peer model", False, "PeerAttentionRegressor()"))
    frame = real.predictions.assign(Learned=0.5)
    both = replace(real, predictions=frame, models=models, networks={name: network, "Learned": empty})
    text = both.to_html(tmp_path / "a.html").read_text(encoding="utf-8")
    worse = replace(both, predictions=frame.assign(Learned=5.0))
    said = "Learned kept no peers: the network is empty, and it predicts from its own term alone."
    assert said in worse.summary()
    assert said not in replace(worse, networks={name: network}).summary()
    assert "Learned found no peers" in text and text.count("<svg") == 6


def test_periods_survive_parquet(tmp_path):
    result = made()
    months = pd.PeriodIndex([pd.Period(year=y, month=6, freq="M") for y in result.predictions["period"]])
    monthly = replace(result, predictions=result.predictions.assign(period=months))
    back = pd.read_parquet(monthly.to_parquet(tmp_path / "p.parquet"))
    pd.testing.assert_frame_equal(back, monthly.predictions)
    assert "(2001-06 to 2012-06)" in monthly.sample
    monthly.to_html(tmp_path / "p.html")


def test_two_reports_of_one_comparison_are_equal(real, tmp_path):
    first, second = (real.to_html(tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_dates_read_as_dates(tmp_path):
    months = pd.date_range("2010-01-31", periods=30, freq="ME")
    index = pd.MultiIndex.from_product([range(8), months], names=["firm", "period"])
    X = pd.DataFrame({"size": np.random.default_rng(0).normal(size=len(index))}, index=index)
    result = compare({"Ridge": Ridge()}, X, X["size"].rename("y") ** 2, cv=WalkForward(28, 28), verbose=False)
    assert "(2010-03-31 to 2012-06-30)" in result.sample
    text = result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "00:00" not in text
