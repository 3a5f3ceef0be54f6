"""Models by name: the forecasters every table needs, and the peer models, ready for ``compare(models=[...])``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor

from peerattn.exceptions import InputError, unknown_name
from peerattn.models.attention import PeerAttentionRegressor
from peerattn.models.common_shocks import CommonShocksRegressor
from peerattn.models.industry import IndustryPeerRegressor
from peerattn.models.industry_median import IndustryMedianRegressor
from peerattn.models.kernel import NadarayaWatsonRegressor
from peerattn.models.own_characteristics import ElasticNetRegressor, OwnCharacteristicsRegressor
from peerattn.models.own_history import OwnHistoryRegressor
from peerattn.models.panel_forecasters import (
    ALPHAS,
    FamaMacBethRegressor,
    FirmMeanRegressor,
    IndustryMeansRegressor,
    LastValueRegressor,
)
from peerattn.models.ridge import CrossSectionalRidge


def _attention(seed: int, task: str, **options: Any) -> Any:
    return PeerAttentionRegressor(task=task, random_state=seed, **options)


#: How a named model is shown, and how it is made of random state, task and industry; it needs the industry that its title names.
RECIPES: dict[str, tuple[str, Callable[[int, str, str | None], Any]]] = {
    "zero": ("Zero", lambda *_: DummyRegressor(strategy="constant", constant=0.0)),
    "mean": ("Prevailing mean", lambda *_: DummyRegressor()),
    "firm_mean": ("Firm's mean", lambda *_: FirmMeanRegressor()),
    "last_value": ("Last value", lambda *_: LastValueRegressor()),
    "ols": ("Own characteristics (OLS)", lambda *_: OwnCharacteristicsRegressor()),
    "ridge": ("Own characteristics (ridge)", lambda *_: OwnCharacteristicsRegressor(RidgeCV(alphas=ALPHAS))),
    "elastic_net": (
        "Own characteristics (elastic net)",
        lambda seed, *_: ElasticNetRegressor(random_state=seed),
    ),
    "fama_macbeth": ("Fama-MacBeth", lambda *_: FamaMacBethRegressor()),
    "boosting": (
        "Gradient boosting",
        lambda seed, *_: HistGradientBoostingRegressor(early_stopping=False, random_state=seed),
    ),
    "neighbors": (
        "50 nearest neighbors",
        lambda *_: OwnCharacteristicsRegressor(KNeighborsRegressor(50, weights="distance")),
    ),
    "own_history": (
        "Own characteristics and history",
        lambda seed, *_: OwnHistoryRegressor(random_state=seed),
    ),
    "common_shocks": (
        "Own history and common shocks",
        lambda seed, _, code: CommonShocksRegressor(industry=code, random_state=seed),
    ),
    "industry_characteristics": (
        "Own and {industry} characteristics",
        lambda *given: IndustryMeansRegressor(industry=given[-1]),
    ),
    "industry": ("{industry} peers", lambda *given: IndustryPeerRegressor(industry=given[-1])),
    "industry_shrunk": (
        "{industry} peers, shrunk",
        lambda *given: IndustryPeerRegressor(industry=given[-1], shrinkage="leave_one_out"),
    ),
    "industry_median": ("{industry} median", lambda *given: IndustryMedianRegressor(industry=given[-1])),
    "kernel": ("Kernel regression", lambda *_: NadarayaWatsonRegressor()),
    "cross_sectional_ridge": ("Cross-sectional ridge", lambda *_: CrossSectionalRidge(scale="rank")),
    "cross_attention": ("Cross-attention", lambda seed, task, _: _attention(seed, task, attention="cross")),
    "attention": ("Peer attention", lambda seed, task, _: _attention(seed, task)),
    "stacked_attention": ("Stacked attention", lambda seed, task, _: _attention(seed, task, n_layers=2)),
}


def model_names() -> tuple[str, ...]:
    """Return the names that :func:`make_model` knows."""
    return tuple(RECIPES)


def needs_industry(name: str) -> bool:
    """Tell whether a named model needs the column with the industry's code."""
    return "{industry}" in _recipe(name)[0]


def model_title(name: str, industry: str | None = None) -> str:
    """Return the name under which a model is shown.

    >>> model_title("industry", "sic"), model_title("ridge")
    ('SIC peers', 'Own characteristics (ridge)')
    >>> model_title("industry_median", "sub_industry")
    'Sub-industry median'
    """
    shown = str(industry or "industry")
    shown = shown.upper() if re.match("(sic|naics|gics|ff)\\d*$", shown.lower()) else shown.replace("_", "-")
    title = _recipe(name)[0].format(industry=shown)
    return title[0].upper() + title[1:]


def make_model(
    name: str, *, task: str = "forecast", industry: str | None = None, random_state: int = 0
) -> Any:
    """Return a new model by its name.

    Parameters
    ----------
    name : str
        ``"zero"``, ``"mean"`` (prevailing), ``"firm_mean"``, ``"last_value"``; of own characteristics ``"ols"``, ``"ridge"``,
        ``"elastic_net"``, ``"fama_macbeth"``, ``"neighbors"``; ``"boosting"`` (own characteristics and codes);
        ``"own_history"`` (own characteristics and past outcomes),
        ``"common_shocks"`` (those, and the shocks that all firms of a period or industry share);
        ``"industry_characteristics"`` (own and industry means); the peer models ``"industry"``, ``"industry_shrunk"``,
        ``"industry_median"``, ``"kernel"``, ``"cross_sectional_ridge"``, ``"cross_attention"`` (searches a ``reference``),
        ``"attention"``, ``"stacked_attention"``.
    task : {"forecast", "explain"}, default "forecast"
        What it is for: to explain, attention reads peers' outcomes.
    industry : str, optional
        Column with the industry's code; the industry models need it.
    random_state : int, default 0

    Returns
    -------
    estimator

    Raises
    ------
    InputError
        For an unknown name, or an industry model without ``industry``.

    Examples
    --------
    >>> make_model("industry", industry="sic")
    IndustryPeerRegressor(industry='sic')
    """
    if needs_industry(name) and industry is None:
        raise InputError(f"models: {name!r} needs industry=, the column with the industry's code.")
    return _recipe(name)[1](random_state, task, industry)


def make_models(names: Iterable[str], *, industry: str | None = None, **options: Any) -> dict[str, Any]:
    """Return models by the names they are shown under; options as :func:`make_model` takes them."""
    return {model_title(name, industry): make_model(name, industry=industry, **options) for name in names}


def _recipe(name: Any) -> tuple[str, Callable[[int, str, str | None], Any]]:
    if not isinstance(name, str) or name not in RECIPES:
        raise unknown_name("models", "model", name, RECIPES)
    return RECIPES[name]
