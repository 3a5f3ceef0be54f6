"""Fixed effects: groups of rows that each have a constant of their own, absorbed by ``pyhdfe``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.sparse.linalg import lsqr

from peerattn.exceptions import InputError, did_you_mean, expect, extra, reworded

BY = "×"  # between the parts of an effect, "sic×period"; "^", as in fixest, is read alike
DEPENDENT = 1e-9  # a column whose part that is new is a smaller share of it counts as dependent
ROUNDS = 100_000  # in which two effects are absorbed, or an error tells that they are not


def effect_parts(effects: str | Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """Return the names of effects, and of what each is made.

    >>> effect_parts(("firm", "sic^period"))
    {'firm': ('firm',), 'sic×period': ('sic', 'period')}
    """
    if isinstance(effects, str):
        effects = (effects,)
    expect(isinstance(effects, Sequence | Mapping | None), "effects", "a list of names", type(effects).__name__)
    named = (str(name).replace("^", BY) for name in effects or ())
    return {name: tuple(part.strip() for part in name.split(BY)) for name in named}


def effect_codes(effects: str | Sequence[str] | None, own: Iterable[str] = ("firm", "period")) -> list[str]:
    """Return the parts of effects that are none of ``own``: columns with codes.

    >>> effect_codes(("firm", "sic×period"))
    ['sic']
    """
    parts = (part for parts in effect_parts(effects).values() for part in parts)
    return [part for part in dict.fromkeys(parts) if part not in set(own)]


def effect_labels(effects: str | Sequence[str] | None, labels: Mapping[str, Any]) -> pd.DataFrame:
    """Return the group of each row, one column an effect; unknown labels are a group.

    Parameters
    ----------
    effects : sequence of str, default ()
        Names of labels, or several joined by ``×`` or ``^``: a constant for each combination.
    labels : mapping of str to array-like (n,)

    Raises
    ------
    InputError
        For an effect that is none of the labels.

    Examples
    --------
    >>> effect_labels(("sic×period",), {"sic": ["28", "37"], "period": [1, 1]})["sic×period"].tolist()
    ['28×1', '37×1']
    """
    columns: dict[str, Any] = {}
    for name, parts in effect_parts(effects).items():
        for part in parts:
            if part not in labels:
                remedy = f"Name {', '.join(map(repr, labels))}, or join several by {BY!r}, such as 'firm{BY}period'."
                raise InputError(f"effects: {part!r} is no label.{did_you_mean(part, labels)} {remedy}")
        if len(parts) == 1:
            columns[name] = np.asarray(labels[parts[0]])
        else:
            texts = [pd.Index(labels[part]).map(str) for part in parts]
            columns[name] = [BY.join(row) for row in zip(*texts, strict=True)]
    n_rows = min((len(values) for values in labels.values()), default=0)
    return pd.DataFrame(columns, index=pd.RangeIndex(n_rows))


def integers(groups: pd.DataFrame) -> pd.DataFrame:
    """Return each column's groups as numbers, in order of appearance; unknown labels are a group."""
    return groups.apply(lambda column: pd.factorize(column, use_na_sentinel=False)[0])


def degrees_of(groups: pd.DataFrame, clusters: pd.DataFrame | None = None) -> int:
    """Return the degrees of freedom that effects take (of three and more an upper bound), those nested in clusters none.

    >>> degrees_of(pd.DataFrame({"firm": ["A", "A", "B"], "period": [1, 2, 2]}))
    3
    """
    if not groups.shape[1]:
        return 0
    # each row twice: pyhdfe would not count groups of one row, which stay in the sample here
    numbers = _varying(groups).repeat(2, axis=0)
    nesting = None
    if clusters is not None:
        nesting = integers(clusters).to_numpy().repeat(2, axis=0)
    return int(_pyhdfe().create(numbers, nesting, drop_singletons=False).degrees)


