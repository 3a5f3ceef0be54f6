"""What models of series share: windows encoded as patches; series checked and standardised."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import InputError, expect, reworded_values
from peerattn.sequence.time_index import times_of


class PatchEncoder(torch.nn.Module):
    r"""Encode windows: neighbouring values form a patch, patches attend to each other.

    .. math:: z_{cp} = W x_{c,\,pk+1..pk+k} + b + t_p, \qquad h = \text{blocks}(z)

    Parameters
    ----------
    lookback : int
        Length of a window.
    patch : int
        Values in a patch, k. A window that is no multiple is filled up on the left with its first value.
    d_model, n_heads, n_layers : int
        Sizes of the blocks, which attend within each column.
    **options
        ``generator``, which draws the start, and further options of the blocks, ``dropout`` and ``attend`` among them; see
        `Encoder`.

    References
    ----------
    Nie et al. (2023), A time series is worth 64 words, ICLR.

    Examples
    --------
    >>> PatchEncoder(lookback=10, patch=4, d_model=8, n_heads=2, n_layers=1)(torch.zeros(5, 3, 10)).shape
    torch.Size([5, 3, 3, 8])
    """

    def __init__(self, lookback: int, patch: int, d_model: int, n_heads: int, n_layers: int, **options: Any):
        super().__init__()
        generator = options.setdefault("generator", Generator())
        self.patch = patch
        self.n_patches = -(-lookback // patch)
        self.embed = nn.linear(patch, d_model, generator=generator)
        self.positions = nn.LearnedPositions(self.n_patches, d_model, generator=generator)
        self.blocks = nn.Encoder(n_layers, d_model, n_heads, **options)

    def patches(self, windows: Tensor) -> Tensor:
        """Cut windows (..., lookback) into patches (..., n_patches, patch)."""
        # a first patch that is not full begins with the window's first value
        missing = self.n_patches * self.patch - windows.shape[-1]
        first = windows[..., :1].expand(*windows.shape[:-1], missing)
        return torch.cat([first, windows], dim=-1).unflatten(-1, (self.n_patches, self.patch))

    def forward(self, windows: Tensor, hidden: Tensor | None = None, instead: Tensor | None = None) -> Tensor:
        """Return the rows of all patches, (batch, columns, n_patches, d_model), of windows (batch, columns, lookback).

        Where ``hidden``, (batch, n_patches), the vector ``instead`` takes the place of a patch. The
        weights of each layer are (batch, columns, heads, n_patches, n_patches).
        """
        rows = self.embed(self.patches(windows))
        if hidden is not None and instead is not None:
            rows = torch.where(hidden[:, None, :, None], instead, rows)
        return self.blocks(rows + self.positions(self.n_patches))


def drawn_windows(windows: Tensor, size: int, generator: Generator) -> Iterator[Tensor]:
    """Draw windows of one column each, (batch, 1, length), of those of all columns, (n, columns, length), indefinitely."""
    n, columns = windows.shape[:2]
    while True:
        at = torch.randint(n, (size,), generator=generator)
        of = torch.randint(columns, (size,), generator=generator)
        yield windows[at, of][:, None]


def patch_names(n: int, patch: int, hidden: Sequence[bool] = ()) -> list[str]:
    """Return the names of the patches of a window: their rows, counted back from the last, which is row 0.

    Examples
    --------
    >>> patch_names(2, 4, [False, True])
    ['-7..-4', '-3..0 hidden']
    """
    ends = [patch * (k - n) for k in range(n)]
    return [f"{e + 1}..{e + patch}{' hidden' * mark}" for e, mark in zip_longest(ends, hidden, fillvalue=False)]


def check_series(estimator: BaseEstimator, X: object, *, reset: bool, shortest: int = 1, why: str = "") -> np.ndarray:
    """Return series as float64, (n_rows, n_columns), rows in the order of time.

    Parameters
    ----------
    estimator : estimator
        Stores number and names of columns (``reset=True``), or is compared with them.
    X : DataFrame, Series or array-like, shape (n_rows, n_columns)
        One column per series, one row per date, equally spaced.
    reset : bool
    shortest : int, default 1
        Rows needed; ``why`` is the reason in the error.
    why : str

    Raises
    ------
    InputError
        When numbers are missing, rows too few, or labels of rows repeated or not in the order of time; the message names where.
    """
    frame = X
    if isinstance(X, pd.Series):
        frame = X.to_frame()
    if isinstance(frame, pd.DataFrame):
        # raises unless rows are in the order of time
        times_of(frame.index)
        for name, column in frame.items():
            found = f"X: expected numbers in each column, got {{}} in {name!r}."
            if column.dtype.kind == "M" or isinstance(column.dtype, pd.PeriodDtype):
                raise InputError(f"{found.format('dates')} Make them the index: X.set_index({name!r}).")
            words = column[pd.to_numeric(column, errors="coerce").isna() & column.notna()]
            if len(words):
                remedy = f"Leave it out; if it holds dates, make them the index: X.set_index(pd.to_datetime(X[{name!r}]))."
                raise InputError(f"{found.format(repr(words.iloc[0]))} {remedy}")
    options = {"dtype": np.float64, "ensure_all_finite": False, "ensure_min_samples": 1 + reset}
    with reworded_values("X must hold numbers"):
        values: np.ndarray = validate_data(estimator, frame, reset=reset, **options)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        kind = "NaN" if np.isnan(values[tuple(bad[0])]) else "inf"
        axes = getattr(frame, "axes", map(range, values.shape))
        row, name = (labels[k] for labels, k in zip(axes, bad[0]))
        where = f"{kind} in column {name!r} at row {row} ({len(bad)} in all)"
        remedy = "Interpolate the gap, or cut the series after it."
        raise InputError(f"X: expected numbers without gaps, got {where}. {remedy}")
    expect(len(values) >= shortest, "X", f"at least {shortest} rows ({why})", f"n_samples={len(values)}")
    return values


def standardised(estimator: Any, X: object, *, shortest: int, why: str) -> np.ndarray:
    """Return the rows of a series in the units in which a model was fitted; arguments as in `check_series`."""
    check_is_fitted(estimator)
    values = check_series(estimator, X, reset=False, shortest=shortest, why=why)
    return (values - estimator.mean_) / estimator.scale_


def column_number(estimator: BaseEstimator, column: int | str) -> int:
    """Return the number of a column, given as such or by its name in the frame of ``fit``.

    Raises
    ------
    InputError
        When there is no such column.
    """
    names = list(getattr(estimator, "feature_names_in_", []))
    n = estimator.n_features_in_
    if isinstance(column, Hashable) and column in names:
        column = names.index(column)
    known = f"a number from 0 to {n - 1}" + f" or one of {names}" * bool(names)
    expect(isinstance(column, int | np.integer) and 0 <= column < n, "column", known, repr(column))
    return int(column)


def windows_of(values: np.ndarray, length: int) -> np.ndarray:
    """Return every window of a series, (n_rows - length + 1, n_columns, length), as a view.

    Examples
    --------
    >>> windows_of(np.arange(4.0)[:, None], 3)[:, 0].tolist()
    [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    """
    return np.lib.stride_tricks.sliding_window_view(values, length, axis=0)


def tensor_windows(values: np.ndarray, length: int) -> Tensor:
    """Return every window of a series, as `windows_of` does, in single precision."""
    return torch.tensor(values, dtype=torch.float32).unfold(0, length, 1)
