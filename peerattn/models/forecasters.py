"""Models by name: the forecasters every table needs, and the peer models, ready for ``compare(models=[...])``."""

import re
from collections.abc import Hashable, Iterable
from inspect import signature
from typing import Any, Literal

from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor

from peerattn.exceptions import InputError, check_names, validate_arguments
from peerattn.models import panel_forecasters
from peerattn.models.attention.estimators import PeerAttentionRegressor
from peerattn.models.covariance_regressor import CovariancePeerRegressor
from peerattn.models.industry import IndustryMedianRegressor, IndustryPeerRegressor
from peerattn.models.kernel.estimator import NadarayaWatsonRegressor
from peerattn.models.own_characteristics import ElasticNetRegressor, OwnCharacteristicsRegressor
from peerattn.models.own_history import CommonShocksRegressor, OwnHistoryRegressor
from peerattn.models.ridge import CrossSectionalRidge
from peerattn.models.stacked import StackedPeerRegressor
from peerattn.models.transformer import PeerTransformerRegressor

_RIDGE = RidgeCV(alphas=panel_forecasters.ALPHAS)
_NEIGHBORS = KNeighborsRegressor(50, weights="distance")

#: How a named model is shown, its class, and options; it needs the industry that its title names.
RECIPES: dict[str, tuple[str, type, dict[str, Any]]] = {
    "zero": ("Zero", DummyRegressor, {"strategy": "constant", "constant": 0.0}),
    "mean": ("Prevailing mean", DummyRegressor, {}),
    "firm_mean": ("Firm's mean", panel_forecasters.FirmMeanRegressor, {}),
    "last_value": ("Last value", panel_forecasters.LastValueRegressor, {}),
    "ols": ("Own characteristics (OLS)", OwnCharacteristicsRegressor, {}),
    "ridge": ("Own characteristics (ridge)", OwnCharacteristicsRegressor, {"estimator": _RIDGE}),
    "elastic_net": ("Own characteristics (elastic net)", ElasticNetRegressor, {}),
    "fama_macbeth": ("Fama-MacBeth", panel_forecasters.FamaMacBethRegressor, {}),
    "boosting": ("Gradient boosting", HistGradientBoostingRegressor, {"early_stopping": False}),
    "neighbors": ("50 nearest neighbors", OwnCharacteristicsRegressor, {"estimator": _NEIGHBORS}),
    "own_history": ("Own characteristics and history", OwnHistoryRegressor, {}),
    "common_shocks": ("Firm history and common shocks", CommonShocksRegressor, {}),
    "industry_characteristics": ("Own and {industry} characteristics", panel_forecasters.IndustryMeansRegressor, {}),
    "industry": ("{industry} peers", IndustryPeerRegressor, {}),
    "industry_shrunk": ("{industry} peers, shrunk", IndustryPeerRegressor, {"shrinkage": "leave_one_out"}),
    "industry_median": ("{industry} median", IndustryMedianRegressor, {}),
    "kernel": ("Kernel regression", NadarayaWatsonRegressor, {}),
    "covariance": ("Peer covariance", CovariancePeerRegressor, {}),
    "cross_sectional_ridge": ("Cross-sectional ridge", CrossSectionalRidge, {"scale": "rank"}),
    "cross_attention": ("Cross-attention", PeerAttentionRegressor, {"attention": "cross"}),
    "attention": ("Peer attention", PeerAttentionRegressor, {}),
    "two_layer_attention": ("Peer attention, two layers", PeerAttentionRegressor, {"n_layers": 2}),
    "transformer": ("Transformer over firms", PeerTransformerRegressor, {}),
    "stack": ("Stack with peers", StackedPeerRegressor, {}),
}


def model_names() -> tuple[str, ...]:
    """Return the names that :func:`make_model` knows.

    Examples
    --------
    >>> from peerattn.models import model_names
    >>> "kernel" in model_names()
    True
    """
    return tuple(RECIPES)


def needs_industry(name: str) -> bool:
    """Return whether a named model needs the column with the industry's code."""
    return "{industry}" in _recipe(name)[0]


def model_title(name: str, industry: Hashable | None = None) -> str:
    """Return the name under which a model is shown.

    >>> model_title("industry", "sic"), model_title("ridge")
    ('SIC peers', 'Own characteristics (ridge)')
    >>> model_title("industry_median", "sub_industry")
    'Sub-industry median'
    """
    column = str(industry or "industry").replace("_", "-")
    if re.match("(sic|naics|gics|ff)\\d*$", column.lower()):  # an abbreviation
        column = column.upper()
    title = _recipe(name)[0].format(industry=column)
    return title[0].upper() + title[1:]


@validate_arguments
def make_model(
    name: str, *, task: Literal["forecast", "nowcast"] = "forecast", industry: Hashable | None = None, random_state: int = 0
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
        ``"industry_median"``, ``"kernel"``, ``"cross_sectional_ridge"``, ``"covariance"`` (both nowcasts only),
        ``"cross_attention"`` (searches a ``reference``), ``"attention"``, ``"two_layer_attention"``, ``"transformer"``, and
        ``"stack"`` (own characteristics, history and common shocks, then peers).
    task : {"forecast", "nowcast"}, default "forecast"
        What it is for: in a nowcast attention uses the other firms' outcomes of the period.
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
    _, made, options = _recipe(name)
    given = {"task": task, "industry": industry, "random_state": random_state}
    used = signature(made).parameters
    return clone(made(**options, **{key: value for key, value in given.items() if key in used}))


def make_models(names: Iterable[str], *, industry: Hashable | None = None, **options: Any) -> dict[str, Any]:
    """Return models by the names they are shown under; options as :func:`make_model` takes them."""
    return {model_title(name, industry): make_model(name, industry=industry, **options) for name in names}


def _recipe(name: Any) -> tuple[str, type, dict[str, Any]]:
    check_names("models", "model", [name], RECIPES)
    return RECIPES[name]