def net_of(groups: pd.DataFrame, table: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    r"""Return columns net of effects, ``v − D (D'D)⁻¹ D'v`` with D the dummies.

    Parameters
    ----------
    groups : DataFrame (n, e)
        The group of each row, one column an effect; no column: the table as it is.
    table : ndarray (n, p)
    weight : ndarray (n,), optional

    References
    ----------
    Correia, S. (2016), A feasible estimator for linear models with multi-way fixed effects, Duke University (``pyhdfe``).

    Examples
    --------
    >>> net_of(pd.DataFrame({"firm": ["A", "A", "B"]}), np.array([[1.0], [3.0], [5.0]])).ravel().round(9).tolist()
    [-1.0, 1.0, 0.0]
    """
    if not groups.shape[1]:
        return table
    numbers = _varying(groups)
    # singletons stay: dropping rows would change the sample of which means are reported
    options: dict[str, Any] = {"drop_singletons": False, "compute_degrees": False}
    if numbers.shape[1] > 1:
        options["options"] = {"iteration_limit": ROUNDS}
    absorb = _pyhdfe().create(numbers, **options)
    weights = weight
    if weight is not None:
        weights = weight[:, None]
    remedy = " Hardly any group of one has rows in several of another: leave one out, or choose coarser ones."
    # its tolerance is absolute: columns go in without their mean and in units of their spread, and with several effects
    # once more in units of what is left, so that a part that the effects explain nearly whole is as exact
    net = table - np.average(table, axis=0, weights=weight)
    for _ in range(min(numbers.shape[1], 2)):
        unit = np.sqrt(np.mean(net**2, axis=0))
        unit[unit == 0] = 1.0
        with reworded(f"effects: {', '.join(map(str, groups))} are not absorbed after {ROUNDS:,} rounds", remedy, RuntimeError):
            net = absorb.residualize(net / unit, weights) * unit
    return net


def _pyhdfe() -> Any:
    return extra("pyhdfe", "regressions", "Absorbing effects")


def _varying(groups: pd.DataFrame) -> np.ndarray:
    """Return groups as numbers without effects of one group, a constant which each other contains; one effect stays."""
    numbers = integers(groups).to_numpy()
    several = numbers.max(axis=0, initial=0) > 0
    several[0] |= not several.any()
    return numbers[:, several]


def estimated_effects(
    rest: np.ndarray, groups: pd.DataFrame, weight: np.ndarray | None = None
) -> tuple[float, dict[str, pd.Series]]:
    """Return the mean of what characteristics leave, and each effect by group, its mean over the rows zero.

    >>> mean, effects = estimated_effects(np.array([1.0, 3.0, 5.0]), pd.DataFrame({"firm": ["A", "A", "B"]}))
    >>> mean, effects["firm"].round(9).to_dict()
    (3.0, {'A': -1.0, 'B': 2.0})
    """
    # least squares on the dummies, each row times the root of its weight
    root = np.ones(len(rest))
    if weight is not None:
        root = np.sqrt(weight)
    mean = float(np.average(rest, weights=root**2))
    place = np.arange(len(rest))
    found = [pd.factorize(groups[name], use_na_sentinel=False) for name in groups]
    dummies = sparse.hstack([sparse.csr_array((root, (place, code))) for code, _ in found]).tocsr()
    values = lsqr(dummies, root * (rest - mean), atol=1e-14, btol=1e-14, iter_lim=10_000)[0]
    parts = np.split(values, np.cumsum([len(labels) for _, labels in found])[:-1])
    effects = {}
    for name, (code, labels), part in zip(groups, found, parts, strict=True):
        # dummies of several effects determine each other up to a constant: the mean takes it
        level = float(np.average(part[code], weights=root**2))
        effects[str(name)] = pd.Series(part - level, index=pd.Index(labels))
        mean += level
    return mean, effects


def known_effects(effects: Mapping[str, pd.Series], groups: pd.DataFrame) -> np.ndarray:
    """Return the sum of each row's effects; a group that was not in training has the mean effect, zero.

    >>> known_effects({"firm": pd.Series({"A": -1.0})}, pd.DataFrame({"firm": ["A", "C"]})).tolist()
    [-1.0, 0.0]
    """
    each = [effect.reindex(pd.Index(groups[name])).fillna(0.0).to_numpy() for name, effect in effects.items()]
    return np.asarray(sum(each, np.zeros(len(groups))))


def independent_columns(columns: np.ndarray, rounding: np.ndarray | None = None) -> np.ndarray:
    """Return which columns are no combination of earlier ones; ``rounding``, (p,), is the share of each that may be rounding.

    >>> independent_columns(np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0], [1.0, 2.0, 5.0]])).tolist()
    [True, False, True]
    """
    size = np.linalg.norm(columns, axis=0)
    R: np.ndarray = np.linalg.qr(columns / np.where(size > 0, size, 1.0), mode="r")  # type: ignore[assignment]
    if rounding is None:
        rounding = np.zeros(len(size))
    kept = np.zeros(len(size), dtype=bool)
    for k, column in enumerate(R.T):
        slopes = np.linalg.lstsq(R[:, kept], column, rcond=None)[0]
        error = rounding[k] + np.abs(slopes) @ rounding[kept]
        kept[k] = np.linalg.norm(column - R[:, kept] @ slopes) > max(DEPENDENT, error)
    return kept
