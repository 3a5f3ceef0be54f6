"""What the tests of models share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from peerattn.models.learners.heads import learner
from peerattn.models.learners.heads.training import TrainingOptions


@pytest.fixture
def train_heads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return what trains heads further, one draw of so many seeds in so many steps; controls stay short."""

    def train(n_seeds: int, max_steps: int) -> None:
        monkeypatch.setattr(learner, "DEFAULT", TrainingOptions(n_seeds=n_seeds, max_steps=max_steps, max_draws=1))

    return train
