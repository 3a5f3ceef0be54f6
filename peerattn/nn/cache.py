"""Keys and values of rows already read, so that the next row costs one row."""

import itertools

import torch
from torch import Tensor


class KeyValueCache:
    """The keys and values that one attention layer has computed so far.

    Examples
    --------
    >>> import torch
    >>> cache = KeyValueCache()
    >>> for _ in range(3):
    ...     keys, values = cache.extend(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4))
    >>> cache.length, keys.shape
    (3, torch.Size([1, 2, 3, 4]))
    """

    def __init__(self) -> None:
        self._rows: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        """Number of rows read so far."""
        return 0 if self._rows is None else self._rows[0].shape[-2]

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add rows (..., H, n, d) and return all rows so far, (..., H, length, d).

        Copies them: no more than attention to them reads.
        """
        # -2 is the dimension of rows, whatever comes before
        if self._rows is not None:
            key, value = (torch.cat(pair, -2) for pair in zip(self._rows, (key, value)))
        self._rows = key, value
        return self._rows

    def rows(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values so far, (..., H, length, d)."""
        assert self._rows is not None
        return self._rows

    def reorder(self, sequences: Tensor) -> None:
        """Keep these sequences of the batch, in this order, as beam search needs."""
        if self._rows is not None:
            # rows of a beam follow it wherever it goes
            key, value = self._rows
            self._rows = key.index_select(0, sequences), value.index_select(0, sequences)


class StackCache:
    """The caches of a stack of blocks: of each block's own rows, and of what its cross-attention attends to.

    Parameters
    ----------
    n_layers : int

    Examples
    --------
    >>> StackCache(2).length
    0
    """

    def __init__(self, n_layers: int):
        self.blocks = [(KeyValueCache(), KeyValueCache()) for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """Number of rows read so far."""
        return self.blocks[0][0].length if self.blocks else 0

    def reorder(self, sequences: Tensor) -> None:
        """Keep these sequences of the batch, in this order."""
        for cache in itertools.chain(*self.blocks):
            cache.reorder(sequences)
