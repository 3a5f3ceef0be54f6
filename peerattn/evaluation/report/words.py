"""The sentences of a report. Each is written once, from the claims of the comparison and nothing else."""

import numpy as np
import pandas as pd

from peerattn.evaluation.claims import NO, YES, Claims, Step, WithClaims
from peerattn.evaluation.gains import HALF, Gain
from peerattn.evaluation.inference.forecast_tests import p_words
from peerattn.evaluation.running.information import COMMON, PEERS
from peerattn.foreign_text import visible
from peerattn.models.stacking.evidence import STEPS
from peerattn.network import PeerNetwork, effective_peers, network_correlation, overlap
from peerattn.render import show_label

VERBS = {"forecast": "predict", "nowcast": "nowcast"}
TASKS = {
    "forecast": "No outcome of the predicted period is used.",
    "nowcast": "Peer models use the outcomes of the other firms of the period, never the own one: a nowcast, not a forecast.",
}
#: Packages whose versions a comparison records.
PACKAGES = ("torch", "scikit-learn", "pandas", "numpy", "scipy", "statsmodels")
#: What weights are and are not; shown wherever a reader sees a network.
RELEVANCE = (
    "Weights show whose characteristics or outcomes help to predict a firm: predictive relevance, not causal peer effects. "
    "Firms that are alike, or hit by the same shocks, get weight without influence (the reflection problem, Manski 1993)."
)


def summary(compared: WithClaims) -> list[str]:
    """Return the finding in plain words: whether peers help, on what evidence, where predictability comes from, which network."""
    claims = compared.claims
    wording = [verdict(compared), decomposition(compared), users_models(compared), best_control(compared), spread(claims)]
    wording += [power(claims), placebo(compared)]
    return [visible(sentence) for sentence in (*wording, compared.panel.caution, *network_found(compared)) if sentence]


def question(compared: WithClaims) -> str:
    """Return what the verdict answers."""
    return f"Do peers help to {VERBS[compared.task]} {compared.outcome}?"


def verdict(compared: WithClaims) -> str:
    """Answer whether peers help, and give the reason with the test of the last step."""
    claims = compared.claims
    wording = f"{question(compared)} {claims.answer}: {claims.why}."
    gain = claims.gain
    if gain is None or gain.reason == "same predictions":
        return wording
    wording += f" Held-out R² of the stack is {number(gain.r2)} with peers and {number(gain.r2_against)} without"
    if claims.p is not None:
        wording += f"; {tested(gain, claims.p)}"
    return f"{wording}."


def decomposition(compared: WithClaims) -> str:
    """Describe how much of the outcome's variation the one stack explains after each group of information."""
    if not compared.claims.steps:
        return ""
    first, *rest = compared.claims.steps
    parts = [f"{first.name} {number(first.r2)}"]
    parts += [f"{step.name} {number(step.r2)} ({_added(step)})" for step in rest]
    return f"Held-out R² of {compared.outcome} in {compared.span}, by nested models of one stack: {' → '.join(parts)}."


def _added(step: Step) -> str:
    gain = step.gain
    if gain is None or gain.reason == "same predictions":
        return step.selected
    return f"{number(gain.gain, '+')}{_interval(gain)}"


def users_models(compared: WithClaims) -> str:
    """Describe how the user's peer models compare with the stack without peers, and with their own versions without peers."""
    gains = compared.claims.models
    if not gains:
        return ""
    parts = [f"{g.model} against {g.against}: {number(g.gain, '+')}{_interval(g)}" for g in gains]
    # readers find these among the networks of the page
    means = [m.name for m in compared.models if m.information == COMMON and m.name in compared.networks]
    if means:
        parts.append(f"not of {listed(means)}, which choose{'s' * (len(means) == 1)} no peers")
    return f"Difference in held-out R² of each peer model: {'; '.join(parts)}."


def best_control(compared: WithClaims) -> str:
    """Name the model with the highest R² where it chooses no peers, and is not the stack without peers."""
    r2 = compared.scores["r2_mean"].round(3)
    others = r2.drop([name for name in compared.controls if name != compared.without_name])
    if compared.is_constant or not others.max() < r2.max():
        return ""
    return f"The highest held-out R², {number(r2.max())}, is that of a model without chosen peers: {r2.idxmax()}."


