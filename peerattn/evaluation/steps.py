"""One model of a comparison against another, and the ladder: a step from each rung to the one above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from peerattn.evaluation.inference.few_periods import paired_test
from peerattn.evaluation.inference.forecast_tests import (
    ForecastTest,
    diebold_mariano,
    format_p,
    periods_needed,
    short_reason,
)
from peerattn.evaluation.inference.nested_tests import (
    clark_west,
    giacomini_white,
)
from peerattn.evaluation.report.verdict import SAME, smallest_error
from peerattn.evaluation.running.entries import (
    KERNEL_WEIGHTS,
    LINEAR_ATTENTION,
    OWN,
    SOFTMAX_ATTENTION,
    STACKED_ATTENTION,
)
from peerattn.evaluation.sample import clusters_of
from peerattn.exceptions import InputError
from peerattn.render import Table

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

Nesting = Literal["none", "least_squares", "learned"]
_TASKS = {"forecast": "forecast", "explain": "explanation"}
NESTINGS = ("none", "least_squares", "learned")
_COLUMNS = ("model", "against", "r2", "r2_gain", "r2_within", "r2_within_gain", "test_name", "nesting")


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
    test : ForecastTest

    Notes
    -----
    Which test: under ``periods_needed(horizon)`` periods (twelve, at horizon 1), losses paired and clustered by firm, or
    by a code of ten groups at least where that gives the larger p (:func:`paired_test`). Otherwise
    Clark–West for nested least squares; Giacomini–White for learned nested models in a rolling window; and Diebold–Mariano for
    all others. A learned model that nests the other one, in an expanding window, has no exact test: Diebold–Mariano is careful
    there (it rejects too seldom).
    """

    model: str
    against: str
    nesting: Nesting
    window: str
    r2: float
    r2_gain: float
    r2_within: float
    r2_within_gain: float
    test: ForecastTest

    @property
    def test_name(self) -> str:
        """The test's name."""
        return self.test.test if isinstance(self.test, ForecastTest) else "Diebold–Mariano"

    def __str__(self) -> str:
        return (
            f"{self.model} against {self.against}: R² {self.r2:.4f} ({self.r2_gain:+.4f}), within periods "
            f"{self.r2_within:.4f} ({self.r2_within_gain:+.4f}); {self.test_name} {self.test.outcome}"
        )


def step(
    comparison: Comparison, model: str, against: str | None = None, *, nesting: Nesting = "none"
) -> Step:
    """Test a model against another one (by default the baseline) with the test that fits; see :class:`Step`.

    Raises
    ------
    InputError
        For an unknown model or nesting.
    """
    against = comparison.baseline if against is None else against
    comparison.check_model(model, against)
    if nesting not in NESTINGS:
        raise InputError(f"nesting must be one of {', '.join(map(repr, NESTINGS))}, got {nesting!r}.")
    scores = comparison.scores.loc[[model, against]]
    (r2, base), (within, base_within) = scores["r2_mean"], scores["r2_within"]
    test = _test(comparison, model, against, nesting)
    return Step(model, against, nesting, comparison.window, r2, r2 - base, within, within - base_within, test)


def _test(comparison: Comparison, model: str, against: str, nesting: Nesting) -> ForecastTest:
    frame = comparison.predictions
    names: dict[str, Any] = {"model": model, "baseline": against}
    y, period = frame["outcome"], frame["period"]
    ours, theirs = ((y - frame[name]) ** 2 for name in (model, against))
    if len(comparison.periods) < periods_needed(comparison.horizon) and comparison.n_firms > 1:
        return _paired(comparison, ours, theirs, names)
    names["horizon"] = comparison.horizon
    if nesting == "least_squares":
        return clark_west(y, frame[model], frame[against], period, **names)
    if nesting == "learned" and comparison.window == "rolling":
        return giacomini_white(ours, theirs, period, **names)
    return diebold_mariano(ours, theirs, period, **names)


def _paired(
    comparison: Comparison, ours: pd.Series, theirs: pd.Series, names: dict[str, Any]
) -> ForecastTest:
    """Return the test of few periods, clustered by firm or by the code that gives the larger p."""
    rows = comparison.predictions[["firm", "period"]]
    tests = [
        paired_test(ours, theirs, labels, rows["period"], clustered_by=name, **names)
        for name, labels in clusters_of(rows, comparison.groups).items()
    ]
    return max(tests, key=lambda test: test.p_value or 0.0)


