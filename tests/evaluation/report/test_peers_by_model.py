"""The peers of boosting, the kernel and other models, side by side in one report."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.svm import SVR

from peerattn import PeerAttentionRegressor, PeerNetwork, Reference
from peerattn.evaluation import WalkForward, compare
from peerattn.evaluation.report.words import within_codes
from peerattn.evaluation.running.entries import BOOSTING
from peerattn.models import CrossSectionalRidge, IndustryPeerRegressor, NadarayaWatsonRegressor
from peerattn.network.measures.comparison import network_correlation

pytestmark = pytest.mark.usefixtures("fewest_steps", "blank_pictures")  # what is found is beside the point

MODELS = {
    "Kernel": NadarayaWatsonRegressor(),
    "Ridge across firms": CrossSectionalRidge(),
    "Industry": IndustryPeerRegressor(industry="sector"),
    "Ridge": Ridge(),
    "Support vectors": SVR(),
}


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(4)
    index = pd.MultiIndex.from_product([range(40), range(10)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(400, 2)), index, ["size", "lev"])
    X["sector"] = [f"S{firm % 4}" for firm, _ in index]
    X.loc[(3, 8) : (3, 9), "sector"] = "S0"  # moved: the code of the last period counts
    return X, pd.Series(X["size"] * X["lev"] + rng.normal(size=400), index, name="roa")


@pytest.fixture(scope="module")
def result(panel):
    return compare(MODELS, *panel, task="nowcast", cv=WalkForward(2, 2), decomposition=False, verbose=False)


def test_boostings_network_is_its_prediction_as_a_sum_of_training_outcomes(panel, result):
    X, y = panel
    firms = result.networks[BOOSTING].matrix()
    assert firms.shape == (40, 40) and result.networks[BOOSTING].periods[0] == 9
    train = X.index.get_level_values(1) < 8
    encoded = pd.get_dummies(X, columns=["sector"], dtype=float)
    assert encoded.shape[1] == 6
    boosting = HistGradientBoostingRegressor(early_stopping=False, random_state=0)
    before, after = (boosting.fit(encoded[train], y[train] + shift).predict(encoded[~train]) for shift in (0, 1))
    assert np.allclose(after - before, 1, atol=1e-4) and np.allclose(firms.sum(axis=1), 1, atol=1e-6)
    same = y.groupby(level=0).transform("first")  # the same outcome in all of a firm's rows: weights of firms are enough
    constant = compare({"Ridge": Ridge()}, X, same, task="nowcast", cv=WalkForward(2, 2), decomposition=False, verbose=False)
    weights = constant.networks[BOOSTING].matrix()
    by_firm = same.xs(9, level=1)
    at = constant.predictions["period"] == 9
    made = constant.predictions[at].set_index("firm")[BOOSTING]
    assert np.allclose(weights @ by_firm.reindex(weights.columns), made.reindex(weights.index), atol=1e-4)


def test_the_models_stand_side_by_side(result, tmp_path):
    assert list(result.networks) == ["Kernel", "Ridge across firms", "Industry", "Ridge", BOOSTING]
    page = result.to_html(tmp_path / "report.html").read_text()
    start = page.index("The firms whose outcomes or characteristics each model uses")
    part = page[start : page.index("<section", start)]
    for name in result.networks:
        assert name in part
    assert "Predictions of Ridge and Gradient boosting are weighted sums of training outcomes" in part
    assert "Within the sector" in part and "those with a weight below .005 are left out" in part
    shown = min(("Kernel", "Ridge across firms"), key=lambda name: result.scores["rmse"][name])
    alike = network_correlation(result.networks[BOOSTING], result.networks[shown])
    assert f"Correlation: with the weights of {shown}" in part and f"{alike:.2f}".replace("-", "−") in part


def test_a_ridge_has_a_score_matrix_and_no_heads(panel, tmp_path):
    """Firms of unknown outcome are empty columns of a nowcast's heat map, which its caption explains."""
    X, y = panel
    y = y.where(y.index.get_level_values(1) + y.index.get_level_values(0) != 9)
    one = {"Ridge across firms": CrossSectionalRidge(codes=["sector"])}
    found = compare(one, X, y, task="nowcast", cv=WalkForward(2, 2), decomposition=False, verbose=False)
    page = " ".join(found.to_html(tmp_path / "report.html").read_text().split())
    assert "Score matrix</h2>" in page and " kept" not in page and "An empty column: no firm puts weight on it" in page
    assert "and 1 code (sector)" in found.methods()
    assert "np.float64" not in repr(found.test("Ridge across firms", BOOSTING))


def test_one_network_has_nothing_beside_it(panel, tmp_path):
    X, y = panel
    alone = compare(
        {"Mean of others": IndustryPeerRegressor(scheme="plain")},
        X[["sector"]],
        y,
        task="nowcast",
        decomposition=False,
        verbose=False,
    )
    assert "Peers by model" not in alone.to_html(tmp_path / "report.html").read_text()


def test_firms_without_a_code_share_none():
    W = np.array([[0, 0.75, 0.25, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 1.0], [0, 0, 1.0, 0]])
    network = PeerNetwork.from_matrices({1: (list("ABCD"), None, W)})
    codes = pd.Series(["S", "S", "unknown", "unknown"], list("ABCD"), name="sector")
    assert within_codes(network, codes)["share"] == 1.0  # of .75 + .5 among those whose code is known
    assert within_codes(network, codes.replace("unknown", "T"))["share"] == pytest.approx(3.25 / 4)


def test_a_universe_of_reference_stands_beside_the_rest(panel, tmp_path):
    X, y = panel
    listed = X.index.get_level_values("firm") < 25
    models = {
        "Cross": PeerAttentionRegressor(attention="cross", task="nowcast", n_heads=1, d_head=2, kappa=None, random_state=0),
        "Kernel": NadarayaWatsonRegressor(),
    }
    options = {"task": "nowcast", "cv": WalkForward(2, 2), "decomposition": False, "verbose": False}
    found = compare(models, X[~listed], y[~listed], reference=Reference(X[listed], y[listed]), **options)
    page = found.to_html(tmp_path / "report.html").read_text()
    part = page[page.index("The peers with the largest weights, by model") :]
    for name, network in found.networks.items():
        first = network.peers(25, k=1)["peer"].iloc[0]
        assert name in part and str(first) in part
    assert set(found.networks["Cross"].reference) == set(range(25))
