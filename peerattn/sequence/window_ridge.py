"""The linear forecast of a window, in closed form: the cheap control, and what attention starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Penalties tried, as multiples of the mean eigenvalue of the windows' second moments.
PENALTIES = tuple(10.0**power for power in range(-7, 4))


@dataclass(frozen=True)
class WindowMoments:
    r"""Second moments of all windows of a series, the last value of the past taken off.

    .. math:: G = \sum_c \sum_t w_{tc} w_{tc}', \qquad
              w_{tc} = (x_{t,c}, \ldots, x_{t+L+H-1,c})' - x_{t+L-1,c} \mathbf 1

    Attributes
    ----------
    matrix : ndarray, shape (lookback + horizon, lookback + horizon)
        G, over all columns c and windows t.
    lookback : int
        L.
    n_windows : int
        Number of windows, over all columns.
    """

    matrix: np.ndarray
    lookback: int
    n_windows: int

    @classmethod
    def of(cls, series: np.ndarray, lookback: int, horizon: int) -> WindowMoments:
        """Return the moments of a series, (n_rows, n_columns)."""
        size = lookback + horizon
        total = np.zeros((size, size))
        for column in series.T:
            windows = np.lib.stride_tricks.sliding_window_view(column, size)
            changes = windows - windows[:, [lookback - 1]]
            total += changes.T @ changes
        return cls(total, lookback, (len(series) - size + 1) * series.shape[1])

    def coefficients(self, penalty: float) -> np.ndarray:
        r"""Return the ridge map of the past to the future, :math:`(A + \lambda I)^{-1} B`, (lookback, horizon).

        λ is ``penalty`` times the mean eigenvalue of A, the moments of the past; B are those of past and future.
        """
        past, both = np.hsplit(self.matrix[: self.lookback], [self.lookback])
        ridge = penalty * max(np.trace(past) / self.lookback, np.finfo(float).tiny)
        return np.linalg.solve(past + ridge * np.eye(self.lookback), both)

    def mean_squared_error(self, coefficients: np.ndarray) -> float:
        """Return the error of a linear map over these windows, per value, without looking at them again."""
        residual = np.vstack([-coefficients, np.eye(coefficients.shape[1])])
        total = np.sum(residual * (self.matrix @ residual))
        return float(total / (self.n_windows * coefficients.shape[1]))


def window_ridge(train: WindowMoments, validation: WindowMoments) -> tuple[np.ndarray, float]:
    r"""Return the linear forecast of a window whose penalty does best on later windows.

    .. math:: \hat x_{t+h} = x_t + \sum_{l=0}^{L-1} (x_{t-l} - x_t)\, \beta_{lh}

    Parameters
    ----------
    train, validation : WindowMoments
        Of the windows that are fitted, and of those that choose among `PENALTIES`.

    Returns
    -------
    coefficients : ndarray, shape (lookback, horizon)
        Oldest value first. A large penalty leads to zero: repeat the last value.
    penalty : float

    References
    ----------
    Toner and Darlow (2024), An analysis of linear time series forecasting models, ICML.

    Examples
    --------
    >>> line = np.arange(30.0)[:, None]  # goes on by one
    >>> moments = WindowMoments.of(line, lookback=4, horizon=2)
    >>> coefficients, penalty = window_ridge(moments, moments)
    >>> np.round((np.arange(4.0) - 3) @ coefficients, 3)
    array([1., 2.])
    """
    maps = [train.coefficients(penalty) for penalty in PENALTIES]
    errors = [validation.mean_squared_error(coefficients) for coefficients in maps]
    best = int(np.argmin(errors))
    return maps[best], PENALTIES[best]
