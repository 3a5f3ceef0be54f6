"""Cross-sectional ridge: linear attention from characteristics and codes to the other firms' outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError
from peerattn.models.base import PanelEstimator
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.panel.design import one_hot
from peerattn.panel.panel import Panel
from peerattn.training import one_thread
from peerattn.types import PanelLike

LEAVE_ONE_OUT = "leave_one_out"
ALPHAS = np.logspace(-1, 4, 11)  # tried by leave-one-out
FIRMS_TRIED = 300  # firms left out in turn to choose the penalty of the pooled regression


@dataclass(eq=False, repr=False, kw_only=True)
class CrossSectionalRidge(PanelRegressorMixin, PanelEstimator):
    """Ridge regression across the firms of a period, each firm predicted from all the others.

    ``ŷ_i = Σ_{j≠i} w_ij y_j`` with ``w_ij = H_ij / (1 − H_ii)``, ``H = Z (Z'Z + λ D)⁻¹ Z'``: Z holds one, the scaled
    characteristics and one column a code level; D is the identity with a zero for the one. This is linear attention,
    ``w_ij ∝ z_i (Z'Z + λ D)⁻¹ z_j'``, and ``ŷ_i`` equals the ridge fitted without firm i exactly. As λ grows, weights times λ
    approach the inner products ``z_i z_j'`` of centred characteristics themselves (beside the mean's 1/n).

    Parameters
    ----------
    alpha : "leave_one_out" or float, default "leave_one_out"
        The penalty λ, in squared units of the scaled characteristics. "leave_one_out": of eleven values from 0.1 to 10,000 the
        one with the least leave-one-out error over the training periods.
    scale : {"standard", "rank", None}, default "standard"
        Scale of the characteristics: training mean and standard deviation; ranks within the cross-section; as they come.
    codes : sequence of str, default ()
        Columns that are codes (besides those of dtype category or string). One penalised column a training level; an unknown
        or unseen level has none.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    within_alpha_ : float
        λ of ``predict(X, outcomes=y)``, a regression within each cross-section.
    alpha_ : float
        λ of ``predict(X)``, one regression over the training rows.
    alpha_path_ : DataFrame or None
        Mean squared leave-one-out error of each value tried, ``within`` cross-sections and ``pooled``.
    coef_ : ndarray (q,)
        Coefficients of the pooled regression: one, characteristics, code levels (names in ``feature_names_``).

    Notes
    -----
    ``predict(X, outcomes=y)`` regresses within each period of the call, own outcome left out; ``predict(X)`` over the
    training rows of all periods, the firm's own past among them: a forecast (its λ is chosen by leaving out firms, at most 300
    of them, evenly spaced). The network is signed: rows sum to one,
    because the intercept is not penalised, but a weight may be negative. Predictions within a period cost O(n² p) by rows in
    chunks, the choice of λ O(n p²). Missing characteristics are filled and indicated. A firm without any other known outcome in
    its period gets the training mean.

    References
    ----------
    Hoerl, A. E. and Kennard, R. W. (1970), Ridge regression, Technometrics 12(1).
    Katharopoulos, A. et al. (2020), Transformers are RNNs: fast autoregressive transformers with linear attention, ICML.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"firm": list("ABCD"), "period": 2001, "size": [1.0, 2.0, 3.0, 4.0]})
    >>> y = [1.0, 2.0, 3.0, 4.0]
    >>> model = CrossSectionalRidge(alpha=0.1).fit(X, y)
    >>> model.predict(X, outcomes=y).round(2).tolist()
    [1.12, 2.02, 2.98, 3.88]
    >>> model.peer_network(X, outcomes=y).matrix().round(2).loc["A"].tolist()
    [0.0, 1.27, 0.33, -0.61]
    """

    alpha: str | float = LEAVE_ONE_OUT
    scale: str | None = "standard"
    codes: Sequence[str] = ()
    firm: str = "firm"
    period: str = "period"

    _parameter_constraints = PanelEstimator._parameter_constraints | {
        "alpha": [StrOptions({LEAVE_ONE_OUT}), Interval(Real, 0, None, closed="neither")]
    }
    _isolates_get = "the training mean"
    _signed = True

    def _learn(self, training: Rows, panel: Panel) -> None:
        rows = self._keep_known(training)
        if rows.weight is not None and rows.weight.sum() <= 1:
            total = rows.weight.sum()
            raise InputError(f"sample_weight: frequency weights count rows, but they sum to {total:g}.")
        self.feature_names_ = ["intercept", *self.design_.names]
        sections = [training.take(at).known() for _, at in panel.cross_sections()]
        self.n_cross_sections_ = len(sections)
        self._choose_alpha(rows, sections)
        self.gram_, moment = self._moments(rows)
        self.coef_ = cho_solve(self._factor(self.gram_, self.alpha_), moment)

    # ------------------------------------------------------------------ the penalty

    def _choose_alpha(self, known: Rows, sections: list[Rows]) -> None:
        self.alpha_path_ = None
        if self.alpha != LEAVE_ONE_OUT:
            self.within_alpha_ = self.alpha_ = float(self.alpha)
            return
        several = [rows for rows in sections if rows.counts.sum() > 1]
        found = [leave_one_out_errors(self._design(r)[:, 1:], r.y, r.counts) for r in several]
        path = pd.DataFrame(np.nan, pd.Index(ALPHAS, name="alpha"), ["within", "pooled"])
        if found:
            path["within"] = sum(total for total, _ in found) / sum(n for _, n in found)
        if self.firm_label_:
            path["pooled"] = self._leave_firm_out(known)
        # where one of them cannot be computed, the other takes its place
        self.alpha_path_ = path.bfill(axis=1).ffill(axis=1)
        self.within_alpha_, self.alpha_ = (float(each) for each in self.alpha_path_.idxmin())

    def _leave_firm_out(self, rows: Rows) -> np.ndarray:
        """Return the mean squared leave-firm-out error of the pooled regression for each penalty."""
        groups = [*pd.Series(rows.identity).groupby(rows.identity).indices.values()]
        # of many firms every k-th: the penalty hardly depends on which
        groups = groups[:: -(-len(groups) // FIRMS_TRIED)]
        if len(groups) < 2:
            return np.zeros(len(ALPHAS))
        gram, moment = self._moments(rows)
        tried = rows.take(np.concatenate(groups))
        F = self._design(tried)
        outcomes = rows.outcomes[np.concatenate(groups)] - self.mean_
        firms = np.split(np.arange(len(tried)), np.cumsum([len(group) for group in groups])[:-1])
        losses = []
        for alpha in ALPHAS:
            factor = self._factor(gram, alpha)
            left = outcomes - F @ cho_solve(factor, moment)
            solved = cho_solve(factor, F.T)  # of all firms at once
            errors = [_errors_without(F[at] @ solved[:, at] * tried.counts[at], left[at]) for at in firms]
            losses.append(np.concatenate(errors) ** 2)
        return np.average(losses, axis=1, weights=tried.counts)

    # ------------------------------------------------------------------ the regression

    def _design(self, rows: Rows) -> np.ndarray:
        """Return Z: one, characteristics, one column a code level, (n, q)."""
        return np.column_stack([np.ones(len(rows)), rows.x, one_hot(rows.codes, self.design_.levels)])

    def _moments(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return Z'SZ and Z'S(y − ȳ), S the frequency weights."""
        Z = self._design(rows)
        S = Z * rows.counts[:, None]
        return S.T @ Z, S.T @ (rows.outcomes - self.mean_)

    @staticmethod
    def _factor(gram: np.ndarray, alpha: float) -> Any:
        """Return the Cholesky factor of A = Z'SZ + λD."""
        return cho_factor(gram + np.diag(np.r_[0.0, np.full(len(gram) - 1, alpha)]))

    # ------------------------------------------------------------------ prediction

    @one_thread()
    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        if not section.within:  # one regression over the training rows predicts every row
            return self.mean_ + self._design(section.focal) @ self.coef_, np.zeros(len(section.focal), dtype=bool)
        predicted = np.empty(len(section.focal))
        isolated = np.empty(len(section.focal), dtype=bool)
        directions = self._directions(section)
        y = section.peers.outcomes - self.mean_  # solved once for all rows
        for rows in section.chunks():
            predicted[rows] = self.mean_ + self._row_weights(section, rows, directions[rows]) @ y
            isolated[rows] = ~section.admissible(rows).any(axis=1)
        return predicted, isolated

    def search_profile(self, X: PanelLike = None) -> SearchProfile:
        """Return ``M = (Z'Z + λ D)⁻¹`` of an average training period, times its number of firms: scores are ``z_i M z_j'``.

        ``X`` as in :meth:`PeerAttentionRegressor.search_profile`.
        """
        check_is_fitted(self)
        n = self.gram_[0, 0] / self.n_cross_sections_
        penalty = np.diag(np.r_[0.0, np.full(len(self.gram_) - 1, self.within_alpha_)])
        M = n * np.linalg.pinv(self.gram_ / self.n_cross_sections_ + penalty)
        names = self.design_.number_names
        of_numbers = slice(1, len(names) + 1)  # after the constant
        observed = list(map(str, self.design_.characteristics))
        return SearchProfile.of_rule(M[of_numbers, of_numbers], names, observed).with_firms(self, X)

    @one_thread()
    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        return self._row_weights(section, rows, self._directions(section)[rows])

    def _row_weights(self, section: CrossSection, rows: slice, directions: np.ndarray) -> np.ndarray:
        Z = self._design(section.peers) * section.peers.counts[:, None]
        return np.where(section.admissible(rows), directions @ Z.T, 0.0)

    def _directions(self, section: CrossSection) -> np.ndarray:
        """Return u_i such that an admissible peer j has weight ``u_i'z_j s_j``, (n_focal, q).

        Within a cross-section, the own row left out, it is ``A⁻¹z_i / (1 − h_ii)`` (Sherman and Morrison).
        """
        Z = self._design(section.focal)
        if section.within:
            if not len(section.peers):
                return np.zeros_like(Z)
            factor = self._factor(self._moments(section.peers)[0], self.within_alpha_)
            u = cho_solve(factor, Z.T).T
            known = np.isin(section.focal.identity, section.peers.identity) & (len(section.peers) > 1)
            return u / (1 - np.where(known, (u * Z).sum(axis=1), 0.0))[:, None]
        return cho_solve(self._factor(self.gram_, self.alpha_), Z.T).T


