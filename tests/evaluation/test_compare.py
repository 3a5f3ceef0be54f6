import re
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peerattn import Reference
from peerattn.datasets import simulate_panel
from peerattn.evaluation import IntervalRegressor, ShortPanelWarning, WalkForward, compare, supports
from peerattn.evaluation.running.entries import entries_of
from peerattn.exceptions import InputError, IsolateWarning, PossibleLeakWarning
from peerattn.models import (
    CovariancePeerRegressor,
    CrossSectionalRidge,
    NadarayaWatsonRegressor,
    OwnCharacteristicsRegressor,
    OwnHistoryRegressor,
    PanelEstimator,
    PanelRegressorMixin,
    PeerAttentionRegressor,
    PeerFeatures,
)
from peerattn.models.forecasters import make_model
from peerattn.models.industry import IndustryPeerRegressor
from peerattn.panel import PanelEncoder, read_panel, scan_panel

ONE, CV = WalkForward(test_periods=4, refit_every=4), WalkForward(test_periods=4, refit_every=2)

pytestmark = pytest.mark.usefixtures("fewest_steps", "blank_pictures")  # what is found is beside the point


@pytest.fixture
def flat():
    """A ragged annual panel of 12 firms in three industries, with gaps and unknown outcomes."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        [(f"F{i:02d}", year, [3711, 2911, 3570][i % 3]) for i in range(12) for year in range(2001, 2013)],
        columns=["gvkey_name", "fyear", "sic"],
    )
    frame = frame[rng.random(len(frame)) < 0.9].reset_index(drop=True)
    frame["size"], frame["lev"] = rng.normal(size=(2, len(frame)))
    industry = frame["sic"].map({3711: 1.0, 2911: 0.0, 3570: -1.0})
    frame["roa_next"] = frame["size"] + industry + 0.3 * rng.normal(size=len(frame))
    frame["ret_next"] = rng.normal(size=len(frame))
    frame.loc[frame.index % 11 == 3, "lev"] = np.nan
    frame.loc[frame.index % 13 == 5, "roa_next"] = np.nan
    frame.loc[frame["fyear"] == 2012, "roa_next"] = np.nan
    return frame


@pytest.fixture
def panel(flat):
    return read_panel(flat, outcome="roa_next", firm="gvkey_name", period="fyear", industry="sic")


def run(models, panel, **options):
    """Compare over one fold; ``cv=CV`` where it matters that models are fitted again."""
    return compare(models, panel, **{"cv": ONE, "decomposition": False, "verbose": False} | options)


class Recorder(RegressorMixin, BaseEstimator):
    """Predicts zero and keeps what it was given."""

    seen: list = []

    def fit(self, X, y):
        Recorder.seen.append((X, np.asarray(y)))
        return self

    def predict(self, X):
        Recorder.seen.append((X, None))
        return np.zeros(len(X))


class PeerRecorder(IndustryPeerRegressor):
    seen: list = []

    def fit(self, X, y, sample_weight=None):
        PeerRecorder.seen.append((X, y))
        return super().fit(X, y)

    def predict(self, X, *, outcomes=None):
        PeerRecorder.seen.append((X, outcomes))
        return super().predict(X, outcomes=outcomes)


class Broken(Ridge):
    def __init__(self, how="nan", alpha=1.0):
        super().__init__(alpha=alpha)
        self.how = how

    def predict(self, X):
        predicted = super().predict(X)
        if self.how == "nan":
            predicted[1] = np.nan
        elif self.how == "short":
            return predicted[:-1]
        elif self.how == "labels":
            return pd.Series(predicted, index=X.index[::-1])
        return predicted


class NoEstimator:
    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


class OwnPeers(PanelRegressorMixin, PanelEstimator):
    """A peer model of a user's own, by public methods alone."""

    information = "peers"

    def fit(self, X, y=None):
        self.base_ = IndustryPeerRegressor(industry="sic").fit(X, y)
        return self

    def predict(self, X, *, outcomes=None):
        return self.base_.predict(X, outcomes=outcomes)

    def peer_network(self, X, *, outcomes=None):
        return self.base_.peer_network(X, outcomes=outcomes)


@pytest.fixture(autouse=True)
def forget():
    Recorder.seen.clear()
    PeerRecorder.seen.clear()


def test_predictions_equal_a_literal_loop(panel):
    result = run({"Ridge": Ridge(alpha=2.0)}, panel, cv=CV)
    year = panel.X.index.get_level_values("period")
    for tested, last_learned in (((2008, 2009), 2007), ((2010, 2011), 2009)):
        learn, ask = year <= last_learned, year.isin(tested)
        encoder = PanelEncoder().fit(panel.X[learn])
        known = panel.y[learn].notna().to_numpy()
        model = Ridge(alpha=2.0).fit(encoder.transform(panel.X[learn])[known], panel.y[learn][known])
        expected = pd.Series(model.predict(encoder.transform(panel.X[ask])), index=panel.X.index[ask])
        own = [name for name in encoder.get_feature_names_out() if not name.startswith("sic=")]
        ols = LinearRegression().fit(encoder.transform(panel.X[learn])[known][own], panel.y[learn][known])
        expected_ols = pd.Series(ols.predict(encoder.transform(panel.X[ask])[own]), index=panel.X.index[ask])
        got = result.predictions[result.predictions["period"].isin(tested)].set_index(["firm", "period"])
        for name, want in (("Ridge", expected), ("Own characteristics (OLS)", expected_ols)):
            pd.testing.assert_series_equal(got[name].sort_index(), want.sort_index(), check_names=False, rtol=1e-9)
        assert np.allclose(got["Prevailing mean"], panel.y[learn].mean(), rtol=1e-12)


