"""Searches and boosting are short in tests: what they find is for the benchmarks, and for tests marked ``full_search``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from html import escape
from importlib import import_module

import pytest

from peerattn.models.learners.heads.training import TrainingOptions

SHORT: dict[str, object] = {
    "learners.heads.learner.DEFAULT": TrainingOptions(n_seeds=4, max_steps=24, max_draws=2),
    "learners.covariance.fit.FEWEST_STEPS": 12,
    "learners.nonlinear.TREES": 15,
    "learners.nonlinear.FOREST": 15,
    "learners.transformer.FEWEST_STEPS": 20,
}
#: Where only the way through matters: ``pytestmark = pytest.mark.usefixtures("fewest_steps")``.
FEWEST: dict[str, object] = {
    "learners.heads.learner.DEFAULT": TrainingOptions(n_seeds=2, window=1.0, max_steps=3, max_draws=1),
    "learners.covariance.fit.FEWEST_STEPS": 3,
    "learners.nonlinear.TREES": 3,
    "learners.nonlinear.FOREST": 3,
    "learners.transformer.FEWEST_STEPS": 2,
}
#: What heads add is kept as trained.
IN_FULL: dict[str, object] = {
    "learners.heads.selection.LaterRows.factor": lambda *_: 1.0,
    "learners.heads.selection.LaterRows.factor_of_means": lambda *_: 1.0,
}
ROOM = "peerattn.models."


def _usual() -> dict[str, object]:
    """Return what is usual."""
    parts = {name: name.rsplit(".", 1) for name in SHORT}
    return {name: getattr(import_module(ROOM + module), constant) for name, (module, constant) in parts.items()}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of a GPU where there is none; torch is imported only for them."""
    if "gpu" in item.keywords and not import_module("torch").cuda.is_available():
        pytest.skip("needs a CUDA GPU")


@contextmanager
def patched_models(values: Mapping[str, object]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in values.items():
            patched.setattr(ROOM + name, value)
        yield


@pytest.fixture(scope="session")
def full_search() -> Callable[..., AbstractContextManager[None]]:
    """Return what makes searches usual inside a fixture, ``with full_search():``, heads of as much training as is needed."""
    usual = _usual()

    def searching(n_seeds: int = 8, max_steps: int = 300, max_draws: int = 5) -> AbstractContextManager[None]:
        options = TrainingOptions(n_seeds=n_seeds, max_steps=max_steps, max_draws=max_draws)
        return patched_models(usual | {"learners.heads.learner.DEFAULT": options})

    return searching


@pytest.fixture(scope="module", autouse=True)
def _short_search(full_search: Callable[..., AbstractContextManager[None]]) -> Iterator[None]:
    """Shorten searches for a whole module, its fixtures of that scope included; what is usual was read before."""
    with patched_models(SHORT):
        yield


@pytest.fixture(scope="session")
def fewest() -> Callable[[], AbstractContextManager[None]]:
    """Return what makes searches take the fewest steps: ``with fewest():``."""
    return lambda: patched_models(FEWEST)


@pytest.fixture(scope="module")
def fewest_steps(_short_search: None) -> Iterator[None]:
    """Shorten searches to the fewest steps, for modules in which nothing hangs on what is found."""
    with patched_models(FEWEST):
        yield


@pytest.fixture(scope="module")
def blank_pictures() -> Iterator[None]:
    """Compose the pictures of reports but leave them blank, for modules in which no picture is looked at."""
    with pytest.MonkeyPatch.context() as patched:
        blank = lambda figure, description="": f'<svg role="img" aria-label="{escape(description)}"></svg>'  # noqa: E731
        patched.setattr("peerattn.evaluation.report.figures.svg", blank)
        yield


@pytest.fixture(scope="session")
def in_full() -> Callable[[], AbstractContextManager[None]]:
    """Return what keeps heads as trained inside a test: ``with in_full():``."""
    return lambda: patched_models(IN_FULL)


@pytest.fixture(scope="module")
def heads_in_full(_short_search: None) -> Iterator[None]:
    """Keep what heads add as trained, whatever it is worth on later periods: where the way through heads is tested."""
    with patched_models(IN_FULL):
        yield


@pytest.fixture(autouse=True)
def _full_search_where_marked(
    request: pytest.FixtureRequest, full_search: Callable[..., AbstractContextManager[None]]
) -> Iterator[None]:
    marked = request.node.get_closest_marker("full_search")
    if marked is None:
        yield
        return
    with full_search(**marked.kwargs):
        yield
