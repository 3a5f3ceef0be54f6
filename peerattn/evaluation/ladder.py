"""The ladder: from own characteristics to stacked attention, with the gain of each rung and its test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from peerattn.evaluation.compare import compare
from peerattn.evaluation.comparison import Comparison
from peerattn.evaluation.inference.forecast_tests import format_p, short_reason
from peerattn.evaluation.running.contestants import OWN_CHARACTERISTICS, Task
from peerattn.evaluation.running.rungs import (
    KERNEL_WEIGHTS,
    LINEAR_ATTENTION,
    OWN,
    SOFTMAX_ATTENTION,
    STACKED_ATTENTION,
)
from peerattn.evaluation.steps import Step, steps_frame
from peerattn.exceptions import InputError
from peerattn.models import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
)
from peerattn.render import Table

INDUSTRY, KERNEL, RIDGE = "Industry mean", "Kernel", "Linear attention (ridge)"
SOFTMAX, STACKED = "Softmax attention", "Stacked attention"


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
        return steps_frame(self.steps)

    def as_table(self) -> Table:
        """Return the ladder as a table that renders as text and as HTML."""
        first = self.steps[0]
        rows: list[tuple[float | str, ...]] = [
            (
                first.against,
                first.r2 - first.r2_gain,
                "",
                first.r2_within - first.r2_within_gain,
                "",
                "",
                "",
                "",
            )
        ]
        for step in (*self.steps, *([self.parametric] if self.parametric else [])):
            name = step.model if step is not self.parametric else f"{step.model}, against {step.against}"
            statistic = short_reason(step.test.reason) if step.test.statistic is None else step.test.statistic
            p = "" if step.test.p_value is None else format_p(step.test.p_value)
            rows.append(
                (
                    name,
                    step.r2,
                    step.r2_gain,
                    step.r2_within,
                    step.r2_within_gain,
                    step.test_name,
                    statistic,
                    p,
                )
            )
        return Table(
            f"The ladder: {self.comparison.task} of {self.comparison.outcome}",
            ("Rung", "R² mean", "gain", "R² within", "gain", "Test against the rung below", "statistic", "p"),
            rows,
            alignment="lrrrrlrr",
            formats=("", ".4f", "+.4f", ".4f", "+.4f", "", ".2f", ""),
            footnotes=[
                f"{self.comparison.sample}; window {self.comparison.window or 'none'}. R² mean: out of sample, against the "
                "prevailing mean. R² within: between the firms of a period. Gains and tests are each against the rung below.",
                "Diebold–Mariano with Student's t; under twelve periods squared errors are "
                "paired and clustered by firm, conditional on these periods.",
                *([_STORED] if self.parametric else []),
            ],
        )

    def summary(self) -> str:
        """Return in a sentence which rungs gain significantly and which do not."""
        gains = [
            s for s in self.steps if (s.test.p_value or 1.0) < 0.05 and s.test.statistic and s.test.gain > 0
        ]
        best = str(self.comparison.scores["rmse"].idxmin())
        if not gains:
            said = "No rung is significantly better than the one below it (5% level)."
        else:
            names = ", ".join(f"{s.model} (over {s.against}, {s.r2_gain:+.4f})" for s in gains)
            said = f"Significantly better than the rung below (5% level): {names}."
        return f"{said} Smallest squared error: {best}."

    def __str__(self) -> str:
        return f"{self.as_table().text()}\n\n{self.summary()}"

    def __repr__(self) -> str:
        what = f"{self.comparison.task} of {self.comparison.outcome}"
        return f"Ladder({what}: {len(self.steps)} rungs above {self.steps[0].against!r})"

    def _repr_html_(self) -> str:
        return self.as_table().html()


_STORED = "The last line sets a parametric prediction (a function learned once) against one from stored training rows."


def ladder(
    X: Any,
    y: Any = None,
    *,
    industry: str | None = None,
    codes: Sequence[str] = (),
    task: Task = "forecast",
    rungs: Mapping[str, Any] | None = None,
    stacked_on: str = SOFTMAX,
    random_state: int = 0,
    **options: Any,
) -> Ladder:
    r"""Climb from own characteristics to stacked attention: where does the gain come from?

    .. math:: \text{own characteristics} \to \text{industry mean} \to \text{kernel} \to \text{linear attention}
              \to \text{softmax attention} \to \text{stacked attention}

    Every rung predicts the same rows of the same split and is tested against the one below.

    Parameters
    ----------
    X, y
        As in :func:`peerattn.compare`.
    industry : str, optional
        Code column of the industry mean; without it that rung is the mean of all other firms.
    codes : sequence of str
        Further code columns.
    task : {"forecast", "explain"}, default "forecast"
    rungs : dict of str to estimator, optional
        The rungs above own characteristics, from below; by default :func:`rungs_for` the task.
    stacked_on : str, default "Softmax attention"
        The rung that the rung above it holds as a special case, learned; see :class:`Step`.
    random_state : int, default 0
        Of the default rungs.
    **options
        Passed on to :func:`peerattn.compare`: cv, outcome, characteristics, firm, period, verbose, ...

    Returns
    -------
    Ladder

    Raises
    ------
    InputError
        As ``compare``; without characteristics there is no lowest rung.

    Examples
    --------
    >>> index = pd.MultiIndex.from_product([range(20), range(2000, 2012)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": [37 * k % 97 / 97 for k in range(240)]}, index=index)
    >>> rungs = {"All firms": IndustryPeerRegressor(), "Ridge": CrossSectionalRidge()}
    >>> ladder(X, X["size"].pow(4).rename("roa"), rungs=rungs, verbose=False).to_frame()["model"].tolist()
    ['All firms', 'Ridge']
    """
    chosen = rungs_for(task, industry=industry, random_state=random_state) if rungs is None else dict(rungs)
    options.setdefault("baseline", OWN_CHARACTERISTICS)
    result = compare(chosen, X, y, task=task, industry=industry, codes=codes, **options)
    if not isinstance(result, Comparison):
        raise InputError("outcome: a ladder has one outcome; call it once for each.")
    if OWN_CHARACTERISTICS not in result.names:
        raise InputError("X has no characteristics: the lowest rung, own characteristics, needs some.")
    names = [OWN_CHARACTERISTICS, *(n for n in chosen if n != OWN_CHARACTERISTICS and n in result.names)]
    return _climb(result, names, stacked_on)


def ladder_of(result: Comparison) -> Ladder | None:
    """Return the ladder that a comparison's models make, from own characteristics up; None with fewer than two rungs.

    Models on one rung stand in the order of the table, each tested against the one before it.
    """
    rungs = sorted((m for m in result.models if m.rung is not None), key=lambda m: m.rung or 0)
    if len(rungs) < 2 or rungs[0].rung != OWN:
        return None
    stacked = any(model.rung == STACKED_ATTENTION for model in rungs)
    below = [model.name for model in rungs if model.rung == SOFTMAX_ATTENTION]
    return _climb(result, [model.name for model in rungs], below[-1] if stacked and below else "")


def _climb(result: Comparison, names: Sequence[str], stacked_on: str) -> Ladder:
    steps = tuple(
        result.test(above, below, nesting="learned" if below == stacked_on else "none")
        for below, above in zip(names, names[1:])
    )
    return Ladder(result, steps, _parametric(result))


def rungs_for(task: Task, *, industry: str | None = None, random_state: int = 0) -> dict[str, Any]:
    """Return the default rungs above own characteristics, from below.

    Attention is ``PeerAttentionRegressor`` with its defaults; to explain, its values are outcomes.
    """
    values = "outcomes" if task == "explain" else "characteristics"
    attention: dict[str, Any] = {"values": values, "random_state": random_state}
    return {
        INDUSTRY: IndustryPeerRegressor(industry=industry),
        KERNEL: NadarayaWatsonRegressor(),
        RIDGE: CrossSectionalRidge(),
        SOFTMAX: PeerAttentionRegressor(**attention),
        STACKED: PeerAttentionRegressor(n_layers=2, **attention),
    }


def _parametric(result: Comparison) -> Step | None:
    """Return linear attention against the kernel, where both forecast from training rows."""
    ridge, kernel = (
        next((model.name for model in result.models if model.rung == rung), None)
        for rung in (LINEAR_ATTENTION, KERNEL_WEIGHTS)
    )
    return result.test(ridge, kernel) if result.task == "forecast" and ridge and kernel else None
