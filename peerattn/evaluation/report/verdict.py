"""The finding of a comparison in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from peerattn.evaluation.inference.forecast_tests import MIN_PERIODS, DieboldMariano, diebold_mariano, p_words
from peerattn.evaluation.running.contestants import PREVAILING_MEAN

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

SAME = 1e-6  # largest difference of two models' predictions, as a share of the largest, that rounding makes


def verdict(comparison: Comparison) -> list[str]:
    """Return the finding, a sentence or two each: who wins, by how much, and whether it may be chance.

    Models are ranked by squared error on the common sample. A control that wins is said to win, and no gain
    is said to be none.
    """
    best = str(comparison.scores["rmse"].idxmin())
    sentences = [
        _winner(comparison, best),
        _between_firms(comparison, best),
        _against_baseline(comparison, best),
    ]
    sentences += _peers_against_controls(comparison, best)
    sentences += _ordering(comparison, best)
    n = len(comparison.periods)
    if n < MIN_PERIODS:
        sentences.append(
            f"{n} period{'s are' if n > 1 else ' is'} too few to tell any difference from chance."
        )
    elif len(comparison.models) > 3:
        sentences.append(
            f"The winner was picked from {len(comparison.models)} models after seeing the results; the tests do not "
            "account for that."
        )
    return [sentence for sentence in sentences if sentence]


def _winner(comparison: Comparison, best: str) -> str:
    gain = float(comparison.scores["r2_mean"][best])
    if not gain > 1e-9:
        return (
            "No gain: no model has a smaller squared error than the prevailing mean "
            f"(best: {best}, R² {_r2(gain)} against it)."
        )
    chooses = any(model.name == best and model.kind == "level control" for model in comparison.models)
    control = "a control that chooses no peers" if chooses else "a control that looks to no peers"
    kind = "a peer model" if _looks_to_peers(comparison, best) else control
    if found_no_peers(comparison, best):
        kind = "a peer model that found no peers"
    said = f"{best}, {kind}, has the smallest squared error: R² {_r2(gain)} against the prevailing mean"
    if PREVAILING_MEAN not in comparison.names or comparison.baseline == PREVAILING_MEAN:
        return f"{said}."
    return f"{said}{_chance(test_between(comparison, best, PREVAILING_MEAN))}."


def _between_firms(comparison: Comparison, best: str) -> str:
    """Say so where a gain is a level that all firms of a period share."""
    gain, within = (float(comparison.scores[key][best]) for key in ("r2_mean", "r2_within"))
    if not (gain > 0 and within <= 0):
        return ""
    return (
        f"That gain is in the level that all firms of a period share: differences between firms are not predicted "
        f"(R² within {_r2(within)})."
    )


def _r2(value: float) -> str:
    return "n/a" if np.isnan(value) else f"{value:.4f}"


def _looks_to_peers(comparison: Comparison, name: str) -> bool:
    return next(model.looks_to_peers for model in comparison.models if model.name == name)


def found_no_peers(comparison: Comparison, name: str) -> bool:
    """Return whether a peer model's network is empty: it predicts from own characteristics and codes alone."""
    network = comparison.networks.get(name)
    return network is not None and len(network.isolates) == len(network.firms)


def _against_baseline(comparison: Comparison, best: str) -> str:
    if best == comparison.baseline:
        return f"No model beats the baseline, {best}."
    test = comparison.tests[best]
    return f"{_difference(comparison, best, comparison.baseline, 'the baseline ')}{_chance(test)}."


def _peers_against_controls(comparison: Comparison, best: str) -> list[str]:
    """Say how the best peer model stands against the best model that looks to no peers."""
    rmse = comparison.scores["rmse"]
    peers = [model.name for model in comparison.models if model.looks_to_peers]
    controls = [model.name for model in comparison.models if not model.looks_to_peers]
    if not peers or not controls:
        return []
    peer, control = str(rmse[peers].idxmin()), str(rmse[controls].idxmin())
    if found_no_peers(comparison, peer):
        return [
            f"Do peers help? {peer} found no peers that help: its network is empty. What it gains or loses against a control "
            "comes from its own term (its codes and its scale), not from peers."
        ]
    if peer == best and control == comparison.baseline:
        return []  # said already
    if control == best and peer == comparison.baseline:
        return []
    both = comparison.predictions[[peer, control]].to_numpy()
    if np.ptp(both, axis=1).max() <= SAME * np.abs(both).max():
        return [
            f"Do peers help? {peer}, the best peer model, predicts what {control} does: it found no peers that help."
        ]
    test = test_between(comparison, peer, control)
    who = peer if peer == best else f"the best peer model, {peer},"
    return [
        f"Do peers help? {_difference(comparison, peer, control, 'the best control, ', who)}{_chance(test)}."
    ]


def test_between(comparison: Comparison, model: str, baseline: str) -> DieboldMariano:
    """Return the Diebold–Mariano test of any two models of a comparison, on squared errors."""
    frame = comparison.predictions
    ours, theirs = ((frame["outcome"] - frame[name]) ** 2 for name in (model, baseline))
    return diebold_mariano(
        ours, theirs, frame["period"], horizon=comparison.horizon, model=model, baseline=baseline
    )


def _difference(comparison: Comparison, model: str, other: str, whose: str, who: str = "") -> str:
    subject = f"the mean squared error of {who or model}"
    subject = subject[0].upper() + subject[1:]
    ours, theirs = (float(comparison.scores["rmse"][name]) ** 2 for name in (model, other))
    if theirs == 0:
        return f"{subject} is {ours:.3g}, that of {whose}{other} zero"
    share = 1 - ours / theirs
    if share <= -1:
        return f"{subject} is {ours / theirs:.1f} times that of {whose}{other}"
    side = "below" if share >= 0 else "above"
    size = f"{abs(share):.1%}" if abs(share) >= 0.001 else "less than 0.1%"
    return f"{subject} is {size} {side} that of {whose}{other}"


def _chance(test: DieboldMariano) -> str:
    if test.statistic is None or test.p_value is None:
        if test.reason.startswith("n/a (T="):
            return ""  # said once for all
        return "; the two never differ" if test.reason == "same losses" else "; no test can be made"
    found = f"Diebold–Mariano t = {test.statistic:.2f}, {p_words(test.p_value)}"
    if test.p_value < 0.05:
        return f"; significant at the 5% level ({found})"
    return f"; not significant, it may be chance ({found})"


def _ordering(comparison: Comparison, best: str) -> list[str]:
    ics = {name: ic for name, ic in comparison.rank_ics.items() if ic.n_periods}
    if not ics:
        return []
    top = max(ics, key=lambda name: ics[name].mean)
    if best in ics and ics[best].mean > ics[top].mean - 0.0005:
        top = best
    t = f" (t = {ics[top].t:.2f})" if ics[top].t is not None else ""
    who = f"{top} also orders" if top == best else f"{top} orders"
    return [f"{who} the firms of a period best: mean rank correlation {ics[top].mean:.4f}{t}."]
