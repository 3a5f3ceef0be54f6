"""What a comparison says that a model uses."""

import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from peerattn.evaluation.running.information import information_of
from peerattn.models import (
    CrossSectionalRidge,
    PeerAttentionRegressor,
    PeerFeatures,
    PeerTransformerRegressor,
    StackedPeerRegressor,
)


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_heads_and_transformer_use_no_past_outcomes(task: str) -> None:
    of_heads = information_of(PeerAttentionRegressor(task=task), task)
    assert information_of(PeerTransformerRegressor(task=task), task) == of_heads
    alone = information_of(PeerTransformerRegressor(task=task, attention=False), task)
    assert alone[0] == {"forecast": "own", "nowcast": "common"}[task] and "peers" not in alone[1]
    assert "past" not in of_heads[1] and "past" in information_of(StackedPeerRegressor(task=task), task)[1]


def test_peer_features_count_wherever_they_are() -> None:
    search = GridSearchCV(make_pipeline(PeerFeatures(of="outcomes"), Ridge()), {})
    assert information_of(search, "forecast") == ("common", "own x, others' past y")
    features = [("x", PeerFeatures(network=CrossSectionalRidge()), ["size"]), ("y", PeerFeatures(of="outcomes"), ["size"])]
    united = make_pipeline(ColumnTransformer(features), Ridge())
    assert information_of(united, "forecast") == ("peers", "own x, peers' x and past y")
