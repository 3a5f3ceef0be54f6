"""As many fits are averaged as their networks need to agree, by the formula of Spearman and Brown."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from peerattn.models.attention.stability import MOST_STARTS, agreement, stable
from peerattn.models.pools import Rows, Section

N = 8
OFF = ~np.eye(N, dtype=bool)
_AXES = np.linalg.qr(np.c_[np.ones(OFF.sum()), np.random.default_rng(0).normal(size=(OFF.sum(), 7))])[0][
    :, 1:
]


@dataclass
class Fixed:
    """A part with a given network, which leaves so much of every outcome."""

    W: np.ndarray
    left: float = 1.0

    def weights(self, section, rows):
        return self.W[rows]

    def additions(self, sections):
        return [section.focal.y[:, None] - self.left for section in sections]


def network(number, correlation):
    """Return weights whose correlation with those of every other number is exactly this."""
    W = np.zeros((N, N))
    W[OFF] = 1 + np.sqrt(correlation) * _AXES[:, 0] + np.sqrt(1 - correlation) * _AXES[:, 1 + number]
    return Fixed(W)


@pytest.fixture
def sections():
    rows = Rows(
        np.zeros((N, 1)),
        np.zeros((N, 0)),
        np.zeros(N),
        None,
        np.arange(N),
        pd.RangeIndex(N),
        pd.RangeIndex(N),
    )
    return [Section(t, slice(None), rows, rows, True) for t in range(5)]


def test_one_fit_suffices_where_the_last_trial_agrees(sections):
    fitted = []
    parts, frame = stable(
        lambda k: fitted.append(k) or network(0, 0.5), [network(1, 0.5), network(0, 0.5)], sections
    )
    assert fitted == [0] and len(parts) == 1
    assert frame["comparison"].tolist() == ["folds", "folds"]
    np.testing.assert_allclose(frame["correlation"], [0.5, 1.0])
    assert frame["common_top5"].iloc[1] == 1.0


@pytest.mark.parametrize(
    "correlation, needed", [(0.95, 2), (0.85, 2), (0.8, 3), (0.7, 4), (0.65, 0), (0.2, 0)]
)
def test_so_many_are_averaged_that_two_such_averages_would_agree(sections, correlation, needed):
    """k r / (1 + (k - 1) r) is at least .9 for the first time at k; beyond four, nothing is identified."""
    averaged = [k * correlation / (1 + (k - 1) * correlation) >= 0.9 for k in range(2, MOST_STARTS + 1)]
    assert needed == (2 + averaged.index(True) if any(averaged) else 0)
    parts, frame = stable(lambda k: network(k, correlation), [], sections)
    assert len(parts) == needed
    assert (frame["comparison"] == "seeds").all()
    n_fits = needed or MOST_STARTS
    assert len(frame) == n_fits * (n_fits - 1) / 2
    np.testing.assert_allclose(frame["correlation"], correlation)


@pytest.mark.parametrize("left, kept", [(2.0, [1, 2]), (0.5, [])])
def test_a_start_that_ended_in_a_poor_optimum_is_left_out(sections, left, kept):
    """One differs from those that agree and leaves more of the outcomes; if it leaves less, nothing is identified."""
    fits = [Fixed(network(0, 0.0).W, left), *(network(k, 0.95) for k in range(1, 4))]
    parts, frame = stable(fits.__getitem__, [], sections)
    assert [next(k for k, fit in enumerate(fits) if fit is part) for part in parts] == kept
    assert len(frame) == (1 if kept else 6)


def test_agreement_is_over_pairs_that_may_be_and_periods():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=(2, N, N)) * OFF
    a[0, 1:4] = b[0, 1:4] = 0  # pairs that a prior excludes
    allowed = OFF.copy()
    allowed[0, 1:4] = False
    expected = np.corrcoef(a[allowed], b[allowed])[0, 1]
    top = [len(set(np.argsort(-x)[:5]) & set(np.argsort(-y)[:5])) / 5 for x, y in zip(a, b, strict=True)]
    found = agreement([a, a], [b, a])
    assert found == pytest.approx(((expected + 1) / 2, (np.mean(top) + 1) / 2))
    flat = OFF / (N - 1)
    assert agreement([flat], [flat])[0] == 0.0  # equal weights name nobody
