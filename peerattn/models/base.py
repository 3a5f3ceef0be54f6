"""What every peer model shares: input gate → pool → prediction → network."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from peerattn.exceptions import (
    WHERE_ISOLATES,
    IsolateWarning,
    LabelWarning,
    SmallCrossSectionWarning,
    expect,
    warn_user,
)
from peerattn.models.by_period import check_not_with_files, warn_once, written
from peerattn.models.cross_section import (
    NOBODY,
    CrossSection,
    Rows,
    adding_up,
    check_same_kind,
    identities,
    stacked,
)
from peerattn.models.learned import bounded, bounds_of, known_from, last_known
from peerattn.models.panel_model import PanelModel, PanelRegressor
from peerattn.network import PeerNetwork
from peerattn.network.base import last_learned
from peerattn.panel.memory import check_memory
from peerattn.panel.panel import Panel
from peerattn.panel.reading import refusing
from peerattn.panel.stored import is_stored
from peerattn.render import show_label
from peerattn.training import one_thread
from peerattn.types import OutcomesLike, PanelLike

MOST_COPIES = 1e9  # of a row
_CELLS = 3_000_000  # of a chunk of a network's weights, and the arrays of that size that computing it takes
_ARRAYS = 12
Encoded = tuple[np.ndarray, np.ndarray]  # characteristics (n, p) and codes (n, c)
NetworkMaker = Callable[[Iterator[CrossSection]], PeerNetwork]


class PeerModel(PanelModel):
    """Base class of every panel model: a firm is predicted from its peers, ``ŷ_i = own_i + Σ_h ρ_h Σ_j α^h_ij v^h_j``.

    A subclass says how rows are encoded (``_encode``), what is learned (``_learn``), how focal rows of one cross-section
    are predicted from their pool (``_attend``) and with which weights (``_weights``).
    """

    # ------------------------------------------------------------------ what a subclass provides

    training_rows_: Any  # None where training rows are nobody's peers

    @abstractmethod
    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> Encoded:
        """Return characteristics (n, p) and codes (n, c) of the panel's rows."""

    @abstractmethod
    def _learn(self, training: Rows, panel: Panel) -> None:
        """Learn from the training rows (in the panel's order)."""

    @abstractmethod
    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions of the focal rows, and which of them had no admissible peer."""

    @abstractmethod
    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray | sparse.sparray:
        """Return the weights that these focal rows put on all peers, (n_rows, n_peers)."""

    # ------------------------------------------------------------------ the public calls

    @property
    def reads_outcomes(self) -> bool:
        """Whether ``predict`` can take ``outcomes=``."""
        return True

    @property
    def needs_outcomes(self) -> bool:
        """Whether ``predict`` on a panel must be given ``outcomes=``."""
        return False

    @one_thread()
    def fit(self, X: PanelLike, y: OutcomesLike = None, sample_weight: OutcomesLike = None) -> Self:
        """Fit on training rows.

        Parameters
        ----------
        X : Panel, DataFrame (n, p) indexed by (firm, period), or array-like; or StoredPanel, path, Dataset, iterator of frames
            Characteristics and codes; without firm and period ``X`` is one cross-section. Of a panel in files what
            :func:`~peerattn.panel.stored.scan_panel` says is read (``training_rows``).
        y : Series or array-like (n,), or str
            Outcome; a Panel holds its own. Of files the name of the column.
            In a panel NaN means unknown: the row stays a peer, but is excluded from the loss.
        sample_weight : array-like (n,), optional
            Frequency weights: a weight of 2 equals the row twice.

        Returns
        -------
        self
        """
        panel, training = self._gate_training(X, y, sample_weight)
        self._learn(training, panel)
        return self

    def predict(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> np.ndarray:
        """Predict the outcome of each row.

        Parameters
        ----------
        X : Panel, DataFrame or array-like (n, p); or StoredPanel, path, Dataset, iterator of frames
            Files are read one period at a time.
        outcomes : Series or array-like (n,), or str (the column, of files), optional
            Outcomes of the rows of ``X``. Each firm is then predicted from the outcomes of the *other* firms of its period
            (of the call, for arrays); NaN = unknown. Without it the training outcomes of all periods are used,
            the firm's own past among them.

        Returns
        -------
        ndarray (n,), in the order of ``X``'s rows; never NaN.
        """
        return self._predictions(X, outcomes=outcomes)

    def peer_network(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> PeerNetwork:
        """Return whom each row of ``X`` looks to in :meth:`predict` called with the same arguments.

        Returns
        -------
        PeerNetwork
            ``W[i, j]`` is the weight firm *i* puts on peer *j*; rows sum to one. Peers from several periods (the training
            rows) are added up by firm.
        """
        return self._network_of(self._network_maker(), X, outcomes=outcomes)

    def _network_of(self, network: NetworkMaker, X: PanelLike, **options: Any) -> PeerNetwork:
        """Return what ``network`` makes of the cross-sections of rows in memory or in files."""
        if not is_stored(X):
            return network(self._gate_call(X, **options)[1])
        with warn_once():
            return network(section for _, sections in self._by_period(X, **options) for section in sections)

    # ------------------------------------------------------------------ gates

    def _gate_training(
        self, X: PanelLike, y: OutcomesLike, sample_weight: OutcomesLike, universe: PanelLike = None
    ) -> tuple[Panel, Rows]:
        check_not_with_files(X, sample_weight=sample_weight)
        panel = self._check(X, y, fitting=True, universe=universe)
        weight = panel.weights.get("sample_weight")
        weight = weight if sample_weight is None else self._frequencies(panel, sample_weight)
        if weight is not None:  # a row of weight 0 is not there
            panel = panel.take(weight > 0)
            weight = weight[weight > 0]
        if panel.firm is None and isinstance(X, pd.DataFrame) and isinstance(X.index, pd.RangeIndex):
            warn_user(
                LabelWarning(
                    f"X carries neither {self.firm!r} nor {self.period!r}, so its {len(panel):,} rows are one cross-section, "
                    f"all periods in one. Of a panel set them as index, df.set_index([{self.firm!r}, {self.period!r}]), or name "
                    "yours with firm= and period=; index the rows by firm where one cross-section is meant."
                )
            )
        self.firm_label_ = panel.firm is not None
        self.learned_until_ = last_known(panel)
        self.outcome_bounds_ = bounds_of(panel.outcomes)
        _, sizes = np.unique(panel.period, return_counts=True)
        self.median_cross_section_ = float(np.median(sizes))
        x, codes = self._encode(panel, weight, fitting=True)
        return panel, self._rows(panel, x, codes, weight)

    def _keep_known(self, training: Rows) -> Rows:
        """Keep the training rows whose outcome is known, and their mean."""
        rows = self.training_rows_ = training.known()
        assert rows.y is not None
        self.mean_ = float(np.average(rows.y, weights=rows.weight))
        return rows

    @staticmethod
    def _frequencies(panel: Panel, weight: OutcomesLike) -> np.ndarray:
        """Return frequency weights in the panel's order, checked as scikit-learn checks them."""
        order: Any = panel.order
        with refusing():
            if isinstance(weight, pd.Series):
                weight = panel.align(weight, "sample_weight")
                order = slice(None)
            found = _check_sample_weight(weight, np.empty((len(panel), 1)), ensure_non_negative=True)[order]
        wanted = f"frequency weights, which count rows, from 0 to {MOST_COPIES:g}, and one above 0"
        expect(0 < found.max() <= MOST_COPIES, "sample_weight", wanted, f"up to {found.max():g}")
        return found

    def _rows(self, panel: Panel, x: np.ndarray, codes: np.ndarray, weight: np.ndarray | None = None) -> Rows:
        label = pd.RangeIndex(len(panel)) if panel.firm is None else panel.firm
        owner = label if panel.firm is None else self._owners(panel)
        with refusing():
            identity = identities(owner)[0]
            known = known_from(panel)
            return Rows(x, codes, panel.outcomes, weight, identity, label, owner, weight, known)

    def _owners(self, panel: Panel) -> pd.Index:
        """Return the labels whose sameness keeps two rows from being peers."""
        assert panel.firm is not None
        return panel.firm

    def _gate_rows(self, X: PanelLike, outcomes: OutcomesLike = None, *, undated: bool = False) -> tuple[Panel, Rows]:
        check_is_fitted(self)
        panel = self._check(X, outcomes, fitting=False, undated=undated)
        x, codes = self._encode(panel, None, fitting=False)
        return panel, self._rows(panel, x, codes)

    def _gate_call(self, X: PanelLike, outcomes: OutcomesLike) -> tuple[Panel, Iterator[CrossSection]]:
        panel, call = self._gate_rows(X, outcomes)
        if outcomes is not None:
            return panel, self._within(panel, call)
        return panel, self._against_training(panel, call)

    def _predicted(self, panel: Panel, call: Any) -> np.ndarray:
        return self._predict_sections(panel, call)

    def _network_maker(self) -> NetworkMaker:
        """Return what makes the network of cross-sections."""
        return self._network

    def write_networks(
        self, X: PanelLike, out: str | os.PathLike[str], *, outcomes: str | None = None, **options: Any
    ) -> Path:
        """Write the network of each period of a panel in files, one period at a time.

        Parameters
        ----------
        X : StoredPanel, path, Dataset, or iterator of frames
        out : path-like
            A folder; one Parquet file of edges a period, which :meth:`~peerattn.network.PeerNetwork.from_parquet` reads.
        outcomes : str, optional
            Column of the outcomes, as in ``predict``.
        **options
            Which part of the model: of attention ``top_k``, ``layer``, ``head`` and ``part``, as in ``peer_network``.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            When the folder cannot be written, or holds files of other periods.
        """
        network = self._network_maker(**options)

        def write(panel: Panel, call: Any, path: Path) -> None:
            network(call).to_parquet(path)

        return written(out, self._by_period(X, outcomes=outcomes), write)

    # ------------------------------------------------------------------ pools

    def _within(
        self, panel: Panel, call: Rows, *, known: bool = True, warn: bool = True
    ) -> Iterator[CrossSection]:
        """Each period of the call is its own pool; without ``known`` rows of unknown outcome are peers, too.

        ``warn`` of periods that are small beside those of fit.
        """
        if warn and self.dated_ and panel.dated:
            self._warn_of_small_sections(panel)
        for place, (period, at) in enumerate(panel.cross_sections()):
            focal = call.take(at)
            observed = focal.known() if known else focal
            peers = bounded(observed, getattr(self, "outcome_bounds_", None), self._outcome_unit())
            yield CrossSection(period if panel.dated else None, at, focal, peers, within=True, place=place)

    def _outcome_unit(self) -> tuple[float, float]:
        return 0.0, 1.0  # centre and scale that were taken out of the outcomes of pools

    def _warn_of_small_sections(self, panel: Panel) -> None:
        sizes = {period: at.stop - at.start for period, at in panel.cross_sections()}
        small = [period for period, size in sizes.items() if size < self.median_cross_section_ / 2]
        if small:
            warn_user(
                SmallCrossSectionWarning(
                    f"{len(small)} periods of X (first: {small[0]}, {sizes[small[0]]} firms) have under half of training's "
                    f"median of {self.median_cross_section_:g} firms: peers are sought among the rows of the call. "
                    "Pass the whole cross-section, or the other firms as reference= where the model takes it."
                )
            )

    def _against_training(self, panel: Panel, call: Rows) -> Iterator[CrossSection]:
        """The training rows are the pool, the firm's own past among them."""
        if panel.firm is not None and self.firm_label_:
            check_same_kind(call.owner, self.training_rows_.owner)
        call = call.anonymous()
        for place, (period, at) in enumerate(panel.cross_sections()):
            when = period if panel.dated else None
            yield CrossSection(when, at, call.take(at), self.training_rows_, place=place)

    def _predict_sections(self, panel: Panel, sections: Iterator[CrossSection]) -> np.ndarray:
        columns = [len(self._classes)] if self._classes else []
        predicted = np.empty((len(panel), *columns))
        isolated = np.zeros(len(panel), dtype=bool)
        for section in sections:
            predicted[section.at], isolated[section.at] = self._attend(section)
        self._warn_of_isolates(panel, isolated)
        self._warn_of_shared_periods(panel)
        return panel.restore(predicted)

    def _warn_of_isolates(self, panel: Panel, isolated: np.ndarray) -> None:
        if isolated.any():
            where = f"row {isolated.argmax()}"
            if panel.firm is not None:
                where = " in ".join(show_label(labels[isolated][0]) for labels in (panel.firm, panel.period))
            warn_user(
                IsolateWarning(
                    f"{int(isolated.sum())} of {len(panel)} rows have no admissible peer (first: {where}): their peer term is "
                    f"{self._isolates_get}.{WHERE_ISOLATES}"
                )
            )

    _isolates_get = "zero"

    @property
    def _signed(self) -> bool:
        """Whether a weight may be negative."""
        return False

    def _network(
        self,
        sections: Iterator[CrossSection],
        weights: Callable[[CrossSection], Callable[[slice], Any]] | None = None,
        top_k: int | None = None,
        fast: Callable[[CrossSection], sparse.csr_array | None] | None = None,
        signed: bool | None = None,
    ) -> PeerNetwork:
        weights = weights or (lambda section: partial(self._weights, section))
        matrices = {}
        learned = [self.learned_until_]
        for section in sections:
            if self._weights_read_past:
                learned.append(section.past.last_before(section.period))
            labels, group = self._peer_columns(section)
            if top_k is None:
                what = f"the network of {len(section.focal):,} firms"
                remedy = "keep the strongest peers only, top_k= (attention), or pass fewer firms."
                # the weights, what checks them (a bit for each), and what it takes to compute a chunk of rows
                needed = 10.0 * len(section.focal) * len(labels) + 8.0 * _ARRAYS * _CELLS
                check_memory(needed, what, remedy)
            found = None if fast is None else fast(section)
            if found is None:
                of_rows = weights(section)
                blocks = (of_rows(rows) @ group for rows in section.chunks(_CELLS))
                found = stacked(blocks, len(section.focal), top_k)
            else:
                found = found @ group
            matrices[section.period] = (section.focal.label, labels, found)
        name = type(self).__name__
        signed = self._signed if signed is None else signed
        network = PeerNetwork.from_matrices(matrices, name=name, signed=signed, row_normalized=top_k is None)
        until = last_learned(learned)
        if not self._learns_network:
            until = getattr(getattr(self, "network_", None), "learned_until", None)
        return network.replaced(top_k=top_k, learned_until=until)

    _learns_network: ClassVar[bool] = True  # its weights depend on training outcomes

    @property
    def _weights_read_past(self) -> bool:
        """Whether its weights depend on earlier outcomes of the call."""
        return False

    @staticmethod
    def _peer_columns(section: CrossSection) -> tuple[pd.Index, sparse.csr_array]:
        """Return the network's columns, and the matrix that adds peer rows up into them."""
        labels = section.focal.label if section.focal.label.is_unique else section.focal.label.unique()
        rows_of_others = isinstance(labels, pd.RangeIndex) and (section.focal.identity == NOBODY).all()
        if rows_of_others or not section.peers.label.isin(labels).all():  # row numbers name other rows here
            labels = section.peers.label.unique()
        return labels, adding_up(labels.get_indexer(section.peers.label), len(labels))


class PeerRegressor(PanelRegressor, PeerModel):
    """Base class of the regressors that look to peers."""
