"""Do the peers of a scheme move together? The R² of outcomes on peers' averages, against permuted labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.evaluation.inference.forecast_tests import format_p, mean_test
from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.exceptions import InputError, checked, unknown_name
from peerattn.network import PeerNetwork
from peerattn.network.inference.permutation import among
from peerattn.panel.effects import effect_labels, effect_parts, net_of
from peerattn.render import Table

FEWEST_FIRMS = 5  # of a period, for a regression


@dataclass(frozen=True, repr=False)
class PeerR2:
    """Peer R² of several schemes and outcomes.

    Attributes
    ----------
    frame : DataFrame
        Indexed by (outcome, scheme): mean signed R² over periods, mean under permuted labels, permutation p-value,
        difference to the baseline scheme, its t and two-sided p (``mean_test``; NaN where no test holds), periods, firms a
        period, peers a firm.
    by_period : DataFrame
        Signed R² of each period, columns (outcome, scheme).
    baseline : str
    n_permutations : int
    """

    frame: pd.DataFrame
    by_period: pd.DataFrame
    baseline: str
    n_permutations: int

    def to_frame(self) -> pd.DataFrame:
        """Return :attr:`frame`."""
        return self.frame.copy()

    def as_table(self) -> Table:
        """Return the result as a table that renders as text and as HTML."""
        rows = [
            (
                key[0],
                key[1],
                row["r2"],
                row["r2_permuted"],
                format_p(row["p_value"]),
                row["difference"],
                row["t"],
                "" if np.isnan(row["t_p"]) else format_p(row["t_p"]),
                row["peers"],
            )
            for key, row in zip(self.frame.index, self.frame.to_dict("records"))
        ]
        return Table(
            "Peer R²: outcomes on peers' averages",
            ("Outcome", "Scheme", "R²", "permuted", "p", f"less {self.baseline}", "t", "p of t", "Peers"),
            rows,
            alignment="llrrrrrrr",
            formats=("", "", ".4f", ".4f", "", ".4f", ".2f", "", ".1f"),
            footnotes=[
                "Mean over periods, with the sign of the slope; all schemes on the same firms with the same number of peers. "
                f"Permuted: {self.n_permutations} permutations of firms, the same in all periods."
            ],
        )

    def __str__(self) -> str:
        return self.as_table().text()

    def __repr__(self) -> str:
        outcomes, schemes = (self.frame.index.get_level_values(k).nunique() for k in (0, 1))
        return f"PeerR2({outcomes} outcomes, {schemes} schemes, baseline {self.baseline!r})"

    def _repr_html_(self) -> str:
        return self.as_table().html()


@checked
def peer_r2_test(
    outcomes: pd.Series | pd.DataFrame,
    schemes: Mapping[str, pd.Series | PeerNetwork],
    *,
    baseline: str | None = None,
    effects: Mapping[str, pd.Series] | Sequence[str] = (),
    n_permutations: int = 199,
    horizon: int = 1,
    random_state: int = 0,
) -> PeerR2:
    r"""Test how much of firms' outcomes the averages of their peers explain, period by period.

    .. math:: y_{it} = a_t + b_t\, \tfrac{1}{k_i} \sum_{j \in P(i)} y_{jt} + e_{it}

    R² of each period's regression carries the sign of b; its mean over periods is set against its distribution when
    firms exchange their outcomes at random, each firm's whole series going to one other firm: outcomes may be as persistent
    as they are, without that counting as evidence in every period anew. *Zero is the wrong null*: averages leave the own firm
    out, so a group without anything in common has b < 0 (exclusion bias).

    Parameters
    ----------
    outcomes : Series or DataFrame indexed by (firm, period)
        Returns, multiples, growth, profitability, ...; each column is one outcome. NaN = unknown.
    schemes : dict of str to Series or PeerNetwork
        Codes indexed by (firm, period): peers share the code. A network: peers are those with the most weight, of its own
        period; an undated network serves all periods.
    baseline : str, optional
        The scheme the others are compared with, by default the first.
    effects : sequence of {"firm", "period"}, or mapping of str to Series indexed by (firm, period)
        Absorbed from the outcomes first: with ``("firm",)`` peers' lasting levels are no evidence. A mapping names codes, alone
        or joined by ``×`` with others, ``{"sic×period": codes}`` being ``sic`` in each period; a
        scheme whose own groups are absorbed has an R² of −1 by construction.
    n_permutations : int, default 199
    horizon : int, default 1
        Forecast horizon in periods, for the variance over periods of the difference between schemes.
    random_state : int, default 0
        Draws the peers where a group has more than the number all schemes can give, and the permutations.

    Returns
    -------
    PeerR2

    Raises
    ------
    InputError
        For labels that do not fit, no scheme, or no period with five firms that have a peer in every scheme.

    Notes
    -----
    All schemes are compared on the same firms, those with a peer of known outcome in each of them, and each firm gets
    the same number of peers k_i in all, the most that the poorest scheme gives it. The null is that firms are exchangeable: a
    firm takes another's series, and where one of the two is unknown in a period the permutation passes over it. The time is
    O(periods × links × permutations).

    References
    ----------
    Bhojraj, S., Lee, C. and Oler, D. (2003), What's my line?, Journal of Accounting Research 41(5), 745–774. Lee, C., Ma,
    P. and Wang, C. (2015), Search-based peer firms, Journal of Financial Economics 116(2), 410–431. Caeyers, B. and
    Fafchamps, M. (2016), Exclusion bias in the estimation of peer effects, NBER 22565.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = pd.MultiIndex.from_product([range(40), range(3)], names=["firm", "period"])
    >>> code = pd.Series(index.get_level_values(0) % 4, index=index).astype(str)
    >>> shock = dict(zip("0123", [-1.0, -0.3, 0.4, 1.0]))
    >>> y = code.map(shock) + 0.5 * rng.normal(size=120)
    >>> found = peer_r2_test(y.rename("ret"), {"code": code})
    >>> bool(found.frame.loc[("ret", "code"), "p_value"] < 0.01)
    True
    """
    names, table = _check(outcomes, schemes, baseline, n_permutations)
    table = _net_of_effects(table, effects)
    baseline = names[0] if baseline is None else baseline
    codes, periods = sorted_periods(table.index.get_level_values(1))
    readers = {name: _links_of(scheme, table.index) for name, scheme in schemes.items()}
    rng = np.random.default_rng(random_state)
    firm, n_firms = (
        pd.factorize(table.index.get_level_values(0))[0],
        table.index.get_level_values(0).nunique(),
    )
    orders = [rng.permutation(n_firms) for _ in range(n_permutations)]
    series: dict[tuple[str, str], dict[Any, np.ndarray]] = {}
    counts: dict[str, list[tuple[int, float]]] = {}
    for outcome in table.columns:
        y_all = table[outcome].to_numpy(dtype=float)
        for t, period in enumerate(periods):
            rows = np.flatnonzero((codes == t) & np.isfinite(y_all))
            links = {name: read(rows, period) for name, read in readers.items()}
            firms, averages = _averages(links, rng)
            if len(firms) < FEWEST_FIRMS:
                continue
            y = y_all[rows]
            shuffled = np.column_stack([y, *(y[among(order, firm[rows])] for order in orders)])
            for name, average in averages.items():
                series.setdefault((str(outcome), name), {})[period] = _signed_r2(
                    shuffled[firms], average @ shuffled
                )
            counts.setdefault(str(outcome), []).append(
                (len(firms), float(np.diff(averages[names[0]].indptr).mean()))
            )
    if not series:
        raise InputError(
            f"schemes: no period has {FEWEST_FIRMS} firms with a peer of known outcome in every scheme. Pass broader codes, or "
            "more outcomes."
        )
    return _summary(series, counts, baseline, n_permutations, horizon)


def _check(
    outcomes: Any, schemes: Any, baseline: str | None, n_permutations: int
) -> tuple[list[str], pd.DataFrame]:
    table = outcomes.to_frame(outcomes.name or "outcome") if isinstance(outcomes, pd.Series) else outcomes
    if not isinstance(table, pd.DataFrame) or set(table.index.names) != {"firm", "period"}:
        raise InputError("outcomes: expected a Series or frame indexed by firm and period.")
    if not isinstance(schemes, Mapping) or not schemes:
        raise InputError("schemes: expected a dictionary of at least one name and codes or network.")
    if baseline is not None and baseline not in schemes:
        raise unknown_name("baseline", "scheme", baseline, schemes)
    table = table.reorder_levels(["firm", "period"]).sort_index()
    if table.index.has_duplicates:
        repeated = table.index[table.index.duplicated()][0]
        raise InputError(
            f"outcomes: the label {repeated} is duplicated; keep one row for each firm and period."
        )
    return list(schemes), table


def _net_of_effects(table: pd.DataFrame, effects: Mapping[str, pd.Series] | Sequence[str]) -> pd.DataFrame:
    """Return the outcomes net of effects, each over its own known rows."""
    labels = {name: table.index.get_level_values(name) for name in ("firm", "period")}
    if isinstance(effects, Mapping):
        for name, parts in effect_parts(tuple(effects)).items():
            own: Any = effects[name]
            code = own.reorder_levels(["firm", "period"]).reindex(table.index).to_numpy()
            labels |= {part: code for part in parts if part not in ("firm", "period")}
    groups = effect_labels(tuple(effects), labels)
    if not groups.shape[1]:
        return table
    columns = {}
    for name in table.columns:
        known = table[name].notna().to_numpy()
        net = np.full(len(table), np.nan)
        net[known] = net_of(groups[known], table.loc[known, [name]].to_numpy(dtype=float))[0][:, 0]
        columns[name] = net
    return pd.DataFrame(columns, index=table.index)


def _links_of(scheme: Any, index: pd.Index) -> Any:
    """Return a function (rows, period) -> matrix of link strengths among these rows, own firm left out."""
    if isinstance(scheme, PeerNetwork):
        firm = index.get_level_values(0)

        def of_network(rows: np.ndarray, period: Any) -> np.ndarray:
            dated = len(scheme.periods) > 1 or scheme.periods[0] is not None
            if dated and period not in scheme.periods:
                return np.zeros((len(rows), len(rows)))
            weights = scheme.matrix(period if dated else None).reindex(index=firm[rows], columns=firm[rows])
            strength = np.nan_to_num(weights.to_numpy(dtype=float))
            np.fill_diagonal(strength, 0.0)
            return np.maximum(strength, 0.0)

        return of_network
    if not isinstance(scheme, pd.Series) or set(scheme.index.names) != {"firm", "period"}:
        raise InputError("schemes: codes are a Series indexed by firm and period, or a PeerNetwork.")
    labels: Any = scheme
    codes = labels.reorder_levels(["firm", "period"]).reindex(index)
    integers, _ = pd.factorize(codes)

    def of_codes(rows: np.ndarray, period: Any) -> np.ndarray:
        own = integers[rows]
        same = ((own[:, None] == own[None, :]) & (own >= 0)[:, None]).astype(float)
        np.fill_diagonal(same, 0.0)
        return same

    return of_codes


def _averages(
    links: dict[str, np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, sparse.csr_array]]:
    """Return the firms with a peer in every scheme, and per scheme the matrix that averages each one's k_i peers."""
    n_peers = np.min([(strength > 0).sum(axis=1) for strength in links.values()], axis=0)
    firms = np.flatnonzero(n_peers)
    k = n_peers[firms]
    taken = {}
    for name, strength in links.items():
        # the strongest first; equal ones in random order
        order = np.lexsort((rng.random((len(firms), strength.shape[1])), -strength[firms]), axis=1)
        columns = [row[:count] for row, count in zip(order, k)]
        flat = np.concatenate(columns) if columns else np.empty(0, dtype=int)
        taken[name] = sparse.csr_array(
            (np.repeat(1 / np.maximum(k, 1), k), flat, np.r_[0, np.cumsum(k)]),
            shape=(len(firms), strength.shape[1]),
        )
    return firms, taken


