"""The finding of a comparison in plain words: who wins, whether it is chance, whether peers help, what decides it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from peerattn.evaluation.inference.forecast_tests import diebold_mariano, p_words, periods_needed
from peerattn.evaluation.inference.multiple_tests import SuperiorAbility, superior_ability
from peerattn.evaluation.inference.nested_tests import ForecastTest
from peerattn.evaluation.running.entries import BOOSTING, OWN_CHARACTERISTICS
from peerattn.evaluation.sample import clusters_of
from peerattn.exceptions import InputError
from peerattn.render import show_label

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison

SAME = 1e-6  # largest difference of two models' predictions, as a share of the largest, that rounding makes
LEVEL = 0.05
TIED = 0.0005  # a difference of rank correlations that is not worth a mention
MOVES = 0.5  # a firm or period decides where the gain without it is less than this share of the gain, or 1 / MOVES times it


def verdict(comparison: Comparison) -> list[str]:
    """Return the finding, a sentence or two each.

    Models are ranked by squared error on the common sample. Significance is that of the joint test of all models, so that
    the search for the best one is accounted for. A control that wins is said to win, and no gain is said to be none.
    """
    best = smallest_error(comparison, comparison.names)
    n = len(comparison.periods)
    few = f"{n} period{'s are' if n > 1 else ' is'} too few for a test over time: what differs in these may not in others."
    sentences = [
        f"{_winner(comparison, best)} {_against_baseline(comparison, best)}",
        _common_level(comparison, best),
        *peers_help(comparison),
        comparison.caution,
        _empty(comparison),
        *(said for said, decides in robustness(comparison) if decides),
        _order(comparison),
        few if n < periods_needed(comparison.horizon) else "",
    ]
    return [sentence for sentence in sentences if sentence]


def found_no_peers(comparison: Comparison, name: str) -> bool:
    """Return whether a peer model's network is empty: it predicts from own characteristics and codes alone."""
    network = comparison.networks.get(name)
    return network is not None and len(network.isolates) == len(network.firms)


def _empty(comparison: Comparison) -> str:
    """Name the models that found no peers, but for the best peer model, of which it has been said."""
    pair = best_peer_and_control(comparison)
    empty = [
        n for n in comparison.networks if found_no_peers(comparison, n) and (pair is None or n != pair[0])
    ]
    if not empty:
        return ""
    each = "each predicts" if len(empty) > 1 else "it predicts"
    return f"{' and '.join(empty)} kept no peers: the network is empty, and {each} from its own term alone."


def best_peer_and_control(comparison: Comparison) -> tuple[str, str] | None:
    """Return the peer model and the control with the smallest squared error; None where either is missing."""
    rmse, peers, controls = comparison.scores["rmse"], comparison.peer_models, comparison.controls
    return (str(rmse[peers].idxmin()), str(rmse[controls].idxmin())) if peers and controls else None


def smallest_error(comparison: Comparison, names: Sequence[str]) -> str:
    """Return the model with the smallest squared error; of those that share it, a control, which needs no peers."""
    rmse = comparison.scores["rmse"][list(names)]
    least = [str(name) for name in rmse.index[rmse <= rmse.min() * (1 + SAME)]]
    return next((name for name in least if name in comparison.controls), least[0])


def headline_pair(comparison: Comparison) -> tuple[str, str] | None:
    """Return the two models that the headline sets against each other: the best and the baseline, else peers and control."""
    best = smallest_error(comparison, comparison.names)
    return (best, comparison.baseline) if best != comparison.baseline else best_peer_and_control(comparison)


def joint_test(comparison: Comparison, benchmark: str, models: Sequence[str]) -> SuperiorAbility | None:
    """Return the joint test whether any of the models beats the benchmark; None where periods are too few."""
    try:
        losses = comparison.losses[[benchmark, *models]]
        return superior_ability(losses, benchmark, size=LEVEL, horizon=comparison.horizon)
    except InputError:  # too few periods
        return None


