"""A learned covariance: predictions equal those after deleting the own rows, and never read the own outcome."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn.models import CrossSectionalRidge, StackedPeerRegressor
from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows, identities
from peerattn.models.learners.covariance import covariance, fit, kernel
from peerattn.models.learners.covariance.covariance import features
from peerattn.models.learners.covariance.fit import fit_covariance
from peerattn.models.learners.covariance.kernel import inverse, noise, ranked, shared
from peerattn.models.learners.covariance.ridge import fit_ridge_covariance
from peerattn.models.learners.past_outcomes import History
from peerattn.models.stacking.weights import Stage


def rows(x, codes, y, labels, owners=None):
    label = pd.Index(labels)
    owner = label if owners is None else pd.Index(owners)
    return Rows(x, codes, y, None, identities(owner)[0], label, owner)


def panel(n=30, T=8, p=3, seed=0, tie=1.0):
    """Firms whose outcomes share a characteristic's return, an industry's return and, in pairs, a lasting tie."""
    rng = np.random.default_rng(seed)
    x, codes = rng.normal(size=(n, p)), rng.integers(0, 5, size=(n, 1))
    labels = [f"f{i:03d}" for i in range(n)]
    sections = []
    for t in range(T):
        industry, pair = rng.normal(size=6), rng.normal(size=n // 2 + 1)
        y = (
            2 * x[:, 0] * rng.normal()
            + industry[codes[:, 0]] * (codes[:, 0] > 0)
            + tie * pair[np.arange(n) // 2]
            + rng.normal(size=n)
        )
        everyone = rows(x, codes, y, labels)
        sections.append(CrossSection(2000 + t, slice(None), everyone, everyone, True))
    return sections


@pytest.fixture(scope="module")
def fitted():
    sections = panel()
    past = History.of(sections)
    sections = [replace(section, past=past) for section in sections]
    return fit_covariance(sections, past=past), sections


def predict(model, section, past=None):
    return model.solved(section if past is None else replace(section, past=past)).predict(section.peers.y)


def by_deletion(model, section, i, past=None):
    """Prediction of focal firm i by ordinary kriging after its rows are deleted, in float64."""
    keep = np.isfinite(section.peers.y) & (section.attendable if section.attendable is not None else True)
    if section.focal.identity[i] != NO_IDENTITY:
        keep &= section.peers.identity != section.focal.identity[i]
    theta = {name: torch.as_tensor(value) for name, value in model.parameters.items()}
    history = (past or section.past) if model.reads_past else None
    firm = features(section.focal, section, history, torch.float64).take([i])
    others = features(section.peers, section, history, torch.float64).take(np.flatnonzero(keep))
    K = shared(theta, others, others)[0] + noise(theta, others)[0].diag()
    return float(shared(theta, firm, others)[0] @ torch.linalg.solve(K, torch.as_tensor(section.peers.y[keep])))


def unknown(section):
    y = section.peers.y.copy()
    y[[2, 7]] = np.nan
    some = replace(section.peers, y=y)
    return replace(section, focal=some, peers=some, attendable=np.arange(len(y)) != 11)


def grouped(section):
    owners = [f"g{i // 3}" if i < 12 else f"f{i}" for i in range(len(section.peers))]
    some = replace(section.peers, identity=identities(pd.Index(owners))[0])
    return replace(section, focal=some.take(slice(5, 20)), peers=some)


def crossed(section):
    reference = replace(section.peers, identity=np.repeat(np.arange(15), 2))
    focal = section.peers.take(slice(0, 9))
    return replace(section, focal=replace(focal, x=focal.x + 0.1, y=None, identity=np.arange(9) + 10), peers=reference)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s,
        unknown,
        grouped,
        crossed,
        lambda s: unknown(grouped(s)),
        lambda s: replace(s, focal=s.focal.anonymous()),
    ],
    ids=["all known", "unknown outcomes", "groups", "cross", "both", "own row stays"],
)
def test_prediction_equals_deletion_and_weights(fitted, change):
    model, sections = fitted
    section = change(sections[5])
    predicted = predict(model, section)
    expected = [by_deletion(model, section, i) for i in range(len(section.focal))]
    np.testing.assert_allclose(predicted, expected, atol=1e-9)
    W = model.solved(section).weights()
    np.testing.assert_allclose(W @ np.nan_to_num(section.peers.y), predicted, atol=1e-12)
    assert not W[~section.admissible()].any() and not W[:, ~np.isfinite(section.peers.y)].any()
    np.testing.assert_allclose(model.solved(section).weights(slice(3, 6)), W[3:6], atol=1e-13)


@pytest.mark.parametrize("spared, tolerance", [(1, 0.05), (20, None)])
def test_inducing_firms_stand_for_many(fitted, monkeypatch, spared, tolerance):
    """With nearly all firms inducing the prediction is nearly the exact one; with few, the own outcome still has no effect."""
    model, sections = fitted
    section = grouped(unknown(sections[5]))
    exact = predict(model, section)
    known = int(np.isfinite(section.peers.y).sum())
    monkeypatch.setattr(covariance, "EXACT", 10)
    monkeypatch.setattr(covariance, "INDUCING", known - spared)
    predicted, W = predict(model, section), model.solved(section).weights()
    np.testing.assert_allclose(W @ np.nan_to_num(section.peers.y), predicted, atol=1e-12)
    assert not W[~section.admissible()].any()
    assert np.corrcoef(predicted, exact)[0, 1] > 0.5
    if tolerance:
        np.testing.assert_allclose(predicted, exact, atol=tolerance)


@pytest.mark.parametrize("past", [True, False])
def test_the_covariance_is_that_of_its_equation(past):
    """Pair by pair, in float64: code 0 is one level that all firms have, an unknown level (0) is nobody's."""
    generator, wide = torch.Generator().manual_seed(3), torch.float64
    n, p, c, L = 7, 3, 2, 4
    draw = lambda *shape: torch.randn(shape, generator=generator, dtype=wide)  # noqa: E731
    codes = torch.randint(0, 3, (1, n, c), generator=generator)
    none = draw(1, n, 0)
    firms = covariance.Features(draw(1, n, p), draw(1, n, p), codes, draw(1, n, L) if past else none,
                                draw(1, 1, L) if past else none[:, :1])  # fmt: skip
    theta = {name: draw(*v.shape) / 2 for name, v in fit.start_parameters(p, c, past).items()}
    v = {name: (z if name in kernel.SLOPES else z.exp()).numpy() for name, z in theta.items()}
    x, z, h, s = (each[0].numpy() for each in (firms.x, firms.z, firms.past, firms.strength))
    A, volatility = v["low_rank"], np.exp(4 * np.tanh(x @ v["scale"] / 4))
    expected = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            linear = v["linear"] @ (x[i] * x[j]) + v["slope"] @ (z[i] * z[j]) + (x[i] @ A) @ (x[j] @ A)
            g = np.exp(-0.5 * (((x[i] - x[j]) * v["inverse_length"]) ** 2).sum())
            m = (h[i] * np.exp(v["emphasis"] * s[0])) @ h[j] if past else 0.0
            for k, same in enumerate([True, *(codes[0, i] == codes[0, j]) & (codes[0, i] > 0)]):
                alike = v["level"][k] + v["near"][k] * g + (v["past"][k] * m if past else 0.0)
                expected[i, j] += bool(same) * alike
            products = v["past_near"] * g * m + v["past_squared"] * m**2 if past else 0.0
            expected[i, j] = (expected[i, j] + linear + products) * volatility[i] * volatility[j]
    np.testing.assert_allclose(shared(theta, firms, firms)[0].numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_padding_says_nothing(dtype):
    """Losses and gradients of periods of different sizes in one batch are those of each period by itself."""
    whole = panel(n=24, T=3)
    sections = [replace(s, focal=s.focal.take(slice(k)), peers=s.peers.take(slice(k)))
                for s, k in zip(whole, (5, 24, 11))]  # fmt: skip
    periods = [fit._Period.of(section, History.of(sections), dtype) for section in sections]
    parameters = {n: v.to(dtype).requires_grad_() for n, v in fit.start_parameters(3, 1, True).items()}

    def found(some):
        parts = [(q.firms, q.y, q.weight, torch.arange(len(q.y))) for q in some]
        losses = fit._losses(parameters, *fit._padded(parts, "cpu"))
        return losses, torch.autograd.grad(losses.sum(), list(parameters.values()))

    together, alone = found(periods), [found([q]) for q in periods]
    torch.testing.assert_close(together[0], torch.cat([losses for losses, _ in alone]), rtol=1e-5, atol=1e-6)
    for k, gradient in enumerate(together[1]):
        expected = sum(gradients[k] for _, gradients in alone)
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e4])
def test_the_ridge_is_solved_by_its_columns(alpha):
    """The same inverse as that of the whole covariance, of which every other part is absent."""
    generator, wide = torch.Generator().manual_seed(0), torch.float64
    x = torch.randn(1, 40, 3, generator=generator, dtype=wide)
    codes = torch.randint(0, 5, (1, 40, 2), generator=generator)
    none = x[..., :0]
    firms = covariance.Features(x.clamp(-1, 1), x, codes, none, none[:, :1])
    parameters = {
        name: torch.full(v.shape, 0.0 if name in kernel.SLOPES else -60.0, dtype=wide)
        for name, v in fit.start_parameters(3, 2, past=False).items()
    }
    parameters |= {name: torch.full_like(parameters[name], -np.log(alpha)) for name in ("slope", "level")}
    parameters["level"][0] = 7.0
    at, y = np.arange(40), torch.randn(40, generator=generator, dtype=wide)
    exact, low_rank = (of(parameters, firms) for of in (covariance._Inverse.of, covariance._Inverse.linear))
    torch.testing.assert_close(low_rank.rows(at), exact.rows(at), atol=1e-9, rtol=0)
    said = low_rank.leave_one_out(y)
    torch.testing.assert_close(said, exact.leave_one_out(y), atol=1e-9, rtol=1e-9)
    for i in (0, 17, 39):
        moved = low_rank.leave_one_out(y.index_fill(0, torch.tensor([i]), 1e12))
        assert moved[i] == said[i] and (moved != said).sum() == 39


