"""Heads of a fitted model whose module is built anew: which of them matter, and the model without the others."""

import copy
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from torch import Tensor
from torch.nn import Module

from peerattn import nn
from peerattn.exceptions import validate_arguments


class PrunableHeads:
    """What models of sequences and the transformer over firms share."""

    def head_importance(self, X: Any, y: Any = None, **given: Any) -> dict[tuple[str, int], float]:
        r"""Return how much the loss would change, to first order, were each head silenced.

        .. math:: I_h = \frac1B \sum_b \left| \frac{\partial L_b}{\partial \xi_h} \right|_{\xi_h = 1}

        L_b is the mean loss of a batch (of a panel: of a cross-section), :math:`\xi_h` a factor on what head h adds, see
        `peerattn.nn.head_importance`.

        Parameters
        ----------
        X, y
            As in ``fit``; rows that the model was not fitted on give more.
        **given
            Of a panel: ``outcomes`` and ``reference``, as in ``predict``.

        Returns
        -------
        dict
            By layer (its name in the module) and head.
        """
        self._check_attends()
        module = self._module()
        if not nn.heads_by_layer(module):
            return {}
        losses = (total / n for total, n in self._loss_sums(module, X, y, **given))
        found = nn.head_importance(module, lambda loss: loss, losses)
        return {(name, head): float(v) for name, heads in found.items() for head, v in enumerate(heads)}

    def n_heads_by_layer(self) -> dict[str, int]:
        """Return the number of heads of every attention layer, by its name in the module."""
        return nn.heads_by_layer(self._module())

    @validate_arguments
    def with_heads(self, keep: Mapping[str, Sequence[int]]) -> Self:
        """Return a copy of the fitted model with only these heads of these layers; other layers stay whole.

        Parameters
        ----------
        keep : mapping of layer name to head numbers
            Layers as ``head_importance`` names them.
        """
        model = copy.copy(self)
        module = self._module()
        nn.keep_heads(module, keep)
        model._keep(module)
        return model

    @abstractmethod
    def _module(self) -> Any:
        """Return the fitted module, ready to compute."""

    @abstractmethod
    def _keep(self, module: Module) -> None:
        """Keep the module's parameters as the fitted ones."""

    @abstractmethod
    def _loss_sums(self, module: Any, X: Any, y: Any) -> Iterator[tuple[Tensor, int]]:
        """Yield sum and number of the losses of one batch after another."""

    def _check_attends(self) -> None:  # noqa: B027
        """Raise an InputError where attention adds nothing."""
