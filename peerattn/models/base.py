"""The base class of every panel estimator: input gate → cross-sections → prediction → network."""

import os
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions
from sklearn.utils._tags import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, reworded_values
from peerattn.models import by_period, learned
from peerattn.models.cross_section import CrossSection, Rows, identities
from peerattn.models.networks import NetworkMaker, SectionWeights, network_of_sections
from peerattn.models.pools import against_training, row_labels, within_periods
from peerattn.models.row_weights import frequencies
from peerattn.models.summary import summary_of
from peerattn.network import PeerNetwork
from peerattn.options import COLUMN, COLUMNS, validate_options
from peerattn.panel.design import Design
from peerattn.panel.gate import check_panel, warn_of_lost_labels
from peerattn.panel.labels import find_period
from peerattn.panel.panel import Panel
from peerattn.panel.stored import is_stored
from peerattn.processes import joined
from peerattn.store.objects import load_estimator, save_estimator
from peerattn.training import one_thread
from peerattn.types import OutcomesLike, PanelLike

Encoded = tuple[np.ndarray, np.ndarray]  # characteristics (n, p) and codes (n, c)
#: Values of the focal rows of a cross-section, and which of these rows had no admissible peer.
SectionFunction = Callable[[CrossSection], tuple[np.ndarray, np.ndarray]]


def has_peers(model: object) -> bool:
    """Return whether a model predicts from candidate peers, and so has a network."""
    return isinstance(model, PanelEstimator) and model._has_peers


