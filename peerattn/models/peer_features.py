"""Peer columns for any model: leave-own-out means, dispersion and ranks over codes or a network, without a leak."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, check_at_least, check_names, check_one_of, expect
from peerattn.models.base import PanelEstimator, has_peers
from peerattn.models.cross_section import sums_of_others
from peerattn.models.given_network import network_weights
from peerattn.models.panel_forecasters import last_outcomes
from peerattn.network import PeerNetwork
from peerattn.panel.encoding import FrameTransformer
from peerattn.panel.gate import check_panel
from peerattn.panel.knowledge import sorted_periods
from peerattn.panel.panel import Panel
from peerattn.render import show_label
from peerattn.types import LabelsLike, OutcomesLike, PanelLike

STATISTICS = ("mean", "std", "rank")


@dataclass(eq=False, repr=False, kw_only=True)
class PeerFeatures(FrameTransformer):
    r"""Add what each firm's peers look like, own firm left out, as columns that any regressor can read.

    With peers j of firm i in the same period and weights :math:`w_{ij}`, :math:`w_{ii} = 0`, rows summing to one,

    .. math:: \text{mean}_i = \sum_j w_{ij} x_j, \qquad \text{std}_i^2 = \sum_j w_{ij} (x_j - \text{mean}_i)^2, \qquad
              \text{rank}_i = \sum_j w_{ij} \big(1[x_j < x_i] + \tfrac12 1[x_j = x_i]\big).

    Parameters
    ----------
    over : sequence of str, default ()
        Code columns: the peers are the firms that share the code; one set of columns for each. Empty, without ``network``:
        all other firms of the period.
    network : PeerNetwork or unfitted peer model, optional
        The peers instead. Of a network that is given, the latest cross-section up to a period counts; firms that it does not
        have are without peers, and one learned from outcomes raises an error in the periods it was learned from. A model is
        learned in ``fit``, and in ``fit_transform`` cross-fitted: the network of a block of periods comes from a
        clone fitted on the other blocks, less the ``horizon`` − 1 periods next to it, whose
        outcomes cover some of the same time.
    of : {"characteristics", "outcomes"}, default "characteristics"
        What is averaged: the peers' characteristics of the period, or their last outcome known by then (of the period
        ``horizon`` before, or the last one earlier; never the own firm's, never one of the row's period or later).
    statistics : sequence of {"mean", "std", "rank"}, default ("mean",)
        A rank of outcomes is not defined, for the own outcome is not read.
    columns : sequence of str, optional
        Characteristics to average. Default: all.
    keep : bool, default True
        Whether the characteristics themselves come first. Codes are left out in any case.
    horizon : int, default 1
        Periods until an outcome is known (``compare`` sets it); where the panel has dates (``known_at``), not before them.
    n_blocks : int, default 3
        Blocks of periods in cross-fitting.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    network_ : PanelEstimator
        The learned model, fitted on all training rows.

    Notes
    -----
    Peers with a missing value are left out, weights divided by their remaining sum. A firm without peers takes the training
    median of each column; of outcomes that of its period, and 0 in the first ones, where no outcome is known. The pool is the
    cross-section of the call: pass whole periods. Arrays carry no labels, so their pool is the training rows, as for nearest
    neighbours, a training row itself among them. Time and memory: n of a period for codes, n² for networks and arrays.

    Examples
    --------
    >>> X = pd.DataFrame({"firm": list("ABCD"), "period": 2001, "size": [1.0, 2.0, 6.0, 9.0], "sic": ["01", "01", "01", "02"]})
    >>> PeerFeatures(over=["sic"], statistics=("mean", "rank")).fit_transform(X)[["size_mean_sic", "size_rank_sic"]]
       size_mean_sic  size_rank_sic
    0            4.0            0.0
    1            3.5            0.5
    2            1.5            1.0
    3            3.5            0.5
    """

    over: Sequence[str] = ()
    network: Any = None
    of: str = "characteristics"
    statistics: Sequence[str] = ("mean",)
    columns: Sequence[str] | None = None
    keep: bool = True
    horizon: int = 1
    n_blocks: int = 3
    firm: str = "firm"
    period: str = "period"

    def fit(self, X: PanelLike, y: OutcomesLike = None) -> Self:
        """Learn what a call needs of the training rows: medians, known outcomes, the network of a model."""
        self._learn(X, y, cross=False)
        return self

    def fit_transform(self, X: PanelLike, y: OutcomesLike = None, **fit_params: Any) -> pd.DataFrame:
        """Fit, and return the training rows' columns; those of a learned network are cross-fitted."""
        return self._frame(*self._learn(X, y, cross=True))

    def transform(self, X: PanelLike) -> pd.DataFrame:
        """Return characteristics and peer columns of each row, in the order and with the index of ``X``."""
        check_is_fitted(self)
        panel = self._gate(X, fitting=False)
        return self._frame(panel, self._features(panel, {}))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names: ``<column>_<statistic>_<code>``, with ``peers`` for all firms and ``network`` for a network."""
        check_is_fitted(self)
        return np.array([*map(str, self.kept_), *self.names_], dtype=object)

    # ------------------------------------------------------------------ fitting

    def _gate(self, X: PanelLike, y: OutcomesLike = None, *, fitting: bool) -> Panel:
        for name in ("over", "statistics", "columns"):
            given = getattr(self, name)
            listed = isinstance(given, Sequence) and not isinstance(given, str)
            expect(listed or (given is None and name == "columns"), name, "a list of names", repr(given), f"Pass [{given!r}].")
        over = tuple(self.over)
        if fitting and hasattr(X, "columns"):
            check_names("over", "column", over, X.columns)
        labels: dict[str, Any] = {"firm": self.firm, "period": self.period}
        panel = check_panel(self, X, y, fitting=fitting, codes=over, groupings=over, **labels)
        if fitting:
            self._check_options(panel)
        elif self.dated_ and panel.firm is None:
            raise InputError(f"X carries no {self.firm!r} and {self.period!r}, which it had in fit: peers are those of a period.")
        return panel

    def _check_options(self, panel: Panel) -> None:
        """Raise for options that do not exist, or contradict each other or the panel."""
        check_at_least(1, horizon=self.horizon)
        check_at_least(2, n_blocks=self.n_blocks)
        check_names("statistics", "statistic", self.statistics, STATISTICS)
        expect(len(self.statistics) > 0, "statistics", f"some of {list(STATISTICS)}", "none")
        expect(isinstance(self.keep, bool | np.bool_), "keep", "True or False", repr(self.keep))
        check_names("columns", "characteristic", self.columns or (), panel.characteristics)
        network = self.network
        if self.over and network is not None:
            raise InputError("over, network: give one of them; use two transformers in a ColumnTransformer.")
        fits = isinstance(network, PeerNetwork | None) or has_peers(network)
        expect(fits, "network", "a PeerNetwork or a peer model", type(network).__name__)
        if network is not None and panel.firm is None:
            raise InputError("network: its firms are matched by label, and X carries none.")
        if isinstance(network, PeerNetwork) and panel.firm is not None:
            if not network.labels.isin(panel.firm).any():
                near = f"none of its firms, such as {network.labels.tolist()[0]!r}, is in X"
                raise InputError(f"network: {near}: labels must be spelled alike.")
            if network.signed and set(self.statistics) != {"mean"}:
                raise InputError("statistics: of a signed network only 'mean' is defined.")
        if getattr(network, "needs_outcomes", False):
            raise InputError("network: the model uses outcomes of its own period; use task='forecast'.")
        check_one_of(of=(self.of, ("characteristics", "outcomes")))
        if self.of == "outcomes" and (panel.firm is None or panel.outcomes is None):
            raise InputError("of='outcomes' needs firm and period in the index of X, and y.")
        if self.of == "outcomes" and "rank" in self.statistics:
            raise InputError("statistics: 'rank' is not defined of outcomes, for the own one is not read.")

    def _learn(self, X: PanelLike, y: OutcomesLike, *, cross: bool) -> tuple[Panel, np.ndarray]:
        """Learn from the training rows, and return their peer columns; ``cross``: those of a model are cross-fitted."""
        panel = self._gate(X, y, fitting=True)
        self.dated_ = panel.firm is not None
        self.kept_ = [name for name in panel.characteristics if self.keep]
        self.averaged_ = list(self.columns or panel.characteristics)
        names = self.averaged_
        self.outcomes_ = None
        if self.of == "outcomes":
            names = [panel.outcome]
            given = pd.DataFrame({"firm": panel.firm, "period": panel.period, "outcome": panel.outcomes})
            if panel.known_at is not None:
                given["known_at"] = panel.known_at
            self.outcomes_ = given.dropna(subset=["outcome"])
        groups = [*self.over] or ["peers"]
        if self.network is not None:
            groups = ["network"]
        self.names_ = [f"{name}_{s}_{group}" for group in groups for name in names for s in self.statistics]
        self.training_ = None
        if not self.dated_:  # the pool of rows without labels
            self.training_ = panel
        self.network_ = self.network
        models: dict[Any, Any] = {}
        if has_peers(self.network):
            self.network_ = clone(self.network).fit(panel)
            if cross:
                models = self._cross_fitted(panel)
        values = self._features(panel, models)
        self.medians_ = _medians(values)
        return panel, values

    def _cross_fitted(self, panel: Panel) -> dict[Any, Any]:
        """Return the model of each period, fitted on the other blocks of periods."""
        place, periods = sorted_periods(panel.period)
        blocks = np.array_split(np.arange(len(periods)), min(self.n_blocks, len(periods)))
        if len(blocks) < 2:
            raise InputError("n_blocks: a learned network is cross-fitted over blocks of periods, and X has one period.")
        fitted: dict[Any, Any] = {}
        for block in blocks:
            # a row's peers are not chosen by its own outcome, nor by one that covers some of the same periods
            rest = (place <= block[0] - self.horizon) | (place >= block[-1] + self.horizon)
            if not rest.any():
                span = " to ".join(map(show_label, periods[block[[0, -1]]]))
                found = f"no period is {self.horizon} before or after {span}"
                raise InputError(f"horizon, n_blocks: {found}, to learn a network from: set more n_blocks, or pass more periods.")
            fitted |= dict.fromkeys(periods[block], clone(self.network).fit(panel.take(rest)))
        return fitted

    # ------------------------------------------------------------------ columns

    def _peers(
        self, panel: Panel, period: LabelsLike, at: slice, model: PanelEstimator | PeerNetwork | None
    ) -> Iterator[np.ndarray]:
        """Yield each set of a period's weights, (n, n) with a zero diagonal; groups as integers, (n,)."""
        if model is None:
            for name in self.over:
                yield pd.factorize(panel.codes[name].iloc[at])[0]
            if not self.over:
                yield np.zeros(at.stop - at.start, dtype=int)
            return
        assert panel.firm is not None
        firms = panel.firm[at]
        if isinstance(model, PeerNetwork):
            W = network_weights(model, period, firms, firms).toarray()
        else:
            rows = panel.take(np.arange(at.start, at.stop)).with_outcomes(None)
            found = model.peer_network(rows).matrix(period)
            W = found.reindex(index=firms, columns=firms, fill_value=0.0).to_numpy(copy=True)
        np.fill_diagonal(W, 0.0)
        yield W

    def _features(self, panel: Panel, models: Mapping[Any, Any]) -> np.ndarray:
        """Return the peer columns; ``models`` are those of periods whose network is another than ``network_``."""
        if self.training_ is not None:
            return self._of_arrays(panel, self.training_)
        out = np.full((len(panel), len(self.names_)), np.nan)
        values = panel.characteristics[self.averaged_].to_numpy()
        if self.outcomes_ is not None:
            values = last_outcomes(self.outcomes_, panel, self.horizon).to_numpy()[:, None]
        for period, at in panel.cross_sections():
            x = values[at]
            sets = self._peers(panel, period, at, models.get(period, self.network_))
            out[at] = np.concatenate([_statistics(x, peers, self.statistics, x) for peers in sets], axis=1)
            if self.outcomes_ is not None:  # no median over periods: it would know later outcomes
                out[at] = np.where(np.isnan(out[at]), _medians(out[at]), out[at])
        return out

    def _of_arrays(self, panel: Panel, pool: Panel) -> np.ndarray:
        """Return the columns of rows without labels: the pool is the training rows."""
        own, x = (rows.characteristics[self.averaged_].to_numpy() for rows in (panel, pool))
        parts = []
        for name in self.over:
            code = pd.factorize(pd.concat([panel.codes[name], pool.codes[name]]))[0]
            mine, theirs = np.split(code, [len(own)])
            parts.append(((mine[:, None] == theirs) & (mine >= 0)[:, None]).astype(float))
        sets = parts or [np.ones((len(own), len(x)))]
        return np.concatenate([_statistics(x, peers, self.statistics, own) for peers in sets], axis=1)

    def _frame(self, panel: Panel, values: np.ndarray) -> pd.DataFrame:
        values = np.where(np.isnan(values), self.medians_, values)
        both = np.column_stack([panel.characteristics[self.kept_].to_numpy(), values])
        return pd.DataFrame(both[np.argsort(panel.order)], panel.index, self.get_feature_names_out())


