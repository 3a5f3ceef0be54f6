"""No estimator depends on the unit of the outcome, or of a column: dollars or billions of dollars give the same figures."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

import peerattn.evaluation
import peerattn.models
from peerattn.evaluation import IntervalRegressor
from peerattn.models import (
    CommonShocksRegressor,
    CovariancePeerRegressor,
    CrossSectionalRidge,
    FamaMacBethRegressor,
    FirmMeanRegressor,
    IndustryMeansRegressor,
    IndustryMedianRegressor,
    IndustryPeerRegressor,
    LastValueRegressor,
    LinearInMeansRegressor,
    NadarayaWatsonRegressor,
    OwnCharacteristicsRegressor,
    OwnHistoryRegressor,
    PeerAttentionClassifier,
    PeerAttentionRegressor,
    PeerTransformerRegressor,
    PrecomputedPeerRegressor,
    StackedPeerRegressor,
    make_model,
)

pytestmark = pytest.mark.usefixtures("fewest_steps")

FIRMS = [f"F{k:02d}" for k in range(16)]
RNG = np.random.default_rng(0)
INDEX = pd.MultiIndex.from_product([FIRMS, range(2001, 2010)], names=["firm", "period"])
NUMBERS = ["size", "lev", "assets", "mom"]
X = pd.DataFrame(RNG.normal(size=(len(INDEX), 4)), index=INDEX, columns=NUMBERS)
X["assets"] = np.exp(X["assets"])
X.loc[RNG.random(len(INDEX)) < 0.05, "mom"] = np.nan
X["sic"] = np.repeat(RNG.choice(["0100", "3711"], len(FIRMS)), 9)
SHOCKS = np.repeat(RNG.normal(size=16), 9) + np.tile(RNG.normal(size=9), 16)
Y = (X["size"] + X["lev"] ** 2 - 0.3 * X["assets"] + SHOCKS + 0.3 * RNG.normal(size=len(INDEX))).rename("roa")
PAST = INDEX.get_level_values("period") < 2008
NETWORK = pd.DataFrame(RNG.random((16, 16)), index=FIRMS, columns=FIRMS)

MODELS = {
    "common shocks": CommonShocksRegressor(),
    "covariance": CovariancePeerRegressor(random_state=0),
    "ridge across firms": CrossSectionalRidge(),
    "ridge across firms, penalty given": CrossSectionalRidge(alpha=1.0),
    "Fama-MacBeth": FamaMacBethRegressor(),
    "firm's mean": FirmMeanRegressor(),
    "last value": LastValueRegressor(),
    "industry means": IndustryMeansRegressor(industry="sic"),
    "industry median": IndustryMedianRegressor(industry="sic"),
    "industry peers": IndustryPeerRegressor(industry="sic"),
    "industry peers, shrunk": IndustryPeerRegressor(industry="sic", shrinkage="leave_one_out"),
    "kernel": NadarayaWatsonRegressor(),
    "local linear": NadarayaWatsonRegressor(degree=1),
    "own": OwnCharacteristicsRegressor(),
    "own, firm effects": OwnCharacteristicsRegressor(effects=("firm",)),
    "own, two effects": OwnCharacteristicsRegressor(effects=("firm", "period")),
    "own, joined effects": OwnCharacteristicsRegressor(effects=("firm", "sic×period")),
    "own, ridge": make_model("ridge"),
    "own, elastic net": make_model("elastic_net"),
    "own, neighbors": make_model("neighbors"),
    "boosting": make_model("boosting"),
    "own history": OwnHistoryRegressor(),
    "linear in means": LinearInMeansRegressor(network=NETWORK),
    "linear in means, two effects": LinearInMeansRegressor(network=NETWORK, effects=("firm", "period")),
    "given network": PrecomputedPeerRegressor(network=NETWORK),
    "intervals": IntervalRegressor(OwnCharacteristicsRegressor(), level=0.5),
    "stack": StackedPeerRegressor(n_heads=1, task="nowcast", random_state=0),
    "attention": PeerAttentionRegressor(n_heads=1, own="linear", kappa=None, random_state=0),
    "attention, Huber": PeerAttentionRegressor(n_heads=1, own="linear", loss="huber", random_state=0),
    "attention, median": PeerAttentionRegressor(n_heads=1, own="linear", loss=0.5, random_state=0),
    "attention to outcomes": PeerAttentionRegressor(n_heads=1, task="nowcast", own="linear", random_state=0),
    "transformer": PeerTransformerRegressor(n_heads=1, random_state=0),
    "attention, classes": PeerAttentionClassifier(n_heads=1, own="linear", kappa=None, random_state=0),
}
#: Powers of two scale numbers without rounding.
UNITS = {
    "outcome in a large unit, columns in a small one": (2.0**-33, dict.fromkeys(NUMBERS, 2.0**31)),
    "outcome in a small unit, columns in a large one": (2.0**33, dict.fromkeys(NUMBERS, 2.0**-31)),
    "one column in dollars, one in billions": (1.0, {"assets": 2.0**30, "lev": 2.0**-30}),
}


def scaled(units):
    return X.assign(**{name: X[name] * unit for name, unit in units.items()})


def predictions(model, X, y):
    """Return predictions of later periods, from characteristics alone, and from others' outcomes where the model takes them."""
    fitted = clone(model).fit(X[PAST], y[PAST])
    if hasattr(fitted, "predict_proba"):
        return [np.asarray(fitted.predict_proba(X[~PAST]))]
    found = []
    if getattr(fitted, "task", "") != "nowcast":
        found.append(np.asarray(fitted.predict(X[~PAST])))
    if getattr(fitted, "reads_outcomes", False):
        found.append(np.asarray(fitted.predict(X[~PAST], outcomes=y[~PAST])))
    if hasattr(fitted, "predict_interval"):
        found.append(np.asarray(fitted.predict_interval(X[~PAST])))
    return found


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request, fewest_steps):
    model = MODELS[request.param]
    y = (Y > 0).astype(int) if hasattr(model, "predict_proba") else Y
    return model, y, predictions(model, X, y)


