"""How much more one model explains than another: with interval and test, by firm, by group; and how small a gain would show."""

from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.inference.forecast_tests import MeanTest, mean_error, mean_test, periods_needed
from peerattn.exceptions import InputError, expect, validate_arguments
from peerattn.models.wild_bootstrap import WildMean, cluster_t
from peerattn.render import show_label

LEVEL = 0.05
HALF = 0.5
SAME = 1e-6  # largest difference of two models' predictions, as a share of the largest, that rounding makes
FEWEST_CLUSTERS = 12  # with fewer, a wild cluster bootstrap is hardly more than a sign test
PLANTED = 40  # networks
MOST_PEERS = 100  # of a firm in a planted network
POWER = 0.8  # share of the planted networks that must be found
SHARES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5)


@dataclass(frozen=True)
class Gain:
    """How much more one model explains of the same rows than another.

    Attributes
    ----------
    model, against : str
    r2, r2_against : float
        Held-out R² against the prevailing mean.
    gain : float
        Their difference.
    low, high : float
        Its 95 % interval; NaN where none can be made.
    t, p : float or None
        Of no difference, two-sided; None without a test, ``reason`` explains why.
    how : str
        "over time"; where the periods are few, "by period", or "by firm" or a code (then conditional on these periods).
    clusters : int
        Number of clusters, or of periods.
    reason : str
    """

    model: str
    against: str
    r2: float
    r2_against: float
    gain: float
    low: float = np.nan
    high: float = np.nan
    t: float | None = None
    p: float | None = None
    how: str = ""
    clusters: int = 0
    reason: str = ""

    @property
    def upper_p(self) -> float | None:
        """The p-value against gains above zero."""
        return MeanTest(self.gain, self.t, self.p).upper_p


@dataclass(frozen=True)
class Concentration:
    """On how few firms, groups and periods a gain rests.

    Attributes
    ----------
    firms_for_half : int
        The fewest firms that together make half of the gain.
    n_firms : int
    largest : dict of str to (str, float)
        The firm, the group of each code and the period with the largest share of the gain.
    rests_on : str
        What the gain rests on, in words; empty where it is spread.
    """

    firms_for_half: int
    n_firms: int
    largest: dict[str, tuple[str, float]]
    rests_on: str = ""


def gain_of(compared: Compared, model: str, against: str) -> Gain:
    r"""Return how much more a model explains than another, with its interval and test.

    .. math:: R^2_m - R^2_c = \frac{\sum_{it} (e_{c,it}^2 - e_{m,it}^2)}{\sum_{it} (y_{it} - \bar y)^2},

    its denominator taken as given. With enough periods (``periods_needed``) the sums of the periods are tested by
    :func:`~peerattn.evaluation.inference.forecast_tests.mean_test`. With fewer, but two at least, the test is that of the largest
    p among clusters by firm, by each code of twelve groups at least (wild cluster bootstrap: conditional on these periods, whose
    common shocks are not averaged out), and by period (Student's t over the sums of the periods, Ibragimov and Müller 2010: as if
    periods were independent). Of one period no test and no interval is made.
    """
    compared.check_model(model, against)
    known = compared.known
    return difference(compared, known[model], known[against], (model, against))


def difference(compared: Compared, ours: pd.Series, theirs: pd.Series, names: tuple[str, str]) -> Gain:
    """Return the gain of some predictions of the scored rows over others, as :func:`gain_of` does."""
    rows = saved_by_row(compared, ours, theirs)
    # R² of both against the prevailing mean, on the same rows
    base = float(saved_by_row(compared, theirs, compared.known["training_mean"])["gain"].mean())
    gain = float(rows["gain"].mean())
    if float(np.abs(ours - theirs).max()) <= SAME * float(np.abs(theirs).max()):
        return Gain(*names, base + gain, base, 0.0, 0.0, 0.0, reason="same predictions")
    return Gain(*names, base + gain, base, gain, **_tested(compared, rows))


