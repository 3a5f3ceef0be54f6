"""Heads start from the groups of the codes: their first weights are a fixed rule, and what the data show is added to it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from peerattn.models import PeerAttentionRegressor
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.batches import Batch
from peerattn.models.learners.heads.learner import HeadsLearner
from peerattn.models.learners.heads.peer_module import PeerModule, PeerSpec
from peerattn.models.learners.heads.priors import GROUP_SHARE, PairTerms
from peerattn.models.learners.heads.training import TrainingOptions

SECTOR = [1, 1, 1, 1, 2, 2, 2, 3, 0, 0]  # firm 7 is alone in its sector, those of firms 8 and 9 are unknown
INDUSTRY = [1, 1, 2, 2, 3, 3, 4, 5, 0, 0]
N = len(SECTOR)


def section_of(codes, *, weight=None, answering=None):
    """Return one cross-section of N firms with these code columns."""
    rng = np.random.default_rng(0)
    firms = pd.RangeIndex(N)
    rows = Rows(rng.normal(size=(N, 2)), np.array(codes).T, rng.normal(size=N), weight, np.arange(N), firms, firms)
    own = (np.zeros((N, 1)), np.zeros((N, 1)))
    return CrossSection("2000", slice(0, N), rows, rows, True, answering=answering, own=own)


def first_weights(section, **options):
    """Return the weights of heads that no step was taken of, (heads, N, N), and the terms."""
    n_codes = section.focal.codes.shape[1]
    terms = PairTerms((), {f"code {c}": c for c in range(n_codes)}, options.get("n_layers", 1) > 1)
    spec = PeerSpec(2, (5,) * n_codes, n_heads=3, d_head=2, grouped=True, **options)
    module = PeerModule(spec, torch.Generator().manual_seed(1))
    with torch.no_grad():
        return module.weights(Batch.of(section, terms))[0].numpy()


def by_hand(codes, may):
    """Return the share of groups by loops: in equal parts to the codes that have peers, and the rest to all and the null peer."""
    W = np.zeros((N, N))
    for i in range(N):
        pool = [j for j in range(N) if may[i, j]]
        groups = [[j for j in pool if code[j] == code[i] and code[i] > 0] for code in codes]
        groups = [group for group in groups if group]
        share = GROUP_SHARE if groups else 0.0
        W[i, pool] += (1 - share) / (len(pool) + 1)
        for group in groups:
            W[i, group] += share / len(groups) / len(group)
    return W


OPTIONS = [
    {},
    {"values": "outcomes"},
    {"similarity": "dot_product"},
    {"similarity": "gaussian"},
    {"similarity": "additive"},
    {"n_layers": 2},
]


@pytest.mark.parametrize("codes", [[SECTOR], [SECTOR, INDUSTRY]])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_first_weights_are_those_of_firms_of_the_same_code(codes, options):
    found = first_weights(section_of(codes), **options)
    expected = by_hand(codes, ~np.eye(N, dtype=bool))
    for weights in found:
        np.testing.assert_allclose(weights, expected, atol=1e-12)
    assert expected[0, :4].sum() > 0.95  # four of one sector
    np.testing.assert_allclose(expected[7:, :3], 1 / N)  # no group: all others and the null peer alike


def test_the_symmetric_start_is_near_the_groups():
    """One projection for query and key cannot be zero: it would never be learned."""
    found = first_weights(section_of([SECTOR]), symmetric=True)
    expected = by_hand([SECTOR], ~np.eye(N, dtype=bool))
    assert 0 < np.abs(found - expected).max() < 0.02


def test_peers_that_do_not_answer_are_of_no_group():
    answering = np.array([1, 0, 1, 1, 1, 0, 1, 1, 1, 1], dtype=bool)
    found = first_weights(section_of([SECTOR, INDUSTRY], answering=answering))
    np.testing.assert_allclose(found[0], by_hand([SECTOR, INDUSTRY], ~np.eye(N, dtype=bool) & answering), atol=1e-12)


def test_a_frequency_weight_of_two_is_the_row_twice():
    section = section_of([SECTOR], weight=np.array([1.0, 2, 1, 1, 1, 1, 3, 1, 1, 1]))
    found = first_weights(section)[0]
    copies = [0, 1, 1, 2, 3, 4, 5, 6, 6, 6, 7, 8, 9]
    twice = replace(section, peers=replace(section.peers, weight=None).take(np.array(copies)))
    counted = np.zeros((N, N))
    np.add.at(counted.T, copies, first_weights(twice)[0].T)
    np.testing.assert_allclose(found, counted, atol=1e-12)


def in_groups(n_periods=40, n=24, *, seed=0):
    """Return a panel in which a firm follows the large firms of its own industry, more than its small ones."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([range(n), range(n_periods)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(len(index), 2)), index, ["size", "news"])
    industry = np.arange(n) % 4
    X["industry"] = np.repeat(industry, n_periods).astype(str)
    y = pd.Series(0.0, index)
    truth = {}
    for period, at in X.groupby(level="period").indices.items():
        scores = np.where(industry[:, None] == industry[None, :], 2.0 * X["size"].to_numpy()[at], -np.inf)
        np.fill_diagonal(scores, -np.inf)
        W = np.exp(scores)
        W /= W.sum(1, keepdims=True)
        truth[period] = W
        y.iloc[at] = W @ X["news"].to_numpy()[at] + 0.3 * rng.normal(size=n)
    return X, y, truth


@pytest.mark.full_search(max_steps=300)
def test_a_direction_within_groups_is_found():
    """The truth puts weight on the large firms of the same industry: more than the groups by themselves have."""
    X, y, truth = in_groups()
    periods = X.index.get_level_values("period")
    model = PeerAttentionRegressor(n_heads=1, d_head=2, kappa=None, random_state=0).fit(X[periods < 34], y[periods < 34])
    network = model.peer_network(X[periods >= 34])
    off = ~np.eye(24, dtype=bool)
    industry = np.arange(24) % 4
    groups = (industry[:, None] == industry[None, :]).astype(float)
    for period in network.periods:
        found = network.matrix(period).loc[range(24), range(24)].to_numpy()
        by_groups = np.corrcoef(groups[off], truth[period][off])[0, 1]
        assert np.corrcoef(found[off], truth[period][off])[0, 1] > max(0.9, by_groups + 0.1)


def test_noise_leaves_the_groups():
    """Weight decay keeps the weight on the groups where outcomes are noise."""
    rng = np.random.default_rng(3)
    sections = []
    for period in range(12):
        section = section_of([SECTOR])
        rows = replace(section.focal, x=rng.normal(size=(N, 2)), y=rng.normal(size=N))
        sections.append(replace(section, period=period, focal=rows, peers=rows))
    options = TrainingOptions(n_seeds=2, n_averaged=2, max_steps=150, weight_decays=(5.0,))
    spec = PeerSpec(2, (3,), n_heads=1, d_head=2, grouped=True)
    learner = HeadsLearner(spec, PairTerms((), {"sector": 0}), options=options, shrinks=False).fit(sections)
    same = by_hand([SECTOR], ~np.eye(N, dtype=bool))[:7] > 0.1
    for section in sections[:3]:
        weights = learner.heads_.weights(section, slice(0, 7))
        assert (weights * same).sum(axis=1).min() > 0.8
