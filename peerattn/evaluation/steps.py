"""A step of a comparison: one model against another, with the test that fits what the two are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from peerattn.evaluation.inference.forecast_tests import MIN_PERIODS, DieboldMariano, diebold_mariano
from peerattn.evaluation.inference.nested_tests import (
    ForecastTest,
    clark_west,
    giacomini_white,
    paired_by_firm,
)
from peerattn.exceptions import InputError, did_you_mean

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

Nesting = Literal["none", "least_squares", "learned"]
NESTINGS = ("none", "least_squares", "learned")


@dataclass(frozen=True)
class Step:
    """One model against another on the common sample.

    Attributes
    ----------
    model, against : str
    nesting : {"none", "least_squares", "learned"}
        Whether the model holds the other as a special case: no; yes, both fitted by least squares; yes, learned or
        shrunk.
    window : str
        "expanding" or "rolling".
    r2, r2_gain : float
        R² against the prevailing mean, and how much more it is than the other model's.
    r2_within, r2_within_gain : float
        The same between the firms of a period.
    test : DieboldMariano or ForecastTest

    Notes
    -----
    Which test: under twelve periods, losses paired and clustered by firm, conditional on these periods. Otherwise
    Clark–West for nested least squares; Giacomini–White for learned nested models in a rolling window; and
    Diebold–Mariano with the small-sample factor for all others. A learned model that nests the other one, in an
    expanding window, has no exact test: Diebold–Mariano is careful there (it rejects too seldom).
    """

    model: str
    against: str
    nesting: Nesting
    window: str
    r2: float
    r2_gain: float
    r2_within: float
    r2_within_gain: float
    test: DieboldMariano | ForecastTest

    @property
    def test_name(self) -> str:
        """The test's name."""
        return self.test.test if isinstance(self.test, ForecastTest) else "Diebold–Mariano"

    def __str__(self) -> str:
        return (
            f"{self.model} against {self.against}: R² {self.r2:.4f} ({self.r2_gain:+.4f}), within periods "
            f"{self.r2_within:.4f} ({self.r2_within_gain:+.4f}); {self.test_name} {self.test.outcome}"
        )


def step(comparison: Comparison, model: str, against: str, *, nesting: Nesting = "none") -> Step:
    """Return the step from one model of a comparison to another; see :class:`Step`.

    Raises
    ------
    InputError
        For an unknown model or nesting.
    """
    for name in (model, against):
        if name not in comparison.names:
            raise InputError(
                f"there is no model {name!r} among {', '.join(map(repr, comparison.names))}."
                f"{did_you_mean(name, comparison.names)}"
            )
    if nesting not in NESTINGS:
        raise InputError(f"nesting must be one of {', '.join(map(repr, NESTINGS))}, got {nesting!r}.")
    scores = comparison.scores.loc[[model, against]]
    (r2, base), (within, base_within) = scores["r2_mean"], scores["r2_within"]
    test = _test(comparison, model, against, nesting)
    return Step(model, against, nesting, comparison.window, r2, r2 - base, within, within - base_within, test)


def _test(
    comparison: Comparison, model: str, against: str, nesting: Nesting
) -> DieboldMariano | ForecastTest:
    frame = comparison.predictions
    names: dict[str, Any] = {"model": model, "baseline": against}
    y, period = frame["outcome"], frame["period"]
    ours, theirs = ((y - frame[name]) ** 2 for name in (model, against))
    if len(comparison.periods) < MIN_PERIODS and frame.loc[y.notna(), "firm"].nunique() > 1:
        return paired_by_firm(ours, theirs, frame["firm"], period, **names)
    ahead = comparison.horizon
    if nesting == "least_squares":
        return clark_west(y, frame[model], frame[against], period, horizon=ahead, **names)
    if nesting == "learned" and comparison.window == "rolling":
        return giacomini_white(ours, theirs, period, horizon=ahead, **names)
    return diebold_mariano(ours, theirs, period, horizon=ahead, **names)


def steps_frame(steps: tuple[Step, ...]) -> pd.DataFrame:
    """Return steps as a frame, one row each."""
    return pd.DataFrame(
        {
            "model": [s.model for s in steps],
            "against": [s.against for s in steps],
            "r2": [s.r2 for s in steps],
            "r2_gain": [s.r2_gain for s in steps],
            "r2_within": [s.r2_within for s in steps],
            "r2_within_gain": [s.r2_within_gain for s in steps],
            "test": [s.test_name for s in steps],
            "nesting": [s.nesting for s in steps],
            "statistic": [float("nan") if s.test.statistic is None else s.test.statistic for s in steps],
            "p_value": [float("nan") if s.test.p_value is None else s.test.p_value for s in steps],
        }
    )
