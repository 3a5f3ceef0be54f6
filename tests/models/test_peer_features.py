"""Peer columns: by hand, without the own firm and without the future, and in scikit-learn's machinery."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

from peerattn import NadarayaWatsonRegressor, PeerNetwork, WalkForward, audit, compare, simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import PeerFeatures
from peerattn.panel import read_panel

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([[f"F{k:02d}" for k in range(24)], range(2001, 2011)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(240, 2)), index=index, columns=["size", "roe"])
    X["sector"] = np.repeat(rng.choice(list("ABC"), 24), 10)
    X.iloc[rng.choice(240, 20, replace=False), 0] = np.nan
    y = pd.Series(rng.normal(size=240), index=index, name="q")
    y.iloc[rng.choice(240, 15, replace=False)] = np.nan
    return X.sample(frac=1, random_state=0), y


def by_hand(X, column, sector=True):
    rows = {}
    for firm, period in X.index:
        section = X.xs(period, level="period")
        peers = section[section["sector"] == section.loc[firm, "sector"]] if sector else section
        values = peers.drop(index=firm)[column].dropna()
        own = X.loc[(firm, period), column]
        below = (values < own).mean() + 0.5 * (values == own).mean() if np.isfinite(own) and len(values) else np.nan
        rows[firm, period] = (values.mean(), values.std(ddof=0), below)
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "std", "rank"]).reindex(X.index)


def test_over_a_code_by_hand(panel):
    X, _ = panel
    found = PeerFeatures(over=["sector"], statistics=("mean", "std", "rank")).fit_transform(X)
    assert found.index.equals(X.index)
    for name in ("size", "roe"):
        expected = by_hand(X, name)
        for statistic in expected:
            column = found[f"{name}_{statistic}_sector"]
            expected[statistic] = expected[statistic].fillna(expected[statistic].median())
            np.testing.assert_allclose(column, expected[statistic], atol=1e-12)


@pytest.mark.parametrize("level", [0.0, 2.0**23])
def test_a_given_network_equals_the_groups_it_is_made_of(panel, level):
    X = panel[0].assign(size=panel[0]["size"] + level)
    matrices = {}
    for period, section in X.groupby(level="period"):
        firms = section.index.get_level_values("firm")
        same = (section["sector"].to_numpy()[:, None] == section["sector"].to_numpy()).astype(float)
        np.fill_diagonal(same, 0.0)
        matrices[period] = (firms, firms, same / np.maximum(same.sum(axis=1, keepdims=True), 1.0))
    options = {"statistics": ("mean", "std", "rank"), "keep": False}
    given = PeerFeatures(network=PeerNetwork.from_matrices(matrices), **options).fit_transform(X)
    groups = PeerFeatures(over=["sector"], **options).fit_transform(X)
    np.testing.assert_allclose(given, groups, rtol=1e-12, atol=1e-8)


def test_a_given_network_answers_later_and_firms_it_lacks_have_no_peers(panel):
    X, y = panel
    firms, periods = (X.index.unique(level).sort_values() for level in ("firm", "period"))
    few = firms[:3]
    W = pd.DataFrame(np.full((3, 3), 0.5) * (1 - np.eye(3)), few, few)
    network = PeerNetwork.from_matrices({periods[1]: W})
    model = PeerFeatures(network=network, columns=["size"], keep=False)
    later = X[X.index.get_level_values("period") > periods[1]]
    found = model.fit_transform(later)["size_mean_network"]
    here = later["size"].xs(periods[3], level="period").reindex(few)
    there = found.xs(periods[3], level="period")
    np.testing.assert_allclose(there[few], [here.drop(firm).mean() for firm in few])
    assert (there[~there.index.isin(few)] == found[found.index.isin(few, level="firm")].median()).all()
    with pytest.raises(InputError, match="network starts in"):
        model.fit(X)
    with pytest.raises(InputError, match="none of its firms, such as 'no one'"):
        others = PeerNetwork.from_matrices({None: (["nobody"], ["no one"], np.ones((1, 1)))})
        PeerFeatures(network=others).fit(X)


def test_a_network_that_was_learned_from_the_outcomes_of_the_rows_is_refused(panel):
    X, y = panel
    numbers = X[["size"]]
    learned = NadarayaWatsonRegressor().fit(numbers, y).peer_network(numbers, outcomes=y)
    assert learned.learned_until is not None
    with pytest.raises(InputError, match="network was learned from outcomes until"):
        PeerFeatures(network=learned, of="outcomes").fit(numbers, y)


def test_own_values_and_later_outcomes_move_nothing(panel):
    X, y = panel
    model = PeerFeatures(over=["sector"], of="outcomes", statistics=("mean", "std"), keep=False)
    before = model.fit_transform(X, y)
    later = y.copy()
    later[later.index.get_level_values("period") >= 2006] = 99.0
    after = PeerFeatures(**model.get_params()).fit_transform(X, later)
    until = X.index.get_level_values("period") <= 2006
    pd.testing.assert_frame_equal(before[until], after[until], check_exact=False, atol=1e-3)  # medians of all rows
    assert not np.allclose(before[~until], after[~until])
    own = y.copy()
    own["F03"] = 50.0
    moved = PeerFeatures(**model.get_params()).fit_transform(X, own)
    known = X.index.get_level_values("period") > 2001
    pd.testing.assert_frame_equal(moved[known].loc["F03"], before[known].loc["F03"])


@pytest.mark.parametrize("horizon", [1, 2])
def test_known_outcomes_by_hand(panel, horizon):
    X, y = panel
    found = PeerFeatures(of="outcomes", keep=False, horizon=horizon).fit_transform(X, y)["q_mean_peers"]
    wide = y.unstack("period").ffill(axis=1)
    for firm, period in X.index[:60]:
        if period >= 2001 + horizon:
            assert found[firm, period] == pytest.approx(wide[period - horizon].drop(firm).mean(), abs=1e-12)


@pytest.mark.parametrize("horizon", [1, 3])
def test_a_learned_network_is_cross_fitted(panel, horizon):
    """On the periods outside of the block, without those whose outcomes overlap with its own."""
    X, y = panel
    X = X.assign(size=X["size"].fillna(0.0))
    learned = PeerFeatures(network=NadarayaWatsonRegressor(bandwidth=1.0), columns=["roe"], keep=False, horizon=horizon)
    inside = learned.fit_transform(X, y.fillna(0.0))
    outside = PeerFeatures(**learned.get_params(deep=False)).fit(X, y.fillna(0.0)).transform(X)
    assert not np.allclose(inside, outside)
    last = X.index.get_level_values("period") >= 2009
    rows = X.index.get_level_values("period") < 2009 - horizon
    alone = NadarayaWatsonRegressor(bandwidth=1.0).fit(X[rows].sort_index(), y.fillna(0.0)[X[rows].sort_index().index])
    W = alone.peer_network(X[last]).matrix(2009)
    here = X[last].xs(2009, level="period")
    W = W.reindex(index=here.index, columns=here.index, fill_value=0.0).to_numpy(copy=True)
    np.fill_diagonal(W, 0.0)
    expected = (W / W.sum(axis=1, keepdims=True)) @ here["roe"].to_numpy()
    np.testing.assert_allclose(inside.xs(2009, level="period").loc[here.index].iloc[:, 0], expected, atol=1e-10)
    with pytest.raises(InputError, match="no period is 9 before or after"):
        learned.set_params(horizon=9).fit_transform(X, y.fillna(0.0))


def test_pipeline_search_and_output(panel):
    X, y = panel
    X, y = (
        X.sort_index(level=["period", "firm"])[y.reindex(X.sort_index(level=["period", "firm"]).index).notna()],
        y.dropna(),
    )
    y = y[X.index]
    model = make_pipeline(PeerFeatures(over=["sector"]), HistGradientBoostingRegressor(max_iter=5))
    search = GridSearchCV(
        model,
        {"peerfeatures__statistics": [("mean",), ("mean", "rank")]},
        cv=WalkForward(2, 2),
        error_score="raise",
    ).fit(X, y)
    assert search.predict(X).shape == (len(X),)
    assert isinstance(PeerFeatures(over=["sector"]).set_output(transform="pandas").fit(X).transform(X), pd.DataFrame)
    assert list(PeerFeatures(over=["sector"]).fit(X).get_feature_names_out())[:3] == [
        "size",
        "roe",
        "size_mean_sector",
    ]


def test_it_helps_where_peers_matter_and_passes_the_audit():
    """Neighbours' mean x in the outcome: a ridge finds it by the columns; the audit finds no leak."""
    made = simulate_panel(40, 16, 2, n_industries=5, truth="industry", signal_share=0.8, random_state=0)
    with_peers = Pipeline([("peers", PeerFeatures(over=["industry"])), ("ridge", Ridge())])
    report = compare({"With": with_peers}, made, cv=WalkForward(4, 4), decomposition=False, verbose=False)
    assert report.scores.loc["With", "r2_mean"] > report.scores.loc["Own characteristics (OLS)", "r2_mean"] + 0.3
    found = audit(with_peers, made, cv=WalkForward(4, 4))
    assert found.passed, str(found)