def test_all_models_predict_the_same_rows(panel):
    result = run({"Peers": IndustryPeerRegressor(industry="sic"), "Ridge": Ridge()}, panel, cv=CV)
    year = panel.X.index.get_level_values("period")
    assert len(result.predictions) == year.isin(range(2008, 2012)).sum()
    assert list(result.predictions) == [
        "firm",
        "period",
        "outcome",
        "Peers",
        "Ridge",
        "Own characteristics (OLS)",
        "Gradient boosting",
        "Own and others' characteristics",
        "Firm's mean",
        "Last value",
        "Own characteristics and history",
        "Prevailing mean",
    ]
    assert result.predictions.drop(columns="outcome").notna().all().all()
    assert result.n_outcomes == panel.y[year.isin(range(2008, 2012))].notna().sum()
    assert list(result.periods) == [2008, 2009, 2010, 2011]


def test_plain_models_get_numbers_fitted_on_training_rows_and_known_outcomes(panel):
    run({"Recorder": Recorder()}, panel, cv=CV)
    (X_fit, y_fit), (X_ask, _) = Recorder.seen[:2]
    assert all(dtype == np.float64 for dtype in X_fit.dtypes)
    assert {"sic=2911", "sic=3570", "sic=3711", "lev_missing"} <= set(X_fit.columns)
    assert list(X_fit.columns) == list(X_ask.columns)
    assert np.isfinite(y_fit).all() and X_fit.notna().all().all() and X_ask.notna().all().all()
    assert X_fit.index.get_level_values("period").max() == 2007
    assert set(X_ask.index.get_level_values("period")) == {2008, 2009}


def test_peer_models_get_codes_and_unknown_rows_under_their_own_label_names(panel):
    run({"Peers": PeerRecorder(industry="sic")}, panel)
    (X_fit, y_fit), (X_ask, outcomes) = PeerRecorder.seen[:2]
    assert X_fit["sic"].dtype == pd.Series(["text"]).dtype  # object before pandas 3
    assert list(X_fit.index.names) == ["firm", "period"] and y_fit.isna().any()
    assert outcomes is None
    learn = panel.X.index.get_level_values("period") <= 2007
    assert len(X_fit) == learn.sum()


def test_explaining_shows_peer_models_the_outcomes_of_the_period_and_controls_none(panel):
    result = run({"Peers": PeerRecorder(industry="sic"), "Ridge": Ridge()}, panel, task="nowcast")
    X_ask, outcomes = PeerRecorder.seen[1]
    assert outcomes.index.equals(X_ask.index) and outcomes.isna().any()
    forecast = run({"Peers": PeerRecorder(industry="sic"), "Ridge": Ridge()}, panel)
    assert (result.predictions["Ridge"] == forecast.predictions["Ridge"]).all()
    assert not np.allclose(result.predictions["Peers"], forecast.predictions["Peers"])
    names = list(result.table().index)
    assert names == [
        "Peers",
        "Ridge",
        "All other firms (mean)",
        "Own characteristics (OLS)",
        "Gradient boosting",
        "Firm's mean",
        "Last value",
        "Own characteristics and history",
        "Firm history and common shocks",
        "Prevailing mean",
    ]
    reads = result.table(["reads"])["Uses"]
    assert reads["Ridge"] == "own x, codes" and reads["Own characteristics (OLS)"] == "own x"
    assert reads["Firm history and common shocks"] == "own x, own past y, the others' y of the period"
    row = result.predictions.iloc[0]
    others = result.predictions[(result.predictions["period"] == row["period"])].iloc[1:]
    same = others[others["firm"].str[1:].astype(int) % 3 == int(row["firm"][1:]) % 3]
    assert row["Peers"] == pytest.approx(same["outcome"].mean())


def test_the_future_changes_no_prediction(panel):
    models = {"Peers": IndustryPeerRegressor(industry="sic"), "Ridge": Ridge()}
    before = run(models, panel, cv=WalkForward(4, 2)).predictions
    X, y = panel.X.copy(), panel.y.copy()
    later = X.index.get_level_values("period") > 2009
    X.loc[later, ["size", "lev"]] = 77.0
    y = y.where(X.index.get_level_values("period") < 2009, 5 * y + 3)  # known only after 2009
    after = run(models, X, y=y, cv=WalkForward(4, 2), industry="sic").predictions
    past = before["period"] <= 2009
    pd.testing.assert_frame_equal(before[past].drop(columns="outcome"), after[past].drop(columns="outcome"))
    assert not np.allclose(before[~past]["Ridge"], after[~past]["Ridge"])


