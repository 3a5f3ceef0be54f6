"""Models by name: the forecasters every table needs, and the peer models, ready for ``compare(models=[...])``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Recipe:
    """How a named model is shown, and how it is made."""

    title: str
    make: Callable[[Setting], Any]
    needs_industry: bool = False


@dataclass(frozen=True)
class Setting:
    """What a named model is made for."""

    task: str
    industry: str | None
    random_state: int


def _attention(setting: Setting, **options: Any) -> Any:
    return PeerAttentionRegressor(task=setting.task, random_state=setting.random_state, **options)


RECIPES: dict[str, Recipe] = {
    "zero": Recipe("Zero", lambda s: DummyRegressor(strategy="constant", constant=0.0)),
    "mean": Recipe("Prevailing mean", lambda s: DummyRegressor()),
    "firm_mean": Recipe("Firm's mean", lambda s: FirmMeanRegressor()),
    "last_value": Recipe("Last value", lambda s: LastValueRegressor()),
    "ols": Recipe("Own characteristics (OLS)", lambda s: OwnCharacteristicsRegressor()),
    "ridge": Recipe(
        "Own characteristics (ridge)", lambda s: OwnCharacteristicsRegressor(RidgeCV(alphas=ALPHAS))
    ),
    "elastic_net": Recipe(
        "Own characteristics (elastic net)",
        lambda s: ElasticNetRegressor(random_state=s.random_state),
    ),
    "fama_macbeth": Recipe("Fama-MacBeth", lambda s: FamaMacBethRegressor()),
    "boosting": Recipe(
        "Gradient boosting",
        lambda s: HistGradientBoostingRegressor(early_stopping=False, random_state=s.random_state),
    ),
    "neighbors": Recipe(
        "50 nearest neighbors",
        lambda s: OwnCharacteristicsRegressor(KNeighborsRegressor(50, weights="distance")),
    ),
    "own_history": Recipe(
        "Own characteristics and history", lambda s: OwnHistoryRegressor(random_state=s.random_state)
    ),
    "common_shocks": Recipe(
        "Own history and common shocks",
        lambda s: CommonShocksRegressor(industry=s.industry, random_state=s.random_state),
    ),
    "industry_characteristics": Recipe(
        "Own and {industry} characteristics",
        lambda s: IndustryMeansRegressor(industry=s.industry),
        needs_industry=True,
    ),
    "industry": Recipe(
        "{industry} peers", lambda s: IndustryPeerRegressor(industry=s.industry), needs_industry=True
    ),
    "industry_shrunk": Recipe(
        "{industry} peers, shrunk",
        lambda s: IndustryPeerRegressor(industry=s.industry, shrinkage="leave_one_out"),
        needs_industry=True,
    ),
    "industry_median": Recipe(
        "{industry} median", lambda s: IndustryMedianRegressor(industry=s.industry), needs_industry=True
    ),
    "kernel": Recipe("Kernel regression", lambda s: NadarayaWatsonRegressor()),
    "cross_sectional_ridge": Recipe("Cross-sectional ridge", lambda s: CrossSectionalRidge(scale="rank")),
    "cross_attention": Recipe("Cross-attention", lambda s: _attention(s, attention="cross")),
    "attention": Recipe("Peer attention", _attention),
    "stacked_attention": Recipe("Stacked attention", lambda s: _attention(s, n_layers=2)),
}


def model_names() -> tuple[str, ...]:
    """Return the names that :func:`make_model` knows."""
    return tuple(RECIPES)


def needs_industry(name: str) -> bool:
    """Tell whether a named model needs the column with the industry's code."""
    return _recipe(name).needs_industry


def model_title(name: str, industry: str | None = None) -> str:
    """Return the name under which a model is shown.

    >>> model_title("industry", "sic"), model_title("ridge")
    ('SIC peers', 'Own characteristics (ridge)')
    """
    shown = str(industry or "industry")
    shown = shown.upper() if industry and len(shown) <= 5 else shown
    title = _recipe(name).title.format(industry=shown)
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
    recipe = _recipe(name)
    if recipe.needs_industry and industry is None:
        raise InputError(f"models: {name!r} needs industry=, the column with the industry's code.")
    return recipe.make(Setting(task, industry, random_state))


def make_models(
    names: Iterable[str], *, task: str = "forecast", industry: str | None = None, random_state: int = 0
) -> dict[str, Any]:
    """Return models by the names they are shown under."""
    made = {}
    for name in names:
        made[model_title(name, industry)] = make_model(
            name, task=task, industry=industry, random_state=random_state
        )
    return made


def _recipe(name: Any) -> Recipe:
    if not isinstance(name, str) or name not in RECIPES:
        raise unknown_name("models", "model", name, RECIPES)
    return RECIPES[name]
