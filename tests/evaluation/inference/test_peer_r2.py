import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from peerattn.evaluation import peer_r2_test
from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork


def panel(n_firms=60, n_periods=12, share=0.7, seed=0):
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product(
        [range(n_firms), range(2000, 2000 + n_periods)], names=["firm", "period"]
    )
    firm, period = (index.get_level_values(k).to_numpy() for k in (0, 1))
    code = pd.Series((firm % 6).astype(str), index=index)
    wrong = pd.Series(rng.integers(0, 6, n_firms)[firm].astype(str), index=index)
    shock = rng.normal(size=(6, n_periods))[firm % 6, period - 2000]
    y = pd.Series(share * shock + rng.normal(size=len(index)), index=index, name="ret")
    return y, code, wrong


def test_one_scheme_against_a_regression_a_period():
    y, code, _ = panel()
    holes = y.where(np.arange(len(y)) % 7 > 0)
    found = peer_r2_test(holes.sample(frac=1, random_state=1).swaplevel(), {"code": code}, n_permutations=19)
    expected = {}
    for t, own in holes.dropna().groupby(level="period"):
        groups = code[own.index]
        rest = (own.groupby(groups).transform("sum") - own) / (own.groupby(groups).transform("count") - 1)
        fit = sm.OLS(own.to_numpy(), sm.add_constant(rest.to_numpy())).fit()
        expected[t] = np.sign(fit.params[1]) * fit.rsquared
    assert np.allclose(found.by_period["ret", "code"], pd.Series(expected))
    assert found.frame.loc[("ret", "code"), "r2"] == pytest.approx(np.mean(list(expected.values())))
    assert found.frame.loc[("ret", "code"), "p_value"] == 1 / 20


def test_zero_is_the_wrong_null_and_permutations_know_it():
    y, code, _ = panel(share=0.0, seed=4)
    everyone = pd.Series("all", index=y.index)
    found = peer_r2_test(y, {"everyone": everyone}, n_permutations=9).frame.iloc[0]
    assert found["r2"] == pytest.approx(-1) and found["r2_permuted"] == pytest.approx(-1)
    assert found["p_value"] == 1.0
    nothing = peer_r2_test(y, {"code": code}, n_permutations=99).frame.iloc[0]
    assert nothing["p_value"] > 0.05 and nothing["r2_permuted"] < 0


def test_persistent_outcomes_do_not_count_anew_in_every_period():
    """AR(.9) outcomes, 12 periods: firms permuted anew in each period reject 25 % of the time."""
    rng, count = np.random.default_rng(0), 0
    index = pd.MultiIndex.from_product([range(40), range(12)], names=["firm", "period"])
    code = pd.Series((index.get_level_values(0) % 8).astype(str), index=index)
    for seed in range(150):
        y = np.empty((40, 12))
        y[:, 0] = rng.normal(size=40) / np.sqrt(1 - 0.81)
        for t in range(1, 12):
            y[:, t] = 0.9 * y[:, t - 1] + rng.normal(size=40)
        found = peer_r2_test(
            pd.Series(y.ravel(), index=index), {"code": code}, n_permutations=39, random_state=seed
        )
        count += found.frame["p_value"].iloc[0] <= 0.05
    assert count / 150 <= 0.10


def test_schemes_are_paired_on_the_same_firms_and_peer_counts():
    y, code, wrong = panel()
    patchy = wrong.where(y.index.get_level_values("firm") < 40)
    found = peer_r2_test(y, {"wrong": patchy, "code": code}, n_permutations=49)
    assert found.baseline == "wrong"
    assert (found.frame["firms"] == 40).all() and found.frame["peers"].nunique() == 1
    row = found.frame.loc[("ret", "code")]
    assert row["difference"] > 0.05 and row["t"] > 3 and row["t_p"] < 0.2 and row["p_value"] == 0.02
    assert np.isnan(found.frame.loc[("ret", "wrong"), "t"])
    few = peer_r2_test(
        y[y.index.get_level_values("period") < 2005], {"a": wrong, "b": code}, n_permutations=9
    )
    assert np.isnan(few.frame["t"]).all() and few.frame["periods"].eq(5).all()


def test_a_network_looks_to_the_firms_with_the_most_weight():
    y, code, _ = panel(n_firms=30)
    firms = pd.Index(range(30))
    same = (firms.to_numpy()[:, None] % 6 == firms.to_numpy()[None, :] % 6).astype(float)
    W = same + 0.01
    np.fill_diagonal(W, 5.0)  # a weight on itself is ignored
    W = W / W.sum(axis=1, keepdims=True)
    network = PeerNetwork.from_matrices({None: (firms, firms, W)})
    both = peer_r2_test(y, {"code": code, "network": network}, n_permutations=9)
    assert np.allclose(both.by_period["ret", "code"], both.by_period["ret", "network"])
    dated = PeerNetwork.from_matrices({2003: (firms, firms, W)})
    assert peer_r2_test(y, {"network": dated}, n_permutations=9).frame["periods"].tolist() == [1]


def test_several_outcomes_and_how_it_prints():
    y, code, _ = panel()
    table = pd.DataFrame({"ret": y, "<b>growth": y**2})
    found = peer_r2_test(table, {"code": code}, n_permutations=9)
    assert len(found.frame) == 2 and repr(found) == "PeerR2(2 outcomes, 1 schemes, baseline 'code')"
    assert "9 permutations" in str(found) and "<b>" not in found._repr_html_()
    again = peer_r2_test(table, {"code": code}, n_permutations=9)
    pd.testing.assert_frame_equal(found.frame, again.frame)


def test_bad_input():
    y, code, _ = panel()
    for call, message in (
        (lambda: peer_r2_test(y.to_numpy(), {"code": code}), "indexed by firm and period"),
        (lambda: peer_r2_test(y, {}), "at least one name"),
        (lambda: peer_r2_test(y, {"code": code.to_numpy()}), "codes are a Series"),
        (lambda: peer_r2_test(y, {"code": code}, baseline="cod"), "no scheme is named 'cod'.*'code'"),
        (lambda: peer_r2_test(y, {"code": code.where(code == "9")}), "no period has 5 firms"),
        (lambda: peer_r2_test(pd.concat([y, y]), {"code": code}), "duplicated"),
    ):
        with pytest.raises(InputError, match=message):
            call()
