"""What a change would do: direct, indirect and total effects of a characteristic, and a shock to some firms."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.polynomial.polynomial import polyval
from scipy import sparse, stats
from scipy.sparse.linalg import spsolve
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import (
    InputError,
    IsolateWarning,
    PeerAttnWarning,
    check_names,
    checked,
    unknown_name,
    warn_user,
)
from peerattn.models.base import PeerModel
from peerattn.models.linear_in_means import LinearInMeansRegressor
from peerattn.models.two_stage import PEERS_OUTCOME, describe
from peerattn.panel.labels import find_firm, find_period
from peerattn.panel.panel import Panel
from peerattn.panel.reading import as_panel
from peerattn.render import Shown, Table
from peerattn.types import LabelsLike, OutcomesLike, PanelLike

_KINDS = ("direct", "indirect", "total")
_STABLE = 0.999  # draws of a larger |β| have no equilibrium
_TERMS = 20_000
_FEW = 0.2  # share of draws without an equilibrium beyond which a warning is given


@dataclass(frozen=True, eq=False, repr=False)
class Impacts(Shown):
    """Average effects of each characteristic on outcomes; made by :func:`impacts`.

    Attributes
    ----------
    params, std_errors, pvalues : DataFrame
        Rows characteristics, columns direct, indirect, total.
    lower, upper : DataFrame
        Ends of the intervals.
    level : float
    n_draws : int
        Draws with an equilibrium, of all draws.
    n_networks : int
        Networks over which draws were taken.
    """

    _displayed = "summary"

    params: pd.DataFrame
    std_errors: pd.DataFrame
    pvalues: pd.DataFrame
    lower: pd.DataFrame
    upper: pd.DataFrame
    level: float
    n_draws: int
    n_networks: int

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each characteristic and kind of effect."""
        parts = ("params", "std_errors", "pvalues", "lower", "upper")
        frame = pd.DataFrame({name: getattr(self, name).stack() for name in parts})
        return frame.rename_axis(["characteristic", "effect"])

    def summary(self) -> Table:
        """Return the effects as a table that renders as text, HTML, LaTeX and Markdown."""
        frame = self.to_frame()
        rows = [(*map(str, at), *values) for at, values in zip(frame.index, frame.to_numpy())]
        head = ("Characteristic", "Effect", "Estimate", "Std. Err.", "P-value", "Lower CI", "Upper CI")
        several = f", and over {self.n_networks} networks" if self.n_networks > 1 else ", given the network"
        note = f"{self.level:.0%} intervals from {self.n_draws:,} draws of the coefficients{several}."
        formats = ("", "", ".4g", ".2g", ".3f", ".4g", ".4g")
        return Table("Direct, indirect and total effects", head, rows, formats=formats, footnotes=[note])

    def to_latex(self) -> str:
        """Return the table as LaTeX (package booktabs)."""
        return self.summary().to_latex()

    def __repr__(self) -> str:
        size = f"{len(self.params)} characteristics, {self.n_draws:,} draws, {self.n_networks} networks"
        return f"Impacts({size})"


