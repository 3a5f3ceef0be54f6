"""Which rows may be peers of which: focal rows meet the rows of their pool."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network.cross_section import frozen, strongest

NO_IDENTITY = -1  # an identity that equals no other: the row may attend to every row


@dataclass(frozen=True)
class Rows:
    """Firms as a model sees them, one row each.

    Attributes
    ----------
    x : ndarray (n, p)
        Encoded characteristics.
    codes : ndarray (n, c)
        Codes, as integers (from 1; 0 unknown, below 0 levels without training rows) or as strings.
    y : ndarray (n,) or None
        Outcomes; NaN = unknown.
    weight : ndarray (n,) or None
        How often a row counts as a peer: frequency weights, or market values.
    loss_weight : ndarray (n,) or None
        How much a row counts in the loss.
    identity : ndarray (n,) of int
        Two rows of the same identity are never peers of each other.
    label : pandas.Index
        Firm labels (row numbers for arrays).
    owner : pandas.Index
        What makes two rows of one identity: the firm's label, or a pair of it and the group that it belongs to (None = unknown).
    known_from : ndarray (n,) or None
        Place of the first period of the call by which the outcome is known, where outcomes have dates.
    """

    x: np.ndarray
    codes: np.ndarray
    y: np.ndarray | None
    weight: np.ndarray | None
    identity: np.ndarray
    label: pd.Index
    owner: pd.Index
    loss_weight: np.ndarray | None = None
    known_from: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.identity)

    @property
    def outcomes(self) -> np.ndarray:
        """The outcomes of rows that have some, (n,); NaN = unknown."""
        assert self.y is not None
        return self.y

    @property
    def levels(self) -> np.ndarray:
        """Codes as numbers of levels of training, (n, c); 0 of all others."""
        return np.maximum(self.codes, 0)

    @property
    def loss_weights(self) -> np.ndarray:
        """Return the weight of every row in the loss."""
        return _or_ones(self.loss_weight, len(self))

    @property
    def counts(self) -> np.ndarray:
        """How often each row counts as a peer; once where there are no weights."""
        return _or_ones(self.weight, len(self))

    def take(self, at: np.ndarray | slice) -> Self:
        """Return the rows at these positions."""
        return replace(self, **{name: values[at] for name, values in vars(self).items() if values is not None})

    def where(self, mask: np.ndarray) -> Self:
        """Return the rows for which this is True; the same rows, not copies, where all are."""
        return self if mask.all() else self.take(mask)

    def known(self) -> Self:
        """Return the rows whose outcome is known."""
        return self.where(np.isfinite(self.outcomes))

    def counted(self) -> Self:
        """Return the rows that count in the loss."""
        return self.where(self.loss_weights > 0)

    def late(self, place: int) -> np.ndarray:
        """Return whose outcome is not known yet by the period of this place, (n,)."""
        if self.known_from is None:
            return np.zeros(len(self), dtype=bool)
        return self.known_from > place

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one part after another; what one of them lacks, none has."""

        def together(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            if any(value is None for value in values):
                return None
            if isinstance(values[0], pd.Index):
                return values[0].append(values[1:])
            return np.concatenate(values)

        return cls(**{each.name: together(each.name) for each in fields(cls)})

    def checksums(self) -> np.ndarray:
        """Return a checksum of each row's numbers (rounded: copies may differ in the last bit), (n,)."""
        numbers = np.ascontiguousarray(np.round(self.x, 6) + 0.0)
        return np.array([zlib.crc32(row.tobytes()) for row in numbers])

    def anonymous(self) -> Self:
        """Return the same rows without identity: they may attend to every row."""
        return replace(self, identity=np.full(len(self), NO_IDENTITY))


@dataclass(frozen=True)
class CrossSection:
    """One problem: focal rows, and the rows they may attend to.

    Attributes
    ----------
    period : label, or None where undated
    at : ndarray or slice
        Positions of the focal rows in the call's panel.
    focal, peers : Rows
    within : bool
        The peers are the call's own cross-section (not stored training rows).
    attendable : ndarray (n_peers,) of bool, or None
        Which peers may be attended to (those of known outcome, where outcomes are read); the others only help to encode.
    past : History or None
        Outcomes of earlier periods, where the model reads them.
    own : pair of ndarray (n_focal,), (n_peers,), or None
        What own models predict for focal rows and peers, where the peers' y is the residual from them.
    own_copies : bool
        On arrays with frequency weights, a row's other copies are its peers: its own weight is ``max(w − 1, 0)``.
    place : int
        Of the period among those of its panel, in which ``Rows.known_from`` counts.
    """

    period: Any
    at: np.ndarray | slice
    focal: Rows
    peers: Rows
    within: bool = False
    own_copies: bool = False
    attendable: np.ndarray | None = None
    past: Any = None
    own: tuple[np.ndarray, np.ndarray] | None = None
    place: int = 0

    @property
    def own_term(self) -> np.ndarray:
        """What own models predict for the focal rows, (n_focal, K)."""
        assert self.own is not None
        return self.own[0]

    @property
    def may_be_attended(self) -> np.ndarray:
        """Which peers may be attended to, (n_peers,), where nothing bars them all."""
        return np.ones(len(self.peers), dtype=bool) if self.attendable is None else self.attendable

    def admissible(self, rows: slice = slice(None)) -> np.ndarray:
        """Return which rows may be attended to, (n_focal, n_peers); True = may."""
        mine = self.focal.identity[rows, None]
        return ((mine == NO_IDENTITY) | (mine != self.peers.identity)) & self.may_be_attended

    def take(self, focal: np.ndarray | slice, peers: np.ndarray | slice) -> Self:
        """Return some focal rows of the cross-section, and some of its peers."""
        found = replace(self, focal=self.focal.take(focal), peers=self.peers.take(peers))
        if self.attendable is not None:
            found = replace(found, attendable=self.attendable[peers])
        if self.own is not None:
            found = replace(found, own=(self.own[0][focal], self.own[1][peers]))
        return found

    @property
    def same_rows(self) -> bool:
        """Whether focal rows and peers are the same rows in the same order, as on arrays."""
        return len(self.peers) == len(self.focal) and np.shares_memory(self.peers.x, self.focal.x)

    def known_peers(self) -> np.ndarray:
        """Return the positions of the peers that answer with a known outcome."""
        return np.flatnonzero(np.isfinite(self.peers.outcomes) & self.may_be_attended)

    def unknown(self) -> Self:
        """Return the cross-section without the outcomes of its focal rows."""
        return replace(self, focal=replace(self.focal, y=None))

    def split(self, held_out: np.ndarray) -> tuple[Self, Self]:
        """Return the cross-section without some focal rows, and these alone; on arrays new rows attend to training rows alone."""
        rest = np.flatnonzero(~held_out)
        pool: np.ndarray | slice = slice(None)
        if self.same_rows and self.period is None:
            pool = rest
        return self.take(rest, pool), replace(self.take(np.flatnonzero(held_out), pool), own_copies=False)

    def known_by(self, place: int) -> Self:
        """Return the cross-section without the outcomes that are not known yet by the period of this place."""
        found = self
        late_focal = self.focal.late(place)
        if late_focal.any():
            found = self.take(np.flatnonzero(~late_focal), slice(None))
        late_peers = self.peers.late(place)
        # where no outcome is used, firms whose outcome comes late are peers all the same
        if self.peers.y is not None and late_peers.any():
            found = replace(found, peers=replace(self.peers, y=np.where(late_peers, np.nan, self.peers.y)))
            if self.attendable is not None:
                found = replace(found, attendable=self.attendable & ~late_peers)
        return found

    def pool(self) -> Self:
        """Return the peers as focal rows of their own pool."""
        copies = self.period is None and self.peers.weight is not None
        querying = self.peers
        if copies:
            querying = querying.anonymous()
        own = self.own and (self.own[1], self.own[1])
        return replace(self, at=slice(0, len(querying)), focal=querying, own_copies=copies, own=own)

    def chunks(self, cells: int = 20_000_000) -> Iterator[slice]:
        """Yield slices of focal rows, so that a chunk of rows times all peers has at most ``cells`` entries."""
        step = max(1, cells // max(1, len(self.peers)))
        for start in range(0, len(self.focal), step):
            yield slice(start, min(start + step, len(self.focal)))


def _or_ones(values: np.ndarray | None, n: int) -> np.ndarray:
    return np.ones(n) if values is None else values


def stacked(blocks: Iterator[Any], n_rows: int, top_k: int | None = None) -> Any:
    """Return blocks of rows of weights as one matrix, read-only; with ``top_k`` each row's strongest only.

    Of dense blocks one at a time is held beside the whole.
    """
    if top_k is not None:
        blocks = (strongest(block, top_k) for block in blocks)
    first = next(blocks)
    if sparse.issparse(first):
        return frozen(sparse.vstack([first, *blocks]))
    whole = np.empty((n_rows, first.shape[1]), dtype=first.dtype)
    start = 0
    for block in chain([first], blocks):
        whole[start : start + len(block)] = block
        start += len(block)
    return frozen(whole)


def adding_up(group: np.ndarray, n_groups: int) -> sparse.csr_array:
    """Return the matrix that adds rows up into their groups, (n_rows, n_groups)."""
    return sparse.csr_array((np.ones(len(group)), group, np.arange(len(group) + 1)), (len(group), n_groups))


def identities(*labels: pd.Index) -> list[np.ndarray]:
    """Return integers that are equal where labels are, across all the given indexes.

    Pairs of firm and group are equal where the groups are; across several indexes the same firm is, too, so that a group that
    is unknown in one of them lets nobody into its own pool.

    >>> import pandas as pd
    >>> [x.tolist() for x in identities(pd.Index(["B", "A"]), pd.Index(["A", "C"]))]
    [[0, 1], [1, 2]]
    """
    joined = [label for part in labels for label in part.tolist()]
    splits = np.cumsum([len(label) for label in labels])[:-1]
    if not any(isinstance(label, tuple) for label in joined):
        check_same_kind(*labels)
        return np.split(_codes(joined), splits)
    check_same_kind(*(pd.Index([firm for firm, _ in part]) for part in labels if len(part)))
    firm = _codes([firm for firm, _ in joined])
    group = _codes([group for _, group in joined])  # -1 = unknown
    node = np.where(group < 0, firm, len(firm) + group)
    if len(labels) == 1:
        return [pd.factorize(node)[0]]
    # a firm joins the groups that it has in several indexes, and whoever is in them
    links = sparse.coo_array((np.ones(len(node)), (firm, node)), shape=(2 * len(firm),) * 2)
    component = sparse.csgraph.connected_components(links, directed=False)[1]
    return np.split(component[node], splits)


def _codes(values: list[Any]) -> np.ndarray:
    """Return an integer for each value, −1 where it is unknown."""
    return pd.factorize(pd.Index(values, dtype=object, tupleize_cols=False))[0]


def known_before(sections: Sequence[CrossSection], start: int, purge: int) -> list[CrossSection]:
    """Return the cross-sections before one, less ``purge`` of them, with the outcomes that are known by then."""
    known = [each.known_by(sections[start].place) for each in sections[: max(0, start - purge)]]
    return [each for each in known if len(each.focal)]


def count_rows(sections: Sequence[CrossSection]) -> float:
    """Return the number of focal rows; a frequency weight on arrays counts as so many."""
    if sections[0].period is None:
        return float(sum(section.focal.loss_weights.sum() for section in sections))
    return float(sum(len(section.focal) for section in sections))


def section_numbers(sections: Sequence[CrossSection]) -> np.ndarray:
    """Return for each focal row of the sections, one after another, the number of its section."""
    return np.repeat(np.arange(len(sections)), [len(section.focal) for section in sections])


def group_sums(rows: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the sums of rows (n, m) by group, numbered from 0, (n_groups, m)."""
    return np.stack([np.bincount(group, column) for column in rows.T], axis=1)


def effective_number(sizes: Any) -> float:
    """Return ``(Σ_t n_t)² / Σ_t n_t²`` of groups of these sizes; 0 of none."""
    size = np.asarray(sizes, dtype=float)
    return float(size.sum() ** 2 / max((size**2).sum(), 1))


def sums_of_others(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return for each row the sum over the other rows of its group, (n, k): what comes before it plus what comes after it.

    Nothing is added and taken off again: a row's own value, however large, changes no bit of its result. O(n).

    >>> sums_of_others(np.array([[1.0], [1e300], [2.0]]), np.array([0, 0, 0])).ravel().tolist()
    [1e+300, 3.0, 1e+300]
    """
    frame = pd.DataFrame(values)
    found = np.zeros(np.shape(values))
    for rows in (slice(None), slice(None, None, -1)):
        sums = frame[rows].groupby(group[rows], sort=False).cumsum()
        found[rows] += sums.groupby(group[rows], sort=False).shift(fill_value=0.0).to_numpy()
    return found


def others_mean(values: np.ndarray, group: np.ndarray, standalone: np.ndarray) -> np.ndarray:
    """Return the mean over the other rows of each row's group, (n, k), and ``standalone`` where there is none; −1 = in no group.

    >>> others_mean(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, -1]), np.zeros((3, 1))).ravel().tolist()
    [3.0, 1.0, 0.0]
    """
    count = np.where(group < 0, 0, np.bincount(group + 1)[group + 1] - 1)[:, None]
    return np.where(count > 0, sums_of_others(values, group) / np.maximum(count, 1), standalone)


def means_of_others(
    focal_group: np.ndarray,
    focal_identity: np.ndarray,
    peer_group: np.ndarray,
    peer_identity: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return each focal row's group mean over rows of other identities, and the number of those identities.

    Groups and identities are integers; a negative group has no members, identity −1 equals no other. O(n log n) by sums over
    groups, from which the own outcome is left out, not taken off: it changes no bit.

    >>> mean, count = means_of_others(*[np.array(a) for a in ([0, 0], [0, 1], [0, 0, 0], [0, 1, 2], [1.0, 2.0, 6.0])])
    >>> mean.tolist(), count.tolist()
    ([4.0, 3.5], [2, 2])
    """
    n = len(focal_group)
    member = peer_group >= 0
    # focal rows are members, too, of weight zero, so that each has a pair of group and identity to leave out
    group = np.concatenate([focal_group, peer_group[member]]).astype(np.int64)
    identity = np.concatenate([focal_identity, peer_identity[member]])
    w = np.concatenate([np.zeros(n), _or_ones(weight, len(y))[member]])
    y = np.concatenate([np.zeros(n), y[member]])
    # rows without identity get numbers of their own, as each equals no other
    free = identity.max(initial=0) + 1
    identity = np.where(identity == NO_IDENTITY, free + np.arange(len(identity)), identity)
    span = free + len(identity)
    keys, pair = np.unique(group * span + identity, return_inverse=True)
    peers = np.bincount(pair[n:], minlength=len(keys)) > 0
    of_pair = np.stack([np.bincount(pair, w * y), np.bincount(pair, w), peers], axis=1)
    total, total_weight, count = sums_of_others(of_pair, keys // span)[pair[:n]].T
    return np.divide(total, total_weight, out=np.zeros(n), where=total_weight > 0), count.astype(int)


def check_same_kind(*labels: pd.Index) -> None:
    """Raise where firms are text in one place and numbers in another: no firm would be left out of its own pool."""
    labels = tuple(label for label in labels if len(label))
    names = {"string": "text", "integer": "integers"}
    kinds = [names.get(label.inferred_type, label.inferred_type) for label in labels]
    for kind, label in zip(kinds, labels, strict=True):
        if kind != kinds[0]:
            raise InputError(
                f"firm labels are {kinds[0]} (such as {labels[0].tolist()[0]!r}) in one place, {kind} (such as "
                f"{label.tolist()[0]!r}) in another: give them one type, so that each firm is left out of its own peers."
            )
