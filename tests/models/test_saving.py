"""save and load: the same predictions and networks from one file, and nothing of the file is run."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from peerattn import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    LinearInMeansRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionClassifier,
    PeerAttentionRegressor,
    StackedPeerRegressor,
    load,
)
from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import (
    CovariancePeerRegressor,
    FamaMacBethRegressor,
    OwnCharacteristicsRegressor,
    Prior,
    make_model,
)
from peerattn.sequence.tokenizers import WordTokenizer
from peerattn.store.objects import save_estimator
from peerattn.store.sealed import read_state, write_state
from peerattn.store.sklearn_models import from_state, state_of

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

QUICK = {"n_heads": 2, "kappa": None, "random_state": 0}


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(12, 10, 2, n_industries=3, random_state=0)


MODELS = {
    "heads": PeerAttentionRegressor(codes=["industry"], **QUICK),
    "prior": PeerAttentionRegressor(prior=Prior("industry"), codes=["industry"], **QUICK),
    "defaults": PeerAttentionRegressor(random_state=0),
    "explains": PeerAttentionRegressor(task="nowcast", own="linear", codes=["industry"], random_state=0),
    "covariance": CovariancePeerRegressor(codes=["industry"]),
    "kernel": NadarayaWatsonRegressor(bandwidth=1.0),
    "industry": IndustryPeerRegressor(industry="industry"),
    "ridge": CrossSectionalRidge(),
    "fama-macbeth": FamaMacBethRegressor(),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_same_predictions_and_parameters_after_loading(panel, name, tmp_path):
    model = MODELS[name].fit(panel.X, panel.y)
    model.save(tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    assert type(again) is type(model)
    shown = {"outcomes": panel.y} if getattr(model, "needs_outcomes", False) else {}
    pd.testing.assert_series_equal(
        pd.Series(np.asarray(again.predict(panel.X, **shown))),
        pd.Series(np.asarray(model.predict(panel.X, **shown))),
    )
    assert repr(again) == repr(model)
    if hasattr(model, "peer_network"):
        assert again.peer_network(panel.X, **shown).edges().equals(model.peer_network(panel.X, **shown).edges())


def test_every_group_of_candidates_is_stored(tmp_path):
    """Curves, trees, firm effects, what a period has in common, a covariance and heads."""
    made = simulate_panel(24, 16, 2, n_industries=3, random_state=1)
    firm, time = (made.X.index.get_level_values(name) for name in ("firm", "period"))
    shock, factor = np.random.default_rng(0).normal(size=(2, 16))[:, pd.factorize(time)[0]]
    x1, x2 = made.X["x1"], made.X["x2"]
    y = made.y + x1**2 + pd.factorize(firm)[0] % 5 + 2 * shock + 2 * factor * x2  # shape, history, common, peers
    model = StackedPeerRegressor(task="nowcast", codes=["industry"], kappa=0.0, random_state=0).fit(made.X, y)
    assert all(any(w > 0 for w in stage.weights.values()) for stage in model.stack_.stages.values())
    model.save(tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.predict(made.X, outcomes=y), model.predict(made.X, outcomes=y))
    pd.testing.assert_frame_equal(again.evidence_, model.evidence_)
    pd.testing.assert_frame_equal(again.explain_gain(), model.explain_gain())


def test_arrays_and_classes(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = PeerAttentionClassifier(**QUICK).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    model.save(tmp_path / "a.model")
    assert (PeerAttentionClassifier.load(tmp_path / "a.model").predict_proba(X) == model.predict_proba(X)).all()


@pytest.mark.parametrize("name", ["zero", "mean", "ols", "ridge", "elastic_net", "neighbors", "boosting"])
def test_named_models_of_scikit_learn(panel, name, tmp_path):
    X, y = panel.X.select_dtypes("number"), panel.y
    model = make_model(name).fit(X, y)
    save_estimator(model, tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert repr(again) == repr(model)


def test_an_own_model_of_scikit_learn(panel, tmp_path):
    model = PeerAttentionRegressor(own=make_pipeline(StandardScaler(), Ridge()), n_heads=0)
    model.fit(panel.X, panel.y).save(tmp_path / "a.model")
    np.testing.assert_array_equal(load(tmp_path / "a.model").predict(panel.X), model.predict(panel.X))


@pytest.mark.parametrize("kind", [ExtraTreesRegressor, RandomForestRegressor])
def test_forests(panel, kind, tmp_path):
    X, y = panel.X.select_dtypes("number").to_numpy(copy=True), panel.y.to_numpy()
    X[::5, 0] = np.nan
    model = kind(7, min_samples_leaf=3, random_state=0).fit(X, np.column_stack([y, -2 * y]))
    save_estimator(model, tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert repr(again) == repr(model)


@pytest.mark.parametrize("inside", [lambda forest: forest, lambda forest: make_pipeline(StandardScaler(), forest)])
@pytest.mark.parametrize("kind", [ExtraTreesRegressor, RandomForestRegressor, DecisionTreeRegressor, ExtraTreeRegressor])
def test_models_with_trees_inside(panel, kind, inside, tmp_path):
    X = panel.X.select_dtypes("number").fillna(0.0)
    for model in (
        OwnCharacteristicsRegressor(estimator=inside(kind(random_state=0))),
        PeerAttentionRegressor(own=inside(kind(random_state=0)), n_heads=0, random_state=0),
    ):
        model.fit(X, panel.y).save(tmp_path / "a.model")
        np.testing.assert_array_equal(load(tmp_path / "a.model").predict(X), model.predict(X))
    save_estimator(kind(max_depth=3), tmp_path / "b.model")
    assert repr(load(tmp_path / "b.model")) == repr(kind(max_depth=3))


@pytest.mark.parametrize(
    "harm",
    [
        lambda trees: trees["nodes"]["left_child"].__setitem__(0, 0),
        lambda trees: trees["nodes"]["right_child"].__setitem__(0, 10**6),
        lambda trees: trees["nodes"]["feature"].__setitem__(0, 99),
        lambda trees: trees.update(values=trees["values"][:-1]),
        lambda trees: trees["sizes"].__setitem__(0, 0),
    ],
)
def test_a_forest_that_points_outside_itself_is_refused(harm):
    X = np.random.default_rng(0).normal(size=(30, 2))
    state = state_of(ExtraTreesRegressor(3, random_state=0).fit(X, X[:, 0]))
    harm(state["trees"])
    with pytest.raises((InputError, ValueError)):
        from_state("ExtraTreesRegressor", state)


def test_an_estimator_that_is_not_in_the_list_is_refused(panel, tmp_path):
    model = OwnCharacteristicsRegressor(SVR()).fit(panel.X, panel.y)
    with pytest.raises(InputError, match="estimator is a SVR, which cannot be stored without pickle"):
        model.save(tmp_path / "a.model")
    assert not (tmp_path / "a.model").exists()


def test_another_class_is_refused(panel, tmp_path):
    CrossSectionalRidge().fit(panel.X, panel.y).save(tmp_path / "a.model")
    with pytest.raises(InputError, match="expected a saved NadarayaWatsonRegressor, got a saved CrossSectionalRidge"):
        NadarayaWatsonRegressor.load(tmp_path / "a.model")
    WordTokenizer().fit(["a b"]).save(tmp_path / "b.model")
    with pytest.raises(InputError, match="got a saved WordTokenizer"):
        NadarayaWatsonRegressor.load(tmp_path / "b.model")
    assert type(load(tmp_path / "b.model")) is WordTokenizer
    with pytest.raises(InputError, match="got a saved CrossSectionalRidge"):
        WordTokenizer.load(tmp_path / "a.model")


PLANTED = {
    "another module": {"~": "os:system", "fields": {}},
    "a function of ours": {"~": "peerattn.evaluation.compare:compare", "fields": {}},
    "no dataclass": {"~": "peerattn.models.base:PanelEstimator", "fields": {}},
    "no module": {"~": "peerattn.models.nowhere:A", "fields": {}},
    "the command": {"~": "peerattn.cli.app:main", "fields": {}},
    "fields that are not there": {"~": "peerattn.panel.design:Column", "fields": {"nothing": 1}},
    "another estimator": {"~": "estimator", "class": "sklearn.svm:SVR", "attributes": {}},
    "a method": {
        "~": "estimator",
        "class": "peerattn.models.ridge:CrossSectionalRidge",
        "attributes": {"predict": 1},
    },
    "a class of scikit-learn": {"~": "sklearn", "class": "FunctionTransformer", "attributes": {}},
    "a method of scikit-learn": {"~": "sklearn", "class": "Ridge", "attributes": {"predict": 1}},
    "no kind": {"~": "thing"},
    "nothing": {},
    "positions outside": {
        "~": "csr",
        "parts": [{"~": "array", "name": part} for part in "dip"],
        "shape": [1, 2],
    },
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_file_cannot_name_code(name, tmp_path):
    tree = {"~": "estimator", "class": "peerattn.models.ridge:CrossSectionalRidge", "attributes": {}}
    arrays = {"d": np.ones(1), "i": np.array([5]), "p": np.array([0, 1])}
    for planted in (PLANTED[name], tree | {"attributes": {"planted_": PLANTED[name]}}):
        write_state(tmp_path / "b.model", arrays, {"model": planted}, "model")
        with pytest.raises(InputError, match="^path: (the file|expected a saved)"):
            CrossSectionalRidge.load(tmp_path / "b.model")


def test_trees_that_point_outside_are_refused(panel, tmp_path):
    X, y = panel.X.select_dtypes("number"), panel.y
    save_estimator(make_model("boosting").fit(X, y), tmp_path / "a.model")
    arrays, spec = read_state(tmp_path / "a.model", "model")
    fields = dict(dict(spec["model"]["attributes"]["trees"]["items"])["nodes"]["items"])
    for field, value in (("left", 10**9), ("left", 0), ("feature_idx", 99), ("feature_idx", -1)):
        changed = dict(arrays)
        changed[fields[field]["name"]] = np.where(arrays[fields["is_leaf"]["name"]] == 0, value, arrays[fields[field]["name"]])
        write_state(tmp_path / "b.model", changed, spec, "model")
        with pytest.raises(InputError, match="point outside"):
            load(tmp_path / "b.model")


def test_a_given_network_is_kept(panel, tmp_path):
    model = LinearInMeansRegressor(network=panel.network).fit(panel.X, panel.y)
    model.save(tmp_path / "a.model")
    again = LinearInMeansRegressor.load(tmp_path / "a.model")
    pd.testing.assert_frame_equal(again.network.edges(), panel.network.edges())


def test_a_class_that_a_module_imports_is_no_part_of_a_file(tmp_path):
    tree = {
        "~": "estimator",
        "class": "peerattn.models.peer_weights:LinearRegression",
        "attributes": {"copy_X": 1},
    }
    write_state(tmp_path / "a.model", {}, {"model": tree}, "model")
    with pytest.raises(InputError, match="no part of a saved model"):
        load(tmp_path / "a.model")


def test_a_network_with_unknown_weights_is_refused():
    from peerattn.network.cross_section import CrossSection

    with pytest.raises(InputError, match="weights: some are NaN"):
        CrossSection(np.arange(2), np.arange(2), np.array([[0.0, np.nan], [1.0, 0.0]]))