def is_gain(compared: Compared, rows: pd.DataFrame) -> bool:
    """Return whether what some rows of :func:`saved_by_row` gain is significantly above zero, as :func:`gain_of` tests it."""
    if not len(rows) or np.ptp(rows["gain"]) == 0:
        return False
    found = _tested(compared, rows)
    return _is_above(MeanTest(float(rows["gain"].mean()), found.get("t"), found.get("p")))


def _is_above(found: MeanTest) -> bool:
    return found.upper_p is not None and found.upper_p < LEVEL


def _tested(compared: Compared, rows: pd.DataFrame) -> dict[str, Any]:
    """Return interval and test of the mean gain of some rows."""
    # sums of periods in units of the gain, whatever the size of a period
    series = rows.groupby("period")["gain"].sum().to_numpy() * rows["period"].nunique() / len(rows)
    if len(series) < 2:
        return {"reason": "one period"}
    if len(series) < periods_needed(compared.horizon):
        return _clustered(compared, rows, series)
    found = mean_test(series, compared.horizon)
    how = {"how": "over time", "clusters": len(series)}
    if found.t is None:
        return how | {"reason": found.cause}
    half = float(student.ppf(1 - LEVEL / 2, found.freedom)) * mean_error(series, compared.horizon)[0]
    return how | {"low": found.mean - half, "high": found.mean + half, "t": found.t, "p": found.p_value}


def _clustered(compared: Compared, rows: pd.DataFrame, series: np.ndarray) -> dict[str, Any]:
    """Cluster by firm, by a code of twelve groups at least, whose firms share its shocks, or by period: what gives the largest p.

    A firm whose code is unknown is a cluster of its own; ``series`` are the sums of the periods.
    """
    clusters = _clusters(compared, rows)
    if not clusters:
        n = rows["firm"].nunique()
        return {"reason": f"{n} firms are too few to cluster by ({FEWEST_CLUSTERS} are needed)"}
    found: list[dict[str, Any]] = []
    for what, number in clusters.items():
        # the wild bootstrap of the mean needs the sum and the size of each cluster
        size = np.bincount(number)
        mean = WildMean(np.bincount(number, rows["gain"]), size)
        low, high = mean.interval(1 - LEVEL)
        found.append({"low": low, "high": high, "t": mean.t, "p": mean.p, "how": f"by {what}", "clusters": len(size)})
    # clusters of firms take common shocks as given; the sums of the periods, which these have moved, do not
    over_periods = ttest_1samp(series, 0.0)
    low, high = map(float, over_periods.confidence_interval(1 - LEVEL))
    tested = {"low": low, "high": high, "t": float(over_periods.statistic), "p": float(over_periods.pvalue)}
    found.append({**tested, "how": "by period", "clusters": len(series)})
    return max(found, key=lambda one: one["p"])