def test_the_models_passed_are_not_changed(panel):
    ridge, peers = Ridge(), IndustryPeerRegressor(industry="sic")
    run({"Ridge": ridge, "Peers": peers}, panel, cv=CV)
    assert not hasattr(ridge, "coef_") and not hasattr(peers, "training_rows_")
    assert peers.firm == "firm"


def test_forms_of_input_agree(flat, panel):
    models = {"Peers": IndustryPeerRegressor(industry="sic"), "Ridge": Ridge()}
    names = {"firm": "gvkey_name", "period": "fyear", "industry": "sic"}
    run = partial(compare, cv=WalkForward(4, 4), decomposition=False, verbose=False)
    expected = run(models, panel).predictions
    from_frame = run(models, flat, outcome="roa_next", **names)
    levels = ["gvkey_name", "fyear"]
    shuffled = panel.X.rename_axis(levels).sample(frac=1, random_state=0).swaplevel()
    pair = run(models, shuffled, y=panel.y.rename_axis(levels), **names)
    plain = flat.drop(columns=["roa_next", "ret_next"])
    columns = run(models, plain, y=flat["roa_next"].to_numpy(), **names)
    for other in (from_frame, pair, columns):
        pd.testing.assert_frame_equal(other.predictions, expected)
    assert from_frame.panel.choice.left == {"ret_next": "looks like another outcome"}
    polars = pytest.importorskip("polars")
    same = run(models, polars.from_pandas(flat), outcome="roa_next", **names).predictions
    pd.testing.assert_frame_equal(same, expected, check_dtype=False, check_index_type=False)


def test_characteristics_may_be_chosen(flat):
    names = {"firm": "gvkey_name", "period": "fyear"}
    result = run({"Ridge": Ridge()}, flat, outcome="roa_next", characteristics=["size"], **names)
    assert result.panel.choice.characteristics == ("size",)
    X = flat.drop(columns=["roa_next", "ret_next"])
    beside = run({"Ridge": Ridge()}, X, y=flat["roa_next"], characteristics=["size"], **names)
    pd.testing.assert_frame_equal(beside.predictions, result.predictions)


def test_ordered_categories_keep_their_order(panel):
    """The kernel of an ordered code, whose levels frames made anew would have lost."""
    high = np.where(panel.X["size"] > 0, "high", "low")
    X = panel.X.assign(rating=pd.Categorical(high, ["low", "high"], ordered=True))
    result = run({"Kernel": NadarayaWatsonRegressor(ordered=["rating"])}, X, y=panel.y, cv=WalkForward(2, 2))
    assert result.failures == ()


def test_the_networks_are_those_of_the_last_scored_period(panel):
    pipeline = make_pipeline("passthrough", IndustryPeerRegressor(industry="sic"))
    result = run({"Peers": IndustryPeerRegressor(industry="sic"), "Piped": pipeline}, panel, task="nowcast", cv=CV)
    assert list(result.networks) == ["Peers", "Piped", "Gradient boosting"]
    assert list(result.networks["Peers"].periods) == [2011]
    matrix = result.networks["Peers"].matrix()
    assert np.allclose(matrix, result.networks["Piped"].matrix())
    assert matrix.loc["F00", "F00"] == 0 and matrix.loc["F00"].sum() == pytest.approx(1)


def test_the_last_network_knows_the_tested_periods_before_it(panel):
    """As the prediction does: a covariance also uses how firms moved together in these."""
    model = CovariancePeerRegressor(random_state=0)
    result = run({"Covariance": model}, panel, task="nowcast", cv=WalkForward(4, 4))
    tested = panel.X.index.get_level_values("period") >= 2008
    X, y = panel.X[tested], panel.y[tested]
    fitted = model.fit(panel.X[~tested], panel.y[~tested])
    shown = result.networks["Covariance"].matrix()
    np.testing.assert_allclose(shown, fitted.network_at(X, 2011, outcomes=y).matrix(), atol=1e-12)
    last = X.index.get_level_values("period") == 2011
    assert np.abs(shown - fitted.peer_network(X[last], outcomes=y[last]).matrix()).to_numpy().max() > 1e-6


def test_searches_and_pipelines(panel):
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1e5]}, cv=WalkForward(2))
    piped = make_pipeline(StandardScaler(), Ridge())
    result = run({"Tuned": search, "Piped": piped}, panel)
    assert result.scores.loc["Tuned", "r2_mean"] > 0.5


def test_controls_are_not_added_twice(panel):
    models = {
        "Prevailing mean": DummyRegressor(),
        "Own characteristics (OLS)": Ridge(),
        "Gradient boosting": Ridge(),
        "Own and others' characteristics": Ridge(),
        "Firm's mean": DummyRegressor(),
        "Last value": DummyRegressor(),
        "Own characteristics and history": Ridge(),
    }
    assert run(models, panel).names == list(models)


