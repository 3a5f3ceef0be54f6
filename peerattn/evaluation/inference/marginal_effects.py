"""What makes a peer: average marginal effects of characteristics and of shared codes on the weight of a pair."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone

from peerattn.exceptions import InputError, check_at_least, check_count, check_names, check_share, expect, validate_arguments
from peerattn.panel import Panel, as_panel
from peerattn.render import Regression
from peerattn.seeds import check_seed
from peerattn.types import OutcomesLike

MOVED = 50  # firms that are moved by default, at least; all where they are fewer
FEWEST_BATCHES = 10


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MarginalEffects(Regression):
    """Average marginal effects on the weight of a pair, in shares of the mean weight.

    Attributes
    ----------
    params, std_errors, pvalues : pandas.Series
        Effects; their standard errors and p values (Student's t, refits minus one degrees of freedom) over refits and the draw
        of firms; NaN without refits, and where fewer than two of the firms drawn have pairs that change.
    draws : pandas.DataFrame
        The effects of each refit, one column each.
    left_out : str
        What each refit left out: blocks of periods, or groups of firms.
    n_empty : int
        Refits that found no peers, whose effects are zero.
    n_drawn : int
        Firms drawn to be moved; zero where all are moved.
    """

    draws: pd.DataFrame
    left_out: str = ""
    n_empty: int = 0
    n_drawn: int = 0
    title: str = "What makes a peer? Average marginal effects on the weight"

    def _footnotes(self) -> list[str]:
        unit = "Change of the weight in shares of its mean: per standard deviation of the peer's characteristic or of its "
        unit += "distance from the focal firm, and of having the same code."
        if self.draws.empty:
            return [unit, "No standard errors: pass y for refits."]
        n = self.draws.shape[1]
        drawn = ", and of the draw of firms" * bool(self.n_drawn)
        note = f"Standard errors over {n} refits, each without one of {n} {self.left_out}{drawn}."
        if self.n_empty:
            note += f" {self.n_empty} of the refits found no peers."
        if self.n_drawn and self.std_errors.isna().any():
            note += " None where fewer than two of the firms drawn have pairs that change: raise n_batches."
        return [unit, note]


@validate_arguments
def marginal_effects(
    model: Any,
    X: Any,
    y: OutcomesLike = None,
    *,
    at: Any = None,
    outcomes: OutcomesLike = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] | None = None,
    step: float = 0.1,
    n_batches: int | None = None,
    n_refits: int = 8,
    random_state: int = 0,
    **options: Any,
) -> MarginalEffects:
    r"""Return how a model's weights change with the characteristics of the peer, with distance and with shared codes.

    For every characteristic c, with :math:`\bar w` the mean size of a weight and :math:`s_c` a standard deviation in the
    cross-section,

    .. math:: \text{level}_c = \frac{s_c}{\bar w}\, \overline{\frac{\partial w_{ij}}{\partial x_{jc}}}, \qquad
              \text{distance}_c = \frac{s_c}{\bar w}\,
              \overline{\operatorname{sign}(x_{jc} - x_{ic}) \frac{\partial w_{ij}}{\partial x_{jc}}},

    means over pairs: do firms with more of c receive more weight, and do firms further away in c receive less? For a code it is
    the difference that it makes when the peer's code becomes, or ceases to be, that of the focal firm. Derivatives are central
    differences of the model's own network, whatever the model: heads, the covariance, a ridge, a kernel.

    Parameters
    ----------
    model : fitted peer model
        Has ``peer_network``; signed networks, too.
    X : DataFrame or Panel
        The panel that the model was fitted on; indexed by firm and period.
    y : array-like, optional
        Its outcomes, for refits; a Panel does not pass its own. Without them there are no standard errors.
    at : DataFrame or Panel, optional
        Rows of the cross-section in which effects are measured; default: the last period of ``X``.
    outcomes : Series, optional
        Of ``X``, or of the cross-section alone; passed on to ``peer_network``. Kernels, industry models and models of outcomes
        need them.
    characteristics, codes : sequence of str, optional
        Columns; default: all numbers, and all other columns.
    step : float, default 0.1
        Of the differences, in standard deviations.
    n_batches : int, optional
        Groups of firms, each of 2 % of all, that are moved one after the other; firms are drawn at random. Default: every firm by
        itself where there are at most 50, else ten groups, or those of 50 firms where these are more. Of a single firm that is
        drawn there are no standard errors.
    n_refits : int, default 8
        Refits, each without one of as many blocks of periods (without one of as many groups of firms, where there are fewer
        than two periods a block).
    random_state : int, default 0
        Draws the firms moved and the groups left out.
    **options
        Of ``peer_network``, such as ``part="covariance"`` or ``head=0``.

    Returns
    -------
    MarginalEffects
        ``summary()``, ``to_latex()``, ``conf_int()``.

    Raises
    ------
    InputError
        When the network has no weight, its peers are another universe, or a column is unknown.

    Notes
    -----
    Costs two networks for each characteristic and batch (one for each code and batch), for the model and every refit. Firms of a
    batch move together, which adds a share of about 2 % of the effect on each other. Variances are those of the delete-a-group
    jackknife plus, where not all firms are moved, that of the draw of firms. Effects describe what the model weighs, not what
    causes a firm to be a peer.

    References
    ----------
    Künsch (1989), "The jackknife and the bootstrap for general stationary observations", Annals of Statistics 17.
    Cochran (1977), *Sampling Techniques*, chapter 6.

    Examples
    --------
    >>> from peerattn import NadarayaWatsonRegressor, simulate_panel
    >>> panel = simulate_panel(20, 6, 2, random_state=0)
    >>> kernel = NadarayaWatsonRegressor(bandwidth=1.0).fit(panel.X, panel.y)
    >>> last = panel.X.index.get_level_values("period") == panel.X.index.get_level_values("period").max()
    >>> effects = marginal_effects(kernel, panel.X, outcomes=panel.y[last], n_batches=2)
    >>> bool(effects.params["x1, distance"] < 0)  # the further away, the less weight
    True
    """
    expect(hasattr(model, "peer_network"), "model", "a fitted peer model", type(model).__name__)
    X, rows = (part.X if isinstance(part, Panel) else part for part in (X, at))
    panel = as_panel(X)
    expect(panel.dated, "X", "a panel indexed by firm and period, the one the model was fitted on", "rows without labels")
    if rows is None:
        rows = X[panel.period == panel.period.max()]
    expect(isinstance(rows, pd.DataFrame), "at", "a DataFrame or a Panel", type(rows).__name__)
    if isinstance(outcomes, pd.Series) and rows.index.isin(outcomes.index).all():
        outcomes = outcomes.loc[rows.index]
    if outcomes is not None:
        options["outcomes"] = outcomes
    numbers: list[Any] = list(rows.select_dtypes("number") if characteristics is None else characteristics)
    labels: list[Any] = list(codes or ())
    if characteristics is None and codes is None:
        labels = [name for name in rows if name not in numbers]
    check_names("characteristics", "column", (*numbers, *labels), rows.columns)
    check_share(step=step)
    check_count(n_batches=n_batches)
    check_seed(random_state)
    moves = _Moves(rows, numbers, labels, step, n_batches, random_state, options)
    found = moves.effects(model)
    if found is None:
        raise InputError("model: its network in this cross-section is empty: no weight can change.")
    if not found["effect"].any():
        why = "Without outcomes the peers of a kernel or an industry model are training rows, which do not move"
        raise InputError(f"outcomes: no weight changes when peers do. {why}; pass the outcomes of the cross-section.")
    if y is None:
        return _with_errors(found, [], "blocks of periods", moves)
    check_at_least(2, n_refits=n_refits)
    check_count(n_refits=n_refits)
    groups, left_out = _jackknife_groups(panel, n_refits, random_state)
    values = as_panel(X, y).y.to_numpy()
    kept = (groups != group for group in range(n_refits))
    draws = [moves.effects(clone(model).fit(X[at], values[at])) for at in kept]
    return _with_errors(found, draws, left_out, moves)


def _jackknife_groups(panel: Panel, n_groups: int, seed: int) -> tuple[np.ndarray, str]:
    """Return the group of each row that one refit leaves out, and what the groups are."""
    firm, period = (pd.factorize(panel.labels.get_level_values(name), sort=True)[0] for name in (0, 1))
    n_periods = period.max() + 1
    if n_periods >= 2 * n_groups:
        return period * n_groups // n_periods, "blocks of periods"
    dealt = np.random.default_rng(seed).permutation(firm.max() + 1)
    return (dealt % n_groups)[firm], "groups of firms"


def _with_errors(found: pd.DataFrame, draws: Sequence[pd.DataFrame | None], left_out: str, moves: "_Moves") -> MarginalEffects:
    """Return effects with the standard errors of the delete-a-group jackknife and of the draw of firms."""
    n = len(draws)
    peers = {k: draw["effect"] for k, draw in enumerate(draws) if draw is not None}
    # where a refit found no peers its effects are zero
    frame = pd.DataFrame(peers, found.index).reindex(columns=range(n), fill_value=0.0)
    # every refit moves the same firms: which were drawn is not in the jackknife
    errors = (frame.var(axis=1, ddof=0).astype(float) * max(n - 1, 0) + found["variance"]) ** 0.5
    p = pd.Series(2 * stats.t.sf(np.abs(found["effect"] / errors.where(errors > 0)), max(n - 1, 1)), index=found.index)
    return MarginalEffects(
        params=found["effect"], std_errors=errors, pvalues=p, nobs=moves.pairs, rsquared=float("nan"), freedom=max(n - 1, 1),
        draws=frame, left_out=left_out, n_empty=n - len(peers), n_drawn=moves.n_drawn,
    )  # fmt: skip


class _Moves:
    """One cross-section, and the networks of a model in which some of its firms are moved."""

    def __init__(
        self, rows: pd.DataFrame, numbers: list[str], codes: list[str], step: float, n_batches: int | None, seed: int,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.rows = rows
        self.numbers = numbers
        self.step = step
        self.options = options
        self.firms = as_panel(rows).X.index.get_level_values("firm")
        n = len(rows)
        rng = np.random.default_rng(seed)
        size = max(1, n // 50)
        if n_batches is None:
            n_batches = max(FEWEST_BATCHES, -(-min(n, MOVED) // size))
        by_firm = np.argsort(pd.factorize(self.firms, sort=True)[0])  # the same draws in any order of the rows
        order = by_firm[rng.permutation(n)[: size * n_batches]]
        self.batches = np.array_split(order, max(1, len(order) // size))
        self.order = order
        self.pairs = len(order) * (n - 1)
        self.n_drawn = len(order) * (len(order) < n)
        to = rows.index[by_firm]
        self.drawn = {code: rows[code].iloc[by_firm[rng.permutation(n)]].set_axis(to).loc[rows.index] for code in codes}

    def weights(self, model: Any, rows: pd.DataFrame) -> np.ndarray:
        """Return the weights among the firms, (n, n), NaN on oneself."""
        matrix = model.peer_network(rows, **self.options).matrix()
        among = bool(matrix.index.isin(matrix.columns).all())
        expect(among, "model", "peers among the firms", "another universe", "Where they are training rows, pass outcomes=.")
        values = matrix.reindex(index=self.firms, columns=self.firms).to_numpy(dtype=float, copy=True)
        np.fill_diagonal(values, np.nan)
        return values

    def moved(self, model: Any, name: str, values: pd.Series, batch: np.ndarray) -> np.ndarray:
        """Return the weights on a batch of firms that take these values of a column, (n, firms of the batch).

        NaN where both ends of a pair move.
        """
        column = values.where(np.isin(np.arange(len(self.rows)), batch), self.rows[name])
        found = self.weights(model, self.rows.assign(**{name: column}))[:, batch]
        found[batch] = np.nan
        return found

    def effects(self, model: Any) -> pd.DataFrame | None:
        """Return the effects in shares of the mean weight, and the variance of their draw of firms; None of an empty network."""
        base = self.weights(model, self.rows)
        mean = float(np.nanmean(np.abs(base)))
        if not mean > 0:
            return None
        found = {}
        changes = np.full_like(base, np.nan)
        for name in self.numbers:
            x = self.rows[name].astype(float)
            by = self.step * np.nanstd(x)
            for batch in self.batches:
                ends = (self.moved(model, name, x + move, batch) for move in (by, -by))
                changes[:, batch] = (next(ends) - next(ends)) / (2 * self.step)
            # up or down is further away, by the side on which the peer is
            further = np.sign(x.to_numpy()[None, :] - x.to_numpy()[:, None])
            found[f"{name}, level of the peer"] = self._over_firms(changes)
            found[f"{name}, distance"] = self._over_firms(further * changes)
        for name, drawn in self.drawn.items():
            old, new = (column.to_numpy(dtype=object) for column in (self.rows[name], drawn))
            gained = (old[:, None] == new).astype(float) - (old[:, None] == old)  # -1: the code is lost
            for batch in self.batches:
                changes[:, batch] = self.moved(model, name, drawn, batch) - base[:, batch]
            found[f"same {name}"] = self._over_firms(np.where(gained == 0, np.nan, gained * changes))
        return pd.DataFrame.from_dict(found, "index", columns=["effect", "variance"]) / [mean, mean**2]

    def _over_firms(self, changes: np.ndarray) -> tuple[float, float]:
        """Return the mean over pairs, and its variance as a ratio of sums over the firms that were drawn (Cochran 1977).

        NaN, unknown, where fewer than two of these have pairs.
        """
        of_moved = changes[:, self.order]
        sums = np.nansum(of_moved, axis=0)
        counts = np.isfinite(of_moved).sum(axis=0)
        total = counts.sum()
        if not total:
            return np.nan, np.nan
        k = len(sums)
        left = sums - sums.sum() / total * counts
        variance = (1 - k / len(self.rows)) * k / max(k - 1, 1) * (left @ left) / total**2
        if self.n_drawn and np.count_nonzero(counts) < 2:
            variance = np.nan
        return float(sums.sum() / total), float(variance)
