"""Searches for heads are short in tests: what they find is for the benchmarks, and for tests marked ``full_search``."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _short_search(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "full_search" in request.keywords:
        return
    for name, value in (
        ("descent.STEPS", 6),
        ("descent.LBFGS_STEPS", 5),
        ("starts.STARTS", 4),
        ("starts.KEPT", 2),
        ("starts.BRACKETS", 1),
        ("own_shape.TREES", 30),
    ):
        monkeypatch.setattr(f"peerattn.models.attention.{name}", value)
