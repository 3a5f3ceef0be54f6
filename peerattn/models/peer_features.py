"""Peer columns for any model: leave-own-out means, dispersion and ranks over codes or a network, without a leak."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, unknown_name
from peerattn.models.base import PeerModel
from peerattn.models.given_network import network_weights
from peerattn.models.pools import sums_of_others
from peerattn.network import PeerNetwork
from peerattn.panel.encoding import FrameTransformer
from peerattn.panel.gate import check_panel
from peerattn.panel.panel import Panel

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
        have are without peers, and one learned from outcomes is refused in the periods it was learned from. A model is learned
        in ``fit``, and in ``fit_transform`` cross-fitted: the network of a block of periods comes from a clone fitted on the
        other blocks.
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
        Periods until an outcome is known.
    n_blocks : int, default 3
        Blocks of periods in cross-fitting.
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    network_ : PeerModel
        The learned model, fitted on all training rows.

    Notes
    -----
    Peers with a missing value are left out, weights divided by what is left. A firm without peers takes the training median
    of each column; of outcomes that of its period, and 0 in the first ones, where no outcome is known. The pool is the
    cross-section of the call: pass whole periods. Arrays carry no labels, so their pool is the training rows, as for nearest
    neighbours. Time and memory: n of a period for codes, n² for networks.

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

    def fit(self, X: Any, y: Any = None) -> PeerFeatures:
        """Learn what a call needs of the training rows: medians, known outcomes, the network of a model."""
        panel = self._gate(X, y, fitting=True)
        self._learn(panel)
        self.medians_ = _medians(self._features(panel, self._weights_of(panel)))
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> pd.DataFrame:
        """Fit, and return the training rows' columns; those of a learned network are cross-fitted."""
        panel = self._gate(X, y, fitting=True)
        self._learn(panel)
        values = self._features(panel, self._cross_fitted(panel) or self._weights_of(panel))
        self.medians_ = _medians(values)
        return self._frame(panel, values)

    def transform(self, X: Any) -> pd.DataFrame:
        """Return characteristics and peer columns of each row, in the order and with the index of ``X``."""
        check_is_fitted(self)
        panel = self._gate(X, fitting=False)
        return self._frame(panel, self._features(panel, self._weights_of(panel)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names: ``<column>_<statistic>_<code>``, with ``peers`` for all firms and ``network`` for a network."""
        check_is_fitted(self)
        return np.array([*self.kept_, *self.names_], dtype=object)

    # ------------------------------------------------------------------ fitting

    def _gate(self, X: Any, y: Any = None, *, fitting: bool) -> Panel:
        for name in ("over", "statistics", "columns"):
            if isinstance(given := getattr(self, name), str):
                raise InputError(f"{name}: expected a list of names, got {given!r}; pass [{given!r}].")
        for name in self.over if fitting and hasattr(X, "columns") else ():
            if name not in X.columns:
                raise unknown_name("over", "column", name, X.columns)
        over = tuple(self.over)
        panel = check_panel(
            self, X, y, fitting=fitting, codes=over, groupings=over, firm=self.firm, period=self.period
        )
        if fitting:
            self._check_options(panel)
        elif self.dated_ and panel.firm is None:
            raise InputError(
                f"X carries no {self.firm!r} and {self.period!r}, which it had in fit: peers are those of a period."
            )
        return panel

    def _check_options(self, panel: Panel) -> None:
        for name in self.statistics:
            if name not in STATISTICS:
                raise unknown_name("statistics", "statistic", name, STATISTICS)
        if self.of not in ("characteristics", "outcomes"):
            raise InputError(f"of: expected 'characteristics' or 'outcomes', got {self.of!r}.")
        if self.over and self.network is not None:
            raise InputError("over, network: give one of them; use two transformers in a ColumnTransformer.")
        if not isinstance(self.network, PeerNetwork | PeerModel | None):
            raise InputError(
                f"network: expected a PeerNetwork or a peer model, got {type(self.network).__name__}."
            )
        given = self.network if isinstance(self.network, PeerNetwork) else None
        if given is not None and panel.firm is not None and not given.labels.isin(panel.firm).any():
            raise InputError(
                f"network: none of its firms, such as {given.labels[0]!r}, is in X, which has {panel.firm[0]!r}: labels must be "
                "spelled alike."
            )
        if getattr(self.network, "needs_outcomes", False):
            raise InputError(
                "network: the model reads outcomes of the period it predicts; use task='forecast'."
            )
        signed = getattr(self.network, "signed", False)
        if signed and set(self.statistics) != {"mean"}:
            raise InputError("statistics: of a signed network only 'mean' is defined.")
        if self.of == "outcomes":
            if panel.firm is None or panel.outcomes is None:
                raise InputError("of='outcomes' needs firm and period in the index of X, and y.")
            if "rank" in self.statistics:
                raise InputError(
                    "statistics: 'rank' is not defined of outcomes, for the own one is not read."
                )
        for name in self.columns or ():
            if name not in panel.characteristics:
                raise unknown_name("columns", "characteristic", name, panel.characteristics)

    def _learn(self, panel: Panel) -> None:
        self.dated_ = panel.firm is not None
        self.kept_ = list(panel.characteristics) if self.keep else []
        averaged = [panel.outcome] if self.of == "outcomes" else list(self.columns or panel.characteristics)
        groups = [*self.over] or ["peers" if self.network is None else "network"]
        self.names_ = [
            f"{name}_{s}_{group}" for group in groups for name in averaged for s in self.statistics
        ]
        self.training_ = panel if not self.dated_ else None
        self.known_ = None
        if self.of == "outcomes":
            assert panel.outcomes is not None and panel.firm is not None
            known = pd.Series(panel.outcomes, panel.labels).unstack("period")
            self.known_ = known[sorted(known.columns)].ffill(axis=1)
        self.network_ = (
            clone(self.network).fit(panel) if isinstance(self.network, PeerModel) else self.network
        )

    def _cross_fitted(self, panel: Panel) -> Callable[[Any, slice], Iterator[np.ndarray]] | None:
        """Return each block's weights, of a model that was fitted on the others; None where no model is learned."""
        if not isinstance(self.network, PeerModel) or panel.firm is None:
            return None
        blocks = np.array_split(panel.period.unique(), min(self.n_blocks, panel.period.nunique()))
        if len(blocks) < 2:
            raise InputError(
                "n_blocks: a learned network is cross-fitted over blocks of periods, and X has one period."
            )
        fitted: dict[Any, Any] = {}
        for block in blocks:
            here = panel.period.isin(block)
            model = clone(self.network).fit(panel.take(~here))
            fitted |= dict.fromkeys(block, self._weights_of(panel, model))
        return lambda period, at: fitted[period](period, at)

    # ------------------------------------------------------------------ weights

    def _weights_of(self, panel: Panel, model: Any = None) -> Callable[[Any, slice], Iterator[np.ndarray]]:
        """Return what gives each set of a period's weights, (n, n) with a zero diagonal; groups as integers, (n,)."""
        model = self.network_ if model is None else model

        def groups(period: Any, at: slice) -> Iterator[np.ndarray]:
            for name in self.over:
                yield pd.factorize(panel.codes[name].iloc[at])[0]
            if not self.over:
                yield np.zeros(at.stop - at.start, dtype=int)

        def weights(period: Any, at: slice) -> Iterator[np.ndarray]:
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

        return groups if self.network is None else weights

    # ------------------------------------------------------------------ columns

    def _features(self, panel: Panel, weights: Callable[[Any, slice], Iterator[np.ndarray]]) -> np.ndarray:
        out = np.full((len(panel), len(self.names_)), np.nan)
        if not self.dated_:
            pool = self.training_
            assert pool is not None
            return self._of_arrays(panel, pool)
        for period, at in panel.cross_sections():
            x = self._averaged(panel, period, at)
            parts = [_statistics(x, w, self.statistics) for w in weights(period, at)]
            out[at] = np.concatenate(parts, axis=1)
            if self.known_ is not None:  # no median over periods: it would know later outcomes
                out[at] = np.where(np.isnan(out[at]), _medians(out[at]), out[at])
        return out

    def _averaged(self, panel: Panel, period: Any, at: slice) -> np.ndarray:
        """Return what firms show their peers, (n, p)."""
        if self.known_ is None:
            return panel.characteristics[list(self.columns or panel.characteristics)].iloc[at].to_numpy()
        assert panel.firm is not None
        before = [known for known in self.known_.columns if known < period]
        seen = len(before) >= self.horizon
        last = self.known_[before[-self.horizon]] if seen else pd.Series(dtype=float)
        return last.reindex(panel.firm[at]).to_numpy(dtype=float)[:, None]

    def _of_arrays(self, panel: Panel, pool: Panel) -> np.ndarray:
        """Return the columns of rows without labels: the pool is the training rows."""
        if self.network is not None:
            raise InputError("network: its firms are matched by label, and X carries none.")
        names = list(self.columns or pool.characteristics)
        x, own = pool.characteristics[names].to_numpy(), panel.characteristics[names].to_numpy()
        parts = []
        for name in list[Any](self.over) or [None]:
            mine = np.zeros(len(own), dtype=int) if name is None else panel.codes[name].to_numpy(dtype=object)
            theirs = np.zeros(len(x), dtype=int) if name is None else pool.codes[name].to_numpy(dtype=object)
            made = np.full((len(own), len(names) * len(self.statistics)), np.nan)
            for group in pd.unique(mine[pd.notna(mine)]):
                here = mine == group
                made[here] = _of_group(x[theirs == group], own[here], self.statistics)
            parts.append(made)
        return np.concatenate(parts, axis=1)

    def _frame(self, panel: Panel, values: np.ndarray) -> pd.DataFrame:
        values = np.where(np.isnan(values), self.medians_, values)
        both = np.column_stack([panel.characteristics[self.kept_].to_numpy(), values])[
            np.argsort(panel.order)
        ]
        return pd.DataFrame(both, index=panel.index, columns=self.get_feature_names_out())


def _medians(values: np.ndarray) -> np.ndarray:
    """Return each column's median; 0 where no row has peers."""
    return pd.DataFrame(values).median().fillna(0.0).to_numpy()


def _statistics(x: np.ndarray, peers: np.ndarray, wanted: Sequence[str]) -> np.ndarray:
    """Return the statistics of each column, (n, p × statistics); ``peers``: weights (n, n), or groups (n,)."""
    made_of = _by_weights if peers.ndim == 2 else _by_groups
    made = [made_of(x[:, k], peers, wanted) for k in range(x.shape[1])]
    return np.concatenate(made, axis=1) if made else np.empty((len(x), 0))


def _by_weights(x: np.ndarray, W: np.ndarray, wanted: Sequence[str]) -> np.ndarray:
    known = np.isfinite(x)
    value, total = np.where(known, x, 0.0), W @ known
    share = np.divide(
        W * known, total[:, None], out=np.full(W.shape, np.nan), where=np.abs(total)[:, None] > 1e-12
    )
    mean = share @ value
    made = {"mean": mean}
    if "std" in wanted:
        spread = share @ value**2 - mean**2
        made["std"] = np.sqrt(np.maximum(spread, 0.0))
    if "rank" in wanted:
        below = (value[None, :] < x[:, None]) + 0.5 * (value[None, :] == x[:, None])
        made["rank"] = np.where(known, (share * below).sum(axis=1), np.nan)
    return np.column_stack([made[name] for name in wanted])


def _by_groups(x: np.ndarray, group: np.ndarray, wanted: Sequence[str]) -> np.ndarray:
    """Return the statistics over the other members of each row's group, by sums; −1 = unknown, the group of nobody."""
    shift = np.nanmean(x) if np.isfinite(x).any() else 0.0  # sums of deviations lose no digits
    known, value = np.isfinite(x), np.where(np.isfinite(x), x - shift, 0.0)
    count, total, squares = sums_of_others(np.column_stack([known, value, value**2]), group).T
    others = np.where((count > 0) & (group >= 0), count, np.nan)
    mean = total / others
    made = {"mean": mean + shift}
    if "std" in wanted:
        made["std"] = np.sqrt(np.maximum(squares / others - mean**2, 0.0))
    if "rank" in wanted:
        made["rank"] = (pd.Series(x).groupby(group).rank().to_numpy() - 1) / others
    return np.column_stack([made[name] for name in wanted])


def _of_group(x: np.ndarray, own: np.ndarray, wanted: Sequence[str]) -> np.ndarray:
    """Return the statistics of training rows for rows that are none of them, (n, p × statistics)."""
    made = []
    for k in range(x.shape[1]):
        known = np.sort(x[np.isfinite(x[:, k]), k])
        column = {
            "mean": np.full(len(own), known.mean() if len(known) else np.nan),
            "std": np.full(len(own), known.std() if len(known) else np.nan),
        }
        left, right = (np.searchsorted(known, own[:, k], side) for side in ("left", "right"))
        column["rank"] = np.where(np.isfinite(own[:, k]), (left + right) / 2 / max(len(known), 1), np.nan)
        made += [column[name] for name in wanted]
    return np.column_stack(made) if made else np.empty((len(own), 0))
