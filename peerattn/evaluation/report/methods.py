"""A paragraph on method and sample, ready to be edited into a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peerattn.evaluation.inference.forecast_tests import periods_needed

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

#: Packages whose versions a comparison records.
PACKAGES = ("torch", "scikit-learn", "pandas", "numpy", "scipy", "statsmodels")
TASKS = {
    "forecast": "No outcome of the predicted period is used.",
    "explain": (
        "Peer models are shown the outcomes of the other firms of the same period, never the firm's own; the exercise is "
        "explanatory, not a forecast."
    ),
}


def versions_of(comparison: Comparison) -> dict[str, str]:
    """Return the versions of the packages that a comparison was computed with."""
    settings = comparison.settings
    return {name: settings[name] for name in ("peerattn", *PACKAGES) if name in settings}


def methods_paragraph(comparison: Comparison) -> str:
    """Return a paragraph on method and sample (models, tests, versions), ready to be edited into a paper."""
    choice, settings = comparison.choice, comparison.settings
    columns = f"{len(choice.characteristics)} characteristics ({', '.join(choice.characteristics)})"
    if choice.codes:
        columns += f" and the codes {', '.join(choice.codes)}"
    fits = f"; fits per model: {settings['fits per model']}" if "fits per model" in settings else ""
    failed = [failure.model for failure in comparison.failures]
    used = [f"{name} {version}" for name, version in versions_of(comparison).items()]
    said = [
        f"We {'predict' if comparison.task == 'forecast' else 'explain'} {comparison.outcome} from {columns}.",
        TASKS[comparison.task],
        f"Models are fitted and tested out of sample: {settings.get('split', 'see the split')}{fits}.",
        f"We compare {', '.join(comparison.names)}; the baseline is {comparison.baseline}.",
        f"All models are scored on the same rows: {comparison.sample}.",
        f"Not scored, because they failed: {', '.join(failed)}." if failed else "",
        "R² is one minus the ratio of the sums of squared errors of the model and of a benchmark: zero (Gu, Kelly and Xiu "
        "2020), or the mean of the training outcomes (Campbell and Thompson 2008); within periods, both sides are demeaned "
        "by period.",
        _tests(comparison),
        comparison.caution,
        "The weights of peer models measure predictive relevance, not causal peer effects (Manski 1993).",
        f"Computed with {', '.join(used)}." if used else "",
    ]
    return " ".join(sentence for sentence in said if sentence)


def _tests(comparison: Comparison) -> str:
    n = len(comparison.periods)
    if n < periods_needed(comparison.horizon):
        return (
            f"With {n} tested period{'s' if n > 1 else ''} no test over time is made; paired squared errors are clustered by "
            "firm, or by the code that gives the larger p, by the wild cluster bootstrap (Cameron, Gelbach and Miller 2008), "
            "conditional on these periods."
        )
    return (
        "Differences in squared error, averaged over the firms of each period, are tested by Diebold and Mariano (1995) with an "
        "equal-weighted cosine variance and Student's t (Lazarus, Lewis, Stock and Watson 2018; Coroneo and Iacone 2020); all "
        "models together by Holm's (1979) step-down, and by multiple comparisons with the best (Horrace and Schmidt 2000)."
    )
