"""Heads of a peer module: how they are weighed, taken and added."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from peerattn import PeerAttentionRegressor, simulate_panel
from peerattn.models.batches import make_batch
from peerattn.models.estimation import OwnCurves, optimise
from peerattn.models.heads import head_worth, with_fresh_heads, with_heads


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


def test_a_head_that_follows_own_inputs_is_worth_nothing(fitted):
    module, sections, settings = fitted
    module = with_heads(module, torch.tensor([0, 1]))
    before = head_worth(module, sections, settings)

    class Posing(type(module)):
        """Its second head is a curve of own characteristics, and a mean of the period."""

        def forward(self, focal, peers, pairs):
            predicted, heads = super().forward(focal, peers, pairs)
            heads = heads.clone()
            heads[:, 1] = 3 * focal.x[..., :1] + peers.x.mean()
            return predicted - super().forward(focal, peers, pairs)[1][:, 1] + heads[:, 1], heads

    module.__class__ = Posing
    after = head_worth(module, sections, settings)
    assert before[0] != 0
    assert abs(after[1]) < 1e-6 * abs(after[0])


def test_worth_is_the_fall_of_squared_error_at_the_best_slope(fitted):
    module, sections, settings = fitted
    worth = head_worth(module, sections, settings)
    rest, heads, own = [], [], []
    for section in sections:
        predicted, parts = contributions(module, section, settings)
        x = torch.as_tensor(section.focal.x)
        demean = [
            np.asarray(v - v.mean(0))
            for v in (torch.as_tensor(section.focal.y) - predicted[0, :, 0], parts[0, :, :, 0].T, x)
        ]
        for column, part in zip((rest, heads, own), demean, strict=True):
            column.append(part)
    rest, heads, own = (np.concatenate(column) for column in (rest, heads, own))
    for h in range(3):
        # linear part only: the curves can only take more away
        net = heads[:, h] - own @ np.linalg.lstsq(own, heads[:, h], rcond=None)[0]
        r = rest + net
        best = np.mean(net * r) ** 2 / np.mean(net**2)
        assert worth[h] == pytest.approx(best * np.sign(np.mean(net * r)), rel=0.5, abs=2e-3)


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