@pytest.mark.parametrize(("n", "m", "c"), [(7, 9, 2), (5, 5, 1), (0, 4, 2), (4, 0, 2), (3, 3, 0)])
def test_pairs_of_one_code_are_those_of_brute_force(n, m, c):
    generator = torch.Generator().manual_seed(n)
    ours, theirs = (torch.randint(0, 3, (2, k, c), generator=generator) for k in (n, m))
    x = [torch.zeros(2, k, 1) for k in (n, m)]
    a, b = (covariance.Features(z, z, codes, z, z[:, :1]) for z, codes in zip(x, (ours, theirs)))
    code, place = kernel._same_code(a, b)
    found = set(zip(code.tolist(), place.tolist(), strict=True))
    assert len(found) == len(code)
    assert found == {
        (k, (s * n + i) * m + j)
        for s in range(2)
        for k in range(c)
        for i in range(n)
        for j in range(m)
        if ours[s, i, k] == theirs[s, j, k] > 0
    }


def test_a_step_draws_one_row_of_each_identity():
    section = grouped(panel(T=1)[0])
    period = fit._Period.of(section, None, torch.float32)
    generator = torch.Generator().manual_seed(0)
    draws = [section.peers.identity[torch.cat(period.draw(generator)).numpy()] for _ in range(5)]
    assert all(sorted(d) == sorted(set(section.peers.identity)) for d in draws)
    assert period.weight.tolist() == [0.0] * 5 + [1.0] * 15 + [0.0] * 10
    anonymous = replace(section, peers=section.peers.anonymous())
    (drawn,) = fit._Period.of(anonymous, None, torch.float32).draw(generator)
    assert len(drawn) == 30


