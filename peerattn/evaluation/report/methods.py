"""A paragraph on method and sample, ready to be edited into a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerattn.evaluation.inference.forecast_tests import MIN_PERIODS

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

_TASKS = {
    "forecast": "No outcome of the predicted period is used.",
    "explain": (
        "Peer models are shown the outcomes of the other firms of the same period, never the firm's own; the exercise is "
        "explanatory, not a forecast."
    ),
}


def methods(comparison: Comparison) -> str:
    """Return what was done, on what sample, with what tests and versions, in sentences."""
    choice, settings = comparison.choice, comparison.settings
    names = [model.name for model in comparison.models]
    columns = f"{len(choice.characteristics)} characteristics ({', '.join(choice.characteristics)})"
    if choice.codes:
        columns += f" and the codes {', '.join(choice.codes)}"
    said = [
        f"We {'predict' if comparison.task == 'forecast' else 'explain'} {comparison.outcome} from {columns}.",
        _TASKS[comparison.task],
        f"Models are fitted and tested out of sample: {settings.get('split', 'see the split')}"
        + (f"; fits per model: {settings['fits per model']}." if "fits per model" in settings else "."),
        f"We compare {', '.join(names)}; the baseline is {comparison.baseline}.",
        f"All models are scored on the same rows: {comparison.sample}.",
        *_failed(comparison),
        "R² is one less the ratio of the sums of squared errors of the model and of a benchmark: zero (Gu, Kelly and "
        "Xiu 2020), or "
        "the mean of the training outcomes (Campbell and Thompson 2008); within periods, both sides are demeaned by period.",
        _tests(comparison),
        "The weights of peer models measure predictive relevance, not causal peer effects (Manski 1993).",
        _versions(comparison),
    ]
    return " ".join(said)


def _failed(comparison: Comparison) -> list[str]:
    failed = [failure.model for failure in comparison.failures]
    return [f"Not scored, because they failed: {', '.join(failed)}."] if failed else []


def _tests(comparison: Comparison) -> str:
    n = len(comparison.periods)
    if n < MIN_PERIODS:
        return (
            f"With {n} tested period{'s' if n > 1 else ''} no test over time is made; paired squared errors are "
            "clustered by firm, "
            "which is conditional on these periods."
        )
    return (
        "Differences in squared error, averaged over the firms of each period, are tested by Diebold and Mariano (1995) with an "
        "equal-weighted cosine variance and Student's t (Lazarus, Lewis, Stock and Watson 2018; Coroneo and Iacone 2020); the "
        "model confidence set is that of Hansen, Lunde and Nason (2011)."
    )


def _versions(comparison: Comparison) -> str:
    from peerattn.evaluation.comparison import PACKAGES

    used = [
        f"{name} {comparison.settings[name]}"
        for name in ("peerattn", *PACKAGES)
        if name in comparison.settings
    ]
    return f"Computed with {', '.join(used)}." if used else ""
