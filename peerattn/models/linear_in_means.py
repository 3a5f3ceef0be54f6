"""The linear-in-means model of peer effects, for a given network."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import lsqr, spsolve

from peerattn.exceptions import GeneratedRegressorWarning, InputError
from peerattn.models.base import PeerRegressor
from peerattn.models.given_network import given_network, network_weights, row_normalised
from peerattn.models.pools import Rows, Section
from peerattn.models.two_stage import TwoStage, describe, two_stage
from peerattn.network import PeerNetwork
from peerattn.panel.design import Design
from peerattn.panel.labels import within_or_before
from peerattn.panel.panel import Panel

LEARNED = ("PeerAttention",)  # networks named so were learned from outcomes
SINGULAR = 1e-8
PEERS_OUTCOME = "peers' outcome"


@dataclass(eq=False, repr=False, kw_only=True)
class LinearInMeansRegressor(PeerRegressor):
    """Own characteristics, peers' mean characteristics and peers' mean outcome, estimated by two-stage least squares.

    ``y_it = a_t + x_it'γ + (Wx)_it'δ + β (Wy)_it + e_it`` with W the row-normalised network, own firm left out, and an effect
    of each period, so that a shock common to all firms is not mistaken for an effect of peers. Peers' outcomes depend on y_it
    in turn (Manski's reflection problem), so ``Wy`` is instrumented by the characteristics of peers of peers, ``W²x``. That
    identifies β where I, W and W² are linearly independent (Bramoullé, Djebbari and Fortin 2009): not in groups of one size in
    which all are peers of all, which are refused.

    Parameters
    ----------
    network : PeerNetwork, DataFrame or dict of DataFrame, optional
        Weights, not negative; for a period the latest cross-section up to it is used. None: no peers, ordinary least squares
        on own characteristics.
    peer_outcome : bool, default True
        Whether the peers' outcome is a regressor; False: own and peers' characteristics, by least squares.
    learned_until : period label, optional
        Last period whose outcomes the network was learned from, to its end (``"2000-06"``: all of June); None = it was not
        learned from outcomes. A network learned from outcomes that are explained here is refused: it was chosen to fit them.
    effects : sequence of {"firm", "period"}, default ("period",)
        Effects that are absorbed, by ``pyhdfe``. Without periods in X, or with one period only, there is one constant.
    cluster : {"firm", "period", ("firm", "period"), None}, default "firm"
        Standard errors allow dependence within firms, periods or both; None: heteroskedasticity alone. With G clusters t has
        G − 1 degrees of freedom.
    codes : sequence of str
        Columns that are codes (besides those of dtype category or string): one dummy a level.
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    results_ : TwoStage
        Estimates, standard errors, first-stage F.
    coef_ : Series
        Coefficients by regressor.
    effects_ : dict of str to Series
        Absorbed effects by firm or period, their mean over the training rows zero; ``intercept_`` is that mean.

    Notes
    -----
    ``predict(X, outcomes=y)`` uses the peers' outcomes; ``predict(X)`` solves for them, ``ŷ = (I − βW)⁻¹(a + Xγ + WXδ)``,
    over the rows of each period of the call. A period or firm that was not in training gets the mean effect. Peers with unknown
    outcomes count in WX, not in Wy. Missing characteristics are filled and indicated. Estimates are those of ``linearmodels``
    (``IV2SLS``); weights are frequency weights in the estimates, while standard errors count a row once. A network learned from
    earlier outcomes is a generated regressor: its sampling error is not in the standard errors, and a warning says so. β is a
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
    codes: Sequence[str] = ()
    firm: str = "firm"
    period: str = "period"

    @property
    def reads_outcomes(self) -> bool:
        """Whether ``predict`` can take ``outcomes=``."""
        return self.network is not None and self.peer_outcome

    def summary(self) -> Any:
        """Return the estimates as a table in statsmodels' form."""
        return self.results_.summary()

    # ------------------------------------------------------------------ rows

    def _code_columns(self) -> tuple[str, ...]:
        return tuple(self.codes)

    def _encode(
        self, panel: Panel, weight: np.ndarray | None, *, fitting: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        if fitting:
            self._check_network(panel)
            self.design_ = Design.fit(panel, weight=weight)
            self.feature_names_ = self.design_.names
        return self.design_.transform(panel), np.empty((len(panel), 0))

    def _check_network(self, panel: Panel) -> None:
        for name, given in {"cluster": _names(self.cluster), "effects": _names(self.effects)}.items():
            if not set(given) <= {"firm", "period"}:
                raise InputError(f'{name} must be of "firm" and "period", got {getattr(self, name)!r}.')
        self.network_: PeerNetwork | None = None
        if self.network is None:
            return
        self.network_ = given_network(self.network)
        if panel.firm is None:
            raise InputError(
                f"network: X carries no {self.firm!r} to find a row in it; index X by firm and period."
            )
        if self.learned_until is None:
            if self.network_.name.startswith(LEARNED):
                raise InputError(
                    f"network was learned by {self.network_.name}: say with learned_until= the last period whose outcomes it "
                    "was fitted on, and explain later ones."
                )
        elif panel.dated:
            explained = panel.period if panel.outcomes is None else panel.period[np.isfinite(panel.outcomes)]
            if within_or_before(explained.unique(), self.learned_until).any():
                raise InputError(
                    f"network was learned from outcomes until {self.learned_until}, and outcomes from {explained.min()} are "
                    "explained: it was chosen for fitting them. Fit on later periods, or learn it on earlier ones."
                )
            warnings.warn(
                GeneratedRegressorWarning(
                    f"network was learned from outcomes until {self.learned_until}: it is a generated regressor, whose error is "
                    "not in the standard errors."
                ),
                stacklevel=5,
            )

    def _gate_call(self, X: Any, outcomes: Any) -> tuple[Panel, Iterator[Section]]:
        if outcomes is not None and not self.reads_outcomes:
            raise InputError(
                "outcomes= was given, but without network (or with peer_outcome=False) the model reads none."
            )
        panel, call = self._gate_rows(X, outcomes)
        self._warn_of_lost_periods(panel)
        return panel, self._within(panel, call, known=outcomes is not None)

    # ------------------------------------------------------------------ learning

    def _learn(self, training: Rows, panel: Panel) -> None:
        blocks, gram, period_of = [], np.zeros((3, 3)), np.empty(len(training), dtype=int)
        assert training.y is not None
        for number, (period, at) in enumerate(panel.cross_sections()):
            period_of[at] = number
            rows = training.take(at)
            W = self._square(period if panel.dated else None, rows)
            blocks.append(self._regressors(rows, W, self._known(period if panel.dated else None, rows)))
            gram += _gram(W) if self.network_ is not None else 0.0
        x, peers_x, second_x, peers_y = (np.concatenate([block[k] for block in blocks]) for k in range(4))
        known = np.isfinite(training.y) & (True if training.weight is None else training.weight > 0)
        labels = pd.DataFrame({"firm": training.identity, "period": period_of})
        several = panel.dated and period_of[known].min(initial=0) < period_of[known].max(initial=0)
        absorbed = list(_names(self.effects)) if several else []
        columns, values = [*self.feature_names_], [x]
        if not absorbed:
            columns, values = ["intercept", *columns], [np.ones((len(x), 1)), x]
        if self.network_ is not None:
            columns += describe(self.feature_names_, "peers'")
            values.append(peers_x)
        second = pd.DataFrame(second_x[known], columns=describe(self.feature_names_, "peers of peers'"))
        instrumented = self.network_ is not None and self.peer_outcome
        if instrumented:
            self._check_identified(gram)
        clustered = list(_names(self.cluster)) if panel.firm is not None else []
        regressors = pd.DataFrame(np.concatenate(values, axis=1)[known], columns=columns)
        weight = None if training.weight is None else training.weight[known]
        self.results_: TwoStage = two_stage(
            training.y[known],
            regressors,
            peers_y[known] if instrumented else None,
            second if instrumented else None,
            weight=weight,
            effects=labels.loc[known, absorbed] if absorbed else None,
            clusters=labels.loc[known, clustered] if clustered else None,
            endogenous_name=PEERS_OUTCOME,
        )
        if instrumented and not self.results_.instruments:
            raise InputError(
                "network: the characteristics of peers of peers are combinations of own and peers' characteristics: nothing is "
                "left to instrument the peers' outcome. Use peer_outcome=False."
            )
        self.coef_ = self.results_.params
        fitted = regressors.assign(**{PEERS_OUTCOME: peers_y[known]})[self.coef_.index] @ self.coef_
        names = {"firm": training.label, "period": panel.period}
        found = effects_of(training.y[known] - fitted.to_numpy(), labels.loc[known, absorbed], weight)
        self.intercept_ = found.pop("", 0.0)
        self.effects_ = {
            name: pd.Series(
                values, index=names[name][known][np.unique(labels.loc[known, name], return_index=True)[1]]
            )
            for name, values in found.items()
        }

    @staticmethod
    def _check_identified(gram: np.ndarray) -> None:
        size = np.sqrt(np.diag(gram))
        if (size == 0).any() or np.linalg.eigvalsh(gram / np.outer(size, size))[0] < SINGULAR:
            raise InputError(
                "network: I, W and W² are linearly dependent (no peers of peers, or groups of one size in which all are peers of "
                "all), so the effect of peers' outcomes is not identified. Use peer_outcome=False, or another network."
            )

    def _square(self, period: Any, rows: Rows) -> sparse.csr_array:
        """Return the network among these rows, row-normalised, own firm left out."""
        return self._between(period, rows, rows)

    def _known(self, period: Any, rows: Rows) -> tuple[sparse.csr_array, np.ndarray] | None:
        """Return the network from all rows to those of known outcome, and these outcomes."""
        if self.network_ is None or rows.y is None:
            return None
        known = rows.known()
        assert known.y is not None
        return self._between(period, rows, known), known.y

    def _between(self, period: Any, rows: Rows, peers: Rows) -> sparse.csr_array:
        if self.network_ is None:
            return sparse.csr_array((len(rows), len(peers)))
        W = network_weights(self.network_, period, rows.label, peers.label).tocoo()
        row, column = W.coords
        others = rows.label[row] != peers.label[column]
        return row_normalised(
            sparse.csr_array((W.data[others], (row[others], column[others])), shape=W.shape)
        )

    @staticmethod
    def _regressors(
        rows: Rows, W: sparse.csr_array, known: tuple[sparse.csr_array, np.ndarray] | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return x, Wx, W²x and Wy."""
        peers = W @ rows.x
        return rows.x, peers, W @ peers, np.zeros(len(rows)) if known is None else known[0] @ known[1]

    # ------------------------------------------------------------------ prediction

    def _attend(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        rows = section.focal
        W = self._square(section.period, rows)
        named = {"intercept": np.ones(len(rows))}
        known = {"firm": rows.label, "period": pd.Index([section.period] * len(rows))}
        named |= dict(zip(self.feature_names_, rows.x.T, strict=True))
        named |= dict(zip(describe(self.feature_names_, "peers'"), (W @ rows.x).T, strict=True))
        own = np.full(len(rows), self.intercept_)
        own += sum(value * named[name] for name, value in self.coef_.items() if name in named)
        for name, effect in self.effects_.items():
            own += effect.reindex(known[name]).fillna(0.0).to_numpy()
        nobody = np.zeros(len(rows), dtype=bool)
        if self.network_ is None:
            return own, nobody
        alone = np.asarray(W.sum(axis=1)).reshape(-1) == 0
        if PEERS_OUTCOME not in self.coef_.index:
            return own, alone
        beta = float(self.coef_[PEERS_OUTCOME])
        if rows.y is None:
            return np.atleast_1d(
                spsolve(sparse.csc_array(sparse.eye_array(len(rows)) - beta * W), own)
            ), alone
        among, outcomes = self._between(section.period, rows, section.peers), section.peers.y
        return own + beta * (among @ outcomes), np.asarray(among.sum(axis=1)).reshape(-1) == 0

    def _weights(self, section: Section, rows: slice) -> np.ndarray:
        return self._between(section.period, section.focal, section.peers)[rows].toarray()


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def effects_of(rest: np.ndarray, groups: pd.DataFrame, weight: np.ndarray | None) -> dict[str, Any]:
    """Return the effects of groups by least squares, each with mean zero over the rows; under "" the mean itself.

    >>> effects_of(np.array([1.0, 3.0, 5.0]), pd.DataFrame({"firm": [0, 0, 4]}), None)
    {'': 3.0, 'firm': array([-1.,  2.])}
    """
    if not groups.shape[1]:
        return {}
    root = np.ones(len(rest)) if weight is None else np.sqrt(weight)
    mean, place = float(np.average(rest, weights=root**2)), np.arange(len(rest))
    codes = [np.unique(groups[name], return_inverse=True)[1] for name in groups]
    dummies = sparse.hstack([sparse.csr_array((root, (place, code))) for code in codes]).tocsr()
    found = lsqr(dummies, root * (rest - mean), atol=1e-14, btol=1e-14, iter_lim=10_000)[0]
    ends = np.cumsum([code.max() + 1 for code in codes])[:-1]
    parts = dict(zip(map(str, groups), np.split(found, ends), strict=True))
    for name, code in zip(parts, codes, strict=True):
        level = float(np.average(parts[name][code], weights=root**2))
        parts[name] = parts[name] - level
        mean += level
    return {"": mean, **parts}


def _gram(W: sparse.csr_array) -> np.ndarray:
    """Return the inner products of I, W and W² as vectors of their entries."""
    second = sparse.csr_array(W @ W)
    parts = [sparse.csr_array(sparse.eye_array(W.shape[0])), W, second]
    return np.array([[float(a.multiply(b).sum()) for b in parts] for a in parts])
