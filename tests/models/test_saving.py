"""save and load: the same predictions and networks from one file, and nothing of the file is run."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from peerattn import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    LinearInMeansRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionClassifier,
    PeerAttentionRegressor,
)
from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import FamaMacBethRegressor, Prior
from peerattn.state import read_state, write_state

QUICK = {"n_heads": 2, "max_steps": 10, "prune": False, "random_state": 0}


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(12, 10, 2, n_industries=3, random_state=0)


MODELS = {
    "heads": PeerAttentionRegressor(similarity="scaled_dot_product", codes=["industry"], **QUICK),
    "prior": PeerAttentionRegressor(
        similarity="scaled_dot_product", prior=Prior("industry"), codes=["industry"], **QUICK
    ),
    "covariance": PeerAttentionRegressor(
        values="outcomes", similarity="covariance", codes=["industry"], **QUICK
    ),
    "linear": PeerAttentionRegressor(values="outcomes", similarity="linear", codes=["industry"], **QUICK),
    "kernel": NadarayaWatsonRegressor(bandwidth=1.0),
    "industry": IndustryPeerRegressor(industry="industry"),
    "ridge": CrossSectionalRidge(),
    "fama-macbeth": FamaMacBethRegressor(),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_same_predictions_and_parameters_after_loading(panel, name, tmp_path):
    model = MODELS[name].fit(panel.X, panel.y)
    model.save(tmp_path / "a.model")
    again = type(model).load(tmp_path / "a.model")
    shown = {"outcomes": panel.y} if getattr(model, "needs_outcomes", False) else {}
    pd.testing.assert_series_equal(
        pd.Series(np.asarray(again.predict(panel.X, **shown))),
        pd.Series(np.asarray(model.predict(panel.X, **shown))),
    )
    assert repr(again) == repr(model)
    if hasattr(model, "peer_network"):
        assert (
            again.peer_network(panel.X, **shown).edges().equals(model.peer_network(panel.X, **shown).edges())
        )


def test_arrays_and_classes(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = PeerAttentionClassifier(**QUICK).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    model.save(tmp_path / "a.model")
    assert (
        PeerAttentionClassifier.load(tmp_path / "a.model").predict_proba(X) == model.predict_proba(X)
    ).all()


def test_an_estimator_of_another_library_is_refused(panel, tmp_path):
    model = PeerAttentionRegressor(own=Ridge(), n_heads=0).fit(panel.X, panel.y)
    with pytest.raises(InputError, match="own is a Ridge, which cannot be stored without pickle"):
        model.save(tmp_path / "a.model")
    assert not (tmp_path / "a.model").exists()


def test_another_class_is_refused(panel, tmp_path):
    CrossSectionalRidge().fit(panel.X, panel.y).save(tmp_path / "a.model")
    with pytest.raises(
        InputError, match="expected a saved NadarayaWatsonRegressor, got a saved CrossSectionalRidge"
    ):
        NadarayaWatsonRegressor.load(tmp_path / "a.model")


@pytest.mark.parametrize(
    "named", ["os:system", "peerattn.cli.app:main", "peerattn.models.base:PeerModel", "peerattn.nowhere:A"]
)
def test_a_file_cannot_name_code(panel, tmp_path, named):
    model = CrossSectionalRidge().fit(panel.X, panel.y)
    model.save(tmp_path / "a.model")
    arrays, spec = read_state(tmp_path / "a.model", "CrossSectionalRidge")
    spec["attributes"]["planted_"] = {"~": named, "fields": {}}
    write_state(tmp_path / "b.model", arrays, json.loads(json.dumps(spec)), "CrossSectionalRidge")
    with pytest.raises(InputError, match="path: the file names"):
        CrossSectionalRidge.load(tmp_path / "b.model")


def test_a_given_network_is_kept(panel, tmp_path):
    model = LinearInMeansRegressor(network=panel.network).fit(panel.X, panel.y)
    model.save(tmp_path / "a.model")
    again = LinearInMeansRegressor.load(tmp_path / "a.model")
    pd.testing.assert_frame_equal(again.network.edges(), panel.network.edges())
