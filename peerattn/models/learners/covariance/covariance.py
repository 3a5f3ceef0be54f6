"""Outcomes of one period predicted from the other firms' by the exact leave-one-out of a learned covariance."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows, sums_of_others
from peerattn.models.learners.covariance.kernel import SPARE, Features, Parameters, inverse, noise, ranked, shared
from peerattn.models.learners.linear import Bounds
from peerattn.models.learners.past_outcomes import History
from peerattn.models.learners.protocol import OfRows

EXACT = 5000  # known firms beyond which all covariances go through inducing firms
INDUCING = 2000


@dataclass(frozen=True)
class Covariance:
    r"""A learned covariance of the outcomes of a period, and the predictions it gives.

    The equation is that of :class:`~peerattn.models.CovariancePeerRegressor`; m is
    :class:`~peerattn.models.learners.past_outcomes.History`. Firm i is predicted from the others,
    :math:`\hat y_i = y_i - (K^{-1} y)_i / (K^{-1})_{ii}`. Where several rows have one identity, all of them are left out.

    Attributes
    ----------
    parameters : dict of ndarray
        Logarithms of variances and of inverse lengths (``level`` v, ``near`` w and ``past`` u (1 + C,), ``past_near`` q,
        ``past_squared`` h); ``low_rank`` A (p, 6), ``scale`` η (p,), ``noise`` γ (p,), and ``emphasis`` δ.
    bounds : Bounds
        How far the linear kernel is extrapolated.
    reads_past : bool
        Whether the firms' past, ``section.past``, is used.
    of_outcomes : bool
        Whether y are the outcomes themselves, so that a prediction takes the place of the own model's, rather than what own
        models leave of them: a ridge regression across firms, of a level, characteristics and codes alone.

    References
    ----------
    Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian Processes for Machine Learning. MIT Press, section 5.4.2.
    """

    parameters: dict[str, np.ndarray]
    bounds: Bounds
    reads_past: bool = False
    of_outcomes: bool = False

    def solved(self, section: CrossSection, dtype: torch.dtype = torch.float64) -> "Solved":
        """Return the cross-section with its covariance inverted, for several calls; of its past only what is earlier is read."""
        parameters = {name: torch.as_tensor(value, dtype=dtype) for name, value in self.parameters.items()}
        focal, peers = (replace(rows, x=self.bounds.clip(rows.x)) for rows in (section.focal, section.peers))
        bounded = replace(section, focal=focal, peers=peers)
        known = section.known_peers()
        history = section.past if self.reads_past else None
        firms = features(peers.take(known), bounded, history, dtype)
        invert = _Inverse.linear if self.of_outcomes else _Inverse.of
        mine = features(focal, bounded, history, dtype)
        return Solved(parameters, bounded, mine, known, firms, invert(parameters, firms))

    def predict(self, sections: Sequence[CrossSection], dtype: torch.dtype = torch.float64) -> list[np.ndarray]:
        """Return the prediction of every focal firm, (n_focal, 1) a cross-section: its linear own part and what others add."""
        if self.of_outcomes:
            dtype = torch.float64  # a flat level is too large beside the noise
        predicted = []
        for section in sections:
            found = self.solved(section, dtype).predict(self.observed(section).peers.outcomes)[:, None]
            predicted.append(found if self.of_outcomes else section.own_term + found)
        return predicted

    def observed(self, section: CrossSection) -> CrossSection:
        """Return what the covariance reads: outcomes, or what own models leave of them."""
        return with_outcomes(section) if self.of_outcomes else section

    def derivative(self, section: CrossSection) -> OfRows:
        """Return what gives the derivative of predictions by the peers' outcomes: the weights, of one inverse for all rows."""
        return self.solved(section).weights