def test_large_periods_are_split_at_random_and_nobody_is_left_out(monkeypatch):
    monkeypatch.setattr(fit, "FIRMS_TOGETHER", 12)
    period = fit._Period.of(panel(T=1)[0], None, torch.float32)
    generator = torch.Generator().manual_seed(0)
    one, other = period.draw(generator), period.draw(generator)
    assert sorted(torch.cat(one).tolist()) == list(range(len(period.y)))
    assert max(len(part) for part in one) <= 12 and not torch.equal(torch.cat(one), torch.cat(other))


# ---------------------------------------------------------------- the ridge


def test_the_ridge_part_is_the_cross_sectional_ridge():
    """Of outcomes, not of what own models leave of them; and its weights are those of its network."""
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(40), range(3)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(120, 2)), index=index, columns=["size", "growth"])
    X["industry"] = pd.Categorical(rng.choice(list("abc"), size=120))
    y = X["size"] + (X["industry"] == "a") + 0.5 * pd.Series(rng.normal(size=120), index=index)
    expected = pd.Series(CrossSectionalRidge().fit(X, y).predict(X, outcomes=y), X.index)
    model = StackedPeerRegressor(task="nowcast", n_heads=0).fit(X, y)
    sections = [model._as_seen(section) for section in model._gate_call(X, y)[1]]
    ridge = fit_ridge_covariance([replace(s, focal=replace(s.focal, y=s.peers.y)) for s in sections], (3,))
    for section in sections:
        found = ridge.predict([section])[0][:, 0]
        label = [(firm, section.period) for firm in section.focal.label]
        np.testing.assert_allclose(found * model.y_scale_ + model.y_center_, expected.loc[label], atol=1e-3)
        W = ridge.derivative(section)(slice(0, len(section.focal)))
        np.testing.assert_allclose(W @ (section.peers.y + section.own[1][:, 0]), found, atol=1e-10)
        assert not np.diag(W).any()
        nobody = replace(section, peers=replace(section.peers, y=np.full(len(section.peers), np.nan)))
        assert not ridge.derivative(nobody)(slice(0, 5)).any()  # nobody's outcome is known


