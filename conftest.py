"""Examples in docstrings train in few steps, as the tests do."""

from collections.abc import Iterator

import pytest
from _pytest.doctest import DoctestItem

from tests.conftest import SHORT, patched_models


@pytest.fixture(autouse=True)
def _short_examples(request: pytest.FixtureRequest) -> Iterator[None]:
    if not isinstance(request.node, DoctestItem):
        yield
        return
    with patched_models(SHORT):
        yield
