from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from peerattn.exceptions import InputError
from peerattn.network import Difference, PeerNetwork, SameCode, dyadic_regression, mrqap, placebo
from peerattn.network.inference.permutation import among


def weights_of(n: int, seed: int, share: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = rng.random((n, n)) * (rng.random((n, n)) < share)
    np.fill_diagonal(weights, 0.0)
    sums = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)


def panel(sizes: tuple[int, ...] = (7, 6), seed: int = 0) -> PeerNetwork:
    firms = [f"F{i}" for i in range(9)]
    rng = np.random.default_rng(seed)
    return PeerNetwork.from_matrices(
        {2001 + t: (rng.permutation(firms)[:n].tolist(), None, weights_of(n, seed + t)) for t, n in enumerate(sizes)}
    )


CODES = pd.Series(["a", "a", "a", "b", "b", "b", "c", None, "c"], index=[f"F{i}" for i in range(9)])
SIZE = pd.Series(np.random.default_rng(1).normal(size=9), index=CODES.index)


def observations(network: PeerNetwork) -> tuple[np.ndarray, np.ndarray, list[tuple[str, str, int]]]:
    y, X, who = [], [], []
    for period in network.periods:
        matrix = network.matrix(period)
        for i in sorted(matrix.index):
            for j in sorted(matrix.index):
                if i != j:
                    y.append(matrix.loc[i, j])
                    X.append([1.0, float(CODES[i] == CODES[j] and pd.notna(CODES[i])), abs(SIZE[i] - SIZE[j])])
                    who.append((i, j, period))
    return np.array(y), np.array(X), who


@pytest.mark.parametrize("effects", [(), ("firm", "peer×period")])
def test_dyadic_errors_equal_the_jackknife_less_pairs_counted_twice(effects: tuple[str, ...]) -> None:
    """The oracle estimates a dummy for each group and leaves out firm after firm."""
    network = panel((9, 8))
    y, X, who = observations(network)
    names = ["same", "gap"] if effects else ["constant", "same", "gap"]
    k = len(names)
    if effects:
        labels = [[i for i, _, _ in who], [(j, period) for _, j, period in who]]
        X = np.column_stack([X[:, 1:], *[pd.get_dummies(each).to_numpy(dtype=float) for each in labels]])
    params = np.linalg.lstsq(X, y, rcond=None)[0]
    e = y - X @ params
    expected, firms = np.zeros((k, k)), sorted({i for i, _, _ in who})
    for firm in firms:
        rest = np.array([firm not in (i, j) for i, j, _ in who])
        shift = (np.linalg.lstsq(X[rest], y[rest], rcond=None)[0] - params)[:k]
        expected += (len(firms) - 1) / len(firms) * np.outer(shift, shift)
    bread, meat = np.linalg.pinv(X.T @ X), np.zeros((X.shape[1], X.shape[1]))
    for a, (i, j, _) in enumerate(who):
        for b, (m, n, _) in enumerate(who):
            if {i, j} == {m, n}:
                meat += e[a] * e[b] * np.outer(X[a], X[b])
    found = dyadic_regression(network, {"same": SameCode(CODES), "gap": Difference(SIZE)}, effects=effects)
    assert list(found.params.index) == names
    np.testing.assert_allclose(found.params, params[:k], atol=1e-9)
    np.testing.assert_allclose(found.cov, expected - (bread @ meat @ bread)[:k, :k], atol=1e-9)
    assert (found.nobs, found.n_periods) == (9 * 8 + 8 * 7, 2)
    assert "same" in str(found) and len(repr(found).splitlines()) == 1
    assert found.pvalues.isna().all() and "the tests hold from 25 firms on" in str(found)
    if not effects:
        assert found.rsquared == pytest.approx(sm.OLS(y, X).fit().rsquared)