def test_the_network_of_the_whole_prediction_is_its_derivative():
    """One network for the whole model: covariance and ridge by their weights."""
    rng = np.random.default_rng(1)
    index = pd.MultiIndex.from_product([range(25), range(30)], names=["firm", "period"])
    X = pd.DataFrame({name: rng.normal(size=750) for name in ("size", "growth")}, index=index)
    slope = pd.Series(rng.normal(size=30)).loc[index.get_level_values("period")]
    y = X["size"] * slope.to_numpy() + 0.2 * rng.normal(size=750)
    model = StackedPeerRegressor(task="nowcast", own="linear", n_heads=1, random_state=0).fit(X, y)
    assert {"covariance", "ridge"} & set(model.stack_.peers())
    for group in ("nonlinear", "history", "common"):
        model.stack_.stages[group] = Stage({}, float("nan"), 0.0)
    last = index.get_level_values("period") == 29
    before = model.predict(X[last], outcomes=y[last])
    network = model.peer_network(X[last], outcomes=y[last]).matrix(29).to_numpy()
    for j in (0, 7):
        moved = y[last].copy()
        moved.iloc[j] += 1.0
        after = model.predict(X[last], outcomes=moved)
        np.testing.assert_allclose(after - before, network[:, j], atol=1e-8)
        assert after[j] == before[j]
    total = sum(model.stack_.stages["peers"].weights.values())
    assert 0 < total <= 1 + 1e-6


def test_own_outcome_has_no_effect_and_others_have(fitted):
    model, sections = fitted
    y = sections[6].peers.y.copy()
    y[4] += 3.0
    changed = replace(sections[6].peers, y=y)
    before, after = (
        predict(model, sections[6]),
        predict(model, replace(sections[6], focal=changed, peers=changed)),
    )
    assert abs(before[4] - after[4]) < 1e-12
    assert np.abs(before - after).max() > 1e-2


def test_order_of_firms_does_not_matter(fitted):
    model, sections = fitted
    order = np.random.default_rng(3).permutation(len(sections[4].peers))
    shuffled = sections[4].peers.take(order)
    again = predict(model, replace(sections[4], focal=shuffled, peers=shuffled))
    np.testing.assert_allclose(again, predict(model, sections[4])[order], atol=1e-12)


def test_gradient_of_the_errors_equals_finite_differences():
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(2, 6, 6, generator=generator, dtype=torch.float64)
    K = A @ A.mT + torch.eye(6, dtype=torch.float64)
    y = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    symmetric = lambda M, y: fit._LeaveOneOut.apply((M + M.mT) / 2, y)  # noqa: E731
    assert torch.autograd.gradcheck(symmetric, (K.requires_grad_(), y.requires_grad_()))


