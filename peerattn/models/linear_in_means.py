"""The linear-in-means model of peer effects, for a given network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import spsolve
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import GeneratedRegressorWarning, InputError, IsolateWarning, warn_user
from peerattn.models.base import Encoded, PanelEstimator
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.given_network import check_not_learned, given_network, network_period, others_weights
from peerattn.models.learned import check_effect_labels
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.models.two_stage import PEERS_OUTCOME, two_stage
from peerattn.network import PeerNetwork
from peerattn.options import COLUMNS
from peerattn.panel.design import Design
from peerattn.panel.effects import BY, effect_codes, effect_labels, effect_parts, estimated_effects, known_effects
from peerattn.panel.panel import Panel
from peerattn.render import Table
from peerattn.types import LabelsLike, OutcomesLike, PanelLike

SINGULAR = 1e-8
NET_WEIGHT = "sum of peers' weights"
LABELS = ("firm", "period", "network")  # effects that are no code


@dataclass(eq=False, repr=False, kw_only=True)
class LinearInMeansRegressor(PanelRegressorMixin, PanelEstimator):
    """Own characteristics, peers' mean characteristics and peers' mean outcome, estimated by two-stage least squares.

    ``y_it = a_t + x_it β + (Wx)_it γ + ρ (Wy)_it + e_it`` with W the row-normalised network, own firm left out, and an effect
    of each period, so that a shock common to all firms is not mistaken for an effect of peers. Peers' outcomes depend on y_it
    in turn (Manski's reflection problem), so ``Wy`` is instrumented by the characteristics of peers of peers, ``W²x``. That
    identifies ρ where I, W and W² are linearly independent (Bramoullé, Djebbari and Fortin 2009): not in groups of one size in
    which all are peers of all, which raise an error.

    Parameters
    ----------
    network : PeerNetwork, DataFrame or dict of DataFrame, optional
        For a period the latest cross-section up to it is used. Weights may be negative (those of a ridge or a covariance):
        rows are then divided by the sum of their absolute weights, so that ``|ρ| < 1`` is stable; ``network.positive()``
        keeps the positive ones alone. None: no peers, ordinary least squares on own characteristics.
    peer_outcome : bool, default True
        Whether the peers' outcome is a regressor; False: own and peers' characteristics, by least squares.
    learned_until : period label, optional
        Last period whose outcomes the network was learned from, to its end (``"2000-06"``: all of June); None = what the
        network itself records. One learned from outcomes that are explained here raises an error: it was chosen to fit them.
    effects : sequence of str, default ("period",)
        Effects that are absorbed, by ``pyhdfe``: ``"firm"``, ``"period"``, a column with codes, ``"network"`` (the connected
        parts of a period's network: network effects, Bramoullé, Djebbari and Fortin 2009), or several joined by ``×``:
        ``"sic×period"``. Parts are those of the network as given, whichever of its firms are in X, and named by their first
        firm: one network for all periods has the same parts in all of them, a dated one other parts at each of its dates. A code
        that is absorbed is no characteristic. Without periods in X, or with one period only, ``"period"`` is one constant.
    cluster : {"firm", "period", ("firm", "period"), None}, default "firm"
        Standard errors allow dependence within firms, periods or both; None: heteroskedasticity alone. With G clusters t has
        G − 1 degrees of freedom.
    n_bootstrap : int, default 0
        Draws of the wild cluster bootstrap, for p values with few clusters (of one kind); of the peers' outcome by the
        Anderson–Rubin test. 0: Student's t.
    random_state : int, default 0
        Of the bootstrap.
    codes : sequence of str, default ()
        Columns that are codes (besides those of dtype category or string): one dummy a level.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    results_ : TwoStage
        Estimates, standard errors; ``identification``: effective first-stage F, Anderson–Rubin test and set, Hansen's J.
    coef_ : Series
        Coefficients by regressor.
    effects_ : dict of str to Series
        Absorbed effects by firm, period, ..., their mean over the rows of the estimates zero; ``intercept_`` is that mean.
    n_without_peers_ : int
        Rows of known outcome that are not in the estimates, because they have no peer of known outcome.
    mean_peer_term_ : float
        Mean of what peers add in the estimates, ``(Wx) γ + ρ Wy``.

    Notes
    -----
    *Rows without peers.* Peers with unknown outcomes count in WX, and Wy is the mean of the known ones. A row none of whose peers
    has a known outcome has no Wy, and a firm without peers has no mean of peers at all. Such rows leave the estimates, with a
    warning: with zeros for their means ρ would depend on the level of the outcome, and with the outcome's mean on how many
    they are. (In Bramoullé, Djebbari and Fortin isolated firms stay, with zeros and the intercept of all others: a level that
    all firms share would then be an effect of peers.) In a signed network rows have sums of their own, and a level is in Wy as
    often as these are: they are one more regressor.

    *Predictions.* ``predict(X)`` solves for the peers' outcomes, ``ŷ = (I − ρW)⁻¹(a + Xβ + WXγ)``, over the rows of each period
    of the call. ``predict(X, outcomes=y)`` uses the mean of the known ones, and what ``predict(X)`` gives for rows without any.
    A firm without peers gets the mean of what peers add in the estimates. What was not in training gets the mean effect.
    Predictions of ``y + c`` are those of ``y``, plus c.

    *Errors.* Missing characteristics are filled and indicated. Estimates and standard errors are those of
    ``linearmodels``, ``IV2SLS(...).fit(debiased=True)``; with fewer than 50 clusters errors are by the jackknife and
    larger. Weights are frequency weights in the estimates, while standard errors count a row once. A network learned from
    earlier outcomes is a generated regressor: its sampling error is not in the standard errors, and a warning reports it. ρ is a
    causal peer effect only if the network and the characteristics are exogenous.

    References
    ----------
    Manski, C. F. (1993), Identification of endogenous social effects: the reflection problem, Review of Economic Studies 60(3).
    Bramoullé, Y., Djebbari, H. and Fortin, B. (2009), Identification of peer effects through social networks, Journal of
    Econometrics 150(1).
    Montiel Olea, J. L. and Pflueger, C. (2013), A robust test for weak instruments, Journal of Business & Economic Statistics
    31(3).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> W = (rng.random((60, 60)) < 0.05) * (1.0 - np.eye(60))
    >>> W[W.sum(axis=1) == 0, 0] = 1.0
    >>> W /= W.sum(axis=1, keepdims=True)
    >>> X = pd.DataFrame({"firm": range(60), "period": 2001, "size": rng.normal(size=60)})
    >>> y = np.linalg.solve(np.eye(60) - 0.4 * W, X["size"] + 0.01 * rng.normal(size=60))
    >>> LinearInMeansRegressor(network=pd.DataFrame(W), cluster=None).fit(X, y).coef_.abs().round(1).to_dict()
    {'intercept': 0.0, 'size': 1.0, "peers' size": 0.0, "peers' outcome": 0.4}
    """

    network: Any = None
    peer_outcome: bool = True
    learned_until: Any = None
    effects: Sequence[str] = ("period",)
    cluster: str | tuple[str, ...] | None = "firm"
    n_bootstrap: int = 0
    random_state: int = 0
    codes: Sequence[str] = ()
    firm: str = "firm"
    period: str = "period"

    _parameter_constraints = PanelEstimator._parameter_constraints | {
        "peer_outcome": ["boolean"],
        "effects": [*COLUMNS],
        "cluster": [str, tuple, None],
        "n_bootstrap": [Interval(Integral, 0, 1_000_000, closed="both")],
    }
    _learns_network = False
    _isolates_get = "solved for, or the training mean where the network has no peer of theirs"

    @property
    def _signed(self) -> bool:
        return self.network_ is not None and self.network_.signed

    @property
    def reads_outcomes(self) -> bool:
        """Whether ``predict`` can take ``outcomes=``."""
        return self.network is not None and self.peer_outcome

    def summary(self) -> Table:
        """Return the estimates as a table in linearmodels' form."""
        check_is_fitted(self, "results_")
        table = self.results_.summary()
        if self.n_without_peers_:
            table = replace(table, footnotes=[*table.footnotes, self._without_peers()])
        return table

    # ------------------------------------------------------------------ rows

    def _groupings(self) -> tuple[str, ...]:
        return tuple(effect_codes(self.effects, LABELS))

    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> Encoded:
        if fitting:
            self._check_network(panel)
            self.design_ = Design.fit(panel, weight=weight, without=self._groupings())
            self.feature_names_ = self.design_.names
        return self.design_.transform(panel), panel.codes[list(self._groupings())].to_numpy(dtype=object)

    def _check_network(self, panel: Panel) -> None:
        if not set(effect_parts(self.cluster)) <= {"firm", "period"}:
            raise InputError(f'cluster must be of "firm" and "period", got {self.cluster!r}.')
        self.network_: PeerNetwork | None = None
        if self.network is None:
            return
        self.network_ = given_network(self.network, signed=True)
        if panel.firm is None:
            raise InputError(f"network: X carries no {self.firm!r}; index X by firm and period.")
        until = self.learned_until
        if until is None:
            until = self.network_.learned_until
        explained = None
        if panel.dated:
            explained = panel.period[np.isfinite(panel.y)].unique()
        check_not_learned(until, explained)
        if until is not None:
            why = "it is a generated regressor, whose error is not in the standard errors."
            warn_user(GeneratedRegressorWarning(f"network was learned from outcomes until {until}: {why}"))

    def _gate_call(self, X: PanelLike, outcomes: OutcomesLike) -> tuple[Panel, Iterator[CrossSection]]:
        if outcomes is not None and not self.reads_outcomes:
            raise InputError("outcomes= was given, but without network (or with peer_outcome=False) the model uses none.")
        panel, call = self._gate_rows(X, outcomes)
        return panel, self._within(panel, call, known=outcomes is not None)

    # ------------------------------------------------------------------ learning

    def _learn(self, training: Rows, panel: Panel) -> None:
        peers, gram = self._peers_of(training, panel)
        sample = np.isfinite(training.outcomes) & (training.counts > 0)
        self.n_without_peers_ = 0
        # an empty network is one without peers, whose characteristics have no slopes
        if self.network_ is not None and (self.peer_outcome or peers.some.any()):
            self.n_without_peers_ = int((sample & ~peers.some).sum())
            sample &= peers.some
        if not sample.any():
            raise InputError(f"network: no row of known outcome has a {self._peer()}. Check that its labels are those of X.")
        if self.n_without_peers_:
            warn_user(IsolateWarning(self._without_peers()))
        y = training.outcomes[sample]
        weight = training.counts[sample]
        labels = self._labels(training, panel.period)[sample]
        groups = self._groups(training, panel.period, peers.part)[sample]
        # an effect of the only period would be the constant once more
        if not panel.dated or labels["period"].nunique() == 1:
            groups = groups.drop(columns="period", errors="ignore")
        own = self._own_columns(training.x)[sample]
        of_peers = self._peer_columns(peers.x, peers.net)[sample]
        exogenous = own.join(of_peers)
        if len(groups.columns):  # their mean is the intercept
            exogenous = exogenous.drop(columns="intercept")
        clusters = None
        if self.cluster and panel.firm is not None:
            clusters = labels[list(effect_parts(self.cluster))]
        options: dict[str, Any] = {"n_bootstrap": self.n_bootstrap, "random_state": self.random_state}
        if self.network_ is not None and self.peer_outcome:
            self._check_identified(gram)
            names = [f"peers of peers' {name}" for name in self.feature_names_]
            options |= {"endogenous": peers.y[sample], "instruments": pd.DataFrame(peers.second_x[sample], columns=names)}
            of_peers = of_peers.assign(**{PEERS_OUTCOME: peers.y[sample]})
        self.results_ = two_stage(y, exogenous, weight=weight, effects=groups, clusters=clusters, **options)
        if "instruments" in options and not self.results_.instruments:
            why = "the characteristics of peers of peers are combinations of own and peers' characteristics"
            raise InputError(f"network: {why}: nothing is left to instrument the peers' outcome. Use peer_outcome=False.")
        self.coef_ = self.results_.params
        term = self._fitted(of_peers)
        self.mean_peer_term_ = float(np.average(term, weights=weight))
        self.intercept_ = 0.0
        self.effects_ = dict[str, pd.Series]()
        if len(groups.columns):
            self.intercept_, self.effects_ = estimated_effects(y - self._fitted(own) - term, groups, weight)

    def _peers_of(self, training: Rows, panel: Panel) -> tuple["_Peers", np.ndarray]:
        """Return what peers have in each training row, and the inner products of I, W and W²."""
        parts = []
        gram = np.zeros((3, 3))
        for section in self._within(panel, training, warn=False):
            rows = section.focal
            W = known = self._between(section.period, rows, rows)
            peers_y = np.zeros(len(rows))
            # characteristics of all firms count, outcomes only where they are known
            if self.peer_outcome:
                known = self._between(section.period, rows, section.peers)
                peers_y = known @ section.peers.outcomes
            peers_x = W @ rows.x
            part = self._part(section.period, rows.label)
            parts.append(_Peers(peers_x, W @ peers_x, peers_y, known.sum(axis=1), _some(known), part))
            gram += _gram(W)
        return _Peers(*map(np.concatenate, zip(*parts, strict=True))), gram

    def _own_columns(self, x: np.ndarray) -> pd.DataFrame:
        """Return a constant and own characteristics."""
        own = pd.DataFrame(x, columns=self.feature_names_).assign(intercept=1.0)
        return own[["intercept", *self.feature_names_]]

    def _peer_columns(self, peers_x: np.ndarray, net: np.ndarray) -> pd.DataFrame:
        """Return peers' characteristics; of a signed network the sum of their weights, too."""
        if self.network_ is None:
            return pd.DataFrame(index=range(len(peers_x)))
        found = pd.DataFrame(peers_x, columns=[f"peers' {name}" for name in self.feature_names_])
        # a level of all outcomes is in Wy as often as weights sum to: without this column ρ would depend on it
        return found.assign(**{NET_WEIGHT: net}) if self._signed else found

    def _fitted(self, columns: pd.DataFrame) -> np.ndarray:
        """Return the part of the equation that is of these columns; those that were dropped have no coefficient."""
        slopes = self.coef_[self.coef_.index.isin(columns.columns)]
        return (columns[slopes.index] @ slopes).to_numpy()

    def _peer(self) -> str:
        return "peer of known outcome" if self.peer_outcome else "peer"

    def _without_peers(self) -> str:
        return f"Not in the estimates: {self.n_without_peers_:,} rows of known outcome that have no {self._peer()}."

    @staticmethod
    def _labels(rows: Rows, period: pd.Index) -> pd.DataFrame:
        return pd.DataFrame({"firm": rows.label.to_numpy(), "period": period.to_numpy()})

    def _groups(self, rows: Rows, period: pd.Index, part: np.ndarray) -> pd.DataFrame:
        """Return the groups of the absorbed effects, one column each."""
        codes = dict(zip(self._groupings(), rows.codes.T, strict=True))
        return effect_labels(self.effects, {**self._labels(rows, period), "network": part} | codes)

    @staticmethod
    def _check_identified(gram: np.ndarray) -> None:
        # an eigenvalue of zero of the correlations of I, W and W² is a dependence among them
        size = np.sqrt(np.diag(gram))
        if (size == 0).any() or np.linalg.eigvalsh(gram / np.outer(size, size))[0] < SINGULAR:
            why = "I, W and W² are linearly dependent (no peers of peers, or groups of one size in which all are peers of all)"
            remedy = "so the effect of peers' outcomes is not identified. Use peer_outcome=False, or another network."
            raise InputError(f"network: {why}, {remedy}")

    def _between(self, period: LabelsLike, rows: Rows, peers: Rows) -> sparse.csr_array:
        """Return the network's weights of these rows on these peers, row-normalised, own firm left out."""
        if self.network_ is None or not len(peers):  # no outcome of the period is known
            return sparse.csr_array((len(rows), len(peers)))
        return others_weights(self.network_, period, rows.label, peers.label)

    def _part(self, period: LabelsLike, firms: pd.Index) -> np.ndarray:
        """Return the name of the connected part of a period's network that each firm is in: the part's first firm.

        A dated network's parts have its date in their names, for a part is of one network. A firm that is not in it is alone.
        """
        name = firms.to_numpy(dtype=object, copy=True)
        if self.network_ is None or "network" not in sum(effect_parts(self.effects).values(), ()):
            return name
        when, section = self.network_.section(network_period(self.network_, period))
        # of the whole network, not of the firms of this call: a name must mean the same part in each period and call
        labels = self.network_.labels
        i, j, _ = section.edges()
        links = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(len(labels), len(labels)))
        part = sparse.csgraph.connected_components(links, directed=False)[1]
        first = np.unique(part, return_index=True)[1]
        at = labels.get_indexer(firms)
        known = at >= 0
        name[known] = labels.to_numpy(dtype=object)[first[part[at[known]]]]
        if self.network_.is_dated:
            name = np.array([f"{each}{BY}{when}" for each in name], dtype=object)
        return name

    # ------------------------------------------------------------------ prediction

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        rows = section.focal
        W = self._between(section.period, rows, rows)
        some = _some(W)
        own = self.intercept_ + self._fitted(self._own_columns(rows.x))
        if self.effects_:
            part = self._part(section.period, rows.label)
            periods = pd.Index([section.period] * len(rows))
            groups = self._groups(rows, periods, part)
            check_effect_labels(self.effects_, groups, periods, self.learned_until_)
            own += known_effects(self.effects_, groups)
        peers_x = W @ rows.x
        beta = float(self.coef_.get(PEERS_OUTCOME, 0.0))
        # without a peer in the network: the mean of what peers added in training
        predicted = own + np.where(some, self._fitted(self._peer_columns(peers_x, W.sum(axis=1))), self.mean_peer_term_)
        if beta:
            # as if nobody's outcome were known: they are solved for together, ŷ = (I − ρW)⁻¹ own
            predicted = np.atleast_1d(spsolve(sparse.csc_array(sparse.eye_array(len(rows)) - beta * W), predicted))
        if PEERS_OUTCOME in self.coef_ and rows.y is not None:
            known = self._between(section.period, rows, section.peers)
            some = _some(known)
            of_peers = self._fitted(self._peer_columns(peers_x, known.sum(axis=1))) + beta * (known @ section.peers.outcomes)
            predicted = np.where(some, own + of_peers, predicted)
        return predicted, ~some & (self.network_ is not None)

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        return self._between(section.period, section.focal, section.peers)[rows].toarray()


class _Peers(NamedTuple):
    """What the peers of each row have: ``W x`` (n, p), ``W² x`` (n, p), ``W y`` (n,), and the sum of their weights (n,).

    ``some``: whether there is a peer (of known outcome, where outcomes are used); ``part``: its connected part of the network.
    """

    x: np.ndarray
    second_x: np.ndarray
    y: np.ndarray
    net: np.ndarray
    some: np.ndarray
    part: np.ndarray


def _some(W: sparse.csr_array) -> np.ndarray:
    """Return which rows put weight on any peer."""
    return np.asarray(abs(W).sum(axis=1)).reshape(-1) > 0


def _gram(W: sparse.csr_array) -> np.ndarray:
    """Return the inner products of I, W and W² as vectors of their entries."""
    parts = [sparse.csr_array(sparse.eye_array(W.shape[0])), W, sparse.csr_array(W @ W)]
    return np.array([[float(a.multiply(b).sum()) for b in parts] for a in parts])