@pytest.mark.parametrize("effects", [(), ("firm",)])
def test_units_and_levels_of_regressors_change_nothing(effects: tuple[str, ...]) -> None:
    """Assets in cents, far above zero, beside a code: a column had been lost among the larger ones."""
    network, far = panel((9, 8)), SIZE * 1e9
    x = pd.DataFrame(weights_of(9, 5), SIZE.index, SIZE.index)
    ours, theirs = (
        dyadic_regression(network, {"same": SameCode(CODES), "gap": Difference(size), "x": each}, effects=effects)
        for size, each in ((SIZE, x), (far, x + 2.0**20))
    )
    unit = pd.Series({"same": 1.0, "gap": 1e9, "x": 1.0})
    np.testing.assert_allclose(theirs.params[unit.index] * unit, ours.params[unit.index], rtol=1e-7)
    np.testing.assert_allclose(theirs.std_errors[unit.index] * unit, ours.std_errors[unit.index], rtol=1e-7)
    if not effects:
        one, other = (mrqap(network, {"size": Difference(size), "x": x * k}) for size, k in ((SIZE, 1.0), (far, 1e-8)))
        np.testing.assert_allclose(other.params * [1e9, 1e-8], one.params, rtol=1e-7)
        np.testing.assert_array_equal(one.pvalues, other.pvalues)


def test_regressors_that_effects_explain_but_for_rounding_are_named() -> None:
    firms, rng = list("ABCD"), np.random.default_rng(0)
    gaps = {"gap": Difference(pd.Series(1e3 * rng.normal(size=4), firms)), "same": SameCode(pd.Series(list("baba"), firms))}
    network = PeerNetwork.from_matrices({t: (firms, None, 1e-8 * rng.random((4, 4))) for t in (1, 2)}, row_normalized=False)
    x = pd.DataFrame(1e8 * (1e6 + rng.normal(size=(4, 4))), firms, firms)
    with pytest.raises(InputError, match="repeats others"):
        dyadic_regression(network, {"x": x} | gaps, effects=("firm", "peer"))


def test_dyadic_tests_keep_their_size_with_few_firms() -> None:
    """Firm effects on both sides; the sum over pairs that share a firm rejects 20 %."""
    rng, rejected, firms = np.random.default_rng(0), 0, [f"F{i:02d}" for i in range(25)]
    for _ in range(300):
        W = np.abs(10 + rng.normal(size=(25, 1)) + rng.normal(size=(1, 25)) + rng.normal(size=(25, 25)))
        network = PeerNetwork.from_matrices({None: (firms, None, W)}, row_normalized=False)
        x = pd.Series(rng.normal(size=25), index=firms)
        rejected += dyadic_regression(network, {"gap": Difference(x)}).pvalues["gap"] < 0.05
    assert rejected / 300 <= 0.11


def test_mrqap_estimates_are_least_squares_with_period_constants() -> None:
    network = panel()
    y, X, who = observations(network)
    dummies = pd.get_dummies([period for _, _, period in who]).to_numpy(dtype=float)
    expected = sm.OLS(y, np.column_stack([X[:, 1:], dummies])).fit()
    found = mrqap(network, {"same": SameCode(CODES), "gap": Difference(SIZE)}, n_permutations=9)
    np.testing.assert_allclose(found.params, expected.params[:2])
    np.testing.assert_allclose(found.tstats, expected.tvalues[:2])
    np.testing.assert_allclose(found.std_errors, expected.bse[:2])