@pytest.mark.parametrize("given", ["sic", None])
def test_explanations_have_the_means_of_others_and_of_the_industry_as_controls(panel, given):
    """Those are leave-own-out means by group and period; one that is passed is not added."""
    model = IndustryPeerRegressor(industry=given, scheme="auto" if given else "plain")
    result = run({"Mine": model}, panel, task="nowcast", industry="sic")
    means = {"sic": "Industry × period (mean)", None: "All other firms (mean)"}
    assert means[given] not in result.names
    (other,) = (name for code, name in means.items() if code != given)
    assert other in result.names
    frame = result.predictions.set_index(["firm", "period"])
    y = panel.y.reindex(frame.index)
    groups = [panel.X["sic"].reindex(frame.index), frame.index.get_level_values("period")]
    groups = groups[1:] if other == means[None] else groups
    total, count = (y.groupby(groups).transform(how) for how in ("sum", "count"))
    known = y.notna().astype(int)
    expected = (total - y.fillna(0)) / (count - known)
    several = (count - known > 0).to_numpy()
    np.testing.assert_allclose(frame[other][several], expected[several])


def test_a_panel_of_codes_only_has_no_characteristics_control(flat):
    X = flat[["gvkey_name", "fyear", "sic"]]
    result = run(
        {"Peers": IndustryPeerRegressor(industry="sic")},
        X,
        y=flat["roa_next"],
        firm="gvkey_name",
        period="fyear",
        industry="sic",
    )
    assert result.names == [
        "Peers",
        "Firm's mean",
        "Last value",
        "Own characteristics and history",
        "Prevailing mean",
    ]


def test_the_horizon_is_purged_before_held_out_periods(panel):
    """Of the models that hold periods out, alone, in a Pipeline or in a search; a longer purge stays."""
    of = {"n_heads": 0, "purge": 0}
    models = {
        "alone": PeerAttentionRegressor(**of),
        "piped": make_pipeline("passthrough", PeerAttentionRegressor(**of)),
        "search": GridSearchCV(PeerAttentionRegressor(**of), {"d_head": [1]}, cv=WalkForward(2)),
        "longer": PeerAttentionRegressor(n_heads=0, purge=7),
        "numpy": PeerAttentionRegressor(n_heads=0, purge=np.int64(1)),
        "lags": make_pipeline(PeerFeatures(of="outcomes"), Ridge()),
        "longer lags": make_pipeline(PeerFeatures(of="outcomes", horizon=5), Ridge()),
        "intervals": IntervalRegressor(Ridge()),
        "past": OwnHistoryRegressor(gaps=(1, 5)),
        "none": Ridge(),
    }
    found = {entry.name: entry.model for entry in entries_of(models, "forecast", panel, None, (1,), 3)}
    given = [key for name in models for key, value in found[name].get_params().items() if key.endswith("purge") and value]
    assert given == ["purge", "peerattentionregressor__purge", "estimator__purge", "purge", "purge"]
    lags = [found[name][0].horizon for name in ("lags", "longer lags")]
    assert [*lags, found["intervals"].horizon, *found["past"].gaps] == [3, 5, 3, 3, 5]
    assert [found[name].purge for name in ("alone", "longer", "numpy")] == [2, 7, 2] and found["none"] is models["none"]
    assert models["alone"].purge == 0, "the models passed are not changed"
    result = run({"alone": models["alone"]}, panel, cv=WalkForward(3, 3, horizon=3))
    assert "purge=2" in result.note("alone").settings
    assert "purge" not in run({"alone": models["alone"]}, panel).note("alone").settings


def test_supports():
    from peerattn.models import PeerAttentionRegressor

    by_outcomes = PeerAttentionRegressor(task="nowcast")
    by_characteristics = PeerAttentionRegressor()
    assert supports(by_outcomes, "nowcast") and not supports(by_outcomes, "forecast")
    assert supports(by_characteristics, "forecast") and not supports(by_characteristics, "nowcast")
    piped = make_pipeline(StandardScaler(), by_outcomes)
    assert supports(piped, "nowcast") and not supports(piped, "forecast")
    assert supports(Ridge(), "nowcast") and supports(IndustryPeerRegressor(), "forecast")
    for model in ("Ridge", Ridge):
        with pytest.raises(InputError, match="model: expected an estimator with fit and predict"):
            supports(model, "nowcast")
    assert not supports(GridSearchCV(IndustryPeerRegressor(), {}), "nowcast")
    with pytest.raises(InputError, match="task: expected 'forecast' or 'nowcast', got 'predict'"):
        supports(Ridge(), "predict")


def test_a_model_that_cannot_do_the_task_is_refused_by_name(panel):
    from peerattn.models import PeerAttentionRegressor

    with pytest.raises(InputError, match="'By outcomes' cannot do task='forecast'.*task='forecast'"):
        run({"By outcomes": PeerAttentionRegressor(task="nowcast")}, panel)
    with pytest.raises(InputError, match="'Attention' cannot do task='nowcast'.*Construct it with task='nowcast'"):
        run({"Attention": PeerAttentionRegressor()}, panel, task="nowcast")
    with pytest.raises(InputError, match="'Tuned' cannot do task='nowcast'.*scoring=nowcast_score"):
        run({"Tuned": GridSearchCV(IndustryPeerRegressor(), {})}, panel, task="nowcast")


