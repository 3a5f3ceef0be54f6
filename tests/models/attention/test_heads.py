"""Heads of a peer module: how they are weighed, taken and added."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.models.attention.batches import make_batch
from peerattn.models.attention.estimation import OwnCurves, optimise
from peerattn.models.attention.heads import Curves, head_worth, with_fresh_heads, with_heads
from peerattn.models.attention.losses import regression_loss


@pytest.fixture(scope="module")
def fitted():
    """Two heads of known truth, the training sections and the settings."""
    panel = simulate_panel(40, 12, 3, d_head=2, sharpness=2.0, random_state=0)
    model = PeerAttentionRegressor(n_heads=3, d_head=2, prune=False, max_steps=60, random_state=0)
    model.fit(panel.X, panel.y)
    panel_, rows = model._gate_rows(panel.X, panel.y)
    sections = model._training_sections(model._in_units(rows), panel_)
    return model.members_[0].module(), sections, replace(model._settings(True, sections), dtype=torch.float64)


def contributions(module, section, settings):
    batch = make_batch([section], settings.terms, torch.float64)
    return module(batch.focal, batch.peers, batch.pairs)


def test_worth_is_forward_selection_by_least_squares(fitted):
    module, sections, settings = fitted
    worth = head_worth(module, sections, settings)
    curves = Curves(torch.as_tensor(np.concatenate([section.focal.x for section in sections])))
    columns = []
    for section in sections:
        batch = make_batch([section], settings.terms, torch.float64)
        x, y = batch.focal.x[0], batch.y[0, :, None]
        shown = module.weights(batch.focal, batch.peers, batch.pairs)[0] @ batch.peers.x[0]  # (H, n, p)
        own_term = x @ module.own_slope + module.intercept
        rows = torch.cat([y - own_term, x, curves(x), *shown], dim=1).detach().numpy()
        columns.append(rows - rows.mean(0))
    y, own, *heads = np.split(np.concatenate(columns), [1, 1 + 3 + 24, 31, 34], axis=1)

    def error(blocks):
        X = np.hstack(blocks)
        return float(np.mean((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2))

    blocks, left, last = [own], [0, 1, 2], np.inf
    while left:
        gains = {h: error(blocks) - error([*blocks, heads[h]]) for h in left}
        best = max(gains, key=gains.__getitem__)
        last = min(last, gains[best])
        assert worth[best] == pytest.approx(last, rel=1e-5)
        blocks.append(heads[best])
        left.remove(best)


def test_worth_does_not_ask_for_a_value_vector(fitted):
    module, sections, settings = fitted
    silent = with_heads(module, torch.arange(3))
    with torch.no_grad():
        silent.value.zero_()
    np.testing.assert_allclose(
        head_worth(silent, sections, settings), head_worth(module, sections, settings), rtol=1e-6
    )


def test_a_copy_of_a_head_is_worth_nothing(fitted):
    module, sections, settings = fitted
    alone, twice = (
        head_worth(with_heads(module, torch.tensor(heads)), sections, settings) for heads in ([0], [0, 0])
    )
    assert twice.max() == pytest.approx(alone[0], rel=1e-6) and alone[0] > 0
    assert abs(twice.min()) < 1e-6 * alone[0]


def test_a_head_that_follows_own_inputs_is_worth_nothing(fitted):
    module, sections, settings = fitted

    class Posing(type(module)):
        """What its second head shows is a curve of own characteristics, and a mean of the period."""

        def design(self, focal, peers, pairs, heads=True):
            design = super().design(focal, peers, pairs, heads)
            if heads:
                design = design.clone()
                design[..., -3:] = 3 * focal.x + peers.x.mean()
            return design

    module = with_heads(module, torch.tensor([0, 1]))
    module.__class__ = Posing
    worth = head_worth(module, sections, settings)
    assert worth[0] > 0 and abs(worth[1]) < 1e-6 * worth[0]


@pytest.mark.parametrize("loss", ["huber", "pinball"])
def test_other_losses_weigh_minus_their_gradient(fitted, loss):
    module, sections, settings = fitted
    worth = head_worth(module, sections, replace(settings, loss=regression_loss(loss, 0.5)))
    assert np.isfinite(worth).all() and worth.max() > 0


def test_fresh_heads_leave_the_kept_ones_alone(fitted):
    module, sections, settings = fitted
    grown = with_fresh_heads(module, 2, torch.Generator().manual_seed(1))
    assert grown.spec.n_heads == 5
    _, before = contributions(module, sections[0], settings)
    _, after = contributions(grown, sections[0], settings)
    assert torch.allclose(after[:, :3], before, atol=1e-12)
    back = with_heads(grown, torch.tensor([0, 1, 2]))
    assert torch.allclose(
        contributions(back, sections[0], settings)[0], contributions(module, sections[0], settings)[0]
    )


def test_own_curves_take_the_period_mean_and_bend(fitted):
    module, sections, settings = fitted
    curves = OwnCurves(module, sections, settings)
    batch = make_batch([sections[0]], settings.terms, settings.dtype)
    shifted = make_batch([sections[0]], settings.terms, settings.dtype)
    shifted.y.add_(5.0)
    module.requires_grad_(True)
    assert torch.allclose(
        curves.loss(module, batch, settings.loss), curves.loss(module, shifted, settings.loss), atol=1e-10
    )
    optimise(module, sections, settings, 3, torch.Generator().manual_seed(0))
    curves.loss(module, batch, settings.loss).backward()
    assert curves.slope.grad.abs().sum() > 0


def test_worth_of_a_sample_without_variation(fitted):
    module, sections, settings = fitted
    first = sections[0]
    alone = [replace(first, focal=first.focal.take(slice(0, 1)))]
    assert np.isfinite(head_worth(module, alone, settings)).all()


def test_codes_that_training_does_not_know_stand_where_the_average_row_does():
    panel = simulate_panel(30, 10, 2, n_industries=5, random_state=1)
    y = panel.y + panel.X["industry"].astype("category").cat.codes * 3.0
    unseen = panel.X.assign(industry="ZZZ")
    found = []
    for seed in range(2):
        model = PeerAttentionRegressor(n_heads=0, codes=["industry"], max_steps=200, random_state=seed)
        model.fit(panel.X, y)
        found.append(model.predict(unseen))
        assert abs(found[-1].mean() - model.predict(panel.X).mean()) < 0.1 * y.std()
    assert (found[0] - found[1]).abs().max() < 0.1 * y.std()