def test_the_audit_changes_no_number_into_what_is_no_code():
    made = simulate_panel(40, 12, 2, n_industries=4, random_state=0)
    X = made.X.assign(fifth=np.arange(len(made.X)) % 5 + 1).drop(columns="industry")
    found = audit(make_pipeline(PeerFeatures(over=["fifth"]), Ridge()), X, made.y, cv=WalkForward(4, 4))
    assert "future values change nothing" not in found.refuted


@pytest.mark.parametrize(
    "options, word",
    [
        ({"over": ["sic"]}, "over"),
        ({"statistics": ("median",)}, "statistics"),
        ({"of": "prices"}, "of"),
        ({"of": "outcomes", "statistics": ("rank",)}, "statistics"),
        ({"over": ["sector"], "network": NadarayaWatsonRegressor()}, "network"),
        ({"network": Ridge()}, "network"),
        ({"columns": ["lev"]}, "columns"),
        ({"over": "sector"}, "over: expected a list"),
        ({"statistics": "mean"}, "statistics: expected a list"),
    ],
)
def test_refusals(panel, options, word):
    X, y = panel
    with pytest.raises(InputError) as refused:
        PeerFeatures(**options).fit(X, y)
    assert word in str(refused.value)


YEARS = pd.MultiIndex.from_product([list("ABCD"), range(2001, 2011)], names=["firm", "period"])
COUNT = YEARS.get_level_values("period") - 2000.0


