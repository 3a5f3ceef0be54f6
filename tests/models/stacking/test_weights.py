"""The candidates' problem: brute-force quadratic programmes in float64, the closed form of one candidate, and its limits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from scipy.optimize import minimize
from sklearn.base import clone

from peerattn import PeerAttentionRegressor, StackedPeerRegressor, simulate_panel
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.learner import HeadsLearner
from peerattn.models.learners.losses import Pinball, huber, squared_error
from peerattn.models.learners.training import Problem
from peerattn.models.stacking import weights as stack
from peerattn.models.stacking.evidence import STEPS, Evidence, OriginResult
from peerattn.models.stacking.groups import GROUPS
from peerattn.models.stacking.origins import Origin
from peerattn.models.stacking.weights import Column, HeldOut, Scope, Stage, conditional_power, weigh


def held_out(n=40, T=8, seed=0, K=1):
    """Firms × periods: three candidates, of which the first two say something; some rows count twice."""
    rng = np.random.default_rng(seed)
    firm, period = np.tile(np.arange(n), T), np.repeat(np.arange(T), n)
    D = rng.normal(size=(n * T, K, 3))
    D[:, :, 1] += 0.6 * D[:, :, 0]
    base = rng.normal(size=(n * T, K))
    noise = rng.normal(size=n * T) * (1 + period / T)
    y = base[:, 0] + 0.3 * D[:, 0, 0] + 0.4 * D[:, 0, 1] + noise
    held = HeldOut(base, y, rng.integers(1, 3, n * T).astype(float), firm, period)
    return held, {Column(name): D[:, :, k] for k, name in enumerate("abc")}


def scores_of(held, columns, kappa, mutual=False):
    """Return scores, standard errors, weights of rows and κ by plain loops over firms and periods."""
    e = held.y - held.base[:, 0]
    losses = {t: np.average(e[held.period == t] ** 2, weights=held.weight[held.period == t]) for t in set(held.period)}
    usual, row = np.median(list(losses.values())), held.weight.mean()
    weight = np.empty(len(e))
    for t in losses:
        here = held.period == t
        size = held.weight[here].sum()
        weight[here] = held.weight[here] * usual * (size + row) / (size * losses[t] + row * usual)
    residual = {Scope.WHOLE: e, Scope.MEAN: e, Scope.WITHIN: e.copy()}
    for t in losses:
        here = held.period == t
        residual[Scope.WITHIN][here] -= np.average(e[here], weights=weight[here])
    terms = np.stack([c[:, 0] * residual[column.scope] * weight for column, c in columns.items()], axis=1)
    squares = np.stack([c[:, 0] ** 2 * weight for c in columns.values()], axis=1)

    def variance(keys):
        """By the scores of clusters at the slope on each column, and what least squares leaves of their variance (CR2)."""
        slope = terms.sum(0) / squares.sum(0)
        at_slope = [terms[keys == k].sum(0) - squares[keys == k].sum(0) * slope for k in np.unique(keys)]
        rest = [squares[keys != k].sum(0) / squares.sum(0) for k in np.unique(keys)]
        return sum(score**2 / r for score, r in zip(at_slope, rest, strict=True))

    firm, period, rows = variance(held.firm), variance(held.period), variance(np.arange(len(e)))
    lowest = (2 if mutual else 1) * firm
    if held.n_periods >= stack.FEW_PERIODS:
        error = np.sqrt(np.maximum(np.maximum(firm + period - rows, lowest), period))
        clusters = min(len(np.unique(held.firm)), held.n_periods)
    else:
        error, clusters = np.sqrt(np.maximum(lowest, rows)), len(np.unique(held.firm))
    bar = stats.t.isf(stats.norm.sf(kappa), clusters - 1) if kappa else 0.0
    return terms.sum(0), error, weight, bar


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("scale", [1.0, 0.4], ids=["inside", "sum of weights binds"])
@pytest.mark.parametrize("kinds", ["www", "wwm", "wmw"], ids=["one kind", "last apart", "second apart"])
def test_the_weights_solve_the_quadratic_programme(kappa, mutual, scale, kinds):
    held, columns = held_out()
    scopes = [{"w": Scope.WITHIN, "m": Scope.MEAN}[kind] for kind in kinds]
    columns = {replace(column, scope=s): scale * D for s, (column, D) in zip(scopes, columns.items(), strict=True)}
    found = np.array(list(weigh(held, columns, squared_error, kappa, mutual=mutual).weights.values()))
    members = np.array([[kind == k for kind in kinds] for k in set(kinds)])
    score, error, weight, bar = scores_of(held, columns, kappa, mutual)
    t = score / error
    open_ = t > bar
    factor = (members * np.where(open_, 1 - (kappa / t) ** 2, 0)).max(1) @ members
    Z, e = np.stack([c[:, 0] for c in columns.values()], axis=1), held.y - held.base[:, 0]

    def objective(w):
        return weight @ (e - Z @ w) ** 2

    best = minimize(
        objective, np.zeros(3), method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
        bounds=[(0, 1 if o else 0) for o in open_], constraints={"type": "ineq", "fun": lambda w: 1 - members @ w},
    ).x  # fmt: skip
    np.testing.assert_allclose(found, factor * best, atol=2e-4)
    least = found / np.where(factor > 0, factor, 1)
    assert objective(least) <= objective(best) * (1 + 1e-8)
    assert (found >= 0).all() and (members @ least <= 1 + 1e-6).all()
    if scale < 1 and kappa < 1:
        assert (members @ least).max() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("loss", [squared_error, huber], ids=["squares", "Huber"])
def test_a_prediction_in_two_parts_counts_in_full(loss):
    """The mean of a period and the differences within it: a true prediction gets a weight of about 1 for each."""
    held, _ = held_out()
    rng = np.random.default_rng(0)
    D = rng.normal(size=(len(held.y), 1)) + rng.normal(size=held.period.max() + 1)[held.period, None]
    held = replace(held, y=held.base[:, 0] + D[:, 0] + 0.1 * rng.normal(size=len(D)))
    mean = (np.bincount(held.period, D[:, 0]) / np.bincount(held.period))[held.period, None]
    apart = {Column("a", Scope.WITHIN): D - mean, Column("a", Scope.MEAN): mean}
    assert min(weigh(held, apart, loss, 0.0, mutual=False).weights.values()) > 0.95
    together = {Column("within"): D - mean, Column("mean"): mean}
    assert sum(weigh(held, together, loss, 0.0, mutual=False).weights.values()) <= 1 + 1e-6


@pytest.mark.parametrize("kappa", [0.5, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("name", [Column(name) for name in "abc"], ids=str)
@pytest.mark.parametrize("scale", [1.0, 0.2], ids=["as it is", "too small"])
def test_one_candidate_alone_is_the_garrote(name, kappa, scale):
    """Whatever least squares would make larger than it is counts as it is, and is shrunk by as much."""
    held, columns = held_out()
    alone = {name: scale * columns[name]}
    score, error, weight, bar = scores_of(held, alone, kappa)
    (found,) = weigh(held, alone, squared_error, kappa, mutual=False).weights.values()
    t = score[0] / error[0]
    least_squares = score[0] / (weight @ alone[name][:, 0] ** 2)
    expected = min(1, least_squares) * (1 - kappa**2 / t**2) if t > bar else 0.0
    assert found == pytest.approx(expected, abs=1e-8)
    assert kappa < 50 or found == 0.0


@pytest.mark.parametrize("n_periods", [2, 4])
def test_kappa_is_read_as_students_quantile_of_the_clusters(n_periods):
    """Of few periods rows are clustered by firm alone; the fewer clusters, the higher the bar."""
    held, columns = held_out(n=12, T=n_periods)
    df = (12 if n_periods < stack.FEW_PERIODS else 4) - 1
    expected = stats.t.isf(stats.norm.sf(2.0), df)
    assert scores_of(held, columns, 2.0)[3] == pytest.approx(expected)
    score, error, *_ = scores_of(held, columns, 2.0)
    bar = score[1] / error[1]
    at = stats.norm.isf(stats.t.sf(bar, df))  # the κ at which this candidate stands exactly at the bar
    alone = {Column("b"): columns[Column("b")]}
    assert weigh(held, alone, squared_error, at * 1.001, mutual=False).weights[Column("b")] == 0.0
    assert weigh(held, alone, squared_error, at * 0.999, mutual=False).weights[Column("b")] > 0.0


def test_a_period_of_few_rows_hardly_counts():
    held, _ = held_out(n=50, T=3)
    strays = np.arange(5)
    more = HeldOut(
        np.r_[held.base, np.zeros((5, 1))], np.r_[held.y, np.zeros(5)], np.r_[held.weight, np.ones(5)],
        np.r_[held.firm, strays], np.r_[held.period, 3 + strays],
    )  # fmt: skip
    assert held.n_periods == pytest.approx(3) and more.n_periods == pytest.approx(3, abs=0.25)


@pytest.mark.parametrize("loss", [huber, Pinball(0.8)], ids=["huber", "pinball"])
def test_other_losses_are_minimised_too(loss):
    held, columns = held_out(n=60)
    found = weigh(held, columns, loss, 0.0, mutual=False)
    w = np.array([found.weights[name] for name in columns])
    D = np.stack(list(columns.values()), axis=-1)
    assert (w >= 0).all() and w.sum() <= 1 + 1e-9 and w.max() > 0.1

    def total(w):
        each = loss(torch.as_tensor(held.base + D @ w), torch.as_tensor(held.y)).numpy()
        start = loss(torch.as_tensor(held.base), torch.as_tensor(held.y)).numpy()
        mean = np.array([np.average(start[held.period == t], weights=held.weight[held.period == t]) for t in range(8)])
        return (each * held.weight / mean[held.period]).sum()

    open_ = w > 0
    for direction in np.eye(3)[open_]:
        for step in (-0.05, 0.05):
            assert total(w) < total(w + step * direction) + 1e-3 * total(w)
    assert found.loss_reduction > 0 and found.t > 0


def test_nothing_to_say_weighs_nothing():
    held, columns = held_out()
    opposite = {name: -columns[name] for name in map(Column, "ab")}
    found = weigh(held, opposite, squared_error, 1.0, mutual=False)
    assert set(found.weights.values()) == {0.0} and found.loss_reduction == 0.0 and found.t < 0
    empty = weigh(held, {}, squared_error, 1.0, mutual=False)
    assert empty.weights == {} and np.isnan(empty.t) and empty.loss_reduction == 0.0
    constant = weigh(held, {Column("zero"): np.zeros_like(held.base)}, squared_error, 1.0, mutual=False)
    assert constant.weights == {Column("zero"): 0.0}


def test_a_shock_of_one_period_does_not_decide():
    """Rows count by the loss of their period: generalised least squares."""
    held, columns = held_out(n=80)
    wild = held.y.copy()
    last = held.period == 7
    wild[last] = held.base[last, 0] + 1e3 * np.random.default_rng(0).normal(size=last.sum())
    shocked = HeldOut(held.base, wild, held.weight, held.firm, held.period)
    usual, changed = (weigh(h, columns, squared_error, 0.5, mutual=False).weights for h in (held, shocked))
    a, b = map(Column, "ab")
    assert changed[a] + changed[b] > 0.5 * (usual[a] + usual[b])


@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_of_an_infinite_bar_least_squares_and_common_shocks_are_left(task):
    panel = simulate_panel(20, 8, 2, random_state=0)
    model = StackedPeerRegressor(task=task, kappa=1e6, n_heads=1, own="linear", random_state=0)
    model.fit(panel.X, panel.y)
    design = np.c_[np.ones(len(panel.X)), panel.X]
    expected = design @ np.linalg.lstsq(design, panel.y, rcond=None)[0]
    shown = {"outcomes": panel.y} if task == "nowcast" else {}
    predicted = model.predict_steps(panel.X, **shown)
    np.testing.assert_allclose(predicted[STEPS[2]], expected, atol=1e-10)
    np.testing.assert_array_equal(predicted["peers"], predicted["common shocks"])
    if task == "nowcast":  # what other firms' outcomes show is not put to the test
        assert model.stack_.fitted.keys() <= {"period", "slopes"}
    else:
        np.testing.assert_array_equal(predicted["peers"], predicted[STEPS[2]])
        assert not model.stack_.fitted
    assert (model.evidence_["factor"].drop(["common"] if task == "nowcast" else []) == 0).all()
    assert len(model.peer_network(panel.X, **shown).isolates) == len(panel.X)
    steps = model.explain_gain()
    assert list(steps.index) == ["own characteristics", "nonlinear", "history", "common", "peers"]
    untested = ["own characteristics", "common"] if task == "nowcast" else ["own characteristics"]
    np.testing.assert_allclose(steps["gain"].drop(untested), 0, atol=1e-12)
    assert isinstance(steps, pd.DataFrame) and np.isfinite(steps["r2"]).all()


def test_weights_of_all_rows_are_those_of_predictions_with_less_error():
    """Means of groups learned from n rows of noise σ² have the best weight v / (v + σ²/n)."""
    n, N, sigma = np.array([20.0, 30.0]), 80.0, 4.0
    best = lambda rows: 1 / (1 + sigma**2 / rows)  # noqa: E731
    a, b, c = map(Column, "abc")
    weights = {a: best(n[0]) / 4, b: 3 * best(n[0]) / 4, c: 0.0}
    grown = Stage(weights, 5.0, 0.1).of_all_rows(n[0] / N)
    assert sum(grown.weights.values()) == pytest.approx(best(N))
    assert grown.weights[b] == pytest.approx(3 * grown.weights[a]) and grown.weights[c] == 0
    kinds = {Column("a", Scope.WITHIN): 1.0, Column("a", Scope.MEAN): best(n[1])}
    assert list(Stage(kinds, 5.0, 0.1).of_all_rows(n[1] / N).weights.values()) == pytest.approx([1, best(N)])


def test_the_fitted_stack_has_weights_of_all_rows(monkeypatch):
    """The share learned from is that of the rows before the origins, by what each origin judges."""
    panel, shares = simulate_panel(40, 20, 3, n_industries=2, random_state=0), []
    y = panel.y + panel.X["x1"] ** 2 / 2
    fit = lambda: StackedPeerRegressor(n_heads=0, random_state=0).fit(panel.X, y).evidence_["factor"]  # noqa: E731
    after = fit()
    monkeypatch.setattr(Stage, "of_all_rows", lambda stage, share: shares.append(share) or stage)
    before = fit()["nonlinear"]
    assert 0 < before < 1
    share = np.average([13 / 20, 17 / 20], weights=[4, 3])
    assert shares == [pytest.approx(share)] * len(shares)
    assert after["nonlinear"] == pytest.approx(before / (before + share * (1 - before)))


def test_a_candidate_with_a_control_is_tested_by_what_it_predicts_beyond_it():
    """One more estimate of the same own shape makes an average better; without peers its control does so, too."""
    rng = np.random.default_rng(0)
    n = 400
    y = rng.normal(size=n)
    held = HeldOut(np.zeros((n, 1)), y, np.ones(n), np.arange(n) % 40, np.arange(n) // 40)
    shape = 0.5 * y + rng.normal(size=n)
    columns = {Column("model"): shape[:, None]}
    alone = weigh(held, columns, squared_error, 2.0, mutual=False)
    beyond = {Column("model"): 0.1 * rng.normal(size=(n, 1))}
    tested = weigh(held, columns, squared_error, 2.0, mutual=False, tested=beyond)
    assert alone.selected() and not tested.selected()
    # where the control is of no use the candidate has the weight that it has without one
    same = weigh(held, columns, squared_error, 2.0, mutual=False, tested=dict(columns))
    assert same.weights == alone.weights and same.t == alone.t


@pytest.mark.parametrize(("t", "share", "least"), [(0.5, 0.5, 2.0), (1.5, 0.5, 2.0), (1.0, 1 / 3, 4.5), (3.0, 0.6, 2.0)])
def test_conditional_power_is_how_often_the_rest_leads_to_a_selection(t, share, least):
    """The score of the rest is normal, of mean and variance by its share of the rows."""
    rest = stats.norm.rvs(size=200_000, random_state=0)
    drift = t / np.sqrt(share)
    final = np.sqrt(share) * t + (1 - share) * drift + np.sqrt(1 - share) * rest
    assert conditional_power(t, share, least) == pytest.approx((final > least).mean(), abs=0.005)


def test_heads_that_predict_nothing_of_the_last_periods_are_not_trained_for_earlier_ones(monkeypatch, full_search):
    trained = []
    fit = HeadsLearner.fit
    monkeypatch.setattr(HeadsLearner, "fit", lambda self, sections: trained.append(len(sections)) or fit(self, sections))
    panel = simulate_panel(25, 30, 3, sharpness=3.0, random_state=0)
    with full_search(n_seeds=4, max_steps=200):
        PeerAttentionRegressor(n_heads=1, random_state=0).fit(panel.X, panel.y)
    assert trained == [25, 20, 30], "the later origin first; then all periods"
    trained.clear()
    noise = pd.Series(np.random.default_rng(0).normal(size=len(panel.y)), panel.y.index)
    with full_search(n_seeds=4, max_steps=200):
        model = PeerAttentionRegressor(n_heads=1, random_state=0).fit(panel.X, noise)
    assert trained == [25]
    evidence = model.evidence_.loc["peers"]
    assert evidence["tested"] and evidence["t"] < 2 and not evidence["factor"]
    assert evidence["reason"].startswith(f"heads given up: t = {evidence['t']:.2f} on the later held-out rows; tested beyond")


def test_periods_of_unequal_size_do_not_bound_t():
    """Scores of large periods are larger by what they know, which is no variance of the sum."""
    rng = np.random.default_rng(0)
    period = np.repeat(np.arange(12), [5, 150] * 6)
    D = rng.normal(size=(len(period), 1))
    firm = np.concatenate([np.arange(n) for n in [5, 150] * 6])
    clear = HeldOut(np.zeros_like(D), D[:, 0] + 0.01 * rng.normal(size=len(D)), np.ones(len(D)), firm, period)
    assert weigh(clear, {Column("a"): D}, squared_error, 2.0, mutual=False).t > 100


@pytest.mark.parametrize("shared", [5 * np.random.default_rng(0).normal(size=12), np.arange(12.0)], ids=["shocks", "trend"])
def test_what_all_firms_share_hides_no_peers(shared):
    """The weight and t of differences within periods are the same whatever the periods' means are."""
    rng = np.random.default_rng(1)
    found = []
    peers = rng.normal(size=(12, 40, 1))
    y = 0.5 * peers[..., 0] + rng.normal(size=(12, 40))
    for means in (np.zeros(12), shared):
        sections = []
        for t in range(12):
            rows = Rows(
                np.zeros((40, 0)), np.zeros((40, 0), int), y[t] + means[t], None, np.arange(40), *[pd.Index(range(40))] * 2
            )
            sections.append(CrossSection(t, slice(0, 40), rows, rows, own=(np.zeros((40, 1)),) * 2))
        predicted = {group: {} for group in GROUPS} | {"peers": {"heads": list(peers)}}
        origin = OriginResult(Origin([], sections), sections, predicted, {})
        problem = Problem(squared_error, 1, (), outcomes=False, dated=True)
        found.append(Evidence([origin], replace(problem, within=True), 2.0).stages()[0]["peers"])
    plain, shocked = found
    within = Column("heads", Scope.WITHIN)
    assert shocked.weights[within] == pytest.approx(plain.weights[within], rel=1e-6) and plain.weights[within] > 0.3
    assert shocked.t == pytest.approx(plain.t, rel=1e-6) and plain.t > 5
    assert 0 < shocked.loss_reduction < plain.loss_reduction


