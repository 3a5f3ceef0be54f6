"""The search profile: which characteristic of a firm looks for which characteristic of a peer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import torch

from peerattn.exceptions import InputError, check_names
from peerattn.foreign_text import visible
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.batches import RowTensors
from peerattn.models.learners.heads.heads import Heads
from peerattn.network import search_map
from peerattn.types import PanelLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = ["seed", "head", "focal", "peer", "score"]


@dataclass(frozen=True)
class SearchProfile:
    """``M = W_Q W_K' / √d`` of every kept head, in units of standardised characteristics.

    ``M.loc["size", "leverage"] > 0``: large firms attend to levered ones. Identified are M and what it implies; W_Q and W_K
    apart are not, nor a constant that shifts all scores of one focal firm, nor the order of heads.

    Attributes
    ----------
    matrices : tuple of DataFrame (p, p), one a kept head
        Rows: characteristics of the focal firm; columns: characteristics of the peer.
    key_terms : tuple of Series (p,)
        What every firm looks for, whatever it is itself: ``b W_K' / √d``, a head's popularity term.
    values : tuple of ndarray
        The value vector of each head (``task="forecast"``), or its slope on the peers' outcomes.
    heads : tuple of (seed, head)
        Which heads these are, as in ``heads_``.
    shares : ndarray (n_heads,)
        Each head's share in the network.
    characteristics : tuple of str
        Rows and columns that are characteristics. The others are indicators of missing values, and the axes of codes' embeddings,
        which have no meaning one by one: they are in the matrices, but not in :meth:`to_frame` and :meth:`plot`.
    firms : DataFrame (n_firms, p) or None
        Mean characteristics of each firm in ``X``, where ``search_profile(X)`` had one.
    inputs : tuple of DataFrame (n_firms, p), one a kept head
        What the head reads of each of these firms, in the columns of its matrix: its codes' embeddings, too.
    single : bool
        Whether no other part of the model has weights: False for a stack.
    """

    matrices: tuple[pd.DataFrame, ...] = field(repr=False)
    key_terms: tuple[pd.Series, ...] = field(repr=False)
    values: tuple[np.ndarray, ...] = field(repr=False)
    heads: tuple[tuple[int, int], ...]
    shares: np.ndarray
    characteristics: tuple[str, ...] = ()
    firms: pd.DataFrame | None = field(default=None, repr=False)
    single: bool = True
    inputs: tuple[pd.DataFrame, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, fitted: Heads, names: list[str], observed: Sequence[str], *, unit: float) -> Self:
        """Return the profile of fitted heads; values are multiplied by ``unit``."""
        matrices = []
        key_terms = []
        values = []
        heads = []
        shares = []
        for k, (member, mix) in enumerate(zip(fitted.members, fitted.mix, strict=True)):
            module = member.module()
            inputs = names[: member.spec.n_inputs]  # heads of equal weights within a code have no embeddings
            keys = module.key_projection.mT
            if member.spec.similarity == "scaled_dot_product":
                keys = keys / np.sqrt(member.spec.d_head)
            for head in range(member.spec.n_heads):
                M = module.query[head] @ keys[head]
                popularity = module.offset[head, 0] @ keys[head]
                matrices.append(pd.DataFrame(M.numpy(), index=inputs, columns=inputs))
                key_terms.append(pd.Series(popularity.numpy(), index=inputs))
                values.append(module.value[head].numpy().squeeze() * unit)
                heads.append((k, head))
                shares.append(member.share[head] * mix / sum(fitted.mix))
        return cls(tuple(matrices), tuple(key_terms), tuple(values), tuple(heads), np.array(shares), tuple(observed))

    @classmethod
    def of_rule(cls, M: np.ndarray, names: Sequence[str], observed: Sequence[str]) -> Self:
        """Return the profile of a model without heads, whose weights follow one matrix."""
        matrix = pd.DataFrame(M, index=list(names), columns=list(names))
        none = pd.Series(0.0, index=list(names))
        return cls((matrix,), (none,), (), ((0, 0),), np.ones(1), tuple(observed))

    def with_firms(self, model: Any, X: PanelLike, fitted: Heads | None = None) -> Self:
        """Return the profile with the mean characteristics of the firms of X, where there is one; ``fitted`` are its heads."""
        if X is None:
            return self
        rows = model._gate_rows(X)[1]
        firm = np.asarray(rows.label)
        firms = pd.DataFrame(rows.x, columns=model.design_.number_names).groupby(firm).mean()
        if fitted is None:
            return replace(self, firms=firms, inputs=(firms,))
        focal = RowTensors.of_focal([CrossSection(None, slice(0, len(rows)), rows, rows)], torch.float64)
        # a firm looks for peers by its codes, too
        of_seeds = [pd.DataFrame(m.inputs(focal, m.spec.clip)[0].numpy()).groupby(firm).mean() for m in fitted.modules()]
        heads = zip(self.matrices, self.heads, strict=True)
        inputs = tuple(of_seeds[seed].set_axis(M.index, axis=1) for M, (seed, _) in heads)
        return replace(self, firms=firms, inputs=inputs)

    def named(self, at: int = 0) -> pd.DataFrame:
        """Return M of one kept head among the characteristics."""
        names = list(self.characteristics)
        return self.matrices[at].loc[names, names]

    def looks_for(self, of: str | Mapping[str, float]) -> pd.Series:
        r"""Return which characteristics in a peer a firm puts weight on: by how much a score rises with each, mean over heads.

        .. math:: \sum_h s_h \, (x_i M_h + k_h), \quad s_h \text{ the share of a head in the network, } k_h \text{ its key term}

        Parameters
        ----------
        of : firm, or mapping of str to float
            A firm of the ``X`` that ``search_profile`` was given, at the mean of its rows, its codes included; or
            characteristics in standard deviations from the mean of training, such as ``{"size": -1}`` for a small firm: those
            left out, and what codes add, are 0.

        Returns
        -------
        Series
            By the peer's characteristic, largest size first: positive, the firm puts weight on peers that have much of it.

        Raises
        ------
        InputError
            For an unknown firm or characteristic, and for a stack, whose parts have weights by different rules.
        """
        if not self.single:
            wanted = "PeerAttentionRegressor, CovariancePeerRegressor or CrossSectionalRidge by itself"
            raise InputError(f"looks_for() needs one rule for all weights, and a stack adds up several: fit {wanted}.")
        names = list(self.characteristics)
        if isinstance(of, Mapping):
            check_names("of", "characteristic", list(of), names)
            given = pd.Series(dict(of), dtype=float)
            found = [given.reindex(M.index, fill_value=0.0) for M in self.matrices]
        elif self.firms is None:
            raise InputError(f"of: to look up the firm {of!r}, give its rows: search_profile(X).looks_for({of!r}).")
        else:
            check_names("of", "firm", [of], self.firms.index.tolist())
            found = [of_firms.loc[[of]].iloc[0] for of_firms in self.inputs]
        score = np.zeros(len(names))
        for share, x, M, key_term in zip(self.shares, found, self.matrices, self.key_terms, strict=True):
            score += share / self.shares.sum() * (x @ M[names] + key_term[names]).to_numpy()
        order = np.argsort(-np.abs(score), kind="stable")
        return pd.Series(score[order], pd.Index(names, name="peer")[order], name="score")

    def symmetric(self, at: int = 0) -> pd.DataFrame:
        """Return ``(M + M') / 2``: firms attend to firms like (or unlike) themselves."""
        M = self.named(at)
        return (M + M.T) / 2

    def antisymmetric(self, at: int = 0) -> pd.DataFrame:
        """Return ``(M − M') / 2``: the direction of the search."""
        M = self.named(at)
        return (M - M.T) / 2

    def to_frame(self) -> pd.DataFrame:
        """Return one row per head and pair of characteristics, strongest first; codes and indicators are left out."""
        frames = []
        for at, (seed, head) in enumerate(self.heads):
            M = self.named(at)
            scores: Any = M.rename_axis("focal").rename_axis("peer", axis=1).stack()
            long = scores.rename("score").reset_index()
            frames.append(long.assign(seed=seed, head=head)[_COLUMNS])
        if not frames:
            return pd.DataFrame(columns=_COLUMNS)
        table = pd.concat(frames)
        return table.iloc[table["score"].abs().argsort()[::-1]].reset_index(drop=True)

    def plot(self, at: int = 0, ax: "Axes | None" = None) -> "Axes":
        """Draw M of one kept head (see :func:`peerattn.network.search_map`).

        Raises
        ------
        InputError
            When there is no such head.
        """
        if not 0 <= at < len(self.heads):
            kept = f"the model has {len(self.heads)} heads with weight"
            raise InputError(f"at: expected the number of a head, from 0, got {at}, but {kept}.")
        return search_map(self.named(at), ax=ax)

    def __str__(self) -> str:
        if not self.heads:
            return "search profile: no head was kept"
        strongest = self.to_frame().head(10).to_string(index=False)
        return visible(f"search profile of {len(self.heads)} heads (strongest pairs)\n{strongest}")

    def _repr_html_(self) -> str:
        return str(self.to_frame().head(20).to_html(index=False))
