"""What models of series share: columns standardised, windows drawn, patches encoded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from peerattn.exceptions import InputError
from peerattn.sequence.base import SequenceEstimator
from peerattn.sequence.patches import PatchEncoder


class WindowedEstimator(SequenceEstimator):
    """A model that learns from windows of series, each column by itself or columns attending to each other."""

    channels: str
    patch: int
    d_model: int
    n_heads: int
    n_layers: int
    dropout: float
    batch_size: int
    n_features_in_: int
    mean_: np.ndarray
    scale_: np.ndarray

    def _learn_scale(self, rows: np.ndarray) -> None:
        """Set mean and spread of every column; a constant one has spread 1."""
        self.mean_, spread = rows.mean(0), rows.std(0)
        self.scale_ = np.where(spread > 0, spread, 1.0)

    def _drawn(self, windows: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
        """Draw windows, (batch, columns, length): of one column where columns are independent, of all otherwise."""
        n, columns = windows.shape[:2]
        while True:
            at = torch.randint(n, (self.batch_size,), generator=generator)
            if self.channels == "independent":
                batch = windows[at, torch.randint(columns, (self.batch_size,), generator=generator)][:, None]
            else:
                batch = windows[at]
            yield batch.to(self.device)

    def _encoder(self, length: int, generator: torch.Generator) -> PatchEncoder:
        return PatchEncoder(
            length, self.patch, self.d_model, self.n_heads, self.n_layers, dropout=self.dropout,
            n_columns=self.n_features_in_ if self.channels == "attending" else None, generator=generator,
        )  # fmt: skip

    def _check_channels(self) -> None:
        if self.channels not in ("independent", "attending"):
            raise InputError(f"channels: expected 'independent' or 'attending', got {self.channels!r}.")