def test_outcomes_count_from_their_dates_on():
    frame = pd.DataFrame({"s": np.arange(40.0), "y_next": COUNT, "filed": COUNT.astype(int) + 2004}, YEARS).reset_index()
    panel = read_panel(frame, outcome="y_next", known_at="filed")
    found = PeerFeatures(of="outcomes", keep=False).fit_transform(panel).loc["A"].iloc[:, 0]
    assert found.tolist() == [0, 0, 0, 0, 1, 2, 3, 4, 5, 6]


def test_an_outcome_filed_late_does_not_replace_that_of_a_later_period():
    frame = pd.DataFrame({"s": np.arange(40.0), "y_next": COUNT, "filed": COUNT.astype(int) + 2001}, YEARS)
    frame.loc[YEARS.get_level_values("period") == 2003, "filed"] = 2008
    panel = read_panel(frame.reset_index(), outcome="y_next", known_at="filed")
    found = PeerFeatures(of="outcomes", keep=False).fit_transform(panel).loc["A"].iloc[:, 0]
    assert found.tolist() == [0, 1, 2, 2, 4, 5, 6, 7, 8, 9]


def test_the_horizon_counts_periods_of_fit_and_call():
    X = pd.DataFrame({"s": np.arange(40.0)}, YEARS)
    y = pd.Series(COUNT, YEARS)
    past = COUNT <= 6
    features = PeerFeatures(of="outcomes", keep=False, horizon=3)
    assert features.fit_transform(X[past], y[past]).loc["A"].iloc[:, 0].tolist() == [0, 0, 0, 1, 2, 3]
    assert features.transform(X[~past]).loc["A"].iloc[:, 0].tolist() == [4, 5, 6, 6]


@pytest.mark.parametrize(
    "options", [{"horizon": 0}, {"horizon": 1.5}, {"n_blocks": 1}, {"over": -1}, {"columns": 3}, {"keep": 3}, {"statistics": []}]
)
def test_options_of_a_wrong_kind_are_named(options):
    X = pd.DataFrame({"s": np.arange(40.0)}, YEARS)
    (name,) = options
    with pytest.raises(InputError, match=f"^{name}: expected"):
        PeerFeatures(**options).fit(X, pd.Series(COUNT, YEARS))


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.PeerAttnWarning")
def test_codes_of_rows_without_labels_by_hand():
    """The pool is the training rows, those of the code; a training row is in it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=30) + 3, "sector": rng.choice(list("abc"), 30)})
    made = PeerFeatures(over=["sector"], statistics=("mean", "std", "rank"), keep=False).fit(X)
    new = pd.DataFrame({"size": [2.5, 4.0], "sector": ["a", "c"]})
    for rows in (X, new):
        found = made.transform(rows).to_numpy()
        pools = [X.loc[X["sector"] == code, "size"].to_numpy() for code in rows["sector"]]
        ranks = [np.mean((pool < x) + 0.5 * (pool == x)) for pool, x in zip(pools, rows["size"], strict=True)]
        expected = np.column_stack([[p.mean() for p in pools], [p.std() for p in pools], ranks])
        np.testing.assert_allclose(found, expected)