@dataclass(frozen=True)
class _Inverse:
    """The inverse covariance of n firms: P itself, or ``P = D⁻¹ − EE'`` of a covariance ``U U' + D`` with U of m columns."""

    P: Tensor | None
    precision: Tensor  # (n,), D⁻¹
    E: Tensor  # (n, m)

    @classmethod
    def of(cls, parameters: Parameters, firms: Features) -> Self:
        """Invert all covariances; of very many firms, those that go through m inducing firms.

        These are every (n/m)-th in the order of noise: ``U U' = K_nm K_mm⁻¹ K_mn``; D is the noise and what this leaves out of
        each firm's own variance (Snelson and Ghahramani 2006).
        """
        own = noise(parameters, firms)[0]
        if len(own) <= EXACT:
            P = inverse(shared(parameters, firms, firms)[0] + own.diag())
            return cls(P, own, own[:, None])
        chosen = own.argsort(stable=True)[torch.linspace(0, len(own) - 1, INDUCING).long()]
        K = shared(parameters, firms, firms.take(chosen))[0]
        # of Nyström: K_nm K_mm⁻¹ K_mn by the root of K_mm, to which a little is added as its rows are nearly dependent
        core = torch.linalg.cholesky(K[chosen] + SPARE * torch.eye(INDUCING, dtype=K.dtype))
        U = torch.linalg.solve_triangular(core, K.mT, upper=False).mT
        standalone = firms.standalone()
        D = own + shared(parameters, standalone, standalone).flatten()
        return cls.low_rank(U, torch.maximum(D - (U**2).sum(1), own))

    @classmethod
    def linear(cls, parameters: Parameters, firms: Features) -> Self:
        """A level, characteristics and codes alone: U has a column for each (a ridge regression's)."""
        of_level, slope = (parameters[name].exp().sqrt() for name in ("level", "slope"))
        columns = [of_level[0].expand(len(firms.z[0]), 1), firms.z[0] * slope]
        for root, codes in zip(of_level[1:], firms.codes[0].unbind(-1), strict=True):
            levels = codes.unique()
            columns.append((codes[:, None] == levels[levels > 0]) * root)
        return cls.low_rank(torch.cat(columns, dim=1), noise(parameters, firms)[0])

    @classmethod
    def low_rank(cls, U: Tensor, D: Tensor) -> Self:
        """Return the inverse of ``U U' + D``, O(n m²)."""
        scaled = (U / D[:, None]).mT
        root = torch.linalg.cholesky(scaled @ U + torch.eye(U.shape[1], dtype=U.dtype))
        return cls(None, 1 / D, torch.linalg.solve_triangular(root, scaled, upper=False).mT)

    def rows(self, at: Any) -> Tensor:
        """Return these rows of P."""
        if self.P is not None:
            return self.P[at]
        P = -self.E[at] @ self.E.mT
        P[torch.arange(len(P)), at] += self.precision[at]
        return P

    def leave_one_out(self, y: Tensor) -> Tensor:
        """Return what the others predict of each firm, ``y_i − (P y)_i / P_ii``, (n,); its own outcome changes no bit.

        It is multiplied by zero, or is not in the sum over the others.
        """
        if self.P is None:
            found = torch.zeros_like(y)
            together = np.zeros(len(y), dtype=int)
            for E in self.E.split(64, dim=1):  # no second matrix of the size of E
                others = torch.as_tensor(sums_of_others((E * y[:, None]).numpy(), together))
                found += (E * others).sum(1)
            return found / (self.precision - torch.linalg.vector_norm(self.E, dim=1) ** 2)
        own = self.P.diagonal().clone()
        self.P.fill_diagonal_(0.0)  # and back: a copy would be as large as P
        others = self.P @ y
        self.P.diagonal().copy_(own)
        return -others / own

    def times(self, u: Tensor) -> Tensor:
        """Return ``u P``."""
        if self.P is not None:
            return u @ self.P
        return u * self.precision - (u @ self.E) @ self.E.mT


