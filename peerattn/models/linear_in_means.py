"""The linear-in-means model of peer effects, for a given network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import spsolve
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import GeneratedRegressorWarning, InputError, warn_user
from peerattn.models.base import Encoded, PanelEstimator
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.given_network import check_not_learned, given_network, others_weights
from peerattn.models.learned import check_effect_labels
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.models.two_stage import PEERS_OUTCOME, two_stage
from peerattn.network import PeerNetwork
from peerattn.options import COLUMNS
from peerattn.panel.design import Design
from peerattn.panel.effects import effect_codes, effect_labels, effect_parts, estimated_effects, known_effects
from peerattn.panel.panel import Panel
from peerattn.render import Table
from peerattn.types import LabelsLike, OutcomesLike, PanelLike

SINGULAR = 1e-8
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
        ``"sic×period"``. A code that is absorbed is no characteristic. Without periods in X, or with one period only,
        ``"period"`` is one constant.
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
        Absorbed effects by firm, period, ..., their mean over the training rows zero; ``intercept_`` is that mean.

    Notes
    -----
    ``predict(X, outcomes=y)`` uses the peers' outcomes; ``predict(X)`` solves for them, ``ŷ = (I − ρW)⁻¹(a + Xβ + WXγ)``,
    over the rows of each period of the call. What was not in training gets the mean effect. Peers with unknown outcomes
    count in WX, not in Wy. Missing characteristics are filled and indicated. Estimates and standard errors are those of
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
    >>> W /= np.maximum(W.sum(axis=1, keepdims=True), 1.0)
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
        return self.results_.summary()

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
        parts = []
        gram = np.zeros((3, 3))
        for section in self._within(panel, training, warn=False):
            period = section.period
            rows = section.focal
            observed = section.peers
            W = self._between(period, rows, rows)
            peers_x = W @ rows.x
            # characteristics of all firms count, outcomes only where they are known
            peers_y = self._between(period, rows, observed) @ observed.y
            parts.append((peers_x, W @ peers_x, peers_y, sparse.csgraph.connected_components(W)[1]))
            gram += _gram(W)
        peers_x, second_x, peers_y, part = (np.concatenate(column) for column in zip(*parts))
        known = np.isfinite(training.outcomes) & (training.counts > 0)
        y = training.outcomes[known]
        weight = training.counts[known]
        labels = self._labels(training, panel.period)[known]
        groups = self._groups(training, panel.period, part)[known]
        # an effect of the only period would be the constant once more
        if not panel.dated or labels["period"].nunique() == 1:
            groups = groups.drop(columns="period", errors="ignore")
        regressors = exogenous = self._regressors(training.x, peers_x)[known]
        if len(groups.columns):  # their mean is the intercept
            exogenous = regressors.drop(columns="intercept")
        clusters = None
        if self.cluster and panel.firm is not None:
            clusters = labels[list(effect_parts(self.cluster))]
        options: dict[str, Any] = {"n_bootstrap": self.n_bootstrap, "random_state": self.random_state}
        if self.network_ is not None and self.peer_outcome:
            self._check_identified(gram)
            second = pd.DataFrame(second_x[known], columns=[f"peers of peers' {name}" for name in self.feature_names_])
            options |= {"endogenous": peers_y[known], "instruments": second}
        self.results_ = two_stage(y, exogenous, weight=weight, effects=groups, clusters=clusters, **options)
        if "instruments" in options and not self.results_.instruments:
            why = "the characteristics of peers of peers are combinations of own and peers' characteristics"
            raise InputError(f"network: {why}: nothing is left to instrument the peers' outcome. Use peer_outcome=False.")
        self.coef_ = self.results_.params
        self.intercept_ = 0.0
        self.effects_ = dict[str, pd.Series]()
        if len(groups.columns):
            fitted = regressors.assign(**{PEERS_OUTCOME: peers_y[known]})[self.coef_.index] @ self.coef_
            self.intercept_, self.effects_ = estimated_effects(y - fitted.to_numpy(), groups, weight)

    def _regressors(self, x: np.ndarray, peers_x: np.ndarray) -> pd.DataFrame:
        """Return a constant, own characteristics and those of peers."""
        own = pd.DataFrame(x, columns=self.feature_names_).assign(intercept=1.0)
        columns = ["intercept", *self.feature_names_]
        if self.network_ is None:
            return own[columns]
        names = [f"peers' {name}" for name in self.feature_names_]
        return own[columns].join(pd.DataFrame(peers_x, columns=names))

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

    # ------------------------------------------------------------------ prediction

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        rows = section.focal
        W = self._between(section.period, rows, rows)
        slopes = self.coef_.drop(PEERS_OUTCOME, errors="ignore")
        own = self.intercept_ + (self._regressors(rows.x, W @ rows.x)[slopes.index] @ slopes).to_numpy()
        if self.effects_:
            part = sparse.csgraph.connected_components(W)[1]
            groups = self._groups(rows, pd.Index([section.period] * len(rows)), part)
            check_effect_labels(self.effects_, groups)
            own += known_effects(self.effects_, groups)
        beta = float(self.coef_.get(PEERS_OUTCOME, 0.0))
        if PEERS_OUTCOME in self.coef_ and rows.y is not None:
            W = self._between(section.period, rows, section.peers)
            own = own + beta * (W @ section.peers.y)
        elif beta:
            # nobody's outcome is known: they are solved for together, ŷ = (I − ρW)⁻¹ own
            own = np.atleast_1d(spsolve(sparse.csc_array(sparse.eye_array(len(rows)) - beta * W), own))
        standalone = np.asarray(abs(W).sum(axis=1)).reshape(-1) == 0
        return own, standalone & (self.network_ is not None)

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        return self._between(section.period, section.focal, section.peers)[rows].toarray()


def _gram(W: sparse.csr_array) -> np.ndarray:
    """Return the inner products of I, W and W² as vectors of their entries."""
    parts = [sparse.csr_array(sparse.eye_array(W.shape[0])), W, sparse.csr_array(W @ W)]
    return np.array([[float(a.multiply(b).sum()) for b in parts] for a in parts])
