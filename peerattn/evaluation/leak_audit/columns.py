"""What bears the mark of outcomes or of tested rows: columns, what an unfitted model brings along, networks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import pandas as pd
from scipy.stats import f as fisher
from scipy.stats import rankdata
from sklearn.base import BaseEstimator

from peerattn.models.given_network import given_network
from peerattn.panel import Panel

FEWEST = 20  # rows, or firms, that a finding rests on
CHANCE = 1e-5  # probability of what is no chance
FUNCTION = 0.97  # Chatterjee's coefficient of a function; 0 for independence
LEFT = 0.1  # the residuals with a table that is needed, as a share of those without it
SHOWN = 60  # firms of a network that are looked at
SAME = 0.85  # coefficient of weights that are a function of outcomes: firms without one blur it


def function_of(x: np.ndarray, u: np.ndarray, group: np.ndarray | None = None, least: float = FUNCTION) -> bool:
    r"""Return whether x hardly differs between rows whose u is next to each other.

    .. math:: \xi = 1 - \frac{n \sum_k |r_{(k+1)} - r_{(k)}|}{2 \sum_k l_k (n - l_k)} > 0.97,

    r the ranks of x in the order of u, l_k how many values are at least as large as the k-th (Chatterjee 2021, Journal of the
    American Statistical Association 116). Of ranks, from 0 to 1, within groups of three or more rows with both, where groups are
    given; -1: no group.
    """
    if group is not None:
        pair = pd.DataFrame({"x": x, "u": u})
        pair[~np.isfinite(x + u) | (group < 0)] = np.nan
        rows = pair.groupby(group)
        size = rows["x"].transform("count")
        x, u = rows.rank("min").sub(0.5).div(size.where(size >= 3), axis=0).to_numpy().T
    at = np.flatnonzero(np.isfinite(x) & np.isfinite(u))
    n = len(at)
    if n < FEWEST or np.ptp(x[at]) == 0:
        return False
    at = np.random.default_rng(0).permutation(at)  # rows of equal u in no order
    x = x[at][np.argsort(u[at], kind="stable")]
    rank = rankdata(x, "max")
    above = n + 1 - rankdata(x, "min")
    spread = 2 * np.sum(above * (n - above)) / n
    return bool(1 - np.abs(np.diff(rank)).sum() / spread > least - 3 / n and spread > n * FEWEST)


def left_by(x: np.ndarray, *tables: np.ndarray) -> float:
    """Return the sum of squares that least squares with a constant leaves of x."""
    design = np.column_stack([np.ones(len(x)), *tables])
    design /= np.maximum(np.abs(design).max(axis=0), 1e-300)
    return float(np.sum((x - design @ np.linalg.lstsq(design, x, rcond=None)[0]) ** 2))


def sum_of(x: np.ndarray, unknown: np.ndarray, known: np.ndarray) -> bool:
    """Return whether x is a sum of the columns of both tables, and of those of ``known`` alone is not.

    Both leave less than 0.005 of the variance of x, and less than a tenth of what ``known`` leaves.
    """
    at = np.isfinite(x) & np.isfinite(unknown).all(axis=1) & np.isfinite(known).all(axis=1)
    x, unknown, known = (of[at] for of in (x, unknown, known))
    # with as many columns as rows anything is a sum
    width = unknown.shape[1] + known.shape[1]
    distinct = len(np.unique(x))
    if len(x) < width + 2 * FEWEST or distinct < width + 2:
        return False
    exact = 0.005 if distinct >= 3 * width + FEWEST else 1e-9  # such as one value a period
    total = left_by(x)
    one = left_by(x, known, unknown)
    other = left_by(x, known)
    return bool(one < exact * total and one < LEFT * other and other > 1e-6 * total)


def noisy_copy(x: np.ndarray, u: np.ndarray, known: np.ndarray) -> bool:
    """Return whether all that links x to what is known goes through u, which is not.

    A characteristic that was there before the outcome u goes along with its own past and with other characteristics whatever u
    becomes. Noise added to u does not: what is known explains x, but given u (in ranges of it) nothing of x.
    """
    at = np.isfinite(x) & np.isfinite(u)
    known = known[:, np.isfinite(known[at]).mean(axis=0) > 0.8]
    at &= np.isfinite(known).all(axis=1)
    if at.any():
        known = known[:, np.ptp(known[at], axis=0) > 0]
    n = int(at.sum())
    k = known.shape[1]
    if k == 0 or n < 10 * (k + FEWEST) or len(np.unique(x[at])) < FEWEST:
        return False
    x, u, known = (of[at] for of in (x, u, known))
    # ranges of u allow for a link that is not linear
    ranges = np.ceil(rankdata(u) / n * FEWEST).astype(int) - 1
    given = np.column_stack([u, np.eye(FEWEST)[ranges][:, 1:]])
    total = left_by(x)
    standalone = left_by(x, known)
    through = left_by(x, given)
    rest = n - k - FEWEST - 1
    # noise that neither explains, for the F tests
    scale = left_by(x, given, known) * k / rest
    linked = (total - standalone) / (standalone * k / rest)
    further = through / scale - rest / k
    sure = fisher.sf(linked, k, rest) < CHANCE**2 and linked > 10 * further
    return bool(through < 0.75 * total and sure and fisher.sf(further, k, rest) > 0.01)


MOST = 15  # other columns that are looked at beside one


@dataclass(frozen=True, eq=False)
class Rows:
    """Outcomes and columns of a panel: what was known in each row, and what was not.

    Attributes
    ----------
    y : ndarray (n,)
        NaN = unknown.
    firm, when : ndarray (n,)
        Firm and period as whole numbers, periods in time order.
    codes : dict of str to ndarray (n,)
        Levels of each code as whole numbers; -1 = unknown.
    columns : dict of str to ndarray (n,)
    """

    y: np.ndarray
    firm: np.ndarray
    when: np.ndarray
    codes: dict[str, np.ndarray]
    columns: dict[str, np.ndarray]

    @classmethod
    def of(cls, X: pd.DataFrame, y: np.ndarray, firm: np.ndarray, when: np.ndarray) -> Self:
        """Return the rows of a frame; its columns that are not numbers are codes."""
        numbers = X.select_dtypes("number").astype(float)
        codes = {str(name): pd.factorize(code)[0] for name, code in X.drop(columns=numbers).items()}
        return cls(y, firm, when, codes, {str(name): x.to_numpy() for name, x in numbers.items()})

    def without(self, *names: str) -> Self:
        """Return the same without these columns."""
        return replace(self, columns={name: x for name, x in self.columns.items() if name not in names})

    def logs(self) -> Self:
        """Return the same in logarithms, of all that is positive; rates of growth above -1 are taken as log(1 + y)."""
        positive = {name: np.log(x) for name, x in self.columns.items() if (x[np.isfinite(x)] > 0).all()}
        return replace(self, y=_logarithm(self.y), columns=self.columns | positive)

    def moved(self, x: np.ndarray, periods: int) -> np.ndarray:
        """Return the firm's value of x that number of periods later; NaN where there is none."""
        # firm and period in one whole number, with room beyond the ends
        key = self.firm * (int(self.when.max()) + 1 + abs(periods)) + self.when
        return pd.Series(np.asarray(x, dtype=float), key).reindex(key + periods).to_numpy()

    @cached_property
    def groups(self) -> dict[str, np.ndarray]:
        """Groups of rows: of the firm, the period, a code and a code within the period; -1 where the code is unknown."""
        found = {"the firm": self.firm, "the period": self.when}
        width = self.when.max() + 1
        for name, level in self.codes.items():
            within = np.where(level < 0, -1, level * width + self.when)
            found |= {f"{name!r}": level, f"{name!r} in the period": within}
        return found

    @cached_property
    def outcomes(self) -> dict[str, np.ndarray]:
        """Outcomes that no row knows."""
        later = {f"the outcome of {k} periods later": self.moved(self.y, k) for k in (1, 2, 3)}
        return {"the outcome": self.y} | later

    @cached_property
    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of outcomes over groups, this period and later ones among them, and those of earlier periods, (n, groups)."""
        now = []
        before = []
        for name, group in self.groups.items():
            y = pd.Series(np.where(group < 0, np.nan, self.y))
            now.append(y.groupby(group).transform("mean").to_numpy())
            sums = y.groupby([group, self.when]).agg(["sum", "count"])
            # cumulative, without the period itself
            past = sums.groupby(level=0).cumsum() - sums
            mean = past["sum"] / past["count"].replace(0, np.nan)
            if name.endswith("the period"):
                before.append(self.moved(now[-1], -1))
            else:
                before.append(mean.reindex(pd.MultiIndex.from_arrays([group, self.when])).to_numpy())
        return np.column_stack(now), np.column_stack(before)

    def known(self, x: np.ndarray, lagged: bool) -> np.ndarray:
        """Return what a row knows beside x: past outcomes and their means, past values of x, the other columns."""
        past = [self.moved(self.y, -1), self.moved(self.y, -2), self.means[1]]
        others = [v for v in self.columns.values() if v is not x and np.isfinite(v).mean() > 0.8][:MOST]
        if lagged:
            others.append(self.moved(x, -1))
        table = np.column_stack([*past, *others])
        return table[:, np.isfinite(table).mean(axis=0) > 0.5]


def made_of_unknown(rows: Rows) -> dict[str, str]:
    """Return the columns and codes that were made of values unknown at the time of the row, and of which values.

    Outcomes of the row, later ones, means with these in them and later values of other columns are the unknown; past outcomes
    and other columns are the known. A column is refuted where it is an exact function of an unknown, a sum that takes it (in
    levels, in logarithms, or times another column), or a noisy copy of it, and is not the same of what is known. What goes along
    with outcomes but is none of this may be a good characteristic.
    """
    found = {name: why for name, x in rows.columns.items() if (why := next(_reasons(x, rows), ""))}
    for name, level in rows.codes.items():
        mean = pd.Series(rows.y).groupby(level).transform("mean").where(level >= 0).to_numpy()
        if 1 < level.max() + 1 <= len(level) / 5 and (why := _function(mean, rows)):
            found[name] = f"has levels whose mean outcome {why}"
    rest = rows.without(*found)
    while guilty := _sums(rest):
        # without which the fewest others are left
        name = min(guilty, key=lambda name: len(_sums(rest.without(name))))
        found[name] = "with other columns gives outcomes (own or of groups) that were unknown at the time"
        rest = rest.without(name)
    return found


def left_out(rows: Rows) -> str:
    """State that rows are missing where their outcome decides it; empty where none does.

    The outcome of a missing row is seen in a column that holds it k periods later (this year's profitability, where next
    year's is the outcome), in rows of firms that were there before.
    """
    since = pd.Series(rows.when).groupby(rows.firm).transform("min").to_numpy()
    for k in (1, 2, 3):
        outcome = rows.moved(rows.y, -k)
        there = np.isfinite(rows.moved(rows.when, -k)).astype(float)
        there[rows.when - k < since] = np.nan
        for name, x in rows.columns.items():
            both = np.isfinite(x + outcome)
            if both.sum() >= FEWEST and np.allclose(x[both], outcome[both]) and function_of(there, x):
                return f"rows are missing where their outcome, which is {name!r} {k} later, decides it"
    return ""


def _reasons(x: np.ndarray, rows: Rows) -> Iterator[str]:
    if why := _function(x, rows):
        yield why
    for name, now, before in zip(rows.groups, *(table.T for table in rows.means), strict=True):
        if sum_of(x, now[:, None], before[:, None]):
            yield f"is the mean of outcomes of {name}"
    if noisy_copy(x, rows.y, rows.known(x, lagged=True)):
        yield "is a noisy copy of the outcome: given it, nothing that was known predicts the column"
    empty = ~np.isfinite(x)
    if FEWEST <= empty.sum() <= len(x) - FEWEST and (why := _function(empty.astype(float), rows)):
        yield f"is missing or not, which {why}"
    periods = pd.Series(rows.when).groupby(rows.firm)
    first, last = (periods.transform(how).to_numpy() == rows.when for how in ("min", "max"))
    for name, other in [(name, v) for name, v in rows.columns.items() if v is not x][:MOST]:
        # this year's amount is last year's outcome, a ratio, times what it is a ratio to
        product, past = (other * y for y in (rows.y, rows.moved(rows.y, -1)))
        if sum_of(x, product[:, None], np.column_stack([past, rows.known(x, lagged=True)])):
            yield f"is made of the outcome times {name!r}"
        for mine, theirs in ((x, other), (_logarithm(x), _logarithm(other))):
            later = np.column_stack([rows.moved(theirs, k) for k in (1, 2)])
            near = [theirs, rows.moved(theirs, -1), rows.known(x, lagged=False)]
            if sum_of(mine, later, np.column_stack(near)):
                # the other may be a lag of x: a lag lacks a firm's first value, a lead its last
                lag = sum_of(theirs, np.column_stack([rows.moved(mine, k) for k in (-2, -1, 0)]), later[:, :0])
                if not lag or np.isfinite(other[first]).mean() > 0.5 > np.isfinite(x[last]).mean():
                    yield f"is made of {name!r} of later periods"


def _logarithm(x: np.ndarray) -> np.ndarray:
    """Return log x of what is positive, log(1 + x) of rates of growth above -1, and all else as it is."""
    least = np.nanmin(x, initial=np.inf)
    if least > 0:
        return np.log(x)
    return np.log1p(x) if least > -1 else x


def _function(x: np.ndarray, rows: Rows) -> str:
    """Name the outcome of which x is a function, over all rows or by ranks in a group; empty where it is one of the last, too."""
    past = rows.moved(rows.y, -1)
    for name, u in rows.outcomes.items():
        if function_of(x, u) and not function_of(x, past):
            return f"is a function of {name}"
    for name, group in rows.groups.items():
        if function_of(x, rows.y, group) and not function_of(x, past, group):
            return f"is, within {name}, a function of the outcome"
    return ""


def _sums(rows: Rows) -> list[str]:
    """Return the columns that are a sum of the others with an unknown, and all where they make up the outcome."""
    found: dict[str, None] = {}
    for space in (rows, rows.logs()):
        unknown = np.column_stack([space.y, space.means[0]])
        later = np.column_stack([unknown, *list(space.outcomes.values())[1:]])
        for name, x in space.columns.items():
            known = [space.known(x, lagged) for lagged in (False, True)]
            if any(sum_of(x, u, k) for k in known for u in (unknown, later)):
                found[name] = None
        own = space.moved(space.y, -1)[:, None]
        if not found and space.columns and sum_of(space.y, space.known(space.y, lagged=False), own):
            return list(space.columns)
    return list(found)


def scaled_over_all(rows: Rows, train: np.ndarray) -> dict[str, str]:
    """Return the columns standardised over all rows, or all rows of a firm, but not over training rows nor by period.

    Standardised: of mean 0, or of range 0 to 1 with one row at each end.
    """
    every = pd.DataFrame(rows.columns)
    every = every[[name for name, x in every.items() if x.count() >= FEWEST and x.nunique() > 1]]
    # centred over the training rows is how a scaler should be
    learned = np.where(np.isin(np.arange(len(rows.y)), train), 0, -1)
    parts = (np.zeros(len(rows.y), dtype=int), rows.when, learned, rows.firm)
    everywhere, period, training, firm = (_standardised(every, part) for part in parts)
    whole = everywhere & ~period & ~training
    found = dict.fromkeys(every.columns[firm & ~whole], "standardised or centred by firm over all periods")
    return dict.fromkeys(every.columns[whole], "standardised or centred over all rows") | found


def _standardised(columns: pd.DataFrame, group: np.ndarray) -> np.ndarray:
    """Return which have mean 0, or reach 0 and 1 once each, in nine groups of ten; those without variation left out."""
    columns = columns[group >= 0]
    group = group[group >= 0]
    rows = columns.groupby(group)
    ends = columns.isin([0.0, 1.0]).groupby(group).sum() == 2
    sd = rows.std()
    varied = (rows.count() >= 4) & (sd > 1e-9)
    centred = (rows.mean().abs() <= 1e-6 * sd) | ((rows.min() == 0) & (rows.max() == 1) & ends)
    return ((centred & varied).sum() > 0.9 * varied.sum()).to_numpy()


def brought_along(model: BaseEstimator, panel: Panel, rows: Rows) -> list[str]:
    """Return what an unfitted model knows before it is fitted: fitted parts, tables of rows, of firms and of periods."""
    keys = {name: panel.labels.get_level_values(name) for name in ("firm", "period")}
    keys |= {str(name): pd.Index(panel.X[name]) for name in panel.X.select_dtypes(exclude="number")}
    found: list[str] = []
    tables: dict[str, np.ndarray] = {}
    for name, value in model.get_params().items():
        if hasattr(value, "get_params") and not isinstance(value, type):
            learned = [part for part in vars(value) if part.endswith("_") and not part.startswith("_")]
            found += [f"{name}.{part}, fitted before" for part in learned]
        elif isinstance(value, pd.DataFrame | pd.Series | np.ndarray) and len(value) >= len(panel) / 2:
            found.append(f"{name}, a table of {len(value):,} rows")
        if isinstance(value, dict) and value:
            value = pd.Series(value)
        if isinstance(value, pd.Series) and pd.api.types.is_numeric_dtype(value.dtype):
            table = value[~value.index.duplicated()]
            tables |= {f"{name}, by {key}": table.reindex(of).to_numpy(float) for key, of in keys.items()}
    known = {name: x for name, x in tables.items() if np.isfinite(x).sum() >= FEWEST}
    if known:
        leaks = made_of_unknown(replace(rows, codes={}, columns=known))
        found += [f"the table {name}, which {why}" for name, why in leaks.items()]
    return found


def network_of_outcomes(given: object, y: pd.Series, train: np.ndarray, tested: np.ndarray) -> str:
    """Describe whether the weights of a network are a function of outcomes of tested periods; empty where they are not.

    Parameters
    ----------
    given : PeerNetwork, DataFrame or dict
    y : Series indexed by firm and period
    train : ndarray
        Positions of the rows that are learned from.
    tested : ndarray
        Tested periods, as whole numbers in time order.
    """
    network = given_network(given)
    table = y.unstack(0).sort_index()  # periods by firms
    learned = table.index.isin(y.index.get_level_values(1)[train])
    for period in table.index[tested]:
        if network.is_dated and period not in network.periods:
            continue
        W = network.matrix(period if network.is_dated else None)
        firms = W.index.intersection(W.columns).intersection(table.loc[period].dropna().index)[:SHOWN]
        if len(firms) < 8:
            continue
        # the weight on oneself is no weight on a peer
        off = ~np.eye(len(firms), dtype=bool)
        focal = np.nonzero(off)[0]
        w = W.loc[firms, firms].to_numpy(float)[off]
        now = table.loc[period, firms].to_numpy()
        whole = table[firms]
        then, before = (part.corr(min_periods=3).to_numpy()[off] for part in (whole, whole[learned]))
        unknown = {
            "the closeness of outcomes": -np.abs(now[:, None] - now)[off],
            "the size of peers' outcomes": np.tile(now, (len(firms), 1))[off],
            "the correlation of outcomes over all periods": then,
        }
        for what, u in unknown.items():
            earlier = u is then and function_of(w, before, focal, SAME)
            if not earlier and function_of(w, u, focal, SAME):
                return f"in {period} its weights are a function of {what}"
    return ""
