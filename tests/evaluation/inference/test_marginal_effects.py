"""What makes a peer, against derivatives by hand and for models of every kind."""

import numpy as np
import pandas as pd
import pytest

from peerattn import CrossSectionalRidge, IndustryPeerRegressor, NadarayaWatsonRegressor, simulate_panel
from peerattn.evaluation import marginal_effects
from peerattn.exceptions import InputError
from peerattn.panel import as_panel

PANEL = simulate_panel(16, 20, 2, n_industries=3, random_state=0)
NUMBERS = PANEL.X[["x1", "x2"]]


def last(frame):
    periods = frame.index.get_level_values("period")
    return frame[periods == periods.max()]


def test_the_effects_of_a_gaussian_kernel_are_its_derivatives():
    h = np.array([0.7, 1.6])
    model = NadarayaWatsonRegressor(bandwidth=h).fit(NUMBERS, PANEL.y)
    here = last(NUMBERS)
    found = marginal_effects(model, NUMBERS, outcomes=last(PANEL.y), step=0.01)  # all firms, by default
    x = here.to_numpy()
    gap = x[None] - x[:, None]
    scores = np.exp(-0.5 * ((gap / h) ** 2).sum(axis=2))
    np.fill_diagonal(scores, 0.0)
    w = scores / scores.sum(axis=1, keepdims=True)
    off = ~np.eye(len(x), dtype=bool)
    for c, name in enumerate(NUMBERS):
        slope = w * (1 - w) * -gap[:, :, c] / h[c] ** 2 * x[:, c].std() / w[off].mean()
        assert found.params[f"{name}, level of the peer"] == pytest.approx(slope[off].mean(), abs=1e-4)
        expected = (np.sign(gap[:, :, c]) * slope)[off].mean()
        assert found.params[f"{name}, distance"] == pytest.approx(expected, abs=1e-4)
    assert found.std_errors.isna().all() and found.nobs == 16 * 15


def test_outcomes_of_the_whole_panel_are_those_of_the_cross_section_in_it():
    model = NadarayaWatsonRegressor(bandwidth=1.0).fit(NUMBERS, PANEL.y)
    whole, part = (marginal_effects(model, NUMBERS, outcomes=y, n_batches=2).params for y in (PANEL.y, last(PANEL.y)))
    pd.testing.assert_series_equal(whole, part)


def test_the_effect_of_a_shared_code_in_industry_means_is_the_weight_it_brings():
    panel = simulate_panel(24, 20, 2, n_industries=3, random_state=0)  # industries of several firms
    X = panel.X[["industry"]]
    model = IndustryPeerRegressor(industry="industry").fit(X, panel.y)
    found = marginal_effects(model, X, outcomes=last(panel.y), n_batches=24)
    code = last(X)["industry"].astype(str)
    counts = code.map(code.value_counts())
    mean = 1 / 23  # rows sum to one over 23 others
    assert list(found.params.index) == ["same industry"]
    weight = 1 / (counts.to_numpy() - 0.5)  # between 1 / (n_c − 1), lost, and 1 / n_c, gained
    assert found.params.iloc[0] == pytest.approx(weight.mean() / mean, rel=0.15)


@pytest.mark.parametrize("model", [CrossSectionalRidge(), NadarayaWatsonRegressor()])
def test_standard_errors_over_refits_for_signed_networks_too(model):
    fitted = model.fit(NUMBERS, PANEL.y)
    options = {"outcomes": last(PANEL.y), "characteristics": ["x1"]}
    found = marginal_effects(fitted, NUMBERS, PANEL.y, n_refits=4, random_state=1, **options)
    spread = found.draws.to_numpy()
    by_hand = np.sqrt(3 / 4 * ((spread - spread.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    np.testing.assert_allclose(found.std_errors, by_hand)
    assert (found.std_errors > 0).any() and found.freedom == 3 and found.left_out == "blocks of periods"
    assert "blocks of periods" in str(found) and "level of the peer" in found.to_latex()
    few = NUMBERS[NUMBERS.index.get_level_values("period") > "2001-05"]
    short = marginal_effects(fitted, few, PANEL.y[few.index], outcomes=last(PANEL.y), n_batches=1, n_refits=3)
    assert short.left_out == "groups of firms"


def test_standard_errors_contain_the_draw_of_firms():
    model = NadarayaWatsonRegressor(bandwidth=1.0).fit(NUMBERS, PANEL.y)
    options = {"outcomes": last(PANEL.y), "characteristics": ["x1"], "n_batches": 4, "n_refits": 2}
    found = [marginal_effects(model, NUMBERS, PANEL.y, **options, random_state=seed) for seed in range(8)]
    of_draws = pd.concat([one.params for one in found], axis=1).std(axis=1)
    errors = pd.concat([one.std_errors for one in found], axis=1).mean(axis=1)
    assert (errors > 0.6 * of_draws).all() and (errors < 2.5 * of_draws).all()


@pytest.mark.parametrize("n_batches", [1, 2, None])
def test_the_error_of_a_draw_of_one_firm_is_unknown_and_that_of_all_firms_zero(n_batches):
    few = NUMBERS[NUMBERS.index.get_level_values("firm") < "F009"]
    y = PANEL.y[few.index]
    model = NadarayaWatsonRegressor(bandwidth=1.0).fit(few, y)
    options = {"outcomes": last(y), "characteristics": ["x1"], "n_refits": 2, "n_batches": n_batches}
    found = marginal_effects(model, few, y, **options)
    over_refits = np.sqrt(found.draws.var(axis=1, ddof=0))
    assert found.params.notna().all() and found.n_drawn == (n_batches or 0)
    words = " ".join(str(found).split())
    assert ("the draw of firms" in words) == (n_batches is not None)
    assert ("raise n_batches" in words) == (n_batches == 1)
    if n_batches == 1:
        assert found.std_errors.isna().all() and found.pvalues.isna().all()
    elif n_batches == 2:
        assert (found.std_errors > over_refits).all()
    else:
        np.testing.assert_allclose(found.std_errors, over_refits)


def test_what_cannot_be_measured_is_refused():
    model = NadarayaWatsonRegressor(bandwidth=1.0).fit(NUMBERS, PANEL.y)
    with pytest.raises(InputError, match="characteristics: no column is named 'x3'"):
        marginal_effects(model, NUMBERS, characteristics=["x3"])
    with pytest.raises(InputError, match="model: expected a fitted peer model, got str"):
        marginal_effects("kernel", NUMBERS)
    with pytest.raises(InputError, match="step: expected"):
        marginal_effects(model, NUMBERS, step=0.0)
    with pytest.raises(InputError, match="outcomes: no weight changes"):
        marginal_effects(model, NUMBERS, n_batches=1)  # its peers are training rows
    first = NUMBERS.index.get_level_values("firm") == "F001"
    others = NadarayaWatsonRegressor(bandwidth=1.0).fit(NUMBERS[~first], PANEL.y[~first])
    with pytest.raises(InputError, match="another universe.*pass outcomes="):
        marginal_effects(others, NUMBERS, at=last(NUMBERS).drop(index="F002"), n_batches=1)


def test_a_panel_is_taken_as_a_frame_is():
    panel = as_panel(NUMBERS, PANEL.y)
    model = NadarayaWatsonRegressor(bandwidth=1.0).fit(panel)
    of_panel, of_frame = (marginal_effects(model, X, outcomes=last(PANEL.y), n_batches=2) for X in (panel, NUMBERS))
    pd.testing.assert_series_equal(of_panel.params, of_frame.params)