def test_copies_of_a_row_count_as_its_frequency_weight():
    """Rows of three folds of arrays, where a firm is a row, and a fold has errors in common."""
    held, columns = held_out(n=90, T=1)
    common = 2.0 * (held.firm % 3)
    held = replace(held, period=held.firm % 3, y=held.y + common)
    columns = {column: D + common[:, None] for column, D in columns.items()}
    copies = np.repeat(np.arange(90), held.weight.astype(int))
    repeated = HeldOut(held.base[copies], held.y[copies], np.ones(len(copies)), held.firm[copies], held.period[copies])
    once = weigh(held, columns, squared_error, 0.0, mutual=False)
    often = weigh(repeated, {c: D[copies] for c, D in columns.items()}, squared_error, 0.0, mutual=False)
    assert often.t == pytest.approx(once.t, rel=0.02)


def test_sample_weights_of_one_leave_the_covariance():
    panel = simulate_panel(30, 14, 2, n_industries=3, random_state=0)
    model = StackedPeerRegressor(task="nowcast", own="linear", n_heads=1, random_state=0)
    plain, weighted = (clone(model).fit(panel.X, panel.y, sample_weight=each) for each in (None, np.ones(420)))
    assert not {"covariance", "ridge"}.isdisjoint(plain.stack_.fitted)
    pd.testing.assert_frame_equal(weighted.evidence_, plain.evidence_)
