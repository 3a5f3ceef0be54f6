"""Which information each model of a comparison uses."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from sklearn.dummy import DummyRegressor
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from peerattn import models
from peerattn.evaluation.running.inner_folds import parts_of
from peerattn.exceptions import check_one_of
from peerattn.models.base import PanelEstimator, has_peers
from peerattn.models.own_characteristics import ElasticNetRegressor


class Information(StrEnum):
    """The last group of information that a model uses; a model of the user's own declares it as ``information``."""

    OWN = "own"
    HISTORY = "history"
    COMMON = "common"
    PEERS = "peers"


OWN, HISTORY, COMMON, PEERS = Information
_OTHERS = "the others' y of the period"
_ATTENTION = models.PeerAttentionRegressor | models.PeerAttentionClassifier | models.PeerTransformerRegressor
#: The last group of information of a model and what it reads, in a forecast and in a nowcast; the first class that fits counts.
_KINDS: tuple[tuple[Any, tuple[Information, str], tuple[Information, str]], ...] = (
    (DummyRegressor, (OWN, "past mean"), (OWN, "past mean")),
    (models.FirmMeanRegressor | models.LastValueRegressor, (HISTORY, "own past y"), (HISTORY, "own past y")),
    (models.CommonShocksRegressor, (HISTORY, "own x, own past y"), (COMMON, f"own x, own past y, {_OTHERS}")),
    (models.OwnHistoryRegressor, (HISTORY, "own x, own past y"), (HISTORY, "own x, own past y")),
    (models.IndustryMeansRegressor, (COMMON, "own and others' x"), (COMMON, "own and others' x")),
    (models.IndustryPeerRegressor, (COMMON, "the industry's past y"), (COMMON, _OTHERS)),
    (models.OwnCharacteristicsRegressor | models.FamaMacBethRegressor | ElasticNetRegressor, (OWN, "own x"), (OWN, "own x")),
    # in a forecast means over training rows that are near in characteristics: curves of the own ones
    (models.NadarayaWatsonRegressor | models.CrossSectionalRidge, (OWN, "own x"), (PEERS, f"own and peers' x, {_OTHERS}")),
    (_ATTENTION, (PEERS, "own and peers' x, codes"), (PEERS, f"own and peers' x, codes, {_OTHERS}")),
    (models.PrecomputedPeerRegressor, (PEERS, "peers' past y"), (PEERS, _OTHERS)),
)


def steps_of(model: object) -> Iterator[Any]:
    """Yield a model, the last step of a Pipeline and what a search tunes, to the estimator that predicts."""
    yield model
    if isinstance(model, Pipeline):
        yield from steps_of(model.steps[-1][1])
    elif isinstance(model, BaseSearchCV):
        yield from steps_of(model.estimator)


def last_step(model: object) -> Any:
    """Return the estimator that predicts."""
    return list(steps_of(model))[-1]


def information_of(model: object, task: str) -> tuple[Information, str]:
    """Return the last group of information that a model uses, and what it reads, in words.

    A model of the user's own declares it by an attribute ``information``, one of :class:`Information`.

    A mean of outcomes over training rows that are near in characteristics is a curve of the own characteristics, not a peer
    model: kernel regression and ridge count as such in a forecast. Means over all firms, or over an industry, choose no peers:
    they are common.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> def shown(model, task):
    ...     information, reads = information_of(model, task)
    ...     print(f"{information}: {reads}")
    >>> shown(make_pipeline(models.PeerFeatures(over=["sic"]), Ridge()), "forecast")
    common: own x, others' x
    >>> shown(Ridge(), "forecast")
    own: own x, codes
    >>> shown(models.NadarayaWatsonRegressor(), "forecast")
    own: own x
    >>> shown(models.NadarayaWatsonRegressor(), "nowcast")
    peers: own and peers' x, the others' y of the period
    """
    final = last_step(model)
    if isinstance(final, models.OwnCharacteristicsRegressor) and final.effects:
        return HISTORY, "own x, effects of past y"
    if isinstance(final, models.PeerTransformerRegressor) and final.attention is False:
        return {"forecast": (OWN, "own x, codes"), "nowcast": (COMMON, f"own x, codes, {_OTHERS}")}[task]
    declared = getattr(final, "information", None)
    if declared is not None:
        check_one_of(information=(declared, [each.value for each in Information]))
        return Information(declared), "as declared"
    for kind, forecast, nowcast in _KINDS:
        if isinstance(final, kind):
            return {"forecast": forecast, "nowcast": nowcast}[task]
    if has_peers(final):
        return PEERS, "own and peers' x, past y" + f", {_OTHERS}" * (task == "nowcast")
    if isinstance(final, PanelEstimator):  # of a user's own, it is given the whole panel
        return OWN, "not declared"
    features = peer_features(model)
    if not features:
        return OWN, "own x, codes"
    what = " and ".join(sorted({{"outcomes": "past y"}.get(each.of, "x") for each in features}, reverse=True))
    if all(each.network is None for each in features):
        return COMMON, f"own x, others' {what}"
    return PEERS, f"own x, peers' {what}"


def peer_features(model: object) -> list[models.PeerFeatures]:
    """Return the peer features in a model, wherever they are."""
    return [part for part in parts_of(model) if isinstance(part, models.PeerFeatures)]
