"""Forward origins are placed by rows: stray periods neither move them nor end a judgement, and purged periods are not read."""

import numpy as np
import pandas as pd
import pytest

from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.stacking.origins import forward_origins


def section(period, n, seed=0, first=0):
    rng = np.random.default_rng([seed, abs(period or 0)])
    label = pd.Index(np.arange(first, first + n))
    rows = Rows(
        rng.normal(size=(n, 2)),
        np.zeros((n, 0), int),
        rng.normal(size=n),
        None,
        np.arange(first, first + n),
        label,
        label,
    )
    return CrossSection(period, slice(0, n), rows, rows, True)


def periods(origins):
    return [([s.period for s in o.training], [s.period for s in o.held_out]) for o in origins]


def test_origins_share_the_last_third_of_the_rows():
    found = periods(forward_origins([section(t, 20) for t in range(12)], 0))
    assert found == [
        (list(range(8)), [8, 9]),
        (list(range(10)), [10, 11]),
    ]
    held_out = [t for _, late in found for t in late]
    assert len(set(held_out)) == len(held_out), "every period is judged once"
    assert all(max(early) < min(late) for early, late in found)


def test_stray_periods_do_not_move_the_origins():
    usual = [section(t, 100) for t in range(12)]
    before, after = ([section(t, 1) for t in times] for times in ([-5, -4, -3], [20, 21, 22]))
    without = periods(forward_origins(usual, 0))
    for strays in ([*before, *usual], [*usual, *after]):
        found = periods(forward_origins(strays, 0))
        assert [[t for t in early if 0 <= t < 12] for early, _ in found] == [early for early, _ in without]
        assert [[t for t in late if 0 <= t < 12] for _, late in found] == [late for _, late in without]


@pytest.mark.parametrize("times", [range(5), range(11, 16)], ids=["before", "after"])
def test_one_cross_section_with_stray_periods_is_still_judged_by_folds(times):
    """Periods of almost no rows neither are origins nor end a judgement."""
    strays = [section(t, 1) for t in times]
    sections = sorted([*strays, section(10, 300)], key=lambda s: s.period)
    found = forward_origins(sections, 0)
    assert len(found) == 3
    held_out = np.concatenate([s.focal.checksums() for o in found for s in o.held_out])
    assert len(held_out) == len(set(held_out)) == 300
    for origin in found:
        early = set(np.concatenate([s.focal.checksums() for s in origin.training]))
        assert not early & set(np.concatenate([s.focal.checksums() for s in origin.held_out]))
        assert all(s.period <= 10 for s in origin.training)


@pytest.mark.parametrize("purge", [1, 3])
def test_purged_periods_are_not_learned_from(purge):
    found = periods(forward_origins([section(t, 20) for t in range(12)], purge))
    for early, late in found:
        assert max(early) == min(late) - purge - 1
    assert forward_origins([section(t, 30) for t in range(4)], 4) == []


def test_too_few_rows_are_not_judged():
    assert forward_origins([section(t, 4) for t in range(12)], 0) == []
    assert len(forward_origins([section(t, 5) for t in range(12)], 0)) == 2


def test_folds_of_arrays_leave_the_judged_rows_out_of_the_pool():
    for dated in (True, False):
        whole = section(2001 if dated else None, 90)
        found = forward_origins([whole], 0)
        assert len(found) == 3
        for origin in found:
            (learned,), (held_out,) = origin.training, origin.held_out
            apart = set(held_out.focal.checksums()) & set(held_out.peers.checksums())
            assert bool(apart) == dated, "in a panel the pool is the whole period; on arrays the training rows"
            assert not set(learned.focal.checksums()) & set(held_out.focal.checksums())
    copies = whole.focal.take(np.repeat(np.arange(90), 2))
    for origin in forward_origins([CrossSection(None, slice(0, 180), copies, copies, True)], 0):
        early, late = (set(s.focal.checksums()) for (s,) in (origin.training, origin.held_out))
        assert not early & late, "copies of a row are of one fold"