def test_qap_equals_brute_force() -> None:
    weights = weights_of(6, 3)
    other = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0))) + np.random.default_rng(3).random((6, 6))
    weights = np.exp(-other) * (0.3 + weights)
    np.fill_diagonal(weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    firms = list("ABCDEF")
    network = PeerNetwork.from_matrices({None: (firms, None, weights)})
    off = ~np.eye(6, dtype=bool)
    observed = abs(np.corrcoef(weights[off], other[off])[0, 1])
    exact = np.mean(
        [
            abs(np.corrcoef(weights[off], other[np.ix_(order, order)][off])[0, 1]) >= observed - 1e-12
            for order in map(list, permutations(range(6)))
        ]
    )
    frame = pd.DataFrame(other, index=firms, columns=firms)
    found = mrqap(network, {"other": frame}, n_permutations=4000, random_state=1)
    assert found.pvalues.iloc[0] == pytest.approx(exact, abs=0.015)
    assert found.method == "QAP"


def test_semi_partialing_equals_regressions_on_permuted_residuals() -> None:
    network = panel((8,), seed=4)
    y, X, who = observations(network)
    names = sorted({i for i, _, _ in who})
    place = {name: n for n, name in enumerate(names)}
    others = np.column_stack([np.ones(len(y)), X[:, 2]])
    rest = X[:, 1] - others @ np.linalg.lstsq(others, X[:, 1], rcond=None)[0]
    square = np.zeros((8, 8))
    for value, (i, j, _) in zip(rest, who, strict=True):
        square[place[i], place[j]] = value
    observed = abs(sm.OLS(y, X).fit().tvalues[1])
    rng = np.random.default_rng(5)
    count = 0
    for _ in range(49):
        order = rng.permutation(8)
        z = square[np.ix_(order, order)][~np.eye(8, dtype=bool)]
        count += abs(sm.OLS(y, np.column_stack([others, z])).fit().tvalues[2]) >= observed
    found = mrqap(network, {"same": SameCode(CODES), "gap": Difference(SIZE)}, n_permutations=49, random_state=5)
    assert found.pvalues.iloc[0] == (1 + count) / 50


def test_one_permutation_of_firms_serves_all_periods() -> None:
    """The same network repeated six times is no more evidence than once."""
    rng, rejected = np.random.default_rng(0), 0
    firms = [f"F{i:02d}" for i in range(14)]
    for seed in range(120):
        W = rng.random((14, 14)) ** 3
        np.fill_diagonal(W, 0.0)
        W /= W.sum(axis=1, keepdims=True)
        network = PeerNetwork.from_matrices({t: (firms, None, W) for t in range(6)})
        size = pd.Series(rng.normal(size=14), index=firms)
        found = mrqap(network, {"gap": Difference(size)}, n_permutations=39, random_state=seed)
        rejected += found.pvalues.iloc[0] <= 0.05
    assert rejected / 120 <= 0.10
    once = PeerNetwork.from_matrices({0: (firms, None, W)})
    alone = mrqap(once, {"gap": Difference(size)}, n_permutations=39, random_state=seed)
    assert alone.pvalues.equals(found.pvalues)


def test_absent_firms_are_passed_over_by_a_permutation() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for order in permutations(range(5)):
        place = tuple(among(np.array(order), np.array([0, 1, 3])).tolist())
        counts[place] = counts.get(place, 0) + 1
    assert set(counts.values()) == {20} and len(counts) == 6  # uniform
    order = np.random.default_rng(0).permutation(30)
    for here in (np.arange(30), np.arange(0, 30, 2)):
        both = np.isin(here, here[np.isin(order[here], here)])
        np.testing.assert_array_equal(here[among(order, here)][both], order[here][both])


def test_firms_with_unknown_values_are_left_out_and_networks_can_explain() -> None:
    network = panel((9,))
    size = SIZE.copy()
    size["F4"] = np.nan
    assert mrqap(network, {"gap": Difference(size)}, n_permutations=1).nobs == 8 * 7
    same = mrqap(network, {"itself": network}, n_permutations=99)
    assert same.rsquared == pytest.approx(1.0) and same.pvalues.iloc[0] == 0.01
    assert "999" not in str(same) and "QAP" in same._repr_html_()


def test_bad_regressors_are_named() -> None:
    network = panel((9,))
    flat = pd.Series(1.0, index=SIZE.index)
    for call in (mrqap, dyadic_regression):
        with pytest.raises(InputError, match="at least one"):
            call(network, {})
        with pytest.raises(InputError, match=r"regressors\['x'\].*int"):
            call(network, {"x": 3})
        with pytest.raises(InputError, match="vary"):
            call(network, {"flat": Difference(flat)})
        with pytest.raises(InputError, match="repeat"):
            call(network, {"a": Difference(SIZE), "b": Difference(2 * SIZE)})


@pytest.mark.parametrize("kind", ["relabelled", "rewired"])
def test_placebos_keep_what_they_say(kind: str) -> None:
    network = panel((9, 9))
    found = placebo(network, kind, random_state=1)  # type: ignore[arg-type]
    assert found.equals(placebo(network, kind, random_state=1))  # type: ignore[arg-type]
    assert not found.equals(network)
    for period in network.periods:
        before, after = network.matrix(period), found.matrix(period)
        assert before.index.equals(after.index)
        assert (np.diag(after) == 0).all()
        if kind == "rewired":
            np.testing.assert_array_equal(np.sort(after, axis=1), np.sort(before, axis=1))
        if kind == "relabelled":
            assert sorted(map(tuple, np.sort(after, axis=1))) == sorted(map(tuple, np.sort(before, axis=1)))


def test_bad_placebos() -> None:
    with pytest.raises(InputError, match="kind"):
        placebo(panel((9,)), "random")  # type: ignore[arg-type]