@pytest.mark.parametrize(
    "held", [lambda known: known, lambda known: make_pipeline(StandardScaler(), known), OwnCharacteristicsRegressor]
)
def test_a_model_that_is_not_fitted_again_is_an_error(panel, held):
    """It may have learned from the tested periods."""
    known = FrozenEstimator(Ridge().fit(panel.characteristics.fillna(0.0), panel.y.fillna(0.0)))
    with pytest.raises(InputError, match="model 'known': a FrozenEstimator is never fitted again"):
        run({"known": held(known)}, panel)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nan", r"model 'Bad': 1 of \d+ predictions are NaN or infinite \(first: F\d\d in 2008\)"),
        ("short", r"model 'Bad': predictions of shape \(\d+,\) for \d+ test rows"),
        ("labels", "model 'Bad': its predictions carry other labels"),
    ],
)
def test_predictions_that_cannot_be_used_name_the_model(panel, how, message):
    with pytest.raises(InputError, match=message):
        run({"Bad": Broken(how)}, panel)


def test_an_error_inside_a_model_names_it(panel):
    with pytest.raises(InputError, match="model 'Peers': .*'sector'"):
        run({"Peers": IndustryPeerRegressor(industry="sector")}, panel)
    with pytest.raises(ValueError) as caught:
        run({"Bad ridge": Ridge(alpha=-1.0)}, panel)
    assert "model 'Bad ridge'" in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({}, "at least one name and model"),
        ([Ridge()], "models: expected a dictionary .* got list"),
        ({"": Ridge()}, "a name must be text"),
        ({"outcome": Ridge()}, "a name must be text other than"),
        ({"Ridge": Ridge}, "is the class Ridge; pass an instance"),
        ({"Ridge": "ridge"}, r"is the text 'ridge': pass a list of ready names, \['ridge'"),
        ({"Scaler": StandardScaler()}, "'Scaler': expected a regressor"),
        ({"Plain": NoEstimator()}, "'Plain': expected a regressor .*a class of your own derives from RegressorMixin first"),
    ],
)
def test_models_that_are_none(panel, models, message):
    with pytest.raises(InputError, match=message):
        run(models, panel)


