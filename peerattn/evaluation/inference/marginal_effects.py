"""What makes a peer: average marginal effects of characteristics and of shared codes on the weight of a pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone

from peerattn.exceptions import InputError, check_at_least, checked, unknown_name
from peerattn.panel import Panel, as_panel
from peerattn.render import Regression


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MarginalEffects(Regression):
    """Average marginal effects on the weight of a pair, in shares of the mean weight.

    Attributes
    ----------
    params, std_errors, pvalues : pandas.Series
        Effects; their standard errors and p values (Student's t, refits minus one degrees of freedom) over refits;
        NaN without refits.
    draws : pandas.DataFrame
        The effects of each refit, one column each.
    left_out : str
        What each refit left out: blocks of periods, or groups of firms.
    n_empty : int
        Refits that found no peers, whose effects are zero.
    """

    draws: pd.DataFrame
    left_out: str = ""
    n_empty: int = 0
    title: str = "What makes a peer? Average marginal effects on the weight"

    def _footnotes(self) -> list[str]:
        unit = (
            "Change of the weight in shares of the mean weight (0.1 = a tenth of it): per standard deviation of the peer's "
            "characteristic, per standard deviation of distance from the focal firm, and of having the same code."
        )
        if self.draws.empty:
            return [unit, "No standard errors: pass y for refits."]
        empty = f" {self.n_empty} of them found no peers." if self.n_empty else ""
        return [
            unit,
            f"Standard errors over {(n := self.draws.shape[1])} refits, each without one of {n} {self.left_out}.{empty}",
        ]


@checked
def marginal_effects(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    at: Any = None,
    outcomes: Any = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] | None = None,
    step: float = 0.1,
    n_batches: int = 10,
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
    n_batches : int, default 10
        Groups of firms, each of 2 % of all, that are moved one after the other; firms are drawn at random.
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
    batch move together, which adds a share of about 2 % of the effect on each other. Standard errors are those of the
    delete-a-group jackknife. Effects describe what the model weighs, not what causes a firm to be a peer.

    References
    ----------
    Künsch (1989), "The jackknife and the bootstrap for general stationary observations", Annals of Statistics 17.

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
    if not hasattr(model, "peer_network"):
        raise InputError(f"model: expected a fitted peer model, got {type(model).__name__}.")
    X, rows = (part.X if isinstance(part, Panel) else part for part in (X, at))
    rows = _last_period(X) if rows is None else rows
    if (
        isinstance(outcomes, pd.Series)
        and len(outcomes) > len(rows)
        and rows.index.isin(outcomes.index).all()
    ):
        outcomes = outcomes.loc[rows.index]
    numbers: list[Any] = (
        list(rows.select_dtypes("number")) if characteristics is None else list(characteristics)
    )
    labels: list[Any] = (
        [c for c in rows if c not in numbers and characteristics is None] if codes is None else list(codes)
    )
    for name in (*numbers, *labels):
        if name not in rows.columns:
            raise unknown_name("characteristics", "column", name, rows.columns)
    if not 0 < step <= 1:
        raise InputError(f"step: expected a number above 0 and at most 1, got {step!r}.")
    moves = _Moves(rows, numbers, labels, step, n_batches, random_state, options | {"outcomes": outcomes})
    found = moves.effects(model)
    if found is None:
        raise InputError("model: its network in this cross-section is empty: no weight can change.")
    if not found.any():
        raise InputError(
            "outcomes: no weight changes when peers do. Without outcomes the peers of a kernel or an industry model are training "
            "rows, which do not move; pass the outcomes of the cross-section."
        )
    draws, empty, left = [], 0, "blocks of periods"
    if y is not None:
        check_at_least(2, n_refits=n_refits)
        left, groups = _groups(X, n_refits, random_state)
        values = as_panel(X, y).y.to_numpy()
        for group in range(n_refits):
            refit = clone(model).fit(X[groups != group], values[groups != group])
            drawn = moves.effects(refit)
            empty += drawn is None
            draws.append(0.0 * found if drawn is None else drawn)
    frame = pd.DataFrame(dict(enumerate(draws)), index=found.index)
    n = frame.shape[1]
    errors = frame.std(axis=1, ddof=0) * np.sqrt(n - 1) if n > 1 else found * np.nan
    p = pd.Series(2 * stats.t.sf(np.abs(found / errors.where(errors > 0)), max(n - 1, 1)), index=found.index)
    return MarginalEffects(
        params=found, std_errors=errors, pvalues=p, nobs=moves.pairs, rsquared=float("nan"), freedom=max(n - 1, 1),
        draws=frame, left_out=left, n_empty=empty,
    )  # fmt: skip


def _last_period(X: pd.DataFrame) -> pd.DataFrame:
    labels = _labels(X).get_level_values("period")
    return X[labels == labels.max()]


def _labels(X: pd.DataFrame) -> pd.Index:
    """Return firm and period of each row."""
    panel = as_panel(X)
    if not panel.dated:
        raise InputError("X: expected a panel indexed by firm and period, the one the model was fitted on.")
    return panel.X.index


def _groups(X: pd.DataFrame, count: int, seed: int) -> tuple[str, np.ndarray]:
    """What is left out in turn, and the group of each row."""
    index = _labels(X)
    period = pd.factorize(index.get_level_values("period"), sort=True)[0]
    if (n := period.max() + 1) >= 2 * count:
        return "blocks of periods", period * count // n
    firm = pd.factorize(index.get_level_values("firm"), sort=True)[0]
    return "groups of firms", (np.random.default_rng(seed).permutation(firm.max() + 1) % count)[firm]


class _Moves:
    """One cross-section, and the networks of a model in which some of its firms are moved."""

    def __init__(
        self, rows: pd.DataFrame, numbers: list[str], codes: list[str], step: float, n_batches: int, seed: int,
        options: dict[str, Any],
    ) -> None:  # fmt: skip
        self.rows, self.numbers, self.codes, self.step = rows, numbers, codes, step
        self.options = {name: value for name, value in options.items() if value is not None}
        self.firms = as_panel(rows).X.index.get_level_values("firm")
        n, rng = len(rows), np.random.default_rng(seed)
        size = max(1, n // 50)
        order = rng.permutation(n)[: size * n_batches]
        self.batches = np.array_split(order, max(1, len(order) // size))
        self.pairs = len(order) * (n - 1)
        self.drawn = {code: rng.permutation(n) for code in codes}

    def weights(self, model: Any, rows: pd.DataFrame) -> np.ndarray:
        """Return the weights among the firms, (n, n), NaN on oneself."""
        matrix = model.peer_network(rows, **self.options).matrix()
        if not matrix.index.isin(matrix.columns).all():
            told = "" if "outcomes" in self.options else " Where these are its training rows, pass outcomes=."
            raise InputError(
                f"model: its peers are another universe; effects are measured among firms that are both.{told}"
            )
        values = matrix.reindex(index=self.firms, columns=self.firms).to_numpy(dtype=float, copy=True)
        np.fill_diagonal(values, np.nan)
        return values

    def effects(self, model: Any) -> pd.Series | None:
        """Return the effects in shares of the mean weight; None where the network is empty."""
        base = self.weights(model, self.rows)
        mean = float(np.nanmean(np.abs(base)))
        if not mean > 0:
            return None
        found = {}
        for name in self.numbers:
            x = self.rows[name].to_numpy(dtype=float)
            slopes = np.full_like(base, np.nan)
            for batch in self.batches:
                slopes[:, batch] = self._slope(model, name, x, batch)
                slopes[np.ix_(batch, batch)] = np.nan  # there both ends of a pair move
            further = np.sign(x[None, :] - x[:, None])
            found[f"{name}, level of the peer"] = np.nanmean(slopes)
            found[f"{name}, distance"] = np.nanmean(further * slopes)
        for name in self.codes:
            found[f"same {name}"] = np.mean(np.concatenate(list(self._of_code(model, name, base))))
        return pd.Series(found) / mean

    def _slope(self, model: Any, name: str, x: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Return the change of the weights on a batch of firms for a standard deviation of their characteristic."""
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[batch] += sign * self.step * np.nanstd(x)
            ends.append(self.weights(model, self.rows.assign(**{name: moved}))[:, batch])
        return (ends[0] - ends[1]) / (2 * self.step)

    def _of_code(self, model: Any, name: str, base: np.ndarray) -> Iterator[np.ndarray]:
        """Yield what a shared code adds to weights: gained where a firm takes a code, lost where it gives one up."""
        old = self.rows[name].to_numpy(dtype=object)
        for batch in self.batches:
            new = old.copy()
            new[batch] = old[self.drawn[name][batch]]
            taken = pd.Series(new, index=self.rows.index).astype(self.rows[name].dtype)
            change = (self.weights(model, self.rows.assign(**{name: taken})) - base)[:, batch]
            gained, lost = old[:, None] == new[None, batch], old[:, None] == old[None, batch]
            change[batch] = np.nan  # there both ends of a pair move
            turned = (gained != lost) & ~np.isnan(change)
            yield np.where(gained, change, -change)[turned]