def impacts(
    model: LinearInMeansRegressor,
    X: PanelLike,
    *,
    period: LabelsLike = None,
    others: Sequence[LinearInMeansRegressor] = (),
    level: float = 0.95,
    n_draws: int = 999,
    random_state: Any = 0,
) -> Impacts:
    r"""Return the average direct, indirect and total effect of each characteristic.

    Of ``y = βWy + xγ + Wxδ + ...`` the effects of x are :math:`S = (I - \beta W)^{-1} (\gamma I + \delta W)`, and

    .. math:: \text{direct} = \tfrac1n \operatorname{tr} S, \qquad \text{total} = \tfrac1n 1' S 1, \qquad
              \text{indirect} = \text{total} - \text{direct}:

    what a firm's own unit does to itself (feedback through peers included), what it and all others do together, and the rest.

    Parameters
    ----------
    model : fitted LinearInMeansRegressor
    X : Panel or DataFrame
        Rows whose network is meant, one period of them.
    period : label, optional
        Default: the last period of X.
    others : sequence of fitted LinearInMeansRegressor
        Fits with other estimates of the network (other seeds, bootstrap samples, the other half of the periods): draws are
        taken from all of them alike, so that intervals carry the network's uncertainty beside the coefficients'.
    level : float, default 0.95
    n_draws : int, default 999
        Draws of the coefficients from their normal distribution; those with :math:`|\beta| \ge 1` have no equilibrium and are
        left out.
    random_state : int, RandomState or None

    Returns
    -------
    Impacts

    Raises
    ------
    InputError
        For a model without a network.

    Notes
    -----
    Standard errors and percentile intervals are those of the draws; p values compare estimate and standard error with the
    normal distribution. Direct effects take the eigenvalues of W, once for each network: n³. An estimate of
    :math:`|\beta| \ge 1` has no effects: NaN.

    References
    ----------
    LeSage, J. and Pace, R. K. (2009), Introduction to Spatial Econometrics, Chapman & Hall, sections 2.7 and 5.6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> W = (rng.random((80, 80)) < 0.05) * (1.0 - np.eye(80))
    >>> W /= np.maximum(W.sum(axis=1, keepdims=True), 1.0)
    >>> X = pd.DataFrame({"firm": range(80), "period": 2001, "size": rng.normal(size=80)})
    >>> y = np.linalg.solve(np.eye(80) - 0.5 * W, X["size"] + 0.01 * rng.normal(size=80))
    >>> model = LinearInMeansRegressor(network=pd.DataFrame(W), cluster=None).fit(X, y)
    >>> impacts(model, X).params.round(1).loc["size"].tolist()
    [1.0, 0.9, 2.0]
    """
    models = [model, *others]
    networks = [_weights(one, X, period) for one in models]
    drawn = zip(models, networks, _draws(models, n_draws, check_random_state(random_state)))
    draws = np.concatenate([_effects(one, values, W) for one, W, values in drawn])
    estimates = [_effects(one, one.coef_.to_frame().T, W)[0] for one, W in zip(models, networks)]
    names = model.feature_names_
    _warn_of_unstable(n_draws - len(draws), n_draws)
    frame = lambda values: pd.DataFrame(values, pd.Index(names, name="characteristic"), _KINDS)  # noqa: E731
    params = frame(np.mean(estimates, axis=0))
    errors = frame(draws.std(axis=0, ddof=1))
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    p = frame(2 * stats.norm.sf(np.abs(params / errors)))
    return Impacts(params, errors, p, frame(low), frame(high), level, len(draws), len(models))


def _weights(model: LinearInMeansRegressor, X: PanelLike, period: LabelsLike) -> Any:
    """Return the row-normalised network among the rows of one period."""
    if not isinstance(model, LinearInMeansRegressor):
        raise InputError(
            f"model: expected a LinearInMeansRegressor, got {type(model).__name__}; of others take shock()."
        )
    check_is_fitted(model)
    if model.network_ is None:
        raise InputError("model: it has no network, so each effect is the coefficient itself.")
    panel, rows = model._gate_rows(X)
    at = _rows_in(panel, period)
    return model._square(panel.period[at][0] if panel.dated else None, rows.take(at))


def _rows_in(panel: Panel, period: LabelsLike) -> np.ndarray:
    when = panel.period.max() if period is None else find_period(period, panel.period.unique().sort_values())
    return np.flatnonzero(panel.period == when)


def _coefficients(model: LinearInMeansRegressor, draws: pd.DataFrame) -> np.ndarray:
    """Return the coefficients of peers' outcome, of own characteristics and of peers', (n_draws, 1 + 2 p)."""
    names = model.feature_names_
    columns = [PEERS_OUTCOME, *names, *describe(names, "peers'")]
    return draws.reindex(columns=columns, fill_value=0.0).to_numpy(dtype=float)