def test_history_is_what_lies_before(fitted):
    """Neither the same nor a later period's outcomes enter a firm's history; an earlier one's do."""
    model, sections = fitted
    section, base = sections[5], History.of(sections)
    before = predict(model, section, base)

    def with_changed(periods):
        rng = np.random.default_rng(1)
        changed = []
        for t, s in enumerate(sections):
            some = replace(s.peers, y=rng.normal(size=len(s.peers))) if t in periods else s.peers
            changed.append(replace(s, focal=some, peers=some))
        return History.of(changed)

    np.testing.assert_array_equal(predict(model, section, with_changed({5, 6, 7})), before)
    assert np.abs(predict(model, section, with_changed({4})) - before).max() > 1e-3


def test_stored_history_is_joined_with_the_call():
    sections = panel(T=6)
    whole, early = History.of(sections), History.of(sections[:4])
    (joined, *_) = (section.past for section in early.informed(sections[2:]))
    pd.testing.assert_frame_equal(joined.table, whole.table)
    assert joined.informed([]) == [] and joined.informed(sections[:1])[0].past is joined
    undated = History.of(replace(s, period=None) for s in sections)
    pd.testing.assert_frame_equal(undated.informed(sections)[0].past.table, whole.table)


def test_lasting_ties_are_learned_from_the_past():
    train, test = panel(60, 50, seed=2, tie=3.0)[:40], panel(60, 50, seed=2, tie=3.0)[40:]
    past = History.of([*train, *test])
    errors = []
    for known in (None, History.of(train)):
        model = fit_covariance(train, past=known)
        predicted = [predict(model, s, past) for s in test]
        y = np.concatenate([s.peers.y for s in test])
        errors.append(float(np.mean((y - np.concatenate(predicted)) ** 2) / np.mean(y**2)))
    assert errors[1] < 0.85 * errors[0]


@pytest.mark.parametrize("n, p, c", [(1, 1, 0), (2, 1, 0), (4, 3, 1), (12, 1, 0), (9, 0, 1)])
def test_small_and_odd_cross_sections(n, p, c):
    rng = np.random.default_rng(n)
    sections = []
    for t in range(4):
        x = np.column_stack([np.ones(n), rng.normal(size=(n, p))])[:, -p:] if p else np.zeros((n, 0))
        x[: n // 2] = x[:1]  # duplicates
        codes = np.zeros((n, c), dtype=int)
        everyone = rows(x, codes, rng.normal(size=n), list(range(n)))
        sections.append(CrossSection(t, slice(None), everyone, everyone, True))
    model = fit_covariance(sections)
    predicted = predict(model, sections[3], History.of(sections))
    assert np.isfinite(predicted).all() and (n > 1 or predicted[0] == 0)


def test_the_same_seed_gives_the_same_covariance():
    sections = panel(T=4)
    first, second = (fit_covariance(sections, seed=3) for _ in range(2))
    for name, value in first.parameters.items():
        np.testing.assert_array_equal(value, second.parameters[name])


def test_ranks_are_of_the_pool():
    pool = np.random.default_rng(0).normal(size=(9, 2))
    np.testing.assert_allclose(ranked(pool, pool)[:, 0], (pd.Series(pool[:, 0]).rank() - 0.5) / 9 * 2 - 1, atol=1e-6)
    assert not ranked(np.ones((3, 1)), np.ones((3, 1))).any()


def test_a_covariance_that_rounding_made_indefinite_has_an_inverse():
    """Outliers make variances of 1e7 beside a small noise: in single precision eigenvalues are below zero."""
    loading = torch.tensor(np.random.default_rng(0).normal(size=(2, 300, 3)) * np.array([1.0, 3e3])[:, None, None])
    K = loading @ loading.mT + torch.eye(300, dtype=torch.float64)
    K[1] -= 3e-6 * K[1].diagonal().mean() * torch.eye(300, dtype=torch.float64)
    assert torch.linalg.eigvalsh(K[1])[0] < -50
    P = inverse(K)
    assert torch.allclose(P[0], torch.linalg.inv(K[0]), atol=1e-4) and (torch.linalg.eigvalsh(P[1]) > 0).all()
    with pytest.raises(FloatingPointError, match="not finite"):
        inverse(torch.full((1, 4, 4), float("nan")))