class PanelEstimator(BaseEstimator):
    """Base class of every estimator of a panel: a firm is predicted from itself and its peers.

    ``ŷ_i = own_i + Σ_h ρ_h Σ_j α^h_ij v^h_j``. A subclass defines how rows are encoded (``_encode``), what is learned
    (``_learn``), how focal rows of one cross-section are predicted from their pool (``_attend``) and with which weights
    (``_weights``). With :class:`~peerattn.models.PanelRegressorMixin` or
    :class:`~peerattn.models.PanelClassifierMixin` before it, it is scored as such.
    """

    firm: str
    period: str
    scale: str | None
    #: As of scikit-learn's own estimators: by option what it may be. A subclass adds its own.
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "firm": [*COLUMN],
        "period": [*COLUMN],
        "industry": [*COLUMN, None],
        "codes": [*COLUMNS],
        "scale": [StrOptions({"standard", "rank"}), None],
        "random_state": ["random_state"],
    }
    _shares_periods: ClassVar[bool] = False  # whether several processes can fit it together
    _has_peers: ClassVar[bool] = True  # False: it reads no candidate peers, and has no network
    _learns_network: ClassVar[bool] = True  # its weights depend on training outcomes
    _isolates_get: ClassVar[str] = "zero"
    training_rows_: Rows | None  # None where training rows are nobody's peers
    dated_: bool

    # ------------------------------------------------------------------ what a subclass provides

    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> Encoded:
        """Return characteristics (n, p) and codes (n, c) of the panel's rows."""
        if fitting:
            self.design_ = Design.fit(panel, scale=self.scale, weight=weight, without=self._groupings())
        return self.design_.numbers(panel), self.design_.integers(panel)

    def _learn(self, training: Rows, panel: Panel) -> None:
        """Learn from the training rows (in the panel's order)."""
        raise NotImplementedError

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions of the focal rows, and which of them had no admissible peer."""
        raise NotImplementedError

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray | sparse.sparray:
        """Return the weights that these focal rows put on all peers, (n_rows, n_peers)."""
        raise NotImplementedError

    def _encode_outcomes(self, outcomes: OutcomesLike) -> OutcomesLike:
        """Return outcomes as numbers."""
        return outcomes

    @property
    def _classes(self) -> tuple[Any, ...]:
        """Classes, of which ``_predicted`` gives a column each; empty for one column of predictions."""
        return ()

    @property
    def _reads_characteristics(self) -> bool:
        return True

    @property
    def _signed(self) -> bool:
        """Whether a weight may be negative."""
        return False

    @property
    def _weights_read_past(self) -> bool:
        """Whether its weights depend on earlier outcomes of the call."""
        return False

    def _code_columns(self) -> tuple[Any, ...]:
        """Columns declared to be codes."""
        codes = tuple(getattr(self, "codes", ()))
        return codes + tuple(name for name in self._groupings() if name not in codes)

    def _groupings(self) -> tuple[Any, ...]:
        """Code columns that group firms without being learned: they may name nearly every firm."""
        industry = getattr(self, "industry", None)
        return () if industry is None else (industry,)

    def _owners(self, panel: Panel) -> pd.Index:
        """Return the labels whose sameness keeps two rows from being peers."""
        return row_labels(panel)

    def _outcome_unit(self) -> tuple[float, float]:
        return 0.0, 1.0  # centre and scale that were taken out of the outcomes of pools

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
            :func:`~peerattn.panel.scan_panel` selects is read (``training_rows``).
        y : Series or array-like (n,), or str, optional
            Outcome; a Panel holds its own. Of files the name of the column. In a panel NaN means unknown: the row stays a
            peer, but is excluded from the loss.
        sample_weight : array-like (n,), optional
            Frequency weights: a weight of 2 equals the row twice.
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

    @available_if(has_peers)
    def peer_network(self, X: PanelLike, *, outcomes: OutcomesLike = None, top_k: int | None = None) -> PeerNetwork:
        """Return the peers to which each row of ``X`` attends in :meth:`predict` called with the same arguments.

        Parameters
        ----------
        X, outcomes
            As in ``predict``.
        top_k : int, optional
            Keep only so many peers of each firm, the largest weights, as they are.

        Returns
        -------
        PeerNetwork
            ``W[i, j]`` is the weight firm *i* puts on peer *j*; rows sum to one (less with ``top_k``). Peers from several
            periods (the training rows) are added up by firm.
        """
        return self._network_of(self._network_maker(top_k=top_k), X, outcomes=outcomes)

    @available_if(has_peers)
    def network_at(self, X: PanelLike, period: Hashable, *, outcomes: OutcomesLike = None, **options: Any) -> PeerNetwork:
        """Return the network of one period of ``X``; earlier periods are the past of its firms, where weights depend on it.

        ``X`` and ``outcomes`` are as in ``predict``, but in memory; other options (``top_k``) as in ``peer_network``.
        """
        panel, sections = self._gate_call(X, outcomes=outcomes)
        when = find_period(period, panel.period.unique().sort_values())
        return self._network_maker(**options)(section for section in sections if section.period == when)

    def _network_of(self, network: NetworkMaker, X: PanelLike, **options: Any) -> PeerNetwork:
        """Return what ``network`` makes of the cross-sections of rows in memory or in files."""
        if not is_stored(X):
            return network(self._gate_call(X, **options)[1])
        with by_period.warn_once():
            return network(section for _, sections in self._by_period(X, **options) for section in sections)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, atomically: safetensors and JSON, no pickle.

        An InputError is raised where it holds an estimator that cannot be stored without pickle (``own=SVR()``, for example).
        """
        check_is_fitted(self)
        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model of this class that :meth:`save` wrote; no code of the file is run. See :func:`peerattn.load`."""
        found: Self = load_estimator(path, cls)[0]
        return found

    def summary(self) -> object:
        """Return what was fitted, as text: options that differ from their defaults, training rows, tables and numbers.

        Examples
        --------
        >>> from peerattn import CrossSectionalRidge, simulate_panel
        >>> panel = simulate_panel(12, 8, 2, random_state=0)
        >>> print(CrossSectionalRidge().fit(panel.X, panel.y).summary().partition(chr(10))[0])
        CrossSectionalRidge(): 96 rows, 8 periods, 2 columns
        """
        check_is_fitted(self, "learned_rows_")
        return summary_of(self, self.n_features_in_, self.learned_rows_)

    # ------------------------------------------------------------------ gates

    def _validate_params(self) -> None:
        validate_options(self)

    def _check(
        self, X: PanelLike, y: OutcomesLike = None, *, fitting: bool, undated: bool = False, universe: PanelLike = None
    ) -> Panel:
        if not fitting:
            check_is_fitted(self)
        else:
            self._validate_params()
            if joined() and not self._shares_periods:
                name = type(self).__name__
                raise InputError(f"{name}: several processes fit attention models only. Fit it outside data_parallel().")
            if is_stored(X):  # what is read of the files is a panel in memory, with its outcomes
                X = by_period.training_panel(self, X, y)
                y = None
        names: dict[str, Any] = {"firm": self.firm, "period": self.period}
        names |= {"codes": self._code_columns(), "groupings": self._groupings()}
        panel = check_panel(self, X, y, fitting=fitting, undated=undated, universe=universe, **names)
        if fitting:
            self.dated_ = panel.dated
            self.learned_rows_ = learned.rows_of(panel)
        elif self.dated_ and not panel.dated and not undated:
            fitted = f"{type(self).__name__} was fitted on a panel"
            warn_of_lost_labels(f"{fitted} but X carries no {self.firm!r} and {self.period!r}")
        return panel

    def _gate_training(
        self, X: PanelLike, y: OutcomesLike, sample_weight: OutcomesLike, universe: PanelLike = None
    ) -> tuple[Panel, Rows]:
        by_period.check_not_with_files(X, sample_weight=sample_weight)
        panel = self._check(X, y, fitting=True, universe=universe)
        weight = panel.weights.get("sample_weight")
        if sample_weight is not None:
            weight = frequencies(panel, sample_weight)
        if weight is not None:  # a row of weight 0 is not there
            panel = panel.take(weight > 0)
            weight = weight[weight > 0]
        if weight is not None and (weight == 1).all():
            weight = None
        # a frame without an index may be a panel whose labels got lost; arrays are meant to have none
        if isinstance(X, pd.DataFrame) and isinstance(X.index, pd.RangeIndex):
            learned.warn_of_one_cross_section(panel, self.firm, self.period)
        self.firm_label_ = panel.firm is not None
        self.learned_until_ = learned.last_known(panel)
        self.outcome_bounds_ = learned.bounds_of(panel.outcomes)
        self.median_cross_section_ = float(np.median(np.unique(panel.period, return_counts=True)[1]))
        return panel, self._rows(panel, *self._encode(panel, weight, fitting=True), weight)

    def _keep_known(self, training: Rows) -> Rows:
        """Keep the training rows whose outcome is known, and their mean."""
        rows = self.training_rows_ = training.known()
        self.mean_ = float(np.average(rows.outcomes, weights=rows.weight))
        return rows

    def _rows(self, panel: Panel, x: np.ndarray, codes: np.ndarray, weight: np.ndarray | None = None) -> Rows:
        owner = self._owners(panel)
        with reworded_values():
            identity = identities(owner)[0]
            known = learned.known_from(panel)
            return Rows(x, codes, panel.outcomes, weight, identity, row_labels(panel), owner, weight, known)

    def _gate_rows(self, X: PanelLike, outcomes: OutcomesLike = None, *, undated: bool = False) -> tuple[Panel, Rows]:
        panel = self._check(X, outcomes, fitting=False, undated=undated)
        return panel, self._rows(panel, *self._encode(panel, None, fitting=False))

    def _gate_call(self, X: PanelLike, outcomes: OutcomesLike) -> tuple[Panel, Iterator[CrossSection]]:
        panel, call = self._gate_rows(X, outcomes)
        if outcomes is not None:
            return panel, self._within(panel, call)
        return panel, against_training(panel, call, self.training_rows_, self.firm_label_)

    def _by_period(self, X: PanelLike, outcomes: OutcomesLike = None, **options: Any) -> Iterator[tuple[Panel, Any]]:
        """Yield :meth:`_gate_call` of each period of a panel in files."""
        for panel, observed in by_period.periods_of(self, X, outcomes):
            yield self._gate_call(panel, observed, **options)

    def _predictions(self, X: PanelLike, outcomes: OutcomesLike = None, **options: Any) -> np.ndarray:
        """Return the predictions of rows in memory or in files."""
        if is_stored(X):
            return by_period.predicted_periods(self, X, outcomes, options)
        return self._predicted(*self._gate_call(X, outcomes, **options))

    def write_predictions(self, X: PanelLike, out: str | os.PathLike[str], **options: Any) -> Path:
        """Predict each period of a panel in files and write it, one period at a time; return the folder.

        Parameters
        ----------
        X : StoredPanel, path, Dataset, or iterator of frames
        out : path-like
            A folder; one Parquet file a period: firm, period, and ``prediction`` (of a classifier the probability of each
            class). Files of the same periods, of an earlier call, are replaced.
        **options
            As in ``predict``; ``outcomes`` names the column.

        An InputError is raised where the folder cannot be written, or holds files of other periods.
        """
        names = [str(name) for name in self._classes] or ["prediction"]
        write = partial(by_period.write_frame, names=names, of=self._predicted)
        return by_period.written(out, self._by_period(X, **options), write)

    def _predicted(self, panel: Panel, call: Any) -> np.ndarray:
        """Return what is predicted of the rows of a call, in the order they came in."""
        return self._of_sections(panel, call, self._attend)

    def _of_sections(self, panel: Panel, sections: Iterator[CrossSection], of: SectionFunction) -> np.ndarray:
        """Return what ``of`` gives for the focal rows of all sections, in the order the rows came in."""
        parts = [of(section) for section in sections]
        found, isolated = (np.concatenate(column) for column in zip(*parts, strict=True))
        learned.warn_of_isolates(panel, isolated, self._isolates_get)
        learned.warn_of_shared_periods(panel, self.learned_rows_)
        return panel.restore(found)

    @available_if(has_peers)
    def write_networks(self, X: PanelLike, out: str | os.PathLike[str], *, outcomes: str | None = None, **options: Any) -> Path:
        """Write the network of each period of a panel in files, one period at a time; return the folder.

        ``X``, ``out`` and ``outcomes`` are as in :meth:`write_predictions`, other options (``top_k``; of attention ``layer``,
        ``head`` and ``part``) as in ``peer_network``. A file holds the edges of a period, which
        :meth:`~peerattn.network.PeerNetwork.from_parquet` reads.
        """
        network = self._network_maker(**options)
        calls = self._by_period(X, outcomes=outcomes)
        return by_period.written(out, calls, lambda _, call, path: network(call).to_parquet(path))

    def _network_maker(self, *, top_k: int | None = None) -> NetworkMaker:
        """Return what makes the network of cross-sections."""
        return partial(self._network, top_k=top_k)

    def _network(self, sections: Iterator[CrossSection], weights: SectionWeights | None = None, **options: Any) -> PeerNetwork:
        """Return the network of cross-sections; ``options`` as :func:`network_of_sections` has them."""
        learned_until = self.learned_until_
        if not self._learns_network:  # its weights are those of a network that was passed, where there is one
            learned_until = getattr(getattr(self, "network_", None), "learned_until", None)
        usual = {"signed": self._signed, "learned_until": learned_until, "reads_past": self._weights_read_past}
        weights = weights or (lambda section: partial(self._weights, section))
        return network_of_sections(sections, weights, name=type(self).__name__, **(usual | options))

    def _within(self, panel: Panel, call: Rows, *, known: bool = True, warn: bool = True) -> Iterator[CrossSection]:
        """Each period of the call is its own pool; without ``known`` rows of unknown outcome are peers, too.

        ``warn`` of periods that are small beside those of fit.
        """
        if warn and self.dated_ and panel.dated:
            learned.warn_of_small_sections(panel, self.median_cross_section_)
        return within_periods(panel, call, known, self.outcome_bounds_, self._outcome_unit())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