def _signed_r2(y: np.ndarray, average: np.ndarray) -> np.ndarray:
    """Return R² of each column of y on that of its peers' average, with the sign of the slope; 0 without variation."""
    a, b = y - y.mean(axis=0), average - average.mean(axis=0)
    cross, total = (a * b).sum(axis=0), (a**2).sum(axis=0) * (b**2).sum(axis=0)
    return np.divide(np.sign(cross) * cross**2, total, out=np.zeros_like(cross), where=total > 0)


def _summary(
    series: dict[tuple[str, str], dict[Any, np.ndarray]],
    counts: dict[str, list[tuple[int, float]]],
    baseline: str,
    n_permutations: int,
    horizon: int,
) -> PeerR2:
    by_period = pd.DataFrame(
        {key: {t: values[0] for t, values in found.items()} for key, found in series.items()}
    )
    by_period = by_period.sort_index().rename_axis(index="period", columns=["outcome", "scheme"])
    rows = {}
    for (outcome, scheme), found in series.items():
        means = np.mean(list(found.values()), axis=0)
        gap = (by_period[outcome, scheme] - by_period[outcome, baseline]).dropna().to_numpy()
        test = mean_test(gap, horizon)
        rows[outcome, scheme] = {
            "r2": means[0],
            "r2_permuted": means[1:].mean(),
            "p_value": (1 + np.sum(means[1:] >= means[0] - 1e-12)) / (n_permutations + 1),
            "difference": test.mean,
            "t": np.nan if test.t is None else test.t,
            "t_p": np.nan if test.p_value is None else test.p_value,
            "periods": len(found),
            "firms": np.mean([firms for firms, _ in counts[outcome]]),
            "peers": np.mean([peers for _, peers in counts[outcome]]),
        }
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.index = pd.MultiIndex.from_tuples(frame.index, names=["outcome", "scheme"])
    return PeerR2(frame, by_period, baseline, n_permutations)