def _medians(values: np.ndarray) -> np.ndarray:
    """Return each column's median; 0 where no row has peers."""
    return pd.DataFrame(values).median().fillna(0.0).to_numpy()


def _statistics(x: np.ndarray, peers: np.ndarray, wanted: Sequence[str], own: np.ndarray) -> np.ndarray:
    """Return the statistics of each column, (n, p × statistics).

    ``x`` are the values of the peers, and ``own`` those of the rows, which are others only where ``peers`` are weights, (n, m);
    groups, (n,), are among the same rows.
    """
    made = [np.empty((len(peers), 0))]
    for theirs, mine in zip(x.T, own.T, strict=True):
        columns = _by_weights(theirs, peers, mine) if peers.ndim == 2 else _by_groups(theirs, peers)
        made += [columns[STATISTICS.index(name)] for name in wanted]
    return np.column_stack(made)


def _by_weights(x: np.ndarray, W: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the statistics of peers with these weights, in the order of ``STATISTICS``."""
    # weights of unknown values go to the known ones
    known = np.isfinite(x)
    shift = x[known].sum() / max(known.sum(), 1)  # sums of deviations lose no digits
    value = np.where(known, x - shift, 0.0)
    total = (W @ known)[:, None]
    share = np.divide(W * known, total, out=np.full(W.shape, np.nan), where=np.abs(total) > 1e-12)
    mean = share @ value
    below = (x < own[:, None]) + 0.5 * (x == own[:, None])
    rank = np.where(np.isfinite(own), (share * below).sum(axis=1), np.nan)
    return mean + shift, np.sqrt(np.maximum(share @ value**2 - mean**2, 0.0)), rank


def _by_groups(x: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the statistics over the other members of each row's group, by sums; −1 = unknown, the group of nobody."""
    known = np.isfinite(x)
    shift = x[known].sum() / max(known.sum(), 1)  # sums of deviations lose no digits
    value = np.where(known, x - shift, 0.0)
    count, total, squares = sums_of_others(np.column_stack([known, value, value**2]), group).T
    others = np.where((count > 0) & (group >= 0), count, np.nan)
    mean = total / others
    rank = pd.Series(x).groupby(group).rank().to_numpy()
    return mean + shift, np.sqrt(np.maximum(squares / others - mean**2, 0.0)), (rank - 1) / others