def test_bad_arguments(flat, panel):
    ridge = {"Ridge": Ridge()}
    names = {"firm": "gvkey_name", "period": "fyear"}
    cases = [
        (
            lambda: run(ridge, panel, baseline="ridge"),
            "no model is named 'ridge'. Near matches: 'Ridge'. Known: Ridge",
        ),
        (lambda: run(ridge, panel, task="guess"), "task.*'forecast' or 'nowcast'"),
        (lambda: run(ridge, panel, cv=5), "cv must be a splitter"),
        (lambda: run(ridge, panel, cv="text"), "cv must be a splitter"),
        (lambda: run(ridge, panel, cv=KFold(3)), "KFold learns from .* Use WalkForward"),
        (lambda: run(ridge, panel, cv=TimeSeriesSplit(3)), "TimeSeriesSplit learns from"),
        (lambda: run(ridge, panel, y=panel.y), "X is a Panel, which holds its outcome"),
        (lambda: run(ridge, flat, **names), "y: expected outcomes beside X"),
        (lambda: run(ridge, flat, y="roa_next", **names), "outcome='roa_next'"),
        (lambda: run(ridge, flat, y=flat["roa_next"], outcome="roa_next", **names), "not both"),
        (lambda: run(ridge, flat, y=flat["roa_next"]), "'firm' and 'period'"),
        (lambda: run(ridge, flat, outcome="roa_nxt", **names), "roa_next"),
        (
            lambda: run(
                {"S": IndustryPeerRegressor(industry="town")},
                flat.assign(town="X"),
                outcome="roa_next",
                **names,
            ),
            "uses the column 'town', which was left out .*: pass codes=",
        ),
        (lambda: run(ridge, flat, outcome="roa_next", industry="sicc", **names), "industry.*'sic'"),
        (lambda: run(ridge, panel.X, y=panel.y, industry="sicc"), "industry.*'sic'"),
        (lambda: run(ridge, panel.X, y=panel.y, characteristics=["sise"]), "'sise'.*'size'"),
        (lambda: run(ridge, panel.X.iloc[:0], y=[]), "no rows"),
        (lambda: run(ridge, panel.X, y=panel.y.iloc[:5]), "labels of y are not those of X"),
        (lambda: run(ridge, flat.drop(columns="roa_next"), y=flat["roa_next"], **names), "'ret_next'"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()


def test_bad_panels(flat):
    names = {"outcome": "roa_next", "firm": "gvkey_name", "period": "fyear"}
    ridge = {"Ridge": Ridge()}
    infinite = flat.assign(size=flat["size"].where(flat.index != 7, np.inf))
    with pytest.raises(InputError, match="infinity in column 'size'"):
        run(ridge, infinite, **names)
    with pytest.raises(InputError, match="duplicated"):
        run(ridge, pd.concat([flat, flat.iloc[:3]]), **names)
    with pytest.raises(InputError, match="no period can be tested: 1 of 1 periods"):
        run(ridge, flat[flat["fyear"] == 2005], **names)
    with pytest.raises(InputError, match="no known value"):
        run(ridge, flat.assign(roa_next=np.nan), **names)


def test_a_leaking_characteristic_is_pointed_at_once(panel):
    X = panel.X.assign(leak=panel.y.fillna(0) * 2)
    with pytest.warns(PossibleLeakWarning, match="'leak'") as caught:
        run(
            {"Peers": IndustryPeerRegressor(industry="sic"), "Ridge": Ridge()},
            X,
            y=panel.y,
        )
    assert sum(issubclass(entry.category, PossibleLeakWarning) for entry in caught) == 1


def test_a_short_panel_says_so(panel):
    with pytest.warns(ShortPanelWarning, match="the last third instead, 3"):
        result = run({"Ridge": Ridge()}, panel, cv=WalkForward(24, 24))
    assert len(result.periods) == 3
    assert any("last third" in note for note in result.notes)


class Lonely(IndustryPeerRegressor):
    def predict(self, X, *, outcomes=None):
        warnings.warn(IsolateWarning(f"{len(X)} rows have no peer."), stacklevel=2)
        return super().predict(X, outcomes=outcomes)


def test_warnings_of_many_fits_are_given_once_under_the_models_names(panel):
    models = {"Peers": Lonely(industry="sic"), "Again": Lonely(industry="sic")}
    with pytest.warns(IsolateWarning) as caught:
        result = run(models, panel, cv=WalkForward(4, 1))
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith("Peers; Again: ") and message.endswith("(The first of 4 fits with this warning.)")
    assert list(result.notes) == [message] and f"Note: {message[:30]}" in str(result)


def test_notes_of_a_table_hold_no_code(flat):
    flat["sic"] = flat["sic"].where(flat["gvkey_name"] != "F00")  # of no known industry
    alone = read_panel(flat, outcome="roa_next", firm="gvkey_name", period="fyear", industry="sic")
    with pytest.warns(IsolateWarning, match="isolates"):
        result = run({"Peers": IndustryPeerRegressor(industry="sic")}, alone, task="nowcast")
    assert "no admissible peer" in result.notes[0] and "peer_network" not in result.notes[0]


def test_warnings_that_are_not_ours_pass(panel):
    class Noisy(Ridge):
        def predict(self, X):
            warnings.warn("not so sure", RuntimeWarning, stacklevel=2)
            return super().predict(X)

    with pytest.warns(RuntimeWarning, match="not so sure"):
        result = run({"Noisy": Noisy()}, panel)
    assert result.notes == ()


def test_progress_goes_to_stderr(panel, capsys):
    compare({"Ridge [bold]": Ridge()}, panel, cv=ONE, decomposition=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    run({"Ridge": Ridge()}, panel)
    assert capsys.readouterr().err == ""


def test_columns_that_were_chosen_are_announced(panel, capsys):
    frame = panel.X.assign(roa_next=panel.y, roe_next=0.0, country=2834).rename(columns={"country": "sic9"}).reset_index()
    compare({"Ridge": Ridge()}, frame, outcome="roa_next", cv=ONE, decomposition=False)
    announced = capsys.readouterr().err.partition("fits")[0]
    assert announced.startswith("characteristics (") and "roe_next (" in announced and "sic9 (looks like a code" in announced


def test_a_log_gets_a_line_for_each_fit(panel, capsys):
    models = {"Ridge": Ridge(), "Bad": Fragile(), "Attention": PeerAttentionRegressor(n_heads=0)}
    with parallel_config(backend="sequential"):
        result = compare(models, panel, cv=CV, decomposition=False)
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "20 fits"
    ridge = [line for line in lines if "Ridge" in line]
    assert [line.partition(": ")[0].partition(" ")[2] for line in ridge] == [f"Ridge, fold {k} of 2" for k in (1, 2)]
    r2 = result.scores.loc["Ridge", "r2_mean"]
    assert re.search(r": \d+\.\d s, R² so far ", ridge[0])
    assert ridge[1].endswith(f"R² so far {r2:.3f}".replace("-", "−"))  # of both folds
    assert [line for line in lines if "Bad" in line] == ["2/20 Bad, fold 1 of 2: failed, ValueError"]
    empty = [line for line in lines if "Attention" in line]
    assert len(empty) == 2 and all(line.endswith("; no peers selected") for line in empty)
    assert len(lines) == 19  # what failed is not tried again


def test_what_the_store_holds_is_not_announced_as_work(panel, capsys, tmp_path):
    for said in ("16 fits\n", "0 fits, 16 found in the store\n"):
        with parallel_config(backend="sequential"):
            compare({"Ridge": Ridge()}, panel, cv=CV, decomposition=False, store=tmp_path)
        assert capsys.readouterr().err.startswith(said)


class Fragile(Ridge):
    def fit(self, X, y):
        raise ValueError("cannot be fitted")


def test_boosting_is_an_automatic_control_of_the_same_recipe(panel):
    control = run({"Ridge": Ridge()}, panel).predictions["Gradient boosting"]
    passed = run(["boosting", "ridge"], panel).predictions["Gradient boosting"]
    pd.testing.assert_series_equal(control, passed, check_exact=True)
    assert make_model("boosting").early_stopping is False  # it would be validated on random rows


def test_the_least_squares_control_does_not_depend_on_units():
    simulated = simulate_panel(20, 16, 3, random_state=0)
    name, *_ = simulated.X.columns
    figures = [
        run({"zero": DummyRegressor()}, X, y=simulated.y, cv=WalkForward(6, 6)).scores
        for X in (simulated.X, simulated.X.assign(**{name: simulated.X[name] * 1e8}))
    ]
    control = "Own characteristics (OLS)"
    assert figures[0]["r2_mean"][control] == pytest.approx(figures[1]["r2_mean"][control], abs=1e-6)


def test_a_panel_in_files_gives_the_same_comparison(tmp_path):
    panel = simulate_panel(20, 12, 2, n_industries=3, random_state=0)
    frame = panel.X.assign(y_next=panel.y).reset_index().sort_values(["period", "firm"])
    number = frame.select_dtypes("float64").columns
    frame[number] = frame[number].astype("float32")
    frame.to_parquet(tmp_path / "panel.parquet", row_group_size=30, index=False)
    options = {"cv": WalkForward(4, 2, window="rolling", train_periods=4), "decomposition": False, "verbose": False}
    models = {"industry": IndustryPeerRegressor(industry="industry"), "ridge": make_model("ridge")}
    columns = {"outcome": "y_next", "industry": "industry"}
    stored = scan_panel(tmp_path / "panel.parquet", **columns)
    mapped = stored.mapped()
    assert mapped.characteristics.to_numpy().dtype == np.float32
    assert np.shares_memory(mapped.sorted().X.iloc[:, 0].to_numpy(), mapped.characteristics.to_numpy())
    inside = compare(models, tmp_path / "panel.parquet", **columns, **options)
    for outside in (
        compare(models, stored, **options),
        compare(models, (f for _, f in frame.groupby("period")), **columns, **options),
    ):
        pd.testing.assert_frame_equal(inside.predictions, outside.predictions, check_column_type=False)
        assert inside.settings == outside.settings
        assert str(inside.panel.description) == str(outside.panel.description)
    with pytest.raises(InputError, match="y: expected none beside files"):
        compare(models, stored, panel.y)
    with pytest.raises(InputError, match="outcome: the stored panel holds the outcome 'y_next', not 'y'"):
        compare(models, stored, outcome="y")


def test_levels_of_codes_are_counted_over_the_reference():
    """Twelve firms of twelve industries: an identity among themselves, groups in their universe."""
    index = pd.MultiIndex.from_product([range(60), range(2001, 2011)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 2)), index, ["size", "lev"])
    X["industry"] = [f"I{firm % 12:02d}" for firm, _ in index]
    X["name"] = [f"N{firm:02d}" for firm, _ in index]
    y, mine = pd.Series(X["size"] + rng.normal(size=600), index, name="roa"), index.get_level_values(0) < 12
    given = X.drop(columns="name")
    cross = PeerAttentionRegressor(attention="cross", n_heads=1, d_head=2, kappa=None, random_state=0)
    options = {"cv": WalkForward(2, 2), "decomposition": False, "verbose": False}
    models = {"Cross": cross, "Kernel": NadarayaWatsonRegressor(), "Ridge": Ridge()}
    result = compare(models, given[mine], y[mine], reference=Reference(given[~mine]), **options)
    assert not result.failures and {"Cross", "Kernel", "Ridge"} <= set(result.scores.index)
    with pytest.raises(InputError, match="'industry' has 12 levels for 12 firms"):
        compare({"Kernel": NadarayaWatsonRegressor()}, given[mine], y[mine], **options)
    with pytest.raises(InputError, match="'name' has 60 levels for 60 firms"):
        compare(models, X[mine], y[mine], reference=Reference(X[~mine]), **options)


class Declared(Ridge):
    """A model of a user's own that says what it reads."""

    information = "history"


def test_what_a_model_reads_is_what_it_declares(panel):
    models = {
        "Declared": Declared(),
        "Industry": make_pipeline(PeerFeatures(over=["sic"]), HistGradientBoostingRegressor(max_iter=5)),
        "Network": make_pipeline(PeerFeatures(network=NadarayaWatsonRegressor()), HistGradientBoostingRegressor(max_iter=5)),
    }
    result = run(models, panel)
    notes = {note.name: (note.information, note.reads) for note in result.models}
    assert notes["Declared"] == ("history", "as declared")
    assert notes["Industry"] == ("common", "own x, others' x")
    assert notes["Network"] == ("peers", "own x, peers' x")


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_the_network_of_a_users_own_class_is_that_of_its_peer_network(panel, task):
    result = run({"Mine": OwnPeers(), "Industry": IndustryPeerRegressor(industry="sic")}, panel, task=task)
    mine, industry = (result.networks[name] for name in ("Mine", "Industry"))
    assert result.peer_models == ["Mine"] and mine.periods.equals(industry.periods)
    pd.testing.assert_frame_equal(mine.matrix(), industry.matrix())


def test_a_wrong_declaration_is_an_error_before_any_fit(panel):
    model = Declared()
    model.information = "peer"
    with pytest.raises(InputError, match="information must be one of .*Near matches: 'peers'"):
        run({"Declared": model}, panel)


def test_an_outcome_realised_before_its_row_is_an_error(panel):
    with pytest.raises(InputError, match="outcome_horizon: expected an integer of at least 0, got -1"):
        run({"ridge": Ridge()}, panel, outcome_horizon=-1)


def test_outcomes_realised_later_than_the_splitter_purges_are_an_error(panel):
    with pytest.raises(InputError, match="cv: .* outcomes are realised over outcome_horizon=3 periods.*horizon=3"):
        run({"ridge": Ridge()}, panel, cv=WalkForward(2, 2), outcome_horizon=3)
    found = run({"ridge": Ridge()}, panel, cv=WalkForward(2, 2, horizon=3), outcome_horizon=3)
    assert "horizon 3" in found.methods()


class LastYears:
    """A splitter that names no horizon: each of the last two years, ``gap`` years after those learned from."""

    def __init__(self, gap):
        self.gap = gap

    def split(self, X, y=None, groups=None):
        year = X.index.get_level_values("period")
        for tested in (2010, 2011):
            yield np.flatnonzero(year <= tested - self.gap), np.flatnonzero(year == tested)


def test_splitters_that_name_no_horizon_keep_that_of_the_outcome(panel):
    with pytest.raises(InputError, match="cv: LastYears learns from 2009 to predict 2010 at horizon 3"):
        run({"ridge": Ridge()}, panel, cv=LastYears(1), outcome_horizon=3)
    attention = {"attention": PeerAttentionRegressor(n_heads=0)}
    found = run(attention, panel, cv=LastYears(3), outcome_horizon=3)
    assert found.horizon == 3
    assert "purge=2" in found.models[0].settings


class KeepsColumns(DummyRegressor):
    """Keeps the columns that it is fitted on."""

    def fit(self, X, y, sample_weight=None):
        KeepsColumns.fitted = X
        return super().fit(X, y)


def test_peers_past_outcomes_are_in_training_rows_from_the_period_they_are_known(flat):
    """Outcomes are filed two years later: rows up to 2005 do not have those of 2004."""
    found = []
    for added in (0.0, 9.0):
        frame = flat.assign(filed=flat["fyear"] + 2, roa_next=flat["roa_next"] + added * (flat["fyear"] == 2004))
        names = {"outcome": "roa_next", "firm": "gvkey_name", "period": "fyear", "known_at": "filed"}
        model = make_pipeline(PeerFeatures(of="outcomes", keep=False), KeepsColumns())
        run({"columns": model}, read_panel(frame, characteristics=["size"], **names), cv=WalkForward(2, 2))
        found.append(KeepsColumns.fitted)
    moved = (found[0] != found[1]).any(axis=1)
    assert found[0].index[moved].get_level_values("period").min() == 2006


def test_peer_features_are_of_all_firms_whether_their_outcomes_are_known():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(24), range(2001, 2013)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=288), "sic": np.repeat(list("ABCD"), 72)}, index)
    features = PeerFeatures(over=["sic"]).fit_transform(X)
    y = 2 * features["size_mean_sic"] + 0.1 * rng.normal(size=288)
    train = np.asarray(index.get_level_values("period") < 2010)
    y[train & (rng.random(288) < 0.5)] = np.nan
    by_hand = Ridge().fit(features[train & y.notna()], y[train & y.notna()]).predict(features[~train])
    pipe = make_pipeline(PeerFeatures(over=["sic"]), Ridge())
    found = compare({"pipe": pipe}, X, y, cv=WalkForward(3, 3), decomposition=False, verbose=False).predictions
    expected = pd.Series(by_hand, index[~train]).reindex(pd.MultiIndex.from_frame(found[["firm", "period"]]))
    np.testing.assert_allclose(found["pipe"], expected)


