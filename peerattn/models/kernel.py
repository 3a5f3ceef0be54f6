"""Nadaraya–Watson kernel regression: attention whose weights are a fixed kernel of the characteristics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from peerattn import nn
from peerattn.exceptions import InputError
from peerattn.models.base import PeerRegressor, known_training_rows
from peerattn.models.pools import Rows, Section
from peerattn.panel.encoding import Imputation
from peerattn.panel.gate import Panel


class NadarayaWatsonRegressor(PeerRegressor):
    """Kernel-weighted mean of the other firms' outcomes.

    ``ŷ_i = Σ_j α_ij y_j``, ``α_ij = K(x_i, x_j) / Σ_k K(x_i, x_k)`` with the Gaussian product kernel
    ``K(x_i, x_j) = exp(−½ Σ_c ((x_ic − x_jc) / h_c)²)``: attention with queries and keys ``x / h`` and the Gaussian score.

    Parameters
    ----------
    bandwidth : "normal_reference", float or array of shape (p,), default "normal_reference"
        h, in the units of each characteristic. ``"normal_reference"``: ``1.06 min(sd, IQR / 1.349) n^(−1/(4+p))`` with n the size
        of the pool (training rows, or the median cross-section when ``outcomes=`` is passed). ``inf`` makes a characteristic irrelevant.
    firm, period : str
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    bandwidth_ : ndarray (p,)
        Bandwidths over the training rows, the pool of ``predict(X)``.
    within_bandwidth_ : ndarray (p,)
        Bandwidths within a cross-section, the pool of ``predict(X, outcomes=y)``.

    Notes
    -----
    ``predict(X)`` looks to the training rows of all periods, own firm left out; ``predict(X, outcomes=y)`` to the same period's
    firms. Missing characteristics are filled (median of the cross-section); code columns are left out, since a Gaussian
    kernel has no distance between codes. Streams over queries: memory O(chunk × n). Computed in float64. Firms without any
    admissible peer get the training mean.

    References
    ----------
    Nadaraya, E. A. (1964), On estimating regression, Theory of Probability and Its Applications 9(1).
    Watson, G. S. (1964), Smooth regression analysis, Sankhyā A 26(4).
    Li, Q. and Racine, J. S. (2007), Nonparametric Econometrics, chapter 2.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [5.0]]), np.array([0.0, 1.0, 9.0])
    >>> NadarayaWatsonRegressor(bandwidth=1.0).fit(X, y).predict([[0.5]]).round(3)
    array([0.5])
    """

    def __init__(
        self,
        *,
        bandwidth: str | float | Sequence[float] = "normal_reference",
        firm: str = "firm",
        period: str = "period",
    ) -> None:
        self.bandwidth = bandwidth
        self.firm = firm
        self.period = period

    _isolates_get = "the training mean"

    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> tuple[np.ndarray, np.ndarray]:
        if fitting:
            self.imputation_ = Imputation.fit(panel, weight)
            if not self.imputation_.kept:
                raise InputError("NadarayaWatsonRegressor needs at least one characteristic that is a number.")
        x = self.imputation_.transform(panel)[:, : len(self.imputation_.kept)]
        return x, np.empty((len(panel), 0))

    def _learn(self, training: Rows, panel: Panel) -> None:
        rows = self.training_rows_ = known_training_rows(training)
        assert rows.y is not None
        self.mean_ = float(np.average(rows.y, weights=rows.weight))
        self.center_ = np.average(rows.x, axis=0, weights=rows.weight)
        n = len(rows) if rows.weight is None else float(rows.weight.sum())
        self.bandwidth_ = self._bandwidths(rows, n)
        self.within_bandwidth_ = self._bandwidths(rows, self.median_cross_section_ if self.dated_ else n)

    def _bandwidths(self, rows: Rows, n: float) -> np.ndarray:
        p = rows.x.shape[1]
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "normal_reference":
                raise InputError(f'bandwidth must be "normal_reference", a number or an array, got {self.bandwidth!r}.')
            return normal_reference_bandwidth(rows.x, n, rows.weight)
        h = np.asarray(self.bandwidth, dtype=float)
        if h.ndim > 1 or h.size not in (1, p):
            raise InputError(f"bandwidth has shape {h.shape}, but there are {p} characteristics: give one number or {p}.")
        if not (h > 0).all():
            raise InputError(f"bandwidth must be positive, got {h.min():g}.")
        return np.broadcast_to(h, (p,)).copy()

    # ------------------------------------------------------------------ the kernel as attention

    def _scores(self, section: Section) -> tuple[torch.Tensor, torch.Tensor]:
        """Return queries (n_focal, p + 1) and keys (n_peers, p + 1) whose inner product is the log kernel, up to a row constant."""
        h = self.within_bandwidth_ if section.within else self.bandwidth_
        q, k = ((rows.x - self.center_) / h for rows in (section.focal, section.peers))
        height = -0.5 * (k**2).sum(axis=1, keepdims=True)
        if section.peers.weight is not None:
            height = height + np.log(section.peers.weight)[:, None]
        q, k = np.hstack([q, np.ones((len(q), 1))]), np.hstack([k, height])
        return torch.from_numpy(q), torch.from_numpy(k)

    def _attend(self, section: Section) -> tuple[np.ndarray, np.ndarray]:
        predicted, isolated = np.full(len(section.focal), self.mean_), np.ones(len(section.focal), dtype=bool)
        if not len(section.peers):
            return predicted, isolated
        q, k = self._scores(section)
        assert section.peers.y is not None
        v = torch.from_numpy(section.peers.y - self.mean_)[:, None]
        for rows in section.chunks():
            mask = torch.from_numpy(section.admissible(rows))
            isolated[rows] = ~mask.any(dim=1).numpy()
            mean = nn.attention(q[None, None, rows], k[None, None], v[None, None], mask=mask[None, None], scale=1.0)
            predicted[rows] = np.where(isolated[rows], self.mean_, self.mean_ + mean[0, 0, :, 0].numpy())
        return predicted, isolated

    def _weights(self, section: Section, rows: slice) -> np.ndarray:
        q, k = self._scores(section)
        mask = torch.from_numpy(section.admissible(rows))
        return nn.attention_weights(q[None, None, rows], k[None, None], mask=mask[None, None], scale=1.0)[0, 0].numpy()


def normal_reference_bandwidth(x: np.ndarray, n: float | None = None, weight: np.ndarray | None = None) -> np.ndarray:
    """Return ``1.06 min(sd, IQR / 1.349) n^(−1/(4+p))`` for each column; ``inf`` for a constant column.

    Parameters
    ----------
    x : ndarray (n_rows, p)
    n : float, optional
        Size of the pool; by default the number of rows.
    weight : ndarray (n_rows,), optional
        Frequency weights.

    References
    ----------
    Silverman, B. W. (1986), Density Estimation for Statistics and Data Analysis, section 3.4.
    """
    if weight is not None:
        x = np.repeat(x, weight.astype(int), axis=0) if np.all(weight == weight.astype(int)) else x[weight > 0]
    n = len(x) if n is None else n
    sd = x.std(axis=0, ddof=1) if len(x) > 1 else np.zeros(x.shape[1])
    iqr = np.subtract(*np.percentile(x, [75, 25], axis=0)) / 1.349
    spread = np.where(iqr > 0, np.minimum(sd, iqr), sd)
    h = 1.06 * spread * n ** (-1 / (4 + x.shape[1]))
    return np.where(h > 0, h, np.inf)