def leave_one_out_errors(Z: np.ndarray, y: Any, weight: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Return the sum of squared leave-one-out errors of a ridge regression for each of ``ALPHAS``, and the number of rows.

    With ``Z_c'S Z_c = Q Λ Q'`` and ``V = Z_c Q``: ``ŷ = ȳ + V (Λ + λ)⁻¹ V'S(y − ȳ)``, ``h_ii = 1/n + Σ_k V_ik² / (Λ_k + λ)``.
    """
    Z = Z[:, Z.any(axis=0)]
    s = np.ones(len(y)) if weight is None else weight
    n = s.sum()
    Z = Z - s @ Z / n
    y = y - s @ y / n
    eigenvalues, Q = np.linalg.eigh(Z.T @ (Z * s[:, None]))
    V = Z @ Q
    shrink = 1 / (np.maximum(eigenvalues, 0.0)[:, None] + ALPHAS)  # (q, 11)
    error = y[:, None] - V @ (shrink * (V.T @ (s * y))[:, None])
    error /= 1 - 1 / n - V**2 @ shrink
    return s @ error**2, float(n)


def _errors_without(influence: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return the errors of some rows F without which is learned: ``e = (I − F A⁻¹F'S)⁻¹ (y − Fβ)``."""
    left = np.eye(len(errors)) - influence
    try:
        return np.linalg.solve(left, errors)
    except np.linalg.LinAlgError:  # nothing else predicts these rows
        return np.linalg.lstsq(left, errors, rcond=None)[0]
