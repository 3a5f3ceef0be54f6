"""Bootstrap tests of the columns of a kernel regression."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from peerattn.models.kernel.local_regression import Bandwidths, LocalRegression, Points
from peerattn.render import Table

CELLS = 2_000_000
GOLDEN = (5**0.5 + 1) / 2


@dataclass(frozen=True)
class Significance:
    """Result of the significance tests.

    Attributes
    ----------
    table : DataFrame
        One row a column of X: ``statistic`` (mean squared effect) and ``p_value``.
    n_rows, n_bootstrap : int
    cluster : str or None
    """

    table: pd.DataFrame
    n_rows: int
    n_bootstrap: int
    cluster: str | None

    def to_frame(self) -> pd.DataFrame:
        """Return the table."""
        return self.table.copy()

    def summary(self) -> Table:
        """Return the table with its footnote."""
        rows = [(name, *values) for name, values in zip(self.table.index, self.table.to_numpy(), strict=True)]
        wild = f"one sign a {self.cluster}" if self.cluster else "one sign a row"
        return Table(
            "Significance of each column: kernel regression, bootstrap tests",
            ("", *self.table.columns),
            rows,
            formats=("", ".4g", ".3f"),
            footnotes=(
                f"{self.n_rows:,} rows, {self.n_bootstrap} wild-bootstrap draws ({wild}). Statistic: mean squared slope of a "
                "characteristic, mean squared differences between the levels of a code.",
            ),
        )

    def __repr__(self) -> str:
        return f"Significance({len(self.table)} columns, {self.n_rows} rows, {self.n_bootstrap} draws)"

    def __str__(self) -> str:
        return self.summary().text()

    def _repr_html_(self) -> str:
        return self.summary().html()


@dataclass(frozen=True)
class Sample:
    """A fitted kernel regression and its rows.

    Attributes
    ----------
    regression, points, bandwidths
        The regression and its pool; every row is predicted from rows of other identity.
    y : Tensor (n,), centred outcome
    identity, cluster : Tensor (n,) of int
        Rows of one cluster share the sign of their bootstrap residuals.
    line_scale : Tensor (p,)
        Spread that the local line's columns are divided by.
    names : tuple of str
        Characteristics, then codes.
    """

    regression: LocalRegression
    points: Points
    bandwidths: Bandwidths
    y: Tensor
    identity: Tensor
    cluster: Tensor
    line_scale: Tensor
    names: tuple[str, ...]

    def chunks(self) -> Iterator[slice]:
        """Yield slices of rows."""
        step = max(1, CELLS // len(self.points))
        for start in range(0, len(self.points), step):
            yield slice(start, start + step)

    def mask(self, rows: slice) -> Tensor:
        """Return which rows may be peers of these."""
        return self.identity[rows, None] != self.identity

    def weights(self, focal: Points, rows: slice) -> Tensor:
        """Return the weights of the pool in the fitted values at ``focal``, which stand for these rows."""
        return self.regression.weights(focal, self.points, self.bandwidths, self.mask(rows))

    def with_x(self, rows: slice, column: int, values: Tensor) -> Points:
        """Return these rows with other values of a characteristic."""
        points = self.points.take(rows)
        x = torch.cat([points.x[:, :column], values[:, None], points.x[:, column + 1 :]], dim=1)
        return Points(
            x, points.codes, x / self.line_scale if points.line.shape[1] else points.line, points.log_weight
        )

    def with_level(self, rows: slice, column: int, level: int) -> Points:
        """Return these rows with another level of a code."""
        points = self.points.take(rows)
        codes = points.codes.clone()
        codes[:, column] = level
        return Points(points.x, codes, points.line, points.log_weight)


def significance(
    sample: Sample, n_bootstrap: int, cluster: str | None, generator: np.random.RandomState
) -> Significance:
    """Test each column of a kernel regression by the wild bootstrap.

    For a characteristic the statistic is the mean of ``(∂ĝ/∂x_c)²`` over the rows, and the outcomes of the null hypothesis are
    ``ĝ`` with x_c at its mean plus a residual times a draw of Mammen's two-point variable (Racine 1997). For a code it is the
    mean of ``Σ_l (ĝ(level l) − ĝ(level 0))²``, and the null's ``ĝ`` averages over the levels (after Racine, Hart and Li 2006).
    ``p = (1 + #{draws ≥ statistic}) / (1 + draws)``. Bandwidths stay as they are, and rows are fitted from the others: a test
    needs O(n² (p + levels) draws) operations, memory O(n draws + chunk × n).

    References
    ----------
    Racine, J. (1997), Consistent significance testing for nonparametric regression, Journal of Business and Economic
    Statistics 15(3).
    Racine, J. S., Hart, J. and Li, Q. (2006), Testing the significance of categorical predictor variables in nonparametric
    regression models, Econometric Reviews 25(4).
    """
    with torch.no_grad():
        fitted = _stacked(sample, lambda rows: sample.weights(sample.points.take(rows), rows) @ sample.y)
        residual = sample.y - fitted
        residual = residual - residual.mean()
        n_clusters = int(sample.cluster.max()) + 1
        high = generator.uniform(size=(n_clusters, n_bootstrap)) < (GOLDEN - 1) / 5**0.5
        draws = torch.from_numpy(np.where(high, GOLDEN, 1 - GOLDEN)).to(residual.dtype)[sample.cluster]
        shocks = residual[:, None] * draws  # (n, n_bootstrap)
        p = sample.points.x.shape[1]
        rows = []
        for column in range(len(sample.names)):
            test = _characteristic if column < p else _code
            statistic, bootstrap = test(sample, column if column < p else column - p, shocks)
            rows.append((statistic, (1 + int((bootstrap >= statistic).sum())) / (1 + n_bootstrap)))
    table = pd.DataFrame(rows, index=list(sample.names), columns=["statistic", "p_value"])
    return Significance(table, len(sample.points), n_bootstrap, cluster)


def _stacked(sample: Sample, function: Callable[[slice], Tensor]) -> Tensor:
    return torch.cat([function(rows) for rows in sample.chunks()])


def _characteristic(sample: Sample, column: int, shocks: Tensor) -> tuple[float, Tensor]:
    def at_mean(rows: slice) -> Tensor:
        values = torch.zeros_like(sample.points.x[rows, column])  # characteristics are centred
        return sample.weights(sample.with_x(rows, column, values), rows) @ sample.y

    def slopes(rows: slice) -> Tensor:
        values = sample.points.x[rows, column]
        moved = lambda v: sample.weights(sample.with_x(rows, column, v), rows)  # noqa: E731
        return torch.func.jvp(moved, (values,), (torch.ones_like(values),))[1]

    outcomes = torch.cat([sample.y[:, None], _stacked(sample, at_mean)[:, None] + shocks], dim=1)
    squares = torch.stack([((slopes(rows) @ outcomes) ** 2).sum(0) for rows in sample.chunks()]).sum(0) / len(
        sample.y
    )
    return float(squares[0]), squares[1:]


def _code(sample: Sample, column: int, shocks: Tensor) -> tuple[float, Tensor]:
    code = sample.points.codes[:, column]
    levels = sample.regression.code_kernels[column].n_levels
    share = torch.bincount(code[code >= 0], minlength=levels).to(sample.y.dtype)
    share = share / share.sum()

    def weights(rows: slice) -> Iterator[Tensor]:
        for level in range(levels):
            yield sample.weights(sample.with_level(rows, column, level), rows)

    def averaged(rows: slice) -> Tensor:
        return sum(share[level] * (W @ sample.y) for level, W in enumerate(weights(rows)))  # type: ignore[return-value]

    outcomes = torch.cat([sample.y[:, None], _stacked(sample, averaged)[:, None] + shocks], dim=1)
    squares = torch.zeros(outcomes.shape[1], dtype=sample.y.dtype)
    for rows in sample.chunks():
        first, *others = (W @ outcomes for W in weights(rows))
        squares += sum((((other - first) ** 2).sum(0) for other in others), torch.zeros_like(squares))
    squares /= len(sample.y)
    return float(squares[0]), squares[1:]
