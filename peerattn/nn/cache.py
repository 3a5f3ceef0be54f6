"""Keys and values of rows already read, so that the next row costs one row."""

from __future__ import annotations

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
        self.length = 0
        self._key: Tensor | None = (
            None  # (..., H, capacity, d): room doubles, so that n rows cost O(n) copies
        )
        self._value: Tensor | None = None

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add rows (..., H, n, d) and return all rows so far, (..., H, length, d)."""
        self._key = self._with_room(self._key, key)
        self._value = self._with_room(self._value, value)
        self.length += key.shape[-2]
        self._key[..., self.length - key.shape[-2] : self.length, :] = key
        self._value[..., self.length - key.shape[-2] : self.length, :] = value
        return self.rows()

    def rows(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values so far, (..., H, length, d)."""
        assert self._key is not None and self._value is not None
        return self._key[..., : self.length, :], self._value[..., : self.length, :]

    def reorder(self, sequences: Tensor) -> None:
        """Keep these sequences of the batch, in this order, as beam search needs."""
        if self._key is not None and self._value is not None:
            self._key = self._key.index_select(0, sequences)
            self._value = self._value.index_select(0, sequences)

    def _with_room(self, store: Tensor | None, rows: Tensor) -> Tensor:
        needed = self.length + rows.shape[-2]
        if store is not None and store.shape[-2] >= needed:
            return store
        grown = rows.new_empty(*rows.shape[:-2], max(2 * needed, 16), rows.shape[-1])
        if store is not None:
            grown[..., : self.length, :] = store[..., : self.length, :]
        return grown


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
        for own, cross in self.blocks:
            own.reorder(sequences)
            cross.reorder(sequences)
