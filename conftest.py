"""Examples in docstrings train in few steps, as the tests do, keep what heads add, and refit in two rounds."""

from collections.abc import Iterator

import pytest
from _pytest.doctest import DoctestItem

from tests.conftest import IN_FULL, SHORT, patched_models


@pytest.fixture(autouse=True)
def _short_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    if not isinstance(request.node, DoctestItem):
        yield
        return
    with patched_models(SHORT | IN_FULL), pytest.MonkeyPatch.context() as patched:
        patched.setattr("peerattn.evaluation.inference.network_bootstrap.SETTLED", 100.0)
        yield
