"""What a comparison says that a model uses."""

import pytest

from peerattn.evaluation.running.information import information_of
from peerattn.models import PeerAttentionRegressor, PeerTransformerRegressor, StackedPeerRegressor


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_heads_and_transformer_use_no_past_outcomes(task: str) -> None:
    of_heads = information_of(PeerAttentionRegressor(task=task), task)
    assert information_of(PeerTransformerRegressor(task=task), task) == of_heads
    assert "past" not in of_heads[1] and "past" in information_of(StackedPeerRegressor(task=task), task)[1]
