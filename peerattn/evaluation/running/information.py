"""What each model of a comparison reads: the steps from own lines to peers, in which information only grows."""

from collections.abc import Iterator
from typing import Any

from sklearn.dummy import DummyRegressor
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from peerattn import models
from peerattn.exceptions import check_one_of
from peerattn.models.base import PeerRegressor
from peerattn.models.panel_model import PanelModel
from peerattn.models.peer_features import PeerFeatures

#: From the least information to the most. A model of a step may read all that those before it read.
STEPS = ("own lines", "own shape", "own history", "common", "peers")
LINES, SHAPE, HISTORY, COMMON, PEERS = STEPS
_SMOOTHERS = models.NadarayaWatsonRegressor | models.CrossSectionalRidge
_OTHERS = "the others' y of the period"
#: The step of a model and what it reads, in a forecast and in an explanation; the first class that fits counts.
_KINDS: tuple[tuple[Any, tuple[str, str], tuple[str, str]], ...] = (
    (DummyRegressor, (LINES, "past mean"), (LINES, "past mean")),
    (models.FirmMeanRegressor | models.LastValueRegressor, (HISTORY, "own past y"), (HISTORY, "own past y")),
    (models.CommonShocksRegressor, (HISTORY, "own x, own past y"), (COMMON, f"own x, own past y, {_OTHERS}")),
    (models.OwnHistoryRegressor, (HISTORY, "own x, own past y"), (HISTORY, "own x, own past y")),
    (models.IndustryMeansRegressor, (COMMON, "own and others' x"), (COMMON, "own and others' x")),
    (models.IndustryPeerRegressor, (COMMON, "the industry's past y"), (COMMON, _OTHERS)),
    (models.FamaMacBethRegressor, (LINES, "own x"), (LINES, "own x")),
    (_SMOOTHERS, (SHAPE, "own x"), (PEERS, f"own and peers' x, {_OTHERS}")),
    (models.PrecomputedPeerRegressor, (PEERS, "peers' past y"), (PEERS, _OTHERS)),
    (PeerRegressor, (PEERS, "own and peers' x, past y"), (PEERS, f"own and peers' x, past y, {_OTHERS}")),
)


def steps_of(model: Any) -> Iterator[Any]:
    """Yield a model, the last step of a Pipeline and what a search tunes, to the estimator that predicts."""
    yield model
    while isinstance(model, Pipeline | BaseSearchCV):
        model = model.steps[-1][1] if isinstance(model, Pipeline) else model.estimator
        yield model


def last_step(model: Any) -> Any:
    """Return the estimator that predicts."""
    return list(steps_of(model))[-1]


def information_of(model: Any, task: str) -> tuple[str, str]:
    """Return the step of a model and what it reads, in words.

    A model of the user's own declares its step by an attribute ``information``, one of ``STEPS``.

    A mean of outcomes over training rows that are near in characteristics is a curve of the own characteristics, not a peer
    model: kernel regression and ridge count as such in a forecast. Means over all firms, or over an industry, choose no peers:
    they are common.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> information_of(make_pipeline(PeerFeatures(over=["sic"]), Ridge()), "forecast")
    ('common', "own x, others' x")
    >>> information_of(Ridge(), "forecast"), information_of(models.NadarayaWatsonRegressor(), "forecast")
    (('own lines', 'own x, codes'), ('own shape', 'own x'))
    >>> information_of(models.NadarayaWatsonRegressor(), "nowcast")
    ('peers', "own and peers' x, the others' y of the period")
    """
    final = last_step(model)
    if isinstance(final, models.OwnCharacteristicsRegressor):
        if final.effects:
            return HISTORY, "own x, effects of past y"
        return (LINES if final.estimator is None or _is_linear(final.estimator) else SHAPE), "own x"
    declared = getattr(final, "information", None)
    if declared is not None:
        check_one_of(information=(declared, STEPS))
        return declared, "as declared"
    for kind, forecast, nowcast in _KINDS:
        if isinstance(final, kind):
            return forecast if task == "forecast" else nowcast
    if isinstance(final, PanelModel):  # of a user's own, it is given the whole panel
        return SHAPE, "not declared"
    if isinstance(model, Pipeline) and isinstance(model[0], PeerFeatures):
        return _of_peer_features(model[0])
    return (LINES if _is_linear(final) else SHAPE), "own x, codes"


def _of_peer_features(features: PeerFeatures) -> tuple[str, str]:
    whose = "others'" if features.network is None else "peers'"
    what = "past y" if features.of == "outcomes" else "x"
    return (COMMON if features.network is None else PEERS), f"own x, {whose} {what}"


def _is_linear(model: Any) -> bool:
    return type(model).__module__.startswith("sklearn.linear_model")
