"""What a report opens with: three sentences, R² of every model against the best control, and the network."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import t as student

from peerattn.evaluation.inference.forecast_tests import (
    degrees_of_freedom,
    long_run_variance,
    periods_needed,
)
from peerattn.evaluation.report.figures import r2_picture, ties_picture, truth_picture
from peerattn.evaluation.report.verdict import best_peer_and_control, found_no_peers, peers_help
from peerattn.evaluation.sample import clusters_of
from peerattn.exceptions import InputError
from peerattn.models.wild_bootstrap import WildMeans
from peerattn.network import effective_peers
from peerattn.network.measures.comparison import network_correlation
from peerattn.render import Picture, show_label

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison
    from peerattn.network import PeerNetwork

_TEST = re.compile(r" \([^()]*\bp [=<] [^()]*\)")
_VERBS = {"forecast": "predicts", "explain": "explains"}


def answer(comparison: Comparison) -> list[str]:
    """Return the answer in three sentences: how good, whether peers help, and what network was found."""
    helped = [
        _TEST.sub("", said) for said in peers_help(comparison)[:1]
    ]  # the test stands among the findings
    said = [_how_good(comparison), *helped, comparison.caution, *network_found(comparison)]
    return [sentence for sentence in said if sentence]


def answer_pictures(comparison: Comparison) -> list[Picture]:
    """Return R² of every model against the best control, and the network, beside the true one where that is known."""
    pair = best_peer_and_control(comparison)
    against = pair[1] if pair else comparison.baseline
    frame, how = r2_intervals(comparison, against)
    pictures = [r2_picture(comparison, frame, against, how)]
    if (shown := shown_network(comparison)) is None:
        return pictures
    name, network = shown
    if comparison.truth is not None:
        return [*pictures, truth_picture(comparison.networks, comparison.truth, name)]
    with suppress(InputError):  # firms that have their own past only
        pictures.append(ties_picture(network, name, few_codes(comparison)))
    return pictures


def r2_intervals(comparison: Comparison, against: str, level: float = 0.95) -> tuple[pd.DataFrame, str]:
    r"""Return each model's R² with an interval of its difference to another model's, and how that was made, in words.

    .. math:: R^2_m - R^2_c = \frac{\sum_{it} (e_{c,it}^2 - e_{m,it}^2)}{\sum_{it} (y_{it} - \bar y)^2},

    its denominator taken as given, so that an interval excludes the other's R² where the test of the two models' squared errors
    rejects. Where a test over time can be made the variance is that of
    :func:`~peerattn.evaluation.inference.forecast_tests.mean_test`; otherwise it is that of
    :func:`~peerattn.evaluation.paired_test` by firm, or by a code where that is wider. The interval is drawn around the model's
    own R², and ends at 1.

    Returns
    -------
    DataFrame
        Indexed by model: ``r2`` (against the prevailing mean), ``low``, ``high`` (NaN where there is no interval).
    str
    """
    known = comparison.predictions["outcome"].notna().to_numpy()
    scored = comparison.predictions[known]
    y = scored["outcome"].to_numpy(dtype=float)
    base = (y - comparison.training_mean[known]) ** 2
    errors = {name: (y - scored[name].to_numpy(dtype=float)) ** 2 for name in comparison.names}
    gains = {name: float((errors[against] - e).sum() / base.sum()) for name, e in errors.items()}
    influence = {name: (errors[against] - e) / base.mean() - gains[name] for name, e in errors.items()}
    reach, how = _intervals(comparison, influence, scored, level)
    r2 = comparison.scores["r2_mean"]
    rows = {name: (r2[name], *np.minimum(r2[name] + reach[name], 1.0)) for name in comparison.names}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["r2", "low", "high"]), how


def _intervals(
    comparison: Comparison, influence: dict[str, np.ndarray], scored: pd.DataFrame, level: float
) -> tuple[dict[str, np.ndarray], str]:
    """Return how far each interval reaches down and up from the gain."""
    varied = {name: values for name, values in influence.items() if np.ptp(values) > 0}
    reach = {name: np.zeros(2) for name in influence}
    if len(comparison.periods) >= periods_needed(comparison.horizon):
        for name, values in varied.items():
            series = pd.Series(values).groupby(scored["period"].to_numpy()).sum().to_numpy()
            series = series * len(series) / len(scored)
            freedom = degrees_of_freedom(series, comparison.horizon)
            variance = float(long_run_variance(series[:, None] - series.mean(), freedom)[0, 0]) / len(series)
            half = float(student.ppf((1 + level) / 2, freedom) * np.sqrt(variance))
            reach[name] = np.array([-half, half])
        return reach, "over time"
    if comparison.n_firms < 2:
        return {name: np.full(2, np.nan) for name in influence}, ""
    clusters = clusters_of(scored[["firm", "period"]], comparison.groups)
    for labels in clusters.values() if varied else ():
        cluster = pd.factorize(labels)[0]
        sums = np.stack([np.bincount(cluster, values) for values in varied.values()], axis=1)
        intervals = WildMeans(sums, np.bincount(cluster)).intervals(level)
        for name, (low, high) in zip(varied, intervals, strict=True):
            reach[name] = np.array([min(reach[name][0], low), max(reach[name][1], high)])
    reach = {name: np.where(np.isfinite(ends), ends, np.nan) for name, ends in reach.items()}
    by = " or ".join(clusters) + ", the wider" * (len(clusters) > 1)
    return reach, f"clustered by {by}, given these periods"


def shown_network(comparison: Comparison) -> tuple[str, PeerNetwork] | None:
    """Return the network of the best learned model that found peers, else of the best model that gave one."""
    found = [name for name in comparison.networks if not found_no_peers(comparison, name)]
    learned = [m.name for m in comparison.models if m.name in found and "PeerAttention" in m.settings]
    if not found:
        return None
    name = str(comparison.scores["rmse"][learned or found].idxmin())
    return name, comparison.networks[name]


def few_codes(comparison: Comparison) -> pd.Series | None:
    """Return the industry of each firm, where there are few enough and a firm has one."""
    for name, group in comparison.groups.items():
        if name.endswith(", fifths"):
            continue
        by_firm = group.groupby(level=0).last()
        if by_firm.nunique() <= 30 and group.groupby(level=0).nunique().max() <= 1:
            return by_firm.astype(str).rename("industry" if "industries" in name else str(name))
    return None


def network_found(comparison: Comparison) -> list[str]:
    """Say what the network is: how near to the true one, or how wide and within which groups."""
    shown = shown_network(comparison)
    if not comparison.networks:
        return []
    if shown is None:
        return [f"{' and '.join(comparison.networks)} kept no peers: the network is empty."]
    name, network = shown
    when = show_label(network.periods[0])
    if comparison.truth is not None:
        near = {n: network_correlation(found, comparison.truth) for n, found in comparison.networks.items()}
        others = ", ".join(f"{n} {_r(value)}" for n, value in near.items() if n != name)
        said = f"Weights of {name} in {when} correlate {_r(near[name])} with the true ones"
        return [f"{said} ({others})." if others else f"{said}."]
    median = float(effective_peers(network)["effective_peers"].median())
    weights = network.matrix().abs()
    own_past = ", its own past among them" if looks_at_own_past(network) else ""
    peers = f"{median:,.0f} peer{'' if round(median) == 1 else 's'}"
    said = f"In {when} {name} spreads a firm's weight over {peers} (effective number, median{own_past})"
    codes = few_codes(comparison)
    if codes is not None:
        own, theirs = (codes.reindex(firms).to_numpy() for firms in (weights.index, weights.columns))
        same, other = own[:, None] == theirs, weights.index.to_numpy()[:, None] != weights.columns.to_numpy()
        share = float(weights.to_numpy()[same].sum() / weights.to_numpy().sum())
        said += f"; {share:.0%} of it stays in the {codes.name}, where {same[other].mean():.0%} of the other firms are"
    return [f"{said}."]


def looks_at_own_past(network: PeerNetwork) -> bool:
    """Tell whether firms are peers of themselves: in a forecast, by their own past outcomes."""
    edges = network.edges()
    return bool((edges["weight"][edges["firm"] == edges["peer"]] != 0).any())


def _r(value: float) -> str:
    return "n/a" if np.isnan(value) else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def _how_good(comparison: Comparison) -> str:
    """Say how much the best peer model explains, and the baseline beside it."""
    r2 = comparison.scores["r2_mean"]
    pair = best_peer_and_control(comparison)
    first = str(r2.idxmax()) if pair is None else pair[0]
    said = f"{first} {_VERBS[comparison.task]} {_share(r2[first])} of the variation of {comparison.outcome} in {comparison.span}"
    beside = [] if pair is None else [pair[1]]
    beside += [comparison.baseline] if comparison.baseline not in (first, *beside) else []
    return f"{said}{''.join(f', {name} {_share(r2[name])}' for name in beside)}."


def _share(r2: float) -> str:
    return f"{100 * r2:.0f}%".replace("-", "−")
