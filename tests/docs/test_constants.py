"""Constants on pages have the values of the code."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student

from peerattn.evaluation.gains import LEVEL, Gain
from peerattn.evaluation.inference.forecast_tests import mean_test
from peerattn.models import StackedPeerRegressor
from peerattn.models.learners import nonlinear, past_outcomes, training
from peerattn.models.learners.covariance import fit as covariance
from peerattn.models.learners.heads.training import TrainingOptions
from peerattn.models.learners.linear import CLIP
from peerattn.models.stacking import evidence, origins, weights

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "background" / "model.md"
OPTIONS = TrainingOptions()
VALUES = {
    "kappa": StackedPeerRegressor().kappa,
    "SHARES": origins.SHARES,
    "FOLDS": origins.FOLDS,
    "FEW_ROWS": training.FEW_ROWS,
    "FEW_PERIODS": weights.FEW_PERIODS,
    "POWER": evidence.POWER,
    "n_seeds": OPTIONS.n_seeds,
    "window": OPTIONS.window,
    "max_steps": OPTIONS.max_steps,
    "stable": OPTIONS.stable,
    "max_draws": OPTIONS.max_draws,
    "learning_rate": OPTIONS.learning_rate,
    "weight_decays": OPTIONS.weight_decays,
    "KNOTS": nonlinear.KNOTS,
    "TREES": nonlinear.TREES,
    "FOREST": nonlinear.FOREST,
    "CLIP": CLIP,
    "WINDOW": past_outcomes.WINDOW,
    "RANK": covariance.RANK,
    "MOST_STEPS": covariance.MOST_STEPS,
    "LEARNING_RATE": covariance.LEARNING_RATE,
}


def numbers(value):
    """Return the numbers of a value or of a cell of the table."""
    if isinstance(value, str):
        return [float(top) / float(bottom or 1) for top, bottom in re.findall(r"(\d*\.?\d+)(?:/(\d+))?", value)]
    return [float(each) for each in (value if isinstance(value, tuple) else (value,))]


def test_constants_are_those_of_the_code():
    table = PAGE.read_text().partition("## Constants")[2].partition("`python")[0]
    named = set()
    for line in table.splitlines()[4:]:
        if not line.startswith("| `"):
            continue
        cell, value, *_ = (each.strip() for each in line.strip("|").split("|"))
        names = re.findall(r"`(\w+)`", cell)
        known = [name for name in names if name in VALUES]
        if known == names:
            assert numbers(value) == pytest.approx([x for name in names for x in numbers(VALUES[name])]), line
        named |= set(known)
    assert named == set(VALUES)


@pytest.mark.parametrize("page", ["guide/compare.md", "tutorial.md"])
def test_the_t_statistics_of_a_yes_are_those_at_which_a_gain_is_significant(page):
    stated = re.findall(r"(\d\.\d) with (\d+)", (DOCS / page).read_text())
    assert len(stated) >= 2
    for t, n_periods in stated:
        freedom = mean_test(np.arange(float(n_periods))).freedom
        for around, significant in ((-0.05, False), (0.05, True)):
            at = float(t) + around
            p = Gain("stack", "without peers", 0.1, 0.0, 0.1, t=at, p=2 * student.sf(at, freedom)).upper_p
            assert (p < LEVEL) == significant
