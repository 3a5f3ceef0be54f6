"""Forecasts of series: a line in closed form, and attention over patches for what it leaves."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import expect
from peerattn.scaling import centre_and_spread
from peerattn.sequence import series
from peerattn.sequence.attention_map import AttentionMap
from peerattn.sequence.base import BesideLine, SequenceEstimator, StackArguments, loss_reduction_in_blocks
from peerattn.sequence.time_index import frequency_of, later_labels

SAMPLE = 400  # windows, at most, that stop training: evenly spaced


#: Penalties tried, as multiples of the mean eigenvalue of the windows' second moments.
PENALTIES = tuple(10.0**power for power in range(-7, 4))


def window_moments(values: np.ndarray, lookback: int, horizon: int) -> np.ndarray:
    r"""Return the mean second moments of all windows of a series, the last value of the past taken off.

    .. math:: G = \frac{1}{n} \sum_c \sum_t w_{tc} w_{tc}', \qquad
              w_{tc} = (x_{t,c}, \ldots, x_{t+L+H-1,c})' - x_{t+L-1,c} \mathbf 1

    over all columns c of ``values``, (n_rows, n_columns), and their windows t, n in all.
    """
    windows = series.windows_of(values, lookback + horizon).swapaxes(0, 1)  # (columns, windows, L + H), a view
    # net of the last value: a forecast moves with the level
    changes = (column - column[:, [lookback - 1]] for column in windows)
    return sum(each.T @ each for each in changes) / (windows.shape[0] * windows.shape[1])


def window_ridge(train: np.ndarray, validation: np.ndarray, lookback: int) -> tuple[np.ndarray, float]:
    r"""Return the linear forecast of a window whose penalty does best on later windows.

    .. math:: \hat x_{t+h} = x_t + \sum_{l=0}^{L-1} (x_{t-l} - x_t)\, \beta_{lh}, \qquad
              \beta = (A + \lambda \bar a I)^{-1} B

    A are the moments of the past, :math:`\bar a` their mean eigenvalue, B those of past and future.

    Parameters
    ----------
    train, validation : ndarray, shape (lookback + horizon, lookback + horizon)
        `window_moments` of the windows that are fitted, and of those that choose λ among `PENALTIES`.
    lookback : int
        L.

    Returns
    -------
    coefficients : ndarray, shape (lookback, horizon)
        Oldest value first. A large penalty leads to zero: repeat the last value.
    penalty : float
        λ.

    References
    ----------
    Toner and Darlow (2024), An analysis of linear time series forecasting models, ICML.

    Examples
    --------
    >>> line = np.arange(30.0)[:, None]  # goes on by one
    >>> moments = window_moments(line, lookback=4, horizon=2)
    >>> coefficients, penalty = window_ridge(moments, moments, lookback=4)
    >>> np.round((np.arange(4.0) - 3) @ coefficients, 3)
    array([1., 2.])
    """
    past, both = np.hsplit(train[:lookback], [lookback])
    # penalties in units of the mean eigenvalue: the series' own unit does not matter, where there is any
    unit = (np.trace(past) / lookback or 1.0) * np.eye(lookback)
    maps = [np.linalg.solve(past + penalty * unit, both) for penalty in PENALTIES]
    # squared errors from second moments alone: no window is made again
    left = [np.vstack([-coefficients, np.eye(coefficients.shape[1])]) for coefficients in maps]
    best = int(np.argmin([np.sum(residual * (validation @ residual)) for residual in left]))
    return maps[best], PENALTIES[best]


class PatchForecast(torch.nn.Module):
    r"""The forecast of windows.

    .. math:: \hat x_{t+h} = x_t + \sum_l (x_{t-l} - x_t)\, \beta_{lh} + s_t\, u_h' \operatorname{vec}(\text{patches}(z_t)),
              \qquad z_t = (x_{t-L+1..t} - x_t) / s_t

    with s the standard deviation of the window. The line β is given and stays; u starts at zero.
    """

    line: Tensor

    def __init__(self, encoder: series.PatchEncoder, lookback: int, horizon: int, generator: Generator):
        super().__init__()
        self.encoder = encoder
        self.register_buffer("line", torch.zeros(lookback, horizon))
        width = encoder.n_patches * encoder.embed.out_features
        self.head = nn.linear(width, horizon, generator=generator)
        # training starts from the line
        torch.nn.init.zeros_(self.head.weight)

    def forward(self, windows: Tensor) -> Tensor:
        """Return (batch, columns, horizon) of windows (batch, columns, lookback)."""
        last = windows[..., -1:]
        centred = windows - last
        spread = (windows.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()  # kept off zero
        rows = self.encoder(centred / spread)
        return last + centred @ self.line + spread * self.head(rows.flatten(-2))


@dataclass(eq=False, repr=False)
class AttentionForecaster(BesideLine, StackArguments, SequenceEstimator[PatchForecast]):
    r"""Forecast the next values of one or many series by attention over patches of their past.

    .. math:: \hat x_{t+h} = x_t + \sum_{l=0}^{L-1} (x_{t-l} - x_t)\, \beta_{lh} + s_t\, a_h(x_{t-L+1..t})

    β is a ridge in closed form, one map for all columns; a is attention over patches in time, trained on what
    the line leaves and kept only if it forecasts the last part of the series better than the line alone, by more than
    one standard error.

    Parameters
    ----------
    horizon : int, default 24
        Rows ahead, H.
    lookback : int, default 96
        Rows of the past that a forecast sees, L.
    patch : int, default 16
        Neighbouring values that attention sees as one.
    line : bool, default True
        False: attention alone forecasts the change from the last value.
    d_model, n_heads, n_layers, dropout
        Sizes of the blocks.
    learning_rate : float, default 3e-4
    weight_decay : float, default 0.01
    max_steps : int, default 600
        Steps of training at most.
    batch_size : int, default 256
        Windows a step, drawn at random.
    validation_share : float, default 0.2
        The last share of the rows chooses penalty and step; nothing else is fitted to it.
    device, precision, compile : str, str, bool, defaults "cpu", "auto", False
        Where and how it is trained, as in `SequenceEstimator`.
    random_state : int, RandomState or None, default None
    verbose : bool, default False

    Attributes
    ----------
    penalty_ : float
        The line's, see `window_ridge`; nan without a line.
    loss_reduction_ : float
        By how much attention lowers the line's loss on the validation rows, as a share.
    loss_reduction_error_ : float
        Its standard error, over blocks of windows as long as the horizon. Where ``loss_reduction_`` does not exceed it, forecasts
        are those of the linear model alone.
    mean_, scale_ : ndarray, shape (n_columns,)
        Of the training rows; inside, columns are standardised.
    frequency_ : str or None
        Of the dates of ``fit``, where these label the rows.

    Raises
    ------
    InputError
        When the series has gaps, by its values or its labels, is not in the order of time, is several series below each other,
        or is too short for lookback and horizon.

    References
    ----------
    Nie et al. (2023), A time series is worth 64 words: long-term forecasting with transformers, ICLR. Toner and
    Darlow (2024), An analysis of linear time series forecasting models, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> wave = np.sin(np.arange(300) * 2 * np.pi / 12)[:, None]
    >>> model = AttentionForecaster(horizon=3, lookback=24, max_steps=5, random_state=0).fit(wave)
    >>> bool(np.allclose(model.predict(wave)[:, 0], np.sin(np.arange(300, 303) * 2 * np.pi / 12), atol=0.01))
    True
    """

    _answers: ClassVar[str] = "forecasts"
    horizon: int = 24
    lookback: int = 96
    _: KW_ONLY
    patch: int = 16
    line: bool = True
    d_model: int = 32
    n_layers: int = 2
    dropout: float = 0.2
    learning_rate: float = 3e-4
    weight_decay: float = 0.01
    max_steps: int = 600
    batch_size: int = 256
    validation_share: float = 0.2

    # ------------------------------------------------------------------ fit

    def fit(self, X: object, y: None = None) -> Self:
        """Fit on series.

        Parameters
        ----------
        X : DataFrame, Series or array-like, shape (n_rows, n_columns)
            One column per series, rows equally spaced in time, oldest first, as their labels must show.
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        values = series.check_series(self, X, reset=True)
        size = self.lookback + self.horizon
        self.frequency_ = None
        if isinstance(X, pd.DataFrame | pd.Series):
            self.frequency_ = frequency_of(X.index)
        n_train = len(values) - round(self.validation_share * len(values))
        enough = n_train >= size and len(values) - n_train >= self.horizon
        of = f"lookback={self.lookback}, horizon={self.horizon}, validation_share={self.validation_share}"
        rows = f"at least {size} rows for training and {self.horizon} for validation ({of})"
        got = f"n_samples={len(values)}, of which {n_train} train"
        expect(enough, "X", rows, got, "Lower lookback or horizon, or give a longer series.")
        self.mean_, self.scale_ = centre_and_spread(values[:n_train])
        scaled = (values - self.mean_) / self.scale_
        return self._fit((scaled[:n_train], scaled[n_train - self.lookback :]))

    def _start(self, module: PatchForecast, examples: tuple[np.ndarray, np.ndarray]) -> None:
        """Set the line, of the rows that train and those that choose penalty and step, which start with the window before."""
        self.penalty_ = float("nan")
        if self.line:
            train, validation = (window_moments(rows, self.lookback, self.horizon) for rows in examples)
            coefficients, self.penalty_ = window_ridge(train, validation, self.lookback)
            module.line.copy_(torch.tensor(coefficients))

    def _learn(self, module: PatchForecast, examples: Any, generator: Generator, **options: Any) -> None:
        """Train attention; keep the line alone where attention forecasts the held windows no better."""
        train, validation = (series.tensor_windows(rows, self.lookback + self.horizon) for rows in examples)

        @torch.no_grad()
        def held_losses() -> np.ndarray:
            return torch.cat(list(self._held_losses(module.eval(), validation))).double().cpu().numpy()

        # the state before training, should attention not help
        self._keep(module)
        start = self.state_
        without = held_losses()
        options = {"validate": lambda: float(held_losses().mean())}
        super()._learn(module, train, generator, validate_every=max(1, self.max_steps // 12), **options)
        n_blocks = len(validation) // self.horizon
        self.loss_reduction_, self.loss_reduction_error_ = loss_reduction_in_blocks(without, held_losses(), n_blocks)
        if self._line_alone:
            self.state_ = start

    def _batches(self, examples: Tensor, generator: Generator) -> Iterator[Tensor]:
        for batch in series.drawn_windows(examples, self.batch_size, generator):
            yield batch.to(self._on, non_blocking=True)

    def _loss(self, module: PatchForecast, batch: Tensor) -> Tensor:
        return self._losses(module, batch).mean()

    def _losses(self, module: PatchForecast, windows: Tensor) -> Tensor:
        """Return the mean loss of each window, (n,)."""
        past, future = windows.split([self.lookback, self.horizon], -1)
        return (module(past) - future).square().flatten(1).mean(1)

    def _loss_sums(self, module: PatchForecast, X: object, y: object) -> Iterator[tuple[Tensor, int]]:
        windows = series.tensor_windows(self._scaled(X, self.horizon), self.lookback + self.horizon)
        yield from ((losses.sum(), len(losses)) for losses in self._held_losses(module, windows))

    def _held_losses(self, module: PatchForecast, windows: Tensor) -> Iterator[Tensor]:
        """Yield the losses of at most about SAMPLE windows, evenly spaced."""
        for part in windows[:: -(-len(windows) // SAMPLE)].split(64):
            yield self._losses(module, part.to(self._on))

    def _build(self, generator: Generator) -> PatchForecast:
        sizes = (self.lookback, self.patch, self.d_model, self.n_heads, self.n_layers)
        encoder = series.PatchEncoder(*sizes, generator=generator, dropout=self.dropout)
        return PatchForecast(encoder, self.lookback, self.horizon, generator)

    # ------------------------------------------------------------------ forecasts

    def predict(self, X: object) -> Any:
        """Forecast the rows after the last one.

        Parameters
        ----------
        X : DataFrame, Series or array-like, shape (n_rows, n_columns)
            At least ``lookback`` rows; only the last ``lookback`` rows matter.

        Returns
        -------
        DataFrame, Series or ndarray, shape (horizon, n_columns)
            Like X, under the labels that follow: dates, periods, numbers, or text as pandas writes periods.

        Raises
        ------
        InputError
            When labels of X are repeated, not in order, or have no even step.
        """
        return self._like(X, self._forecast(self._scaled(X)[-self.lookback :])[0])

    def predict_windows(self, X: object) -> np.ndarray:
        """Forecast from every row that has ``lookback`` rows up to it, the last ones too.

        Returns
        -------
        ndarray, shape (n_rows - lookback + 1, horizon, n_columns)
        """
        return self._forecast(self._scaled(X))

    def score(self, X: object, y: None = None) -> float:
        """Return minus the mean squared error over all windows of X, in squared units of the standardised columns."""
        values = self._scaled(X, self.horizon)
        future = series.windows_of(values[self.lookback :], self.horizon).transpose(0, 2, 1)
        found = (self._forecast(values)[: len(future)] - self.mean_) / self.scale_
        return -float(np.mean((found - future) ** 2))

    def attention(self, X: object, column: int | str = 0) -> AttentionMap:
        """Return the attention weights between the patches of the last window, for one column.

        Parameters
        ----------
        X : as in ``predict``
        column : int or str, default 0
            Number of a column, or its name in the frame that was fitted.

        Raises
        ------
        InputError
            When the forecasts are those of the line alone (``loss_reduction_`` within its standard error), without attention.
        """
        window = self._tensor(self._scaled(X)[None, -self.lookback :].transpose(0, 2, 1))
        names = series.patch_names(-(-self.lookback // self.patch), self.patch)
        return self._map(lambda module: module.double()(window), names, (0, series.column_number(self, column)))

    def _scaled(self, X: object, ahead: int = 0) -> np.ndarray:
        """Return the rows of a series, at least a window and those ahead, standardised as in fit."""
        why = "lookback" + " + horizon" * (ahead > 0)
        return series.standardised(self, X, shortest=self.lookback + ahead, why=why)

    def _forecast(self, scaled: np.ndarray) -> np.ndarray:
        """Return forecasts (n, H, columns) of all windows of standardised rows, in the units of the series."""
        module = self._module().double()
        windows = series.windows_of(scaled, self.lookback)
        found = self._in_parts(lambda part: module(self._tensor(part)), windows)
        return found.transpose(0, 2, 1) * self.scale_ + self.mean_

    def _like(self, X: object, values: np.ndarray) -> Any:
        """Return forecasts, (horizon, n_columns), as what X is."""
        if not isinstance(X, pd.DataFrame | pd.Series):
            return values
        labels = later_labels(X.index, len(values), self.frequency_)
        if isinstance(X, pd.DataFrame):
            return pd.DataFrame(values, labels, X.columns)
        return pd.Series(values[:, 0], labels, name=X.name)