def tested(gain: Gain, p: float) -> str:
    """Report what a test found: t, p, over what, and under which assumption."""
    given = ""
    if gain.how == "by period":
        given = f", over {gain.clusters} periods as if they were independent (t with {gain.clusters - 1} degrees of freedom)"
    elif gain.how != "over time":
        given = (
            f", clustered {gain.how} ({gain.clusters} clusters), given these periods and symmetrically distributed cluster sums"
        )
    return f"t = {gain.t:.2f}, one-sided {p_words(p)}{given}"


def spread(claims: Claims) -> str:
    """Describe on how many firms, which group and which period a gain rests."""
    found = claims.concentration
    if found is None or claims.answer == NO:
        return ""
    shares = []
    for what, (label, share) in found.largest.items():
        shares.append(f"{label} ({what}) {share:.0%}")
        # a gain that rested on it would not have been a Yes
        if claims.answer == YES and share > HALF and what != "firm":
            shares[-1] += " (without it the gain is still significant)"
    makes = f"make{'s' * (found.firms_for_half == 1)}"
    firms = f"{found.firms_for_half} of {found.n_firms:,} firms {makes} half of the gain"
    return f"{firms}; the largest shares are those of {listed(shares)}."


def power(claims: Claims) -> str:
    """Describe what network would have been found, where none was."""
    if claims.smallest is None:
        return ""
    if not np.isfinite(claims.smallest):
        return "Power: not even a network that explains half of the variance would have been found with probability .8."
    found = f"a network that explains {claims.smallest:.1%} of the variance beyond the stack without peers would have been found"
    return f"Power: {found} with probability .8, by a model that recovers it fully; a smaller one need not have been."


def placebo(compared: WithClaims) -> str:
    """Describe what the stack's peers gained on outcomes exchanged between firms."""
    claims = compared.claims
    gains = compared.placebo
    if not len(gains) or claims.gain is None:
        return ""
    ends = " to ".join(number(float(end), "+") for end in (gains.min(), gains.max()))
    refits = f"Placebo: refitted {len(gains)} times on outcomes whose unexplained part was exchanged between firms of a period"
    reached = f"{(gains >= claims.gain.gain).sum()} of {len(gains)} reach the gain in the data"
    return f"{refits}, the stack gains {ends} by peers; {reached}."


def network_found(compared: WithClaims) -> list[str]:
    """Describe what the network is: of which parts, whether it is signed, how wide it is, how near to the true one."""
    claims = compared.claims
    wording = []
    if claims.empty:
        wording.append(f"The network of {' and '.join(claims.empty)} is empty: no peers were selected.")
    if claims.network is None:
        return wording
    name = claims.network
    network = compared.networks[name]
    when = show_label(network.periods[0])
    truth = compared.panel.truth
    if truth is not None:
        near = "; ".join(f"{n} {number(network_correlation(w, truth))}" for n, w in compared.networks.items())
        wording.append(f"Correlation of the weights in {when} with the true ones: {near}.")
    else:
        parts, _ = compared.note(name).selected.get(PEERS, ((), 0))
        if parts:
            name += f" ({', '.join(parts)})"
        median = f"{effective_peers(network)['effective_peers'].median():,.1f}{_within(compared, network)}"
        wording.append(f"The network of {name} in {when}: the median effective number of peers is {median}.")
    return [*wording, direction(network)]


def direction(network: PeerNetwork) -> str:
    """Explain what an arrow of the network means."""
    signed = "Its weights are signed and symmetric, up to how much each firm varies. " * network.signed
    return f"{signed}An arrow leads from a firm to the peer used in its prediction; it does not show which firm influences which."


def _within(compared: WithClaims, network: PeerNetwork) -> str:
    codes = few_codes(compared)
    if codes is None or not (row := within_codes(network, codes))["chance"] > 0:
        return ""
    within = f"{row['share']:.0%} of the weight on other firms stays within the {codes.name}"
    return f"; {within}, where equal weights on all others would leave {row['chance']:.0%}"


def within_codes(network: PeerNetwork, codes: pd.Series) -> pd.Series:
    """Return the share of the weight within a code, and its chance, among firms whose code is known."""
    return overlap(network, codes[codes != "unknown"]).iloc[0]