def robustness(comparison: Comparison) -> list[tuple[str, bool]]:
    """Return how the headline's ratio moves without one firm or period, in words, and whether one of them decides it.

    The ratio is that of the mean squared errors of the two models of :func:`headline_pair`.
    """
    pair = headline_pair(comparison)
    if pair is None:
        return []
    frame = comparison.predictions[comparison.predictions["outcome"].notna()]
    errors = pd.DataFrame({name: (frame["outcome"] - frame[name]) ** 2 for name in pair})
    ours, theirs = errors.sum()
    if theirs == 0 or ours == theirs:
        return []
    ratio, ranges, decides = ours / theirs, [], False
    for what in ("firm", "period"):
        left = errors.sum() - errors.groupby(frame[what].to_numpy()).sum()
        without = (left[pair[0]] / left[pair[1]]).replace([np.inf, -np.inf], np.nan).dropna()
        if len(without) < 2:
            continue
        share = (without - 1) / (ratio - 1)  # of the gain that is left
        decides |= bool((share < MOVES).any() or (share > 1 / MOVES).any())
        most = show_label((without - ratio).abs().idxmax())
        reach = f"{without.min():#.3g} and {without.max():#.3g}"
        ranges.append(f"{reach} without any one {what} ({most} moves it most)")
    if not ranges:
        return []
    start = "A handful of rows decides this" if decides else "No single firm or period decides this"
    return [
        (
            f"{start}: the ratio of the mean squared error of {pair[0]} to that of {pair[1]} is {ratio:#.3g}; it lies "
            f"between {' and between '.join(ranges)}.",
            decides,
        )
    ]


def _winner(comparison: Comparison, best: str) -> str:
    gain = float(comparison.scores["r2_mean"][best])
    if not gain > 1e-9:
        return (
            "No gain: no model has a smaller squared error than the prevailing mean "
            f"(best: {best}, R² {_r2(gain)} against it)."
        )
    level = next(model.kind == "level control" for model in comparison.models if model.name == best)
    kind = "a control that chooses no peers" if level else "a control that uses no peers"
    if best in comparison.peer_models:
        kind = "a peer model whose network is empty" if found_no_peers(comparison, best) else "a peer model"
    return f"{best}, {kind}, has the smallest squared error: R² {_r2(gain)} against the prevailing mean."


def _common_level(comparison: Comparison, best: str) -> str:
    """Say so where a gain is a level that all firms of a period share."""
    gain, within = (float(comparison.scores[key][best]) for key in ("r2_mean", "r2_within"))
    if not (gain > 0 and within <= 0):
        return ""
    return (
        "That gain is in the level that all firms of a period share: differences between firms are not predicted "
        f"(R² within period {_r2(within)})."
    )


def _against_baseline(comparison: Comparison, best: str) -> str:
    baseline = comparison.baseline
    if best == baseline:
        return f"No model beats the baseline, {best}."
    said = f"The mean squared error of {best} is {_size(comparison, best, baseline)} that of the baseline, {baseline}"
    others = [name for name in comparison.names if name != baseline]
    found = joint_test(comparison, baseline, others)
    if found is None:
        return f"{said}{_given_periods(comparison, best, baseline, len(others), 'models')[1]}."
    return f"{said}{_chance(found, best, len(others), 'models')}."


def peers_help(comparison: Comparison) -> list[str]:
    """Answer whether peers help: the best peer model against the best model that uses none."""
    pair = best_peer_and_control(comparison)
    if pair is None:
        missing = "control" if comparison.peer_models else "peer model"
        return [f"Do peers help? This comparison cannot tell: it has no {missing}."]
    peer, control = pair
    both = comparison.predictions[[peer, control]].to_numpy()
    same = np.ptp(both, axis=1).max() <= SAME * np.abs(both).max()
    if found_no_peers(comparison, peer):
        empty = f"Do peers help? No: {peer}, the best peer model, found no peers that help, and its network is empty."
        if same:
            return [f"{empty} It predicts the same as {control}."]
        return [
            f"{empty} What it gains or loses against a control comes from its own term (its codes and its scale), not from peers."
        ]
    if same:
        return [f"Do peers help? No: {peer}, the best peer model, predicts the same as {control}."]
    said = (
        f"the mean squared error of {peer}, the best peer model, is {_size(comparison, peer, control)} that of the best "
        f"control, {control}"
    )
    peers = [name for name in comparison.peer_models if not found_no_peers(comparison, name)]
    if _gain(comparison, peer, control) <= 0:
        return [f"Do peers help? No: {said}.", *_curvature(comparison, peer)]
    found = joint_test(comparison, control, peers)
    if found is None:
        answer, chance = _given_periods(comparison, peer, control, len(peers))
    else:
        answer = "Yes" if found.superior else "Not shown"
        chance = _chance(found, peer, len(peers), "peer models")
    where = _concentrated(comparison, peer, control)
    return [f"Do peers help? {answer}: {said}{chance}.{where}", *_curvature(comparison, peer)]


def _concentrated(comparison: Comparison, peer: str, control: str) -> str:
    """Name the firm, or the group of a code, that most of a gain is in."""
    frame = comparison.predictions[comparison.predictions["outcome"].notna()]
    gain = (frame["outcome"] - frame[control]) ** 2 - (frame["outcome"] - frame[peer]) ** 2
    for what, labels in clusters_of(frame[["firm", "period"]], comparison.groups).items():
        share = gain.groupby(labels).sum() / gain.sum()
        if share.max() > MOVES:
            return f" {share.max():.0%} of that gain is in one {what}, {show_label(share.idxmax())}."
    return ""


