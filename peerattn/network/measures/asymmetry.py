"""How one-sided a network is, split into popularity and true direction; how much weight is returned."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import linalg, sparse

from peerattn.exceptions import InputError, check_count, validate_arguments
from peerattn.network.base import Network
from peerattn.network.cross_section import Array, CrossSection
from peerattn.network.measures.concentration import by_period_table
from peerattn.panel.labels import find_period
from peerattn.render import Shown, Table

Kind = Literal["difference", "popularity", "direction"]
_KEPT_PAIRS = 50


@dataclass(frozen=True, eq=False)
class Asymmetry(Shown):
    """How one-sided a network is, per period.

    Attributes
    ----------
    by_period : pandas.DataFrame
        Index ``period``; columns ``raw`` (‖W − W'‖ / ‖W + W'‖), ``log_ratio`` (root mean square of
        log w_ij − log w_ji, pairs weighted by w_ij + w_ji), its two orthogonal parts ``popularity`` and ``direction`` (squares
        add up), ``direction_share`` (of the square), ``one_way`` (share of weight on pairs where the way back is exactly zero:
        no finite log ratio) and ``pairs`` (pairs with both weights positive).
    potential : pandas.DataFrame
        Columns ``period, firm, popularity``: π of each firm, centred on zero. A firm one unit above another is
        given e times the weight that it gives back.
    pairs : pandas.DataFrame
        The most one-sided pairs of every period and kind; see :meth:`most_one_sided`.
    name : str
        The network's name.

    Examples
    --------
    >>> import pandas as pd
    >>> from peerattn import PeerNetwork
    >>> W = pd.DataFrame([[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], list("ABC"), list("ABC"))
    >>> network = PeerNetwork.from_matrices({None: W})

    >>> network.asymmetry().to_frame().shape[0]
    1
    """

    by_period: pd.DataFrame
    potential: pd.DataFrame
    pairs: pd.DataFrame
    name: str = ""

    @validate_arguments
    def most_one_sided(self, k: int = 10, *, kind: Kind = "direction", period: Hashable = None) -> pd.DataFrame:
        """Return the most one-sided pairs.

        Parameters
        ----------
        k : int, default 10
            How many; at most 50 are kept for each period and kind.
        kind : {"direction", "popularity", "difference"}, default "direction"
            Ranked by the difference in weights which that part of the log ratio alone would make,
            ``(w_ij + w_ji) tanh(|part| / 2)``, or by the difference w_ij − w_ji itself.
        period : label, optional
            One period of ``by_period``; default all.

        Returns
        -------
        pandas.DataFrame
            Columns ``period, firm, peer, weight, reverse, log_ratio, popularity, direction, gap``.

        Raises
        ------
        InputError
            When ``kind`` or the period is unknown.
        """
        found = self.pairs[self.pairs["kind"] == kind]
        if period is not None:
            found = found[found["period"] == find_period(period, self.by_period.index)]
        check_count(k=k)
        ordered = found.sort_values("gap", ascending=False, kind="stable").head(k)
        return ordered.drop(columns="kind").reset_index(drop=True)

    def to_frame(self) -> pd.DataFrame:
        """Return ``by_period``.

        Returns
        -------
        pandas.DataFrame
            One row for each period.
        """
        return self.by_period.copy()

    def table(self) -> Table:
        """Return the measures as a table: a row for each period (of a long panel every n-th), the mean last.

        Returns
        -------
        Table
        """
        formats = {"Direction share": ".1%", "One way": ".1%", "Pairs": ",.0f"}
        frame = self.by_period.rename(columns=lambda name: name.capitalize().replace("_", " "))
        notes = [
            "Raw: ‖W − W'‖ / ‖W + W'‖. Log ratio: root mean square of log w_ij − log w_ji, pairs weighted by w_ij + w_ji, "
            "split into popularity (any kernel has it) and direction (no symmetric score has it). One way: share of weight "
            "with none in return."
        ]
        title = f"Asymmetry of {self.name}" if self.name else "Asymmetry"
        return by_period_table(frame, title, notes, formats, mean=True)

    def __repr__(self) -> str:
        means = self.by_period[["raw", "popularity", "direction"]].mean()
        displayed = ", ".join(f"{name} {value:.3f}" for name, value in means.items())
        return f"Asymmetry({displayed}, {len(self.by_period)} period{'s' * (len(self.by_period) != 1)})"


@validate_arguments
def asymmetry(network: Network) -> Asymmetry:
    """Measure how one-sided a network is, and split it into popularity and true direction.

    On pairs with both weights positive ``log w_ij − log w_ji = (π_j − π_i) + δ_ij``, π by least squares with pairs
    weighted by ``w_ij + w_ji``, so that pairs of negligible weight do not decide.
    Any symmetric kernel whose rows are normalised has popularity (π is the log of the row sum) and no direction δ,
    Kolmogorov's condition for a reversible chain; only different query and key maps give a direction.

    Parameters
    ----------
    network : PeerNetwork
        Firms that are both focal firms and peers are compared. Weights on oneself are left out.

    Returns
    -------
    Asymmetry

    Raises
    ------
    InputError
        When the network is signed (see Notes), no firm is both a focal firm and a peer, or the network was cut to its
        largest weights.

    Notes
    -----
    Costs n³ / 3 per period.

    A signed network raises an error. The weights of a ridge or a covariance are rows of a symmetric matrix (``z_i A z_j'``, and
    its inverse): no pair has a direction of its own, a firm only counts for more or less (popularity), and a negative
    weight has no logarithm. ``network.positive()`` is the non-negative, row-normalised part.

    References
    ----------
    Kelly (1979), *Reversibility and Stochastic Networks*, Wiley, section 1.5 (Kolmogorov's criteria).
    Jiang, Lim, Yao and Ye (2011), "Statistical ranking and combinatorial Hodge theory", Mathematical
    Programming 127 (the split into a gradient and a cyclic part).

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> kernel = np.exp(-np.abs(np.subtract.outer([0.0, 1, 3], [0.0, 1, 3])))
    >>> np.fill_diagonal(kernel, 0.0)
    >>> W = kernel / kernel.sum(axis=1, keepdims=True)
    >>> firms = ["A", "B", "C"]
    >>> asymmetry(PeerNetwork.from_matrices({None: (firms, firms, W)}))
    Asymmetry(raw 0.263, popularity 0.662, direction 0.000, 1 period)
    """
    network.check_whole("asymmetry")
    if network.signed:
        raise InputError("asymmetry: signed weights have popularity, no direction; pass network.positive().")
    measures = []
    potentials = []
    pairs = []
    for _, section in network.sections():
        positions, weights = section.square()
        if len(positions) == 0 and len(section.rows):
            raise InputError("asymmetry: no firm is both a focal firm and a peer (cross-attention).")
        # a weight on oneself has no way back
        weights = np.where(np.eye(len(weights), dtype=bool), 0.0, weights)
        c, parts, counts = _split(weights)
        measures.append(_measures(weights, parts, counts))
        potentials.append({"firm": positions, "popularity": c})
        pairs.append(_extreme_pairs(weights, parts, counts, positions))
    by_period = pd.DataFrame(measures, index=network.periods.rename("period"))
    return Asymmetry(by_period, network.tidy(potentials), network.tidy(pairs), network.name)


@validate_arguments
def reciprocity(network: Network) -> pd.Series:
    """Return the share of weight that is returned: ``Σ min(w_ij, w_ji) / Σ w_ij`` over pairs of distinct firms.

    Parameters
    ----------
    network : PeerNetwork
        Not signed.

    Returns
    -------
    pandas.Series
        By period: 1 for a symmetric network, 0 when nothing is returned, NaN without any weight.

    Raises
    ------
    InputError
        When the network is signed.

    References
    ----------
    Squartini, Picciolo, Ruzzenenti and Garlaschelli (2013), "Reciprocity of weighted networks", Scientific
    Reports 3, 2729, equations 3 to 5.

    Examples
    --------
    >>> from peerattn.network import PeerNetwork
    >>> W = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    >>> reciprocity(PeerNetwork.from_matrices({2001: ("ABC", None, W)})).round(3).tolist()
    [0.333]
    """
    network.check_whole("reciprocity", signed=False)
    found = []
    for _, section in network.sections():
        both = np.intersect1d(section.rows, section.columns)
        # only firms on both sides can return weight
        others = CrossSection(both, both, section.block(both, both)).others()
        found.append(float(others.minimum(others.T).sum() / (others.sum() or np.nan)))
    return pd.Series(found, index=network.periods.rename("period"), name="reciprocity")


def _split(weights: Array) -> tuple[Array, dict[str, Array], Array]:
    """Potential c (n,), log ratios and their two parts (n, n), zero where undefined, and how much a pair counts, w_ij + w_ji.

    That is at least a billionth of the largest, so that all c are determined, and zero where a weight is zero.
    """
    # only pairs with weight in both directions have a log ratio
    both = (weights > 0) & (weights.T > 0)
    logs = np.log(weights, out=np.zeros_like(weights), where=both)
    ratios = np.where(both, logs - logs.T, 0.0)
    pairs = weights + weights.T
    counts = np.where(both, np.maximum(pairs, 1e-9 * pairs.max(initial=0.0)), 0.0)
    c = potential(ratios, counts)
    step = np.where(both, c[None, :] - c[:, None], 0.0)
    return c, {"log_ratio": ratios, "popularity": step, "direction": ratios - step}, counts


def cyclic_part(weights: Array) -> Array:
    """Return ``log w_ij − log w_ji − (π_j − π_i)``, zero where a weight is zero, shape (n, n).

    Zero everywhere for a reversible network.

    Examples
    --------
    >>> bool(np.abs(cyclic_part(np.array([[0, 0.8, 0.2], [0.5, 0, 0.5], [0.2, 0.8, 0]]))).max() < 1e-12)
    True
    """
    return _split(np.where(np.eye(len(weights), dtype=bool), 0.0, weights))[1]["direction"]


def potential(ratios: Array, counts: Array) -> Array:
    """Return the weighted least-squares c of ``ratios[i, j] ≈ c[j] − c[i]``, centred in each component.

    Parameters
    ----------
    ratios : ndarray, shape (n, n)
        Antisymmetric, zero where unknown.
    counts : ndarray, shape (n, n)
        Symmetric, not negative; how much each pair counts, 0 where unknown and on the diagonal.

    Returns
    -------
    ndarray, shape (n,)
        Zero for firms in no known pair.

    Examples
    --------
    >>> c = np.array([1.0, -1.0, 0.0])
    >>> potential(c[None, :] - c[:, None], ~np.eye(3, dtype=bool)).round(12).tolist()[:2]
    [1.0, -1.0]
    """
    if not len(ratios):
        return np.zeros(0)
    # scaled, so that the pin below is of the size of the Laplacian
    counts = np.asarray(counts, dtype=float) / np.max(counts, initial=1e-300)
    _, component = sparse.csgraph.connected_components(sparse.csr_array(counts > 0), directed=False)
    laplacian = np.diag(counts.sum(axis=1)) - counts
    # pins the mean of c in each component to zero, which makes the matrix positive definite
    laplacian += (component[:, None] == component) / np.bincount(component)[component]
    return np.asarray(linalg.solve(laplacian, (counts * ratios).sum(axis=0), assume_a="pos"))


def _measures(weights: Array, parts: dict[str, Array], counts: Array) -> dict[str, float]:
    shares = counts / (counts.sum() or np.nan)
    size = {name: float(np.sqrt((shares * part**2).sum())) for name, part in parts.items()}
    return {
        # the antisymmetric part over the symmetric one
        "raw": float(np.linalg.norm(weights - weights.T) / (np.linalg.norm(weights + weights.T) or np.nan)),
        **size,
        "direction_share": (size["direction"] / (size["log_ratio"] or np.inf)) ** 2,
        "one_way": float(weights[counts == 0].sum() / (weights.sum() or np.nan)),
        "pairs": int(np.count_nonzero(counts)) // 2,
    }


def _extreme_pairs(weights: Array, parts: dict[str, Array], counts: Array, firms: Array) -> pd.DataFrame:
    """The pairs with the largest gaps of each kind, the stronger direction first."""
    # in units of weight: what w_ij − w_ji were, were this the only part of the log ratio
    gaps = {name: (weights + weights.T) * np.tanh(parts[name] / 2) for name in ("popularity", "direction")}
    blocks = []
    for kind, gap in ({"difference": weights - weights.T} | gaps).items():
        found = np.argwhere(gap > 0)
        order = np.argsort(-gap[gap > 0], kind="stable")
        i, j = found[order[:_KEPT_PAIRS]].T
        known = {name: np.where(counts[i, j] > 0, part[i, j], np.nan) for name, part in parts.items()}
        sides = {"firm": firms[i], "peer": firms[j], "weight": weights[i, j], "reverse": weights[j, i]}
        blocks.append(pd.DataFrame(sides | known | {"gap": gap[i, j], "kind": kind}))
    return pd.concat(blocks)
