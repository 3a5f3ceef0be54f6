"""Which characteristics in a peer a firm puts weight on: heads, covariance, ridge, and no stack."""

import numpy as np
import pandas as pd
import pytest

from peerattn import CrossSectionalRidge, PeerAttentionRegressor, StackedPeerRegressor, simulate_panel
from peerattn.exceptions import InputError
from peerattn.models import CovariancePeerRegressor

pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(20, 12, 3, random_state=0)


def test_of_heads_it_is_the_slope_of_the_mean_score_by_the_peers_characteristics(panel):
    model = PeerAttentionRegressor(kappa=None, random_state=0).fit(panel.X, panel.y)
    profile = model.search_profile(panel.X)
    firm = panel.X.index.get_level_values("firm")[0]
    rows = profile.firms
    names = list(profile.characteristics)
    shares = profile.shares / profile.shares.sum()

    def score(peer):
        """The mean over heads of x_i M x_j + k x_j."""
        each = zip(profile.matrices, profile.key_terms)
        x = rows.loc[firm]
        return sum(s * float((x @ M + k) @ peer) for s, (M, k) in zip(shares, each))

    base = pd.Series(0.0, index=rows.columns)
    slopes = {name: score(base.where(base.index != name, 1.0)) for name in names}
    found = profile.looks_for(firm)
    pd.testing.assert_series_equal(found[names], pd.Series(slopes), check_names=False)
    assert found.abs().is_monotonic_decreasing
    given = profile.looks_for(rows.loc[firm, names].to_dict())
    np.testing.assert_allclose(given[names], found[names])


def test_a_firm_looks_for_peers_by_its_code_too(panel):
    """The slope of its own query, of every head, on the key of a peer by its characteristics."""
    code = pd.Series(np.where(panel.X.index.get_level_values("firm").factorize()[0] % 2, "a", "b"), panel.X.index, name="code")
    X = panel.X.assign(code=code)
    model = PeerAttentionRegressor(kappa=None, codes=["code"], random_state=0).fit(X, panel.y)
    profile = model.search_profile(X)
    queries = model.queries(X)
    names = list(profile.characteristics)
    for firm in panel.X.index.get_level_values("firm")[[0, -1]]:
        mean = queries.xs(firm, level="firm").mean()
        slopes = np.zeros(len(names))
        for k, ((seed, head), share) in enumerate(zip(profile.heads, profile.shares / profile.shares.sum(), strict=True)):
            member = model.members_[seed]
            keys = member.state["key"][head][[profile.matrices[k].index.get_loc(name) for name in names]]
            slopes += share * (keys @ mean[k].to_numpy()) / np.sqrt(member.spec.d_head)
        np.testing.assert_allclose(profile.looks_for(firm)[names], slopes, rtol=1e-8, atol=1e-12)
    of_values = profile.looks_for(profile.firms.loc[firm, names].to_dict())
    assert not np.allclose(of_values[names], slopes, rtol=1e-3)


def test_of_a_ridge_it_is_the_slope_of_its_weights():
    """One balanced characteristic beside noise, so that every period is the average one."""
    g = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(12), range(5)], names=["firm", "period"])
    X = pd.DataFrame({"a": np.repeat(np.linspace(-1, 1, 12), 5), "b": np.repeat(g.normal(size=12), 5)}, index)
    y = X["a"] + g.normal(size=60)
    model = CrossSectionalRidge(alpha=1.0).fit(X, y)
    found = model.search_profile(X).looks_for(0)
    z = model.design_.numbers(model._check(X, None, fitting=False))[:12]
    W = model.peer_network(X, outcomes=y).matrix(0).loc[0].to_numpy()[1:]
    slopes = np.linalg.lstsq(np.column_stack([np.ones(11), z[1:]]), W, rcond=None)[0][1:]
    np.testing.assert_allclose(found[["a", "b"]] / found["a"], slopes / slopes[0], rtol=1e-6)


def test_of_a_covariance_it_is_likeness(panel):
    model = CovariancePeerRegressor(random_state=0).fit(panel.X, panel.y)
    profile = model.search_profile()
    M = profile.named()
    assert (np.linalg.eigvalsh(M) > 0).all()
    first = profile.characteristics[0]
    assert profile.looks_for({first: -1.0})[first] == pytest.approx(-M.loc[first, first])


def test_what_cannot_be_looked_up_is_named(panel):
    model = PeerAttentionRegressor(kappa=None, random_state=0).fit(panel.X, panel.y)
    with pytest.raises(InputError, match=r"give its rows: search_profile\(X\)"):
        model.search_profile().looks_for("F001")
    with pytest.raises(InputError, match="characteristic"):
        model.search_profile().looks_for({"sizes": 1.0})
    with pytest.raises(InputError, match="firm"):
        model.search_profile(panel.X).looks_for("nobody")
    prices = np.random.default_rng(0).normal(size=99)[panel.X.index.get_level_values("period").factorize()[0]]
    priced = panel.y + 3 * prices * panel.X.iloc[:, 0]  # others' outcomes show what a period pays for a characteristic
    stack = StackedPeerRegressor(task="nowcast", kappa=0.0, random_state=0).fit(panel.X, priced)
    assert {"covariance", "ridge"} & stack.stack_.fitted.keys()
    with pytest.raises(InputError, match="a stack adds up several"):
        stack.search_profile().looks_for({})