def _clusters(compared: Compared, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the number of each row's cluster by firm, and by each code of twelve groups at least; none with too few firms."""
    if rows["firm"].nunique() < FEWEST_CLUSTERS:
        return {}
    clusters = {"firm": rows["firm"].to_numpy()}
    for name, group in compared.panel.codes.items():
        labels = labels_of(rows, group)
        known = ~pd.isna(labels) & (labels != "unknown")
        if len(set(labels[known])) >= FEWEST_CLUSTERS:
            clusters[name] = np.where(known, labels, rows["firm"].map("firm {}".format))
    return {what: pd.factorize(labels)[0] for what, labels in clusters.items()}


def labels_of(rows: pd.DataFrame, group: pd.Series, argument: str = "groups") -> np.ndarray:
    """Return the group of each row, from a Series indexed by firm and period, by name in either order; NaN where it has none."""
    if set(group.index.names) == {"firm", "period"}:
        group = group.reorder_levels(["firm", "period"])  # type: ignore[list-item]  # names are levels, too
    if group.index.has_duplicates:
        twice = group.index[group.index.duplicated()][0]
        raise InputError(f"{argument}: {show_label(twice)} occurs twice in its index; keep one row each.")
    labels = pd.MultiIndex.from_frame(rows[["firm", "period"]])
    found = group.index.nlevels == 2 and group.index.isin(labels).any()
    came = ", ".join(map(show_label, group.index[:1])) or "none"
    expect(bool(found), argument, f"an index of firm and period, such as {show_label(labels[0])}", came)
    return group.reindex(labels).to_numpy(dtype=object)


def saved_by_row(compared: Compared, ours: pd.Series, theirs: pd.Series) -> pd.DataFrame:
    """Return firm, period and ``gain`` of each scored row: the squared error saved, over that of the prevailing mean."""
    known = compared.known
    left, saved, base = ((known["outcome"] - part) ** 2 for part in (theirs, ours, known["training_mean"]))
    return known[["firm", "period"]].assign(gain=(left - saved) / max(base.mean(), 1e-300))


def _saved_by_model(compared: Compared, model: str, against: str) -> pd.DataFrame:
    compared.check_model(model, against)
    return saved_by_row(compared, compared.known[model], compared.known[against])


@validate_arguments
def gain_by_firm(compared: Compared, model: str, against: str) -> pd.DataFrame:
    """Return who gains and who loses: the squared error that a model saves on each firm.

    Parameters
    ----------
    compared : Compared
    model, against : str

    Returns
    -------
    DataFrame
        Indexed by firm, the largest gain first: ``rows``; ``gain``, the mean squared error saved over that of the prevailing
        mean on all rows, so that its mean over rows is the difference in R²; ``low``, ``high``, a 95 % interval over the firm's
        periods (Student's t; NaN under three); ``share`` of the whole gain.
    """
    return _gains(_saved_by_model(compared, model, against), "firm")


@validate_arguments
def gain_by(compared: Compared, groups: pd.Series, model: str, against: str) -> pd.DataFrame:
    """Return the squared error saved in each group of firms, as :func:`gain_by_firm`; intervals are clustered by firm."""
    rows = _saved_by_model(compared, model, against)
    rows["group"] = labels_of(rows, groups)
    return _gains(rows, "group")


def _gains(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    gains = rows.groupby(by)["gain"]
    rest = rows.assign(gain=rows["gain"] - gains.transform("mean"))
    # the rows of a firm go together, however many they are
    within = rest if by == "firm" else rest.groupby([by, "firm"], as_index=False)["gain"].sum()
    squares = (within["gain"] ** 2).groupby(within[by])
    mean = gains.mean()
    n = squares.size()
    error = np.sqrt(n / (n - 1) * squares.sum()) / gains.size()
    reach = (error * student.ppf(0.975, (n - 1).clip(lower=1))).where(n >= 3)
    found = {"rows": gains.size(), "gain": mean, "low": mean - reach, "high": mean + reach}
    found["share"] = gains.sum() / rows["gain"].sum()
    return pd.DataFrame(found).sort_values("gain", ascending=False, kind="stable")


def concentration_of(compared: Compared, gain: Gain) -> Concentration:
    """Return on what a gain above zero rests.

    It rests on few where fewer than ten firms (in small panels a tenth of them, but two) make half of it; or where more than half
    of it is that of one group of a code with five groups at least, or of one period (of two or three periods, nearly all of it),
    and what the other rows gain is not significant.
    """
    rows = saved_by_row(compared, compared.known[gain.model], compared.known[gain.against])
    total = float(rows["gain"].sum())
    # how many firms, the largest gain first, make half of the whole
    by_firm = rows.groupby("firm")["gain"].sum().sort_values(ascending=False) / total
    half = int(np.searchsorted(by_firm.cumsum().to_numpy(), HALF)) + 1
    n_periods = len(compared.periods)
    labels = {name: labels_of(rows, group) for name, group in compared.panel.codes.items()}
    if n_periods > 1:
        labels = {"period": rows["period"].to_numpy()} | labels
    largest = {"firm": (show_label(by_firm.index[0]), float(by_firm.iloc[0]))}
    n = len(by_firm)
    limits = {"period": max(HALF, 1.8 / n_periods)}
    rests = ""
    if half < max(2, min(10, n / 10)):
        rests = f"{half} firm{'s' * (half > 1)}, which make{'s' * (half == 1)} half of it"
    for what, label in labels.items():
        shares = rows["gain"].groupby(label).sum() / total
        most = shares.idxmax()
        share = float(shares.max())
        largest[what] = (show_label(most), share)
        # of two or three groups one always holds much
        few = what != "period" and len(shares) < 5
        if not (rests or few) and share > limits.get(what, HALF) and not is_gain(compared, rows[label != most]):
            rests = f"one {what}, {show_label(most)}, with {share:.0%} of it"
    return Concentration(half, n, largest, rests)


def smallest_gain(compared: Compared, control: str) -> float | None:
    """Return the share of the outcome's variance that a network would have to explain to be found with this probability.

    Networks are planted in the tested rows: scores are products of two random directions of the characteristics, weights their
    softmax over the other firms of the period, and what a peer contributes a third direction. The noise is what the best control
    leaves of the outcome. The peer model is taken to recover all of the planted part, so that the figure is a lower bound: what
    is smaller would have been missed by any model. A network is found where the test of :func:`gain_of` finds it, of few periods
    with Student's t of the clusters in the place of their wild bootstrap, which takes as long as a fit. None where there are no
    characteristics, one period, or no test.
    """
    numbers = compared.panel.numbers
    periods = len(compared.periods)
    if numbers is None or not numbers.shape[1] or periods < 2:
        return None
    known = compared.known
    X = numbers[compared.predictions["outcome"].notna().to_numpy()]
    noise = (known["outcome"] - known[control]).to_numpy(dtype=float)
    base = float(((known["outcome"] - known["training_mean"]) ** 2).mean())
    rng = np.random.default_rng(0)
    when = pd.factorize(known["period"], sort=True)[0]
    groups = [when]  # sums of periods are tested, and with few of them those of clusters, too
    sizes = [np.ones(when.max() + 1)]
    over_time = periods >= periods_needed(compared.horizon)
    if not over_time:
        clusters = list(_clusters(compared, known).values())
        if not clusters:
            return None
        groups += clusters
        sizes += [np.bincount(number) for number in clusters]

    def is_found(share: float, parts: list[tuple[np.ndarray, np.ndarray]]) -> bool:
        sums = [np.sqrt(share) * cross + share * square for cross, square in parts]
        if over_time:
            return _is_above(mean_test(sums[0], compared.horizon))
        p_values = [student.sf(cluster_t(*each), len(each[1]) - 1) for each in zip(sums, sizes, strict=True)]
        return bool(max(p_values) < LEVEL)

    least = []
    for _ in range(PLANTED):
        # a network that would explain all of the variance; its share is scaled down below
        planted = _planted(X, when, rng)
        spread = float(np.mean(planted**2))
        if spread <= 0:
            return None
        planted *= np.sqrt(base / spread)
        # the gain of a share is linear in its root and itself, so that rows are added up once
        parts = [(np.bincount(g, 2 * noise * planted), np.bincount(g, planted**2)) for g in groups]
        least.append(bisect_left(SHARES, True, key=partial(is_found, parts=parts)))
    enough = int(np.quantile(least, POWER, method="inverted_cdf"))
    return (*SHARES, np.inf)[enough]


def _planted(X: np.ndarray, when: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the peer term of a random network in each row, net of its linear projection on the characteristics."""
    query, key, value = (v / np.linalg.norm(v) for v in rng.normal(size=(3, X.shape[1])))
    term = np.zeros(len(X))
    for period in range(when.max() + 1):
        here = np.flatnonzero(when == period)
        if len(here) < 2:
            continue
        pool = here
        if len(here) > MOST_PEERS:
            pool = rng.choice(here, MOST_PEERS, replace=False)
        scores = 2 * np.outer(X[here] @ query, X[pool] @ key)
        # no firm is its own peer
        scores[here[:, None] == pool] = -np.inf
        term[here] = softmax(scores, axis=1) @ (X[pool] @ value)
    # what characteristics explain linearly needs no peers
    design = np.column_stack([np.ones(len(X)), X])
    return term - design @ np.linalg.lstsq(design, term, rcond=None)[0]
