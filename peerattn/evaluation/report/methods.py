"""A paragraph on method and sample, ready to be edited into a paper."""

from __future__ import annotations

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.inference.forecast_tests import periods_needed

#: Packages whose versions a comparison records.
PACKAGES = ("torch", "scikit-learn", "pandas", "numpy", "scipy", "statsmodels")
TASKS = {
    "forecast": "No outcome of the predicted period is used.",
    "explain": (
        "Peer models are shown the outcomes of the other firms of the same period, never the firm's own; the exercise is "
        "explanatory, not a forecast."
    ),
}


def versions_of(compared: Compared) -> dict[str, str]:
    """Return the versions of the packages that a comparison was computed with."""
    settings = compared.settings
    return {name: settings[name] for name in ("peerattn", *PACKAGES) if name in settings}


def methods_paragraph(compared: Compared) -> str:
    """Return a paragraph on method and sample (models, tests, versions), ready to be edited into a paper."""
    choice, settings = compared.panel.choice, compared.settings
    columns = f"{len(choice.characteristics)} characteristics ({', '.join(choice.characteristics)})"
    if choice.codes:
        columns += f" and the codes {', '.join(choice.codes)}"
    fits = f"; fits per model: {settings['fits per model']}" if "fits per model" in settings else ""
    failed = [failure.model for failure in compared.failures]
    used = [f"{name} {version}" for name, version in versions_of(compared).items()]
    said = [
        f"We {'predict' if compared.task == 'forecast' else 'explain'} {compared.outcome} from {columns}.",
        TASKS[compared.task],
        f"Models are fitted and tested out of sample: {settings.get('split', 'see the split')}{fits}.",
        f"We compare {', '.join(compared.names)}; the baseline is {compared.baseline}.",
        f"All models are scored on the same rows: {compared.sample}.",
        f"Not scored, because they failed: {', '.join(failed)}." if failed else "",
        "R² is one minus the ratio of the sums of squared errors of the model and of a benchmark: zero (Gu, Kelly and Xiu "
        "2020), or the mean of the training outcomes (Campbell and Thompson 2008); within periods, both sides are demeaned "
        "by period.",
        "Held-out R² is decomposed into own lines, own shape, own history, what firms have in common, and peers: at each "
        "step the best model that reads no more than this, against that of the step before.",
        _tests(compared),
        compared.panel.caution,
        "The weights of peer models measure predictive relevance, not causal peer effects (Manski 1993).",
        f"Computed with {', '.join(used)}." if used else "",
    ]
    return " ".join(sentence for sentence in said if sentence)


def _tests(compared: Compared) -> str:
    n = len(compared.periods)
    if n == 1:
        return "With one tested period there is no test."
    if n < periods_needed(compared.horizon):
        return (
            f"With {n} tested periods no test over time is made; differences in squared error are clustered by firm, or by the "
            "code that gives the larger p, by the wild cluster bootstrap (Cameron, Gelbach and Miller 2008), conditional on "
            "these periods and on symmetric sums of the clusters."
        )
    return (
        "Differences in squared error are tested over periods with an equal-weighted cosine variance and Student's t "
        "(Diebold and Mariano 1995; Lazarus, Lewis, Stock and Watson 2018; Coroneo and Iacone 2020); all models together by "
        "multiple comparisons with the best (Horrace and Schmidt 2000)."
    )
