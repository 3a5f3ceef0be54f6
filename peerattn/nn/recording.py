"""The weights of every attention layer of a module, without a word in the modules between."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from peerattn.nn.edges import GraphAttention
from peerattn.nn.multihead import MultiheadAttention


@contextmanager
def recorded_weights(module: nn.Module, wanted: bool = True) -> Iterator[list[Tensor]]:
    """Give a list to which every attention layer in the module adds its weights when it computes.

    Parameters
    ----------
    module : nn.Module
        Holds `MultiheadAttention` or `GraphAttention` layers.
    wanted : bool, default True
        False: nothing is recorded.

    Yields
    ------
    list of Tensor
        In the order of computation; each as its layer returns it with ``return_weights=True``.

    Examples
    --------
    >>> import torch
    >>> layer, x = MultiheadAttention(4, 2), torch.ones(1, 3, 4)
    >>> with recorded_weights(layer) as weights:
    ...     output = layer(x)
    >>> output.shape, [w.shape for w in weights]
    (torch.Size([1, 3, 4]), [torch.Size([1, 2, 3, 3])])
    """
    found: list[Tensor] = []

    def request(_: nn.Module, args: object, options: dict[str, object]) -> tuple[object, dict[str, object]]:
        return args, options | {"return_weights": True}

    def record(_: nn.Module, args: object, output: tuple[Tensor, Tensor]) -> Tensor:
        found.append(output[1])
        return output[0]

    # hooks on the attention layers alone; without a wish none is set
    with ExitStack() as hooks:  # removed at the end
        for layer in module.modules():
            if wanted and isinstance(layer, MultiheadAttention | GraphAttention):
                hooks.enter_context(layer.register_forward_pre_hook(request, with_kwargs=True))
                hooks.enter_context(layer.register_forward_hook(record))
        yield found
