"""Simulated panels against literal float64 loops over their definition."""

import math

import numpy as np
import pytest

from peerattn.datasets import simulate_panel
from peerattn.exceptions import InputError
from peerattn.network import rollout
from peerattn.panel import as_panel


def by_period(panel):
    for period, rows in panel.X.groupby(level="period"):
        firms = rows.index.get_level_values("firm")
        x = rows.filter(regex=r"^x\d").to_numpy()
        yield period, firms, x, rows.get("industry")


def looped_weights(x, query, key):
    """The definition, one pair at a time: softmax over j != i of x_i W_Q W_K' x_j'."""
    n, p, d = len(x), *query.shape
    weights = np.zeros((n, n))
    for i in range(n):
        exponentials = {}
        for j in range(n):
            if j == i:
                continue
            score = 0.0
            for c in range(d):
                search = sum(x[i, a] * query[a, c] for a in range(p))
                profile = sum(x[j, a] * key[a, c] for a in range(p))
                score += search * profile
            exponentials[j] = math.exp(score)
        for j, value in exponentials.items():
            weights[i, j] = value / sum(exponentials.values())
    return weights


def net_variance(panel, values):
    """Variance of residuals on characteristics and period dummies, by one big least squares."""
    periods = panel.X.index.get_level_values("period")
    dummies = np.stack([(periods == period).astype(float) for period in periods.unique()], axis=1)
    design = np.hstack([panel.X.filter(regex=r"^x\d").to_numpy(), dummies])
    rest = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(np.mean(rest**2))


@pytest.mark.parametrize("options", [{}, {"truth": "symmetric"}, {"n_networks": 2, "missing_share": 0.3}])
def test_weights_and_peer_term_are_the_definition(options):
    panel = simulate_panel(9, 4, 3, d_head=2, random_state=1, **options)
    truth = panel.parameters
    for period, firms, x, _ in by_period(panel):
        expected = np.zeros(len(x))
        for network, query, key, information in zip(panel.networks, truth.query, truth.key, truth.information, strict=True):
            weights = looped_weights(x, query, key)
            stored = network.matrix(period).loc[firms, firms].to_numpy()
            np.testing.assert_allclose(stored, weights, atol=1e-12)
            expected += [sum(weights[i, j] * (x[j] @ information) for j in range(len(x))) for i in range(len(x))]
        np.testing.assert_allclose(panel.peer_term.xs(period, level="period")[firms], expected, atol=1e-12)
        np.testing.assert_allclose(panel.own_term.xs(period, level="period")[firms], x @ truth.own, atol=1e-12)


@pytest.mark.parametrize("n_layers", [2, 3])
def test_of_several_layers_the_network_is_their_product(n_layers):
    panel = simulate_panel(8, 3, 3, d_head=2, n_layers=n_layers, missing_share=0.2, random_state=1)
    truth = panel.parameters
    assert len(panel.layers) == len(truth.query) == n_layers and len(panel.networks) == 1
    through = rollout(panel.layers, residual=0)
    for period, firms, x, _ in by_period(panel):
        product = np.eye(len(x))
        for layer, query, key in zip(panel.layers, truth.query, truth.key, strict=True):
            weights = looped_weights(x, query, key)
            np.testing.assert_allclose(layer.matrix(period).loc[firms, firms], weights, atol=1e-12)
            product = weights @ product
        for network in (panel.network, through):
            np.testing.assert_allclose(network.matrix(period).loc[firms, firms], product, atol=1e-12)
        expected = product @ (x @ truth.information[0])
        np.testing.assert_allclose(panel.peer_term.xs(period, level="period")[firms], expected, atol=1e-12)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_signal_share(share):
    panel = simulate_panel(60, 60, 4, signal_share=share, random_state=2)
    peer, whole = (net_variance(panel, series.to_numpy()) for series in (panel.peer_term, panel.y))
    assert peer == pytest.approx(share, abs=1e-10)
    assert peer / whole == pytest.approx(share, abs=0.04)


def test_own_share():
    panel = simulate_panel(60, 60, 4, own_share=0.6, random_state=3)
    own = panel.own_term - panel.own_term.groupby(level="period").transform("mean")
    assert (own**2).mean() == pytest.approx(0.6 / 0.4, abs=1e-10)


def test_noise_is_the_rest():
    panel = simulate_panel(60, 60, 4, signal_share=0.3, random_state=4)
    noise = panel.y - panel.own_term - panel.peer_term
    assert noise.std() == pytest.approx(math.sqrt(0.7), rel=0.05)
    assert abs(np.corrcoef(noise, panel.peer_term)[0, 1]) < 0.06


