"""Anomalies in series: values that the rows around them do not predict."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from sklearn.base import OutlierMixin
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import expect
from peerattn.scaling import centre_and_spread
from peerattn.sequence import series
from peerattn.sequence.attention_map import AttentionMap
from peerattn.sequence.base import SequenceEstimator, StackArguments


class HiddenPatches(torch.nn.Module):
    """Predict hidden patches from the others: a learned vector takes the place of the hidden."""

    def __init__(self, encoder: series.PatchEncoder, generator: Generator):
        super().__init__()
        d_model = encoder.embed.out_features
        self.encoder = encoder
        self.hidden = nn.normal(d_model, std=0.02, generator=generator)
        self.head = nn.linear(d_model, encoder.patch, generator=generator)

    def forward(self, windows: Tensor, hidden: Tensor) -> Tensor:
        """Return all patches as expected, (batch, columns, n_patches, patch).

        ``windows`` (batch, columns, window); ``hidden`` (batch, n_patches), True where a patch is.
        """
        return self.head(self.encoder(windows, hidden, self.hidden))

    def errors(self, windows: Tensor, hidden: Tensor) -> Tensor:
        """Return the mean squared error of each window's hidden patches, (batch,)."""
        squares = (self(windows, hidden) - self.encoder.patches(windows)).square().mean((1, 3))
        return (squares * hidden).sum(1) / hidden.sum(1)


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionAnomalyDetector(OutlierMixin, StackArguments, SequenceEstimator[HiddenPatches]):
    r"""Score every row of a series by how badly the rows around it predict it.

    .. math:: \text{score}_t = -\frac1{|B(t)|} \sum_{b \in B(t)} \frac1{|b|} \sum_{s \in b} (x_s - \hat x_s^{(-b)})^2

    Blocks b of patches are hidden from windows that slide over the series, and predicted from the rest; B(t) are the
    blocks that hold row t. Each column is predicted from itself; scores are means over columns. The model learns this on
    the series of ``fit``, which should be mostly normal.

    Parameters
    ----------
    window : int, default 96
        Rows that are seen together.
    patch : int, default 8
        Neighbouring values that attention sees as one, and the step between scored windows; divides ``window``.
    method : {"prediction", "reconstruction"}, default "prediction"
        Whether blocks are at the end of their window, so that only the past predicts them, or anywhere in it.
    hidden : float, default 0.25
        Length of a block as a share of the window.
    contamination : float, default 0.1
        Share of the rows of ``fit`` that ``predict`` calls anomalies.
    d_model, n_heads, n_layers, dropout
        Sizes of the blocks.
    learning_rate : float, default 1e-3
    weight_decay : float, default 0.05
    max_steps : int, default 300
    batch_size : int, default 64
    device, precision, compile : str, str, bool, defaults "cpu", "auto", False
        Where and how it is trained, as in `SequenceEstimator`.
    random_state : int, RandomState or None, default None
    verbose : bool, default False

    Attributes
    ----------
    mean_, scale_ : ndarray, shape (n_columns,)
        Of the rows of ``fit``; inside, columns are standardised.
    offset_ : float
        ``decision_function`` is the score minus it.

    Raises
    ------
    InputError
        When the series has gaps or is shorter than the window.

    Notes
    -----
    Rows are dates in order: a row's score depends on the rows before it, and on later ones as far as a block reaches. Rows
    in no block (at the start) have the score of the first row that is in one.

    References
    ----------
    Devlin et al. (2019), BERT (hidden parts predicted from the rest). Kim et al. (2022), Towards a rigorous evaluation of
    time-series anomaly detection, AAAI (why point-adjusted scores mean nothing).

    Examples
    --------
    >>> wave = np.sin(np.arange(400) / 4)[:, None]
    >>> wave[300:310] += 3
    >>> model = AttentionAnomalyDetector(window=32, max_steps=50, random_state=0).fit(wave[:200])
    >>> bool(290 <= model.score_samples(wave).argmin() < 320)
    True
    """

    window: int = 96
    patch: int = 8
    method: Literal["prediction", "reconstruction"] = "prediction"
    hidden: float = 0.25
    contamination: float = 0.1
    d_model: int = 32
    n_layers: int = 2
    weight_decay: float = 0.05
    max_steps: int = 300

    # ------------------------------------------------------------------ fit

    def fit(self, X: object, y: None = None) -> Self:
        """Learn what is normal.

        Parameters
        ----------
        X : DataFrame, Series or array-like, shape (n_rows, n_columns)
            One column per series, rows equally spaced in time.
        y : ignored

        Returns
        -------
        self
        """
        self._validate_params()
        whole = self.window % self.patch == 0 and self.window >= 2 * self.patch
        expect(whole, "window", f"a multiple of patch={self.patch}, at least twice it", self.window)
        values = series.check_series(self, X, reset=True, shortest=self.window, why="window")
        self.mean_, self.scale_ = centre_and_spread(values)
        self._fit(series.tensor_windows((values - self.mean_) / self.scale_, self.window))
        scores = self.score_samples(X)
        self.offset_ = float(np.quantile(scores, self.contamination))
        return self

    def _loss(self, module: HiddenPatches, batch: tuple[Tensor, Tensor]) -> Tensor:
        return module.errors(*batch).mean()

    def _batches(self, examples: Tensor, generator: Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Draw windows, and which of their patches are hidden."""
        _, _, starts = self._blocks()
        for batch in series.drawn_windows(examples, self.batch_size, generator):
            first = torch.randint(len(starts), (self.batch_size, 1), generator=generator)
            yield batch.to(self._on, non_blocking=True), self._hidden(starts[first])

    def _hidden(self, first: int | Tensor) -> Tensor:
        """Return which patches the block hides that starts at a patch, or at one for each of a batch: (batch, n_patches)."""
        n, length, _ = self._blocks()
        place = torch.arange(n)[None]
        return ((place >= first) & (place < first + length)).to(self._on)

    def _blocks(self) -> tuple[int, int, Tensor]:
        """Return the number of patches, of those hidden together, and where such a block may start."""
        n = self.window // self.patch
        length = min(max(1, round(self.hidden * n)), n)
        starts = torch.arange(n - length + 1)
        if self.method == "prediction":  # the last block only
            starts = starts[-1:]
        return n, length, starts

    def _build(self, generator: Generator) -> HiddenPatches:
        sizes = (self.window, self.patch, self.d_model, self.n_heads, self.n_layers)
        encoder = series.PatchEncoder(*sizes, generator=generator, dropout=self.dropout)
        return HiddenPatches(encoder, generator)

    # ------------------------------------------------------------------ scores

    def score_samples(self, X: object) -> np.ndarray:
        """Return a score for every row, (n_rows,): minus a mean squared error, so that low means abnormal.

        Parameters
        ----------
        X : DataFrame, Series or array-like, shape (n_rows, n_columns)
            Rows that follow each other; at least one window.
        """
        module = self._module().double()
        scaled = self._scaled(X)
        n = len(scaled)
        last = len(scaled) - self.window
        (_, length, starts) = self._blocks()
        at = np.unique([*range(0, last, self.patch), last])
        # windows a patch apart: each row is in many, and hidden in several
        windows = series.windows_of(scaled, self.window)[at]

        def errors(first: int) -> np.ndarray:
            hidden = self._hidden(first)
            return self._in_parts(lambda part: module.errors(self._tensor(part), hidden), windows)

        # each patch is hidden once, or twice where blocks overlap
        blocks = sorted({*starts[::length].tolist(), int(starts[-1])})
        length *= self.patch
        rows = (np.concatenate([at + k * self.patch for k in blocks])[:, None] + np.arange(length)).ravel()
        # beside values of 1e200 errors are beyond floating point: infinite
        found = np.repeat(np.nan_to_num(np.concatenate([errors(k) for k in blocks]), nan=np.inf), length)
        count = np.bincount(rows, minlength=n)
        first = np.flatnonzero(count)[0]
        mean = np.bincount(rows, found, minlength=n)[first:] / count[first:]
        # the first rows are never hidden where only the past predicts: they take the next score
        return -np.pad(mean, (first, 0), mode="edge")

    def decision_function(self, X: object) -> np.ndarray:
        """Return ``score_samples(X) - offset_``: negative where ``predict`` calls a row an anomaly."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: object) -> np.ndarray:
        """Return −1 for anomalies and 1 for other rows."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def attention(self, X: object, column: int | str = 0) -> AttentionMap:
        """Return the attention weights between patches of the last window, its last block hidden, for one column."""
        window = self._tensor(self._scaled(X)[None, -self.window :].transpose(0, 2, 1))
        n, _, starts = self._blocks()
        hidden = self._hidden(starts[-1])
        names = series.patch_names(n, self.patch, hidden[0].tolist())
        return self._map(lambda module: module.double()(window, hidden), names, (0, series.column_number(self, column)))

    def _scaled(self, X: object) -> np.ndarray:
        """Return the rows of a series, at least a window, standardised as in fit."""
        return series.standardised(self, X, shortest=self.window, why="window")

    def _loss_sums(self, module: HiddenPatches, X: object, y: object) -> Iterator[tuple[Tensor, int]]:
        """The last block of windows side by side is hidden."""
        windows = series.tensor_windows(self._scaled(X), self.window)[:: self.window]
        hidden = self._hidden(self._blocks()[-1][-1])
        for part in windows.split(256):
            yield module.errors(part.to(self._on), hidden).sum(), len(part)