def _effects(model: LinearInMeansRegressor, draws: pd.DataFrame, W: Any) -> np.ndarray:
    """Return direct, indirect and total effects of each characteristic, (n_draws, p, 3).

    They are averages over ``M = (I − βW)⁻¹`` and ``MW``: of the diagonal, by the eigenvalues of W, and of the row sums, by powers
    of W; NaN where ``|β| ≥ 1``, which has no equilibrium.
    """
    beta, own, peers = np.split(_coefficients(model, draws), [1, 1 + len(model.feature_names_)], axis=1)
    stable = np.abs(beta) < _STABLE
    beta = np.where(stable, beta, 0.0)
    most = np.abs(beta).max(initial=1e-300)
    sums = [1.0]
    power = np.ones(W.shape[0])
    for _ in range(min(_TERMS, int(np.log(1e-14) / np.log(most)) + 2)):
        power = W @ power
        sums.append(float(power.mean()))
    eigenvalues = np.linalg.eigvals(W.toarray())
    inverse = 1 / (1 - beta * eigenvalues)
    direct = inverse.real.mean(1)[:, None] * own + (inverse * eigenvalues).real.mean(1)[:, None] * peers
    total = polyval(beta, sums[:-1]) * own + polyval(beta, sums[1:]) * peers
    return np.where(stable[:, :, None], np.stack([direct, total - direct, total], axis=2), np.nan)


@checked
def shock(
    model: PeerModel,
    X: PanelLike,
    changes: Mapping[str, float],
    *,
    firms: Iterable[Any] | None = None,
    period: LabelsLike = None,
    outcomes: OutcomesLike = None,
    others: Sequence[PeerModel] = (),
    level: float = 0.95,
    n_draws: int = 199,
    random_state: Any = 0,
) -> pd.DataFrame:
    r"""Return what a change of some firms' characteristics does to every firm's prediction.

    .. math:: \Delta_i = f_i(X + \text{changes}) - f_i(X)

    Of a linear-in-means model f is the equilibrium, :math:`(I - \beta W)^{-1}(X\gamma + WX\delta)`, with the network held; of
    other peer models the prediction, in which weights move with the characteristics, too.

    Parameters
    ----------
    model : fitted peer model
    X : Panel or DataFrame
    changes : dict of str to float
        What is added to each characteristic, in its units.
    firms : labels, or a pair (code column, value), optional
        Whose characteristics change: some firms, or an industry, ``("sector", "Energy")``. Default: all.
    period : label, optional
        Default: the last period of X.
    outcomes : Series, optional
        For models that read peers' outcomes: they are held.
    others : sequence of fitted models
        Fits with other estimates of the network: intervals are taken over them, too.
    level, n_draws, random_state
        As in :func:`impacts`. Coefficients are drawn for linear-in-means models; for others the intervals hold the spread over
        ``others`` alone, and are NaN without them.

    Returns
    -------
    DataFrame
        Indexed by firm: ``effect``, ``lower``, ``upper``, and ``shocked``.

    Raises
    ------
    InputError
        For an unknown characteristic or firm.

    Examples
    --------
    >>> W = pd.DataFrame([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]], list("ABCD"), list("ABCD"))
    >>> rng = np.random.default_rng(0)
    >>> index = pd.MultiIndex.from_product([list("ABCD"), range(50)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": rng.normal(size=200)}, index=index)
    >>> given = np.kron(np.linalg.inv(np.eye(4) - 0.5 * W.to_numpy()), np.eye(50))
    >>> y = pd.Series(given @ X["size"].to_numpy() + 0.01 * rng.normal(size=200), index)
    >>> model = LinearInMeansRegressor(network=W, effects=()).fit(X, y)
    >>> shock(model, X, {"size": 1.0}, firms=["D"], n_draws=99)["effect"].round(2).tolist()
    [0.13, 0.27, 0.53, 1.07]
    """
    panel = as_panel(X, firm=model.firm, period=model.period).sorted()
    if panel.firm is None:
        raise InputError("X carries no firms: index it by firm and period.")
    rows = panel.take(_rows_in(panel, period))
    assert rows.firm is not None
    chosen = _chosen(rows, firms)
    plain = rows.X.rename_axis([model.firm, model.period])
    frame = plain.copy()
    check_names("changes", "characteristic", changes, rows.characteristics)
    for name, size in changes.items():
        frame.loc[chosen, name] += float(size)
    observed = {} if outcomes is None else {"outcomes": pd.Series(outcomes).reindex(plain.index)}

    def effect(one: PeerModel) -> np.ndarray:
        return np.asarray(one.predict(frame, **observed)) - np.asarray(one.predict(plain, **observed))

    def drawn(one: PeerModel, values: pd.DataFrame) -> np.ndarray:
        if not isinstance(one, LinearInMeansRegressor):
            return effect(one)[None]
        return _shocked(one, values, plain, frame, held=bool(observed))

    models = [model, *others]
    model.predict(frame, **observed)  # which warns of firms without peers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IsolateWarning)
        found = np.mean([effect(one) for one in models], axis=0)
        each = zip(models, _draws(models, n_draws, check_random_state(random_state)))
        draws = np.concatenate([drawn(one, values) for one, values in each])
    if any(isinstance(one, LinearInMeansRegressor) for one in models):
        _warn_of_unstable(n_draws - len(draws), n_draws)
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(draws, ends, axis=0) if len(draws) > 1 else (np.nan, np.nan)
    columns = {"effect": found, "lower": low, "upper": high, "shocked": chosen}
    return pd.DataFrame(columns, index=rows.firm.rename("firm"))