@dataclass(frozen=True, repr=False)
class Ladder:
    """The rungs of a ladder on one common sample.

    Attributes
    ----------
    comparison : Comparison
        All rungs and controls.
    steps : tuple of Step
        Each rung against the one below it.
    parametric : Step or None
        A parametric prediction (linear attention) against one from stored training rows (kernel); only where both
        forecast.
    """

    comparison: Comparison
    steps: tuple[Step, ...]
    parametric: Step | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return the steps, one row each."""
        frame = pd.DataFrame([[getattr(s, name) for name in _COLUMNS] for s in self.steps], columns=_COLUMNS)
        tests = pd.DataFrame([(s.test.statistic, s.test.p_value) for s in self.steps], dtype=float)
        frame = frame.assign(statistic=tests[0], p_value=tests[1])
        return frame.rename(columns={"test_name": "test"})

    def as_table(self) -> Table:
        """Return the ladder as a table that renders as text and as HTML."""
        first = self.steps[0]
        lowest = (first.r2 - first.r2_gain, "", first.r2_within - first.r2_within_gain)
        rows: list[tuple[float | str, ...]] = [(first.against, *lowest, "", "", "", "")]
        for step in (*self.steps, *([self.parametric] if self.parametric else [])):
            name = step.model if step is not self.parametric else f"{step.model}, against {step.against}"
            gains = (step.r2, step.r2_gain, step.r2_within, step.r2_within_gain)
            statistic = short_reason(step.test.reason) if step.test.statistic is None else step.test.statistic
            p = "" if step.test.p_value is None else format_p(step.test.p_value)
            rows.append((name, *gains, step.test_name, statistic, p))
        heads = (
            "R² mean",
            "gain",
            "R² within period",
            "gain",
            "Test against the rung below",
            "statistic",
            "p",
        )
        return Table(
            f"The ladder: {_TASKS[self.comparison.task]} of {self.comparison.outcome}",
            ("Rung", *heads),
            rows,
            alignment="lrrrrlrr",
            formats=("", ".4f", "+.4f", ".4f", "+.4f", "", ".2f", ""),
            footnotes=[
                f"{self.comparison.sample}; window {self.comparison.window or 'none'}. R² mean: out of sample, against the "
                "prevailing mean. R² within period: of differences between the firms of a period. Gains and tests are each "
                "against the rung below.",
                "Diebold–Mariano with Student's t; under twelve periods squared errors are "
                "paired and clustered by firm, or by the code that gives the larger p, conditional on these periods.",
                *([_STORED] if self.parametric else []),
            ],
        )

    def summary(self) -> str:
        """Return in a sentence which rungs gain significantly and which do not."""
        gains = [
            f"{s.model} (over {s.against}, {s.r2_gain:+.4f})"
            for s in self.steps
            if s.test.p_value is not None and s.test.p_value < 0.05 and s.test.gain > 0
        ]
        rmse, best = self.comparison.scores["rmse"], smallest_error(self.comparison, self.comparison.names)
        tied = [s.model for s in self.steps if s.model != best and rmse[s.model] <= rmse[best] * (1 + SAME)]
        shared = (
            f", shared by {' and '.join(tied)}: nothing is gained by {'them' if tied[1:] else 'it'}"
            if tied
            else ""
        )
        if gains:
            said = f"Significantly better than the rung below (5% level, each test on its own): {', '.join(gains)}."
        else:
            said = "No rung is significantly better than the one below it (5% level)."
        return f"{said} Smallest squared error: {best}{shared}."

    def __str__(self) -> str:
        return f"{self.as_table().text()}\n\n{self.summary()}"

    def __repr__(self) -> str:
        what = f"{self.comparison.task} of {self.comparison.outcome}"
        return f"Ladder({what}: {len(self.steps)} rungs above {self.steps[0].against!r})"

    def _repr_html_(self) -> str:
        return self.as_table().html()


_STORED = "The last line sets a parametric prediction (a function learned once) against one from stored training rows."


def ladder_of(comparison: Comparison) -> Ladder | None:
    """The models that are rungs of the ladder, each against the one below; None where there are fewer than two.

    Models on one rung stand in the order of the table, each tested against the one before it.
    """
    rungs = sorted((m for m in comparison.models if m.rung is not None), key=lambda m: m.rung or 0)
    if len(rungs) < 2 or rungs[0].rung != OWN:
        return None
    stacked = any(model.rung == STACKED_ATTENTION for model in rungs)
    below = [model.name for model in rungs if model.rung == SOFTMAX_ATTENTION]
    return climb(comparison, [model.name for model in rungs], below[-1] if stacked and below else "")


def climb(comparison: Comparison, names: Sequence[str], stacked_on: str) -> Ladder:
    """Return the ladder of models from below; the one above ``stacked_on`` holds it as a special case."""
    steps = tuple(
        step(comparison, above, below, nesting="learned" if below == stacked_on else "none")
        for below, above in zip(names, names[1:])
    )
    ridge, kernel = (
        next((model.name for model in comparison.models if model.rung == rung), None)
        for rung in (LINEAR_ATTENTION, KERNEL_WEIGHTS)
    )
    both = comparison.task == "forecast" and ridge and kernel
    return Ladder(comparison, steps, step(comparison, ridge, kernel) if both and ridge else None)