WEIGHED = ["stack", "attention", "attention, Huber", "attention to outcomes", "transformer", "attention, classes"]


@pytest.mark.parametrize("name", WEIGHED)
def test_the_unit_of_loss_weights(name):
    model = MODELS[name]
    y = (Y > 0).astype(int) if name == "attention, classes" else Y
    weight = np.exp(np.random.default_rng(1).normal(size=PAST.sum()))
    for weights, units in ((weight, (1.0, 1e-3, 1e6)), (np.ones(PAST.sum()), (1.0, 1e6))):
        fitted = (clone(model).fit(X[PAST], y[PAST], loss_weight=unit * weights) for unit in units)
        of_call = {"outcomes": y[~PAST]} if model.task == "nowcast" else {}
        before, *after = (one.predict(X[~PAST], **of_call) for one in fitted)
        for found in after:
            np.testing.assert_allclose(found, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("units", UNITS)
def test_the_units_of_the_outcome_and_of_columns(fitted, units):
    """Both at once, in units whose product is not 1, so that what depends on both does not cancel."""
    model, y, expected = fitted
    of_outcome, of_columns = UNITS[units]
    if hasattr(model, "predict_proba"):  # classes have no unit
        of_outcome = 1
    for found, right in zip(predictions(model, scaled(of_columns), y * of_outcome), expected, strict=True):
        np.testing.assert_allclose(found / of_outcome, right, rtol=0, atol=1e-6)


def test_every_public_estimator_is_listed():
    kinds = {type(model).__name__ for model in MODELS.values()}
    public = {name: getattr(home, name) for home in (peerattn.models, peerattn.evaluation) for name in home.__all__}
    estimators = {
        name
        for name, found in public.items()
        if isinstance(found, type) and issubclass(found, BaseEstimator) and hasattr(found, "predict")
    }
    assert estimators - {"PanelEstimator"} <= kinds  # that is the base class