@pytest.mark.parametrize("final", [CrossSectionalRidge(), IndustryPeerRegressor()], ids=lambda model: type(model).__name__)
def test_a_scaler_before_a_peer_model_keeps_periods_apart(panel, final):
    numbers = panel.characteristics.set_axis(panel.X.index)
    when = numbers.index.get_level_values(1)
    pipe = make_pipeline(StandardScaler(), final)
    found = run({"pipe": pipe}, numbers, y=panel.y, task="nowcast").predictions
    first = found["period"].min()
    later = panel.y.where(when <= first, 9.0 - panel.y)
    again = run({"pipe": pipe}, numbers, y=later, task="nowcast").predictions
    before, after = (each.loc[each["period"] == first, "pipe"] for each in (found, again))
    assert found["period"].max() > first and before.tolist() == after.tolist()


class ReturnsArrays(TransformerMixin, BaseEstimator):
    """A transformer of a user's own that drops the labels."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X, dtype=float)

    def set_output(self, *, transform=None):
        return self


def test_a_peer_model_without_labels_or_within_another_estimator_is_an_error(panel):
    numbers = panel.characteristics.set_axis(panel.X.index)
    with pytest.raises(InputError, match="model 'pipe': y carries .* but X does not.*set_output"):
        run({"pipe": make_pipeline(ReturnsArrays(), CrossSectionalRidge())}, numbers, y=panel.y)
    for model in (TransformedTargetRegressor(CrossSectionalRidge()), VotingRegressor([("ridge", CrossSectionalRidge())])):
        with pytest.raises(InputError, match="CrossSectionalRidge inside .* would be given neither codes nor outcomes of peers"):
            run({"wrapped": model}, numbers, y=panel.y, task="nowcast")