def test_characteristics_persist():
    panel = simulate_panel(80, 60, 2, persistence=0.8, random_state=5)
    wide = panel.X["x1"].unstack("period").to_numpy()
    assert np.corrcoef(wide[:, :-1].ravel(), wide[:, 1:].ravel())[0, 1] == pytest.approx(0.8, abs=0.03)
    assert wide.std() == pytest.approx(1.0, abs=0.05)


def test_sharpness_is_the_spread_of_scores():
    panel = simulate_panel(200, 2, 6, sharpness=3.0, persistence=0.0, random_state=6)
    query, key = panel.parameters.query[0], panel.parameters.key[0]
    _, _, x, _ = next(by_period(panel))
    scores = (x @ query) @ (x @ key).T
    assert scores[~np.eye(200, dtype=bool)].std() == pytest.approx(3.0, rel=0.15)


def test_symmetric_truth_has_symmetric_scores_and_a_directed_one_has_not():
    def cyclic(panel):  # log w_ij - log w_ji summed round a triangle is zero when scores are symmetric
        w = panel.network.matrix("2000-01").to_numpy()
        return sum(math.log(w[a, b] / w[b, a]) for a, b in [(0, 1), (1, 2), (2, 0)])

    assert cyclic(simulate_panel(8, 1, 3, truth="symmetric", sharpness=2.0, random_state=7)) == pytest.approx(0, abs=1e-9)
    assert abs(cyclic(simulate_panel(8, 1, 3, sharpness=2.0, random_state=7))) > 0.1


def test_industry_truth():
    panel = simulate_panel(20, 3, 3, truth="industry", n_industries=4, random_state=8)
    for period, firms, _, industry in by_period(panel):
        w = panel.network.matrix(period).loc[firms, firms].to_numpy()
        for i in range(len(firms)):
            others = [j for j in range(len(firms)) if j != i and industry.iloc[j] == industry.iloc[i]]
            for j in range(len(firms)):
                assert w[i, j] == (pytest.approx(1 / len(others)) if j in others else 0)
    assert panel.industry == "industry"


def test_no_network_at_all():
    panel = simulate_panel(10, 3, 2, signal_share=0.0, random_state=9)
    assert (panel.peer_term == 0).all()
    assert panel.networks == ()
    assert len(panel.network.isolates) == 30
    assert len(panel.network.edges()) == 0


def test_network_of_two_is_their_mean():
    panel = simulate_panel(10, 2, 3, n_networks=2, random_state=10)
    one, two = (net.matrix("2000-02") for net in panel.networks)
    np.testing.assert_allclose(panel.network.matrix("2000-02"), (one + two) / 2)


def test_rows_sum_to_one_over_the_firms_that_are_there():
    panel = simulate_panel(30, 6, 3, missing_share=0.4, random_state=11)
    assert 0.5 < len(panel.X) / 180 < 0.7
    for period, firms, _, _ in by_period(panel):
        matrix = panel.network.matrix(period)
        assert set(matrix.index) == set(firms)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
        assert (np.diag(matrix.loc[firms, firms]) == 0).all()


def test_same_seed_same_bits():
    one, two, other = (simulate_panel(12, 4, 3, random_state=seed) for seed in (0, 0, 1))
    assert one.y.equals(two.y) and one.X.equals(two.X)
    assert not one.y.equals(other.y)


def test_global_generator_is_left_alone():
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    simulate_panel(5, 2, 2, random_state=3)
    assert (np.random.get_state()[1] == before).all()


def test_it_is_a_panel():
    panel = simulate_panel(12, 4, 3, n_industries=3, random_state=0)
    assert as_panel(panel) is panel
    assert panel.choice.characteristics == ("x1", "x2", "x3")
    assert panel.choice.codes == ("industry",)
    assert panel.outcome == "outcome"
    assert len(panel.y) == 48


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_firms": 2}, "n_firms: expected an integer of at least 3"),
        ({"n_periods": 0}, "n_periods: expected at least 1"),
        ({"signal_share": 1.2}, r"signal_share: expected a number in \[0, 1\], got 1.2"),
        ({"own_share": 1.0}, r"own_share: expected a number in \[0, 1\)"),
        ({"missing_share": 0.999, "random_state": 0}, "missing_share: expected a share that leaves some rows"),
        ({"truth": "cyclic"}, "truth: expected 'directed' or 'symmetric' or 'industry', got 'cyclic'"),
        ({"truth": "industry"}, "n_industries of 1 or more"),
        ({"sharpness": 0.0}, "raise sharpness"),
        ({"n_layers": 0}, "n_layers: expected at least 1"),
        ({"sharpness": -1.0}, "sharpness: expected a number of at least 0, got -1.0"),
        ({"n_layers": 2, "n_networks": 2}, "one network that is no industry; got n_layers=2, n_networks=2"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(InputError, match=message):
        simulate_panel(**{"n_firms": 6, "n_periods": 3, "n_characteristics": 2, **options})
