"""The report of a comparison: one page that a co-author or a referee can open anywhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from peerattn.evaluation.comparison import PACKAGES
from peerattn.evaluation.forecast_tests import MIN_PERIODS, format_p
from peerattn.evaluation.report_figures import cumulative_gain, rank_ic_over_time, weights_picture
from peerattn.render import Picture, Section, Table, page, show_label

if TYPE_CHECKING:
    from peerattn.evaluation.comparison import Comparison
    from peerattn.network import PeerNetwork

#: What weights are and are not; it stands wherever a reader sees a network.
RELEVANCE = (
    "Weights say whose characteristics or outcomes help to predict a firm: predictive relevance, not causal peer effects. "
    "Firms that resemble each other, or that are hit by the same shocks, get weight without any influence on each other "
    "(the reflection problem, Manski 1993)."
)
REPORTED = ("r2_zero", "r2_mean", "r2_within", "rmse", "mae", "rank_ic", "rank_ic_t", "dm_t", "dm_p")
_TASKS = {
    "forecast": "Forecast: no outcome of the predicted period is used.",
    "explain": (
        "Explanation: peer models are shown the outcomes of the other firms of the same period, never the firm's own. "
        "It is not a forecast."
    ),
}
_VERBS = {"forecast": "predicts", "explain": "explains"}
_SHOWN_PEERS = 3
_FIRMS_LISTED = 25


def report_page(comparison: Comparison) -> str:
    """Return the report as one self-contained HTML page."""
    summary = [_together(sentence) for sentence in comparison.summary()]
    sections = [
        Section("In plain words", [*summary[1:], _TASKS[comparison.task]]),
        Section("The comparison", [comparison.as_table(REPORTED)]),
        _tests(comparison),
        _over_time(comparison),
        *_networks(comparison),
        Section("What went in", _inputs(comparison)),
        Section("How it was made", _settings(comparison)),
    ]
    periods = comparison.periods
    facts = {
        "Outcome": comparison.outcome,
        "Task": comparison.task,
        "Firms": f"{comparison.n_firms:,}",
        "Tested periods": f"{len(periods)} ({_span(comparison)})",
        "Outcomes scored": f"{comparison.n_outcomes:,}",
        "Baseline": comparison.baseline,
    }
    return page(
        f"Who {_VERBS[comparison.task]} {comparison.outcome}?",
        sections,
        lead=summary[0],
        facts=facts,
        footer=f"Made with peerattn {comparison.settings.get('peerattn', '')}".strip() + ".",
    )


def _together(sentence: str) -> str:
    """Keep a statistic on one line with its value."""
    return re.sub(
        r"\b([tpT]|R²) ([=<] )?(?=[-\d])", lambda found: found.group().replace(" ", "\u00a0"), sentence
    )


def _span(comparison: Comparison) -> str:
    first, last = (show_label(comparison.periods[k]) for k in (0, -1))
    return first if first == last else f"{first} to {last}"


def _tests(comparison: Comparison) -> Section:
    rows = []
    for test in comparison.tests.values():
        tested = test.statistic is not None
        rows.append(
            (
                test.model,
                test.gain,
                test.statistic if tested else test.reason,
                format_p(test.p_value) if test.p_value is not None else "",
                test.n_periods,
                test.lags if tested else "",
            )
        )
    table = Table(
        f"Each model against {comparison.baseline}",
        ("Model", "Mean gain", "t", "p", "Periods", "Lags"),
        rows,
        alignment="lrrrrr",
        formats=("", ".3g", ".2f", "", "", ""),
    )
    words = (
        "Panel Diebold–Mariano tests of equal squared error. Losses are averaged over the firms of each period first, so that "
        "a period counts once; the variance is Newey and West's, with the small-sample factor of Harvey, Leybourne and Newbold "
        "(1997). Mean gain: the baseline's mean squared error less the model's, positive = the model is better."
    )
    few = (
        f"With {len(comparison.periods)} tested period{'s' if len(comparison.periods) > 1 else ''} no test over time is made: "
        f"at least {MIN_PERIODS} are needed. The differences hold for these periods and say little about others."
    )
    return Section("Is it chance?", [words, *([few] if len(comparison.periods) < MIN_PERIODS else []), table])


def _over_time(comparison: Comparison) -> Section:
    pictures: list[str | Table | Picture] = [
        picture for picture in (cumulative_gain(comparison), rank_ic_over_time(comparison)) if picture
    ]
    return Section("Over time", pictures or ["One period is tested: there is nothing to show over time."])


def _networks(comparison: Comparison) -> list[Section]:
    """Return the network section of the best peer model that gave one."""
    if not comparison.networks:
        return []
    rmse = comparison.scores["rmse"]
    learned = [name for name in comparison.networks if _is_learned(comparison, name)] or list(
        comparison.networks
    )
    name = str(rmse[learned].idxmin())
    blocks: list[str | Table | Picture] = [RELEVANCE]
    if _is_empty(comparison.networks[name]):
        blocks.append(f"{name} found no peers that help to predict: its network is empty.")
        others = [other for other in comparison.networks if not _is_empty(comparison.networks[other])]
        if not others:
            return [Section("Whom firms look to", blocks)]
        name = str(rmse[others].idxmin())
    network = comparison.networks[name]
    blocks += [
        f"The peer network of {name} in {show_label(network.periods[0])}, the last tested period.",
        weights_picture(network, name),
        _top_peers(network),
        *_one_sided(network),
        _isolates(network),
    ]
    return [Section("Whom firms look to", blocks)]


def _is_empty(network: PeerNetwork) -> bool:
    return len(network.isolates) == len(network.matrix())


def _is_learned(comparison: Comparison, name: str) -> bool:
    settings = next(model.settings for model in comparison.models if model.name == name)
    return "PeerAttention" in settings


def _top_peers(network: PeerNetwork) -> Table:
    """Return the peers with the most weight: of every firm, or of all firms together in a large network."""
    if len(network.firms) > _FIRMS_LISTED:
        given = network.matrix().sum().sort_values(ascending=False, kind="stable").head(10)
        return Table(
            "The firms most looked to",
            ("Firm", "Sum of weights given to it"),
            list(zip(map(show_label, given.index), given.tolist())),
            alignment="lr",
        )
    edges = network.edges(top_k=_SHOWN_PEERS)
    rows = []
    for firm, own in edges.groupby("firm", sort=False):
        peers = [f"{show_label(p)} {w:.2f}" for p, w in zip(own["peer"], own["weight"]) if w >= 0.005]
        rows.append((show_label(firm), *(peers + [""] * _SHOWN_PEERS)[:_SHOWN_PEERS]))
    return Table("Whom each firm looks to most", ("Firm", "First", "Second", "Third"), rows)


def _one_sided(network: PeerNetwork) -> list[str | Table | Picture]:
    from peerattn.exceptions import InputError

    try:
        pairs = network.asymmetry().most_one_sided(8, kind="difference")
    except InputError:  # nobody both looks and is looked to
        return []
    if pairs.empty:
        return ["No pair of firms is one-sided: each gives the other the weight it gets."]
    firms, peers = (map(show_label, pairs[side]) for side in ("firm", "peer"))
    rows = list(zip(firms, peers, pairs["weight"].tolist(), pairs["reverse"].tolist()))
    return [
        Table(
            "The most one-sided pairs",
            ("Firm", "looks to", "with weight", "and is given"),
            rows,
            alignment="llrr",
        )
    ]


def _isolates(network: PeerNetwork) -> str:
    isolates = [show_label(firm) for firm in network.isolates["firm"]]
    if not isolates:
        return "Every firm has at least one peer."
    shown = ", ".join(isolates[:10]) + (", …" if len(isolates) > 10 else "")
    return f"Firms without any peer: {len(isolates)} ({shown})."


def _inputs(comparison: Comparison) -> list[str | Table | Picture]:
    unknown = int(comparison.predictions["outcome"].isna().sum())
    words = f"All models predict the same rows: {comparison.sample}."
    if unknown:
        words += f" {unknown:,} more rows of these periods have no known outcome: they are not scored, but serve as peers."
    plain = (
        "Plain regressors get missing values as the period's median with an indicator, codes one-hot, all learned on training "
        "rows only. The control with own characteristics uses no codes."
    )
    return [words, *_columns(comparison), plain]


def _columns(comparison: Comparison) -> list[str]:
    """Say which columns were taken and which were left, and why."""
    choice = comparison.choice
    said = [
        f"Characteristics ({len(choice.characteristics)}): {', '.join(choice.characteristics) or 'none'}."
    ]
    if choice.codes:
        said.append(f"Codes ({len(choice.codes)}): {', '.join(choice.codes)}.")
    reasons: dict[str, list[str]] = {}
    for column, reason in choice.left.items():
        reasons.setdefault(str(reason), []).append(str(column))
    said += [f"Left out ({reason}): {', '.join(columns)}." for reason, columns in reasons.items()]
    return said


def _settings(comparison: Comparison) -> list[str | Table | Picture]:
    settings = dict(comparison.settings)
    versions = [(name, settings.pop(name)) for name in ("peerattn", *PACKAGES) if name in settings]
    said = [f"{name[0].upper()}{name[1:]}: {value}." for name, value in settings.items()]
    models = [f"{model.name} is {model.settings}." for model in comparison.models]
    return [*said, *models, Table("", ("Package", "Version"), versions, alignment="ll")]