def _given_periods(
    comparison: Comparison, peer: str, control: str, n: int, what: str = "peer models"
) -> tuple[str, str]:
    """Answer for the tested periods alone, where they are too few for a test over time; Bonferroni's bound for n models."""
    few = len(comparison.periods) < periods_needed(comparison.horizon)
    test = comparison.test(peer, control).test if few and comparison.n_firms > 1 else None
    if not isinstance(test, ForecastTest) or test.upper_p is None:
        return "It cannot be tested here", ""
    p = min(1.0, n * test.upper_p)
    searched = f", the search among {n} {what} accounted for" if n > 1 else ""
    periods = "this period" if len(comparison.periods) == 1 else f"these {len(comparison.periods)} periods"
    said = f" (paired, one-sided, clustered by {test.clustered_by}, given {periods}: {p_words(p)}{searched})"
    return (f"Yes, in {periods}" if p < LEVEL else "Not shown"), said


def _curvature(comparison: Comparison, peer: str) -> list[str]:
    """Say so where a gain over OLS is none over boosting on own characteristics: it may be their curvature."""
    if not {OWN_CHARACTERISTICS, BOOSTING} <= set(comparison.names):
        return []
    over_ols, over_boosting = (_gain(comparison, peer, name) for name in (OWN_CHARACTERISTICS, BOOSTING))
    frame = comparison.predictions
    ours, theirs = ((frame["outcome"] - frame[name]) ** 2 for name in (peer, BOOSTING))
    p = diebold_mariano(ours, theirs, frame["period"], horizon=comparison.horizon).p_value
    shown = over_boosting > 0 and (p is None or p < LEVEL)
    if over_ols <= 0 or shown:
        return []
    chance = (
        f", which may be chance: Diebold–Mariano {p_words(p)}" if over_boosting > 0 and p is not None else ""
    )
    return [
        f"{peer} improves on OLS with own characteristics (its mean squared error is "
        f"{_size(comparison, peer, OWN_CHARACTERISTICS)}), but not on gradient boosting with them "
        f"({_size(comparison, peer, BOOSTING)}{chance}): the gain may be curvature of own characteristics rather than peers."
    ]


def _order(comparison: Comparison) -> str:
    ics = {
        name: ic for name, ic in comparison.rank_ics.items() if ic.n_periods and name in comparison.ordering
    }
    if not ics:
        return ""
    top = max(ics, key=lambda name: ics[name].mean)
    best = smallest_error(comparison, comparison.names)
    if best in ics and ics[best].mean > ics[top].mean - TIED:
        top = best
    t = f" (t = {ics[top].t:.2f})" if ics[top].t is not None else ""
    empty = (
        "; its network is empty, so the order is that of its own term"
        if found_no_peers(comparison, top)
        else ""
    )
    return (
        f"The highest mean rank correlation within periods, {ics[top].mean:.4f}{t}, is that of {top}{empty}."
    )


def _gain(comparison: Comparison, model: str, other: str) -> float:
    """Return the share of the other model's mean squared error that a model saves."""
    ours, theirs = (float(comparison.scores["rmse"][name]) ** 2 for name in (model, other))
    return 1 - ours / theirs if theirs else (0.0 if ours == 0 else -np.inf)


def _size(comparison: Comparison, model: str, other: str) -> str:
    """Return how the mean squared errors of two models compare, to be followed by the other's."""
    gain = _gain(comparison, model, other)
    if gain <= -1:
        return f"{1 - gain:.1f} times"
    size = f"{abs(gain):.1%}" if abs(gain) >= 0.001 else "less than 0.1%"
    return f"{size} {'below' if gain >= 0 else 'above'}"


def _chance(found: SuperiorAbility, model: str, n: int, what: str) -> str:
    """Say whether a joint test finds a model better than its benchmark."""
    if model in found.causes:
        return f"; no test over time can be made of it ({found.causes[model]})"
    searched = f", the search among {n} {what} accounted for" if n > 1 else ""
    test = f"Diebold–Mariano, one-sided {p_words(found.p_values.get(model, 1.0))}"
    if model in found.superior:
        return f"; significant at the {LEVEL:.0%} level{searched} ({test})"
    if found.superior:
        return f"; not significant for it, but for {', '.join(found.superior)}{searched} ({test})"
    return f"; not significant{searched}: it may be chance ({test})"


def _r2(value: float) -> str:
    return "n/a" if np.isnan(value) else f"{value:.4f}"