def few_codes(compared: WithClaims) -> pd.Series | None:
    """Return the industry of each firm ("unknown" where it is) in its last tested period, where there are few enough."""
    for name, group in compared.panel.codes.items():
        by_firm = group.groupby(level=0).last()
        if by_firm.nunique() <= 30 and by_firm.ne("unknown").any():
            return by_firm.astype(str).rename(str(name))
    return None


def number(value: float, sign: str = "") -> str:
    """Return an R² or a correlation as text; a gain with its sign ``"+"``."""
    if np.isnan(value):
        return "n/a"
    return f"{round(value, 3) + 0.0:{sign}.3f}".replace("-", "−")


def _interval(gain: Gain) -> str:
    if np.isnan(gain.low) or gain.gain == 0:
        return ""
    return f", 95% interval {number(gain.low)} to {number(gain.high)}"


def listed(parts: list[str]) -> str:
    """Return parts as an enumeration."""
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def versions_of(compared: WithClaims) -> dict[str, str]:
    """Return the versions of the packages that a comparison was computed with."""
    settings = compared.settings
    return {name: settings[name] for name in ("peerattn", *PACKAGES) if name in settings}


def methods_paragraph(compared: WithClaims) -> str:
    """Return a paragraph on method and sample (models, tests, versions), ready to be edited into a paper."""
    choice = compared.panel.choice
    columns = f"{len(choice.characteristics)} characteristics ({', '.join(choice.characteristics)})"
    if choice.codes:
        columns += f" and {len(choice.codes)} codes ({', '.join(choice.codes)})".replace(" 1 codes", " 1 code")
    split = "; fits per model: ".join(compared.settings.get(name, "") for name in ("split", "fits per model"))
    stack = {compared.without_name, compared.stack}
    names = [model.name for model in compared.models if not (model.control and model.name in stack)]
    failed = [failure.model for failure in compared.failures]
    used = [f"{name} {version}" for name, version in versions_of(compared).items()]
    wording = [
        f"We {VERBS[compared.task]} {compared.outcome} from {columns}.",
        TASKS[compared.task],
        f"Models are fitted and tested out of sample: {split}.",
        f"We compare {', '.join(names)}; the baseline is {compared.baseline}.",
        f"All models are scored on the same rows: {compared.sample}.",
        f"Not scored, because they failed: {', '.join(failed)}." * bool(failed),
        "R² is one minus the ratio of the squared errors of the model and of a benchmark: zero (Gu, Kelly and Xiu 2020), or "
        "the mean of the training outcomes (Campbell and Thompson 2008); within periods, both are demeaned by period.",
        nested(compared),
        tests(compared),
        compared.panel.caution,
        "The weights of peer models measure predictive relevance, not causal peer effects (Manski 1993).",
        f"Computed with {', '.join(used)}." * bool(used),
    ]
    return visible(" ".join(sentence for sentence in wording if sentence))


def nested(compared: WithClaims) -> str:
    """Describe how held-out R² is decomposed; nothing where it is not."""
    if compared.stack is None:
        return ""
    models = f"Held-out R² is decomposed by nested models: the predictions of a combination of models after {listed([*STEPS])}."
    weights = "Its weights are chosen on held-out periods of the training rows, never on test rows."
    last = f"{compared.stack} against {compared.without_name}"
    return f"{models} {weights} Whether peers help is the test of the last step ({last})."


def tests(compared: WithClaims) -> str:
    """Describe how differences in squared error are tested, by the number of periods."""
    n = len(compared.periods)
    if n == 1:
        return "With one tested period there is no test."
    if compared.few_periods:
        clusters = (
            "by firm or code (wild cluster bootstrap, Cameron, Gelbach and Miller 2008, of symmetrically distributed cluster"
        )
        clusters += " sums, given these periods), or by period (Ibragimov and Müller 2010), whichever gives the largest p"
        return f"With {n} tested periods differences in squared error are clustered {clusters}."
    variance = "an equal-weighted cosine variance, scaled to be unbiased in an AR(1) with coefficient .7"
    student = "Student's t (Lazarus, Lewis, Stock and Watson 2018; Coroneo and Iacone 2020)"
    together = "all models together by multiple comparisons with the best (Horrace and Schmidt 2000)"
    over_time = f"over periods (Diebold and Mariano 1995) with {variance}, and {student}"
    return f"Differences in squared error are tested {over_time}; {together}."
