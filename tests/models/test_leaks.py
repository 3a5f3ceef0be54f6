"""No outcome reaches its own prediction, nothing later reaches an earlier one, order means nothing."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from peerattn import (
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    StackedPeerRegressor,
)
from peerattn.exceptions import InputError
from peerattn.models import CovariancePeerRegressor
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.batches import Batch, RowTensors
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec

pytestmark = [
    pytest.mark.usefixtures("fewest_steps", "heads_in_full"),  # six periods show too little for heads of a size of their own
    pytest.mark.filterwarnings("ignore::peerattn.exceptions.BoundedOutcomeWarning"),  # outcomes moved far
]

FIRMS, YEARS = [f"F{k:02d}" for k in range(14)], range(2001, 2007)
INDEX = pd.MultiIndex.from_product([FIRMS, YEARS], names=["firm", "period"])
QUICK = {"n_heads": 2, "kappa": None, "random_state": 0}
MODELS = {
    "attention": PeerAttentionRegressor(**QUICK),
    "outcomes": PeerAttentionRegressor(task="nowcast", **QUICK),
    "stacked": PeerAttentionRegressor(n_layers=2, **QUICK),
    "stacked outcomes": PeerAttentionRegressor(n_layers=2, task="nowcast", **QUICK),
    "stack": StackedPeerRegressor(task="nowcast", codes=["sic"], kappa=0.0, n_heads=1, random_state=0),
    "covariance": CovariancePeerRegressor(codes=["sic"], random_state=0),
    "industry": IndustryPeerRegressor(industry="sic"),
    "kernel": NadarayaWatsonRegressor(),
}
READERS = [name for name in MODELS if name not in ("attention", "stacked")]


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(84, 3)), index=INDEX, columns=["size", "lev", "mom"])
    X = X.mask(rng.random(X.shape) < 0.05)
    X["sic"] = rng.choice(["3711", "3712", "3720", "2911"], size=84)
    y = pd.Series(X["size"].fillna(0) + rng.normal(size=84), index=INDEX)
    y += np.tile(np.random.default_rng(1).normal(scale=2.0, size=6), 14)  # what a period's firms share, for all to read
    y += X["lev"].fillna(0) * np.tile(np.random.default_rng(2).normal(scale=2.0, size=6), 14)  # and a price of leverage
    return X, y.mask(rng.random(84) < 0.1)


@pytest.fixture(scope="module")
def fitted(panel):
    return {name: clone(model).fit(*panel) for name, model in MODELS.items()}


def calls(model, y):
    return ([] if model.needs_outcomes else [{}]) + ([{"outcomes": y}] if model.reads_outcomes else [])


def without_covariance(model):
    peers = model.stack_.stages["peers"]
    weights = {key: 0.0 if key.candidate == "covariance" else weight for key, weight in peers.weights.items()}
    assert any(weights.values())
    made = copy.copy(model)
    made.stack_ = replace(model.stack_, stages=model.stack_.stages | {"peers": replace(peers, weights=weights)})
    return made


# ---------------------------------------------------------------- order means nothing


@pytest.mark.parametrize("name", MODELS)
def test_permuted_rows_permute_predictions(fitted, panel, name):
    X, y = panel
    shuffled = X.sample(frac=1, random_state=0)
    for call in calls(fitted[name], y):  # y keeps its order: it finds its rows by label
        expected = fitted[name].predict(X, **call)
        np.testing.assert_array_equal(fitted[name].predict(shuffled, **call), expected[X.index.get_indexer(shuffled.index)])
        np.testing.assert_array_equal(fitted[name].predict(X.swaplevel(), **call), expected)


@pytest.mark.parametrize("name", MODELS)
def test_order_of_training_rows_and_levels_changes_nothing(fitted, panel, name):
    X, y = panel
    shuffled = X.sample(frac=1, random_state=1).swaplevel()
    model = clone(MODELS[name]).fit(shuffled, y.sample(frac=1, random_state=2))
    for call in calls(model, y):
        np.testing.assert_array_equal(model.predict(X, **call), fitted[name].predict(X, **call))


# ---------------------------------------------------------------- one's own outcome


@pytest.mark.parametrize("name", READERS)
def test_own_outcome_never_moves_own_prediction(fitted, panel, name):
    X, y = panel
    model = fitted[name]
    before = model.predict(X, outcomes=y)
    rounding = 1e-8 if name in ("industry", "stack") else 0.0  # group sums less the own outcome: 1e6 ± 1e6 keeps ten digits
    for row in [k for k in range(84) if np.isfinite(y.iloc[k])][::11]:
        other = y.copy()
        other.iloc[row] += 1e6
        after = model.predict(X, outcomes=other)
        assert abs(after[row] - before[row]) <= rounding
        same = X.index.get_level_values("period") == X.index[row][1]
        assert (after[same] != before[same]).sum() > 0  # others of the period do read it
        later = X.index.get_level_values("period") > X.index[row][1]
        rest = ~same & ~later if name in ("stack", "covariance") else ~same  # history: an outcome is the firm's own past, later
        np.testing.assert_array_equal(after[rest], before[rest])


@pytest.mark.parametrize("name", READERS)
def test_own_prediction_does_not_tell_whether_the_own_outcome_is_known(fitted, panel, name):
    X, y = panel
    before = fitted[name].predict(X, outcomes=y)
    rounding = 1e-10 if name == "stack" else 1e-12  # a ridge's level is flat: two ways to solve it keep eleven digits
    for row in [k for k in range(84) if np.isfinite(y.iloc[k])][::11]:
        other = y.copy()
        other.iloc[row] = np.nan
        assert fitted[name].predict(X, outcomes=other)[row] == pytest.approx(before[row], abs=rounding)


@pytest.mark.parametrize("name", ["attention", "stacked"])
def test_models_of_characteristics_read_no_outcome(fitted, panel, name):
    with pytest.raises(InputError, match="outcomes= was given, but a forecast uses no outcomes"):
        fitted[name].predict(panel[0], outcomes=panel[1])


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("similarity", ["scaled_dot_product", "gaussian", "additive"])
def test_gradient_by_the_own_outcome_is_exactly_zero(n_layers, similarity):
    spec = PeerSpec(3, n_heads=4, n_layers=n_layers, values="outcomes", similarity=similarity)
    module = PeerModule(spec, torch.Generator().manual_seed(0))
    rng, firms = np.random.default_rng(0), pd.RangeIndex(9)
    pool = Rows(rng.normal(size=(9, 3)), np.zeros((9, 0)), rng.normal(size=9), None, np.arange(9), firms, firms)
    rows = RowTensors.of_peers([CrossSection(None, slice(0, 9), pool, pool)], torch.float64)
    y = rows.y.requires_grad_()
    predicted = module(Batch(rows, rows, torch.ones(1, 9)))[0][0, 0, :, 0]
    jacobian = torch.stack([torch.autograd.grad(value, y, retain_graph=True)[0][0] for value in predicted])
    assert (jacobian.diagonal() == 0).all()
    assert (jacobian + torch.eye(9) != 0).all()  # everybody else's counts


# ---------------------------------------------------------------- time


@pytest.mark.parametrize("name", MODELS)
def test_later_values_change_no_earlier_prediction(fitted, panel, name):
    X, y = panel
    late = X.index.get_level_values("period") > 2003
    rng = np.random.default_rng(5)
    X2, y2 = X.copy(), y.copy()
    X2.loc[late, ["size", "lev", "mom"]] = rng.normal(size=(late.sum(), 3)) * 50
    X2.loc[late, "sic"] = "9990"
    y2[late] = rng.normal(size=late.sum()) * 50
    for before, after in zip(calls(fitted[name], y), calls(fitted[name], y2), strict=True):
        expected = fitted[name].predict(X, **before)[~late]
        np.testing.assert_array_equal(fitted[name].predict(X2, **after)[~late], expected)
        some = {key: value[~late] for key, value in before.items()}
        np.testing.assert_allclose(fitted[name].predict(X[~late], **some), expected, rtol=0, atol=1e-12)


# ---------------------------------------------------------------- who is a peer


@pytest.mark.parametrize("name", ["attention", "stacked"])
def test_a_row_of_unknown_outcome_is_a_peer(fitted, panel, name):
    X, y = panel
    unknown = y.index[y.isna()][0]
    same = X.index.get_level_values("period") == unknown[1]
    dropped = X.drop(unknown)
    kept = X.index != unknown
    change = fitted[name].predict(X)[kept] - fitted[name].predict(dropped)
    assert (np.abs(change[same[kept]]) > 1e-6).all()
    trained = clone(MODELS[name]).fit(dropped, y.drop(unknown))
    assert not np.allclose(trained.predict(X), fitted[name].predict(X))


@pytest.mark.parametrize("name", [name for name in READERS if name not in ("stacked outcomes", "covariance")])
def test_a_row_of_unknown_outcome_gives_no_outcome(fitted, panel, name):
    """Only its characteristics count: in medians that fill gaps, a covariance's ranks, stacked layers (next test), and the mean
    from which lines within periods start, which moves all firms of the period alike.
    """
    X, y = panel
    X = X.fillna({"size": 0.0, "lev": 0.0, "mom": 0.0})
    unknown = y.index[y.isna()][0]
    kept = X.index != unknown
    model = without_covariance(fitted[name]) if name == "stack" else fitted[name]
    full = model.predict(X, outcomes=y)[kept]
    less = model.predict(X.drop(unknown), outcomes=y.drop(unknown))
    moved = full - less
    if name == "stack":
        same = X.index.get_level_values("period")[kept] == unknown[1]
        assert abs(moved[same][0]) > 1e-6
        moved[same] -= moved[same][0]
    np.testing.assert_allclose(moved, 0, rtol=0, atol=1e-12)


def test_in_stacked_layers_a_row_of_unknown_outcome_is_a_peer(fitted, panel):
    X, y = panel
    unknown = y.index[y.isna()][0]
    same = X.index.get_level_values("period") == unknown[1]
    kept = X.index != unknown
    full = fitted["stacked outcomes"].predict(X, outcomes=y)[kept]
    less = fitted["stacked outcomes"].predict(X.drop(unknown), outcomes=y.drop(unknown))
    assert (np.abs(full - less)[same[kept]] > 1e-6).all()


@pytest.mark.parametrize("name", MODELS)
def test_on_arrays_no_prediction_depends_on_the_other_rows_of_the_call(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    model = clone(MODELS[name])
    if name == "industry":
        model.set_params(industry=None)
    if name in ("stack", "covariance"):
        model.set_params(codes=())
    model.fit(X, y)
    together = model.predict(X)
    assert isinstance(together, np.ndarray)
    np.testing.assert_allclose(np.concatenate([model.predict(X[[k]]) for k in range(40)]), together, rtol=0, atol=1e-12)