def _shocked(
    model: LinearInMeansRegressor,
    draws: pd.DataFrame,
    before: pd.DataFrame,
    after: pd.DataFrame,
    *,
    held: bool,
) -> np.ndarray:
    """Return the effect on every row's prediction under each draw of the coefficients, (n_draws, n); ``held``: outcomes are."""
    panel, rows = model._gate_rows(before)
    W = model._square(panel.period[0] if panel.dated else None, rows)
    change = model._gate_rows(after)[1].x - rows.x
    beta, slopes = np.split(_coefficients(model, draws), [1], axis=1)
    moved = slopes @ np.hstack([change, W @ change]).T
    if held or not beta.any():
        return moved
    identity = sparse.eye_array(len(rows), format="csc")
    W = W.tocsc()
    solved = [spsolve(identity - b * W, row) for (b,), row in zip(beta, moved)]
    return np.reshape(solved, moved.shape)


def _chosen(rows: Panel, firms: Any) -> np.ndarray:
    assert rows.firm is not None
    if firms is None:
        return np.ones(len(rows), dtype=bool)
    if isinstance(firms, tuple) and len(firms) == 2 and firms[0] in rows.codes:
        codes = pd.Series(rows.codes[firms[0]])
        chosen = codes.eq(firms[1]).to_numpy(dtype=bool, na_value=False)
        if not chosen.any():
            raise unknown_name("firms", f"level of {firms[0]}", firms[1], codes.dropna().unique())
        return chosen
    wanted = [firms] if isinstance(firms, str) else firms
    return np.asarray(rows.firm.isin([find_firm(name, rows.firm) for name in wanted]))


def _warn_of_unstable(dropped: int, n_draws: int) -> None:
    if n_draws >= 2 > n_draws - dropped:
        raise InputError(
            f"model: {dropped} of {n_draws} draws of the peers' effect β have |β| ≥ 1, so no equilibrium: there are no intervals."
        )
    if dropped > _FEW * n_draws:
        warn_user(
            PeerAttnWarning(
                f"{dropped} of {n_draws} draws of the peers' effect β have |β| ≥ 1, no equilibrium, and are left out: intervals "
                "are too narrow, and may miss the estimate. Its instruments may be weak (see summary())."
            )
        )


def _draws(models: Sequence[PeerModel], n_draws: int, rng: np.random.RandomState) -> Iterator[pd.DataFrame]:
    """Yield draws of each model's coefficients, those that have an equilibrium; no column for one without coefficients."""
    for one, share in zip(models, np.array_split(np.arange(n_draws), len(models))):
        if not isinstance(one, LinearInMeansRegressor):
            yield pd.DataFrame()
            continue
        values = rng.multivariate_normal(one.coef_, one.results_.cov, size=len(share))
        drawn = pd.DataFrame(values, columns=one.coef_.index)
        yield drawn[drawn.get(PEERS_OUTCOME, 0.0 * drawn.iloc[:, 0]).abs() < _STABLE]
