"""Mean and standard deviation of columns, with one rule of when a column is a constant."""

import numpy as np

# of the mean: a standard deviation below is rounding, and the column a constant, whatever its unit
ROUNDING = 1e-13


def centre_and_spread(
    values: np.ndarray, axis: int | tuple[int, ...] = 0, *, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation over the axes; the latter is 1 where it is rounding, that is of a constant.

    The mean of a constant is not exact (that of 0.1, a thousand times, is not 0.1), and division by the remainder would make
    scores of any size.

    >>> centre_and_spread(np.full((1000, 1), 0.1))[1].tolist()
    [1.0]
    """
    values = values.astype(float, copy=False)
    center = np.average(values, axis=axis, weights=weight)
    across = np.expand_dims(center, axis)
    spread = np.sqrt(np.average((values - across) ** 2, axis=axis, weights=weight))
    return center, np.where(spread <= ROUNDING * np.abs(center), 1.0, spread)