@dataclass(frozen=True)
class Solved:
    """One cross-section: the inverse covariance of its known peers, and who of them is the focal firm itself."""

    parameters: Parameters
    section: CrossSection
    focal: Features
    known: np.ndarray  # positions of the peers of known outcome
    firms: Features  # those peers
    inverse: _Inverse

    def predict(self, observed: np.ndarray) -> np.ndarray:
        """Return the prediction of every focal firm, (n_focal,), from outcomes of the peers, (n_peers,)."""
        y = torch.as_tensor(observed[self.known], dtype=self.focal.x.dtype)
        if self._is_pool():  # the usual case: one product for all
            return self.inverse.leave_one_out(y).double().numpy()
        found = [(self._among_known(rows) @ y).double() for rows in self.section.chunks()]
        return np.concatenate([np.zeros(0), *found])

    def weights(self, rows: slice = slice(None)) -> np.ndarray:
        """Return signed weights, (n_rows, n_peers)."""
        found = self._among_known(rows)
        W = np.zeros((len(found), len(self.section.peers)))
        W[:, self.known] = found.numpy()
        return W

    def _among_known(self, rows: slice) -> Tensor:
        """Return weights on the known peers: ``u − P_·B P_BB⁻¹ u_B`` with B the focal firm's own rows.

        u is the unit vector of its row where that row is in the pool, and ``P k`` otherwise, k the covariances with the pool.
        """
        mine = self.section.focal.identity[rows, None]
        own = (mine == self.section.peers.identity[self.known]) & (mine != NO_IDENTITY)
        u = self.focal.x.new_zeros(own.shape)
        if not own.size:  # nobody's outcome is known
            return u
        # a focal firm whose row differs from its peer's (other characteristics) is new to the pool
        first = own.argmax(1)
        at = np.where(own.any(1) & self._is_row(rows, first), first, -1)
        own_rows = torch.as_tensor(own)
        n_own = own.sum(1)
        new = np.flatnonzero(at < 0)
        inside = np.flatnonzero(at >= 0)
        one = np.flatnonzero(n_own == 1)
        if len(new):
            K = shared(self.parameters, self.focal.take(rows).take(new), self.firms)[0]
            u[new] = self.inverse.times(K.masked_fill(own_rows[new], 0.0))
        u[inside, at[inside]] = 1.0
        # nearly all firms have one row of their own: these at once, the others one by one
        B = own[one].argmax(1)
        P = self.inverse.rows(B)
        u[one] -= P * (u[one, B] / P[np.arange(len(one)), B])[:, None]
        for i in np.flatnonzero(n_own > 1):
            B = np.flatnonzero(own[i])
            P = self.inverse.rows(B)
            u[i] -= torch.linalg.solve(P[:, B], u[i, B]) @ P
        return u.masked_fill_(own_rows, 0.0)

    def _is_pool(self) -> bool:
        """Whether the focal firms are the known peers, in their order, and of one identity each."""
        mine = self.section.focal.identity
        theirs = self.section.peers.identity[self.known]
        standalone = np.array_equal(mine, theirs) and len(np.unique(mine)) == len(mine) and NO_IDENTITY not in mine
        return standalone and bool(self._is_row(slice(None), np.arange(len(mine))).all())

    def _is_row(self, rows: slice, at: np.ndarray) -> np.ndarray:
        """Return whether each focal firm is, to the covariance, the known peer at this position."""
        focal = self.focal.take(rows)
        firms = self.firms.take(at)
        label = self.section.peers.label.to_numpy()[self.known][at]
        same: np.ndarray = self.section.focal.label.to_numpy()[rows] == label
        return same & ((focal.x == firms.x).all(-1) & (focal.codes == firms.codes).all(-1))[0].numpy()


def with_outcomes(section: CrossSection) -> CrossSection:
    """Return the cross-section with outcomes where it has what own models leave of them."""
    assert section.own is not None
    found = replace(section, peers=replace(section.peers, y=section.peers.outcomes + section.own[1][:, 0]))
    if section.focal.y is None:
        return found
    return replace(found, focal=replace(section.focal, y=section.focal.y + section.own_term[:, 0]))


def features(rows: Rows, section: CrossSection, history: History | None, dtype: torch.dtype) -> Features:
    """Return what the covariance reads of these rows of a cross-section."""
    past = np.zeros((len(rows), 0))
    strength = np.zeros(0)
    if history is not None:
        past, strength = history.components(section.period, rows.label)
    x, z, known = (torch.as_tensor(v, dtype=dtype)[None] for v in (ranked(rows.x, section.peers.x), rows.x, past))
    codes = torch.as_tensor(rows.levels.astype(np.int64))[None]
    return Features(x, z, codes, known, torch.as_tensor(strength, dtype=dtype)[None, None])
