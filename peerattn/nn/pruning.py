"""Which heads matter, and a layer without those that do not."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from peerattn.exceptions import check_names, expect, validate_arguments
from peerattn.nn.multihead import MultiheadAttention

Batch = TypeVar("Batch")


@validate_arguments
@contextmanager
def head_gates(gates: Mapping[MultiheadAttention, Tensor]) -> Iterator[None]:
    r"""Multiply every head of the given layers, and the weights they return, by its gate for as long as the context lasts.

    .. math:: \operatorname{out}_i = \sum_h \xi_h\, W_O^h \sum_j \alpha^h_{ij} W_V^h z_j

    Parameters
    ----------
    gates : mapping of MultiheadAttention to Tensor, shape (n_heads,)
        :math:`\xi`; 1 leaves a head as it is, 0 silences it.

    Raises
    ------
    InputError
        When a layer has another number of heads than gates.

    Examples
    --------
    >>> layer, x = MultiheadAttention(4, 2), torch.ones(3, 4)
    >>> with head_gates({layer: torch.zeros(2)}):
    ...     silent = layer(x)
    >>> bool((silent == layer.output.bias).all())
    True
    """

    def gated(layer: Any, _: object, found: Tensor | tuple[Tensor, Tensor]) -> Tensor | tuple[Tensor, Tensor]:
        if isinstance(found, tuple):
            return (found[0], found[1] * gates[layer][:, None, None])
        return found

    with ExitStack() as hooks:  # removed at the end
        for layer, gate in gates.items():
            n = layer.n_heads
            shape = tuple(gate.shape)
            expect(shape == (n,), "gates", f"one gate per head, shape ({n},)", shape)
            each = partial(gate.repeat_interleave, layer.d_value)
            hooks.enter_context(layer.register_forward_hook(gated))
            scaled = layer.output.register_forward_pre_hook(lambda _, rows, each=each: rows[0] * each())
            hooks.enter_context(scaled)
        yield


@validate_arguments
def head_importance(module: nn.Module, loss: Callable[[Batch], Tensor], batches: Iterable[Batch]) -> dict[str, Tensor]:
    r"""Return how much the loss would change, to first order, were each head silenced.

    .. math:: I_h = \frac1B \sum_b \left| \xi_h \frac{\partial L_b}{\partial \xi_h} \right|_{\xi_h = 1}

    Parameters
    ----------
    module : nn.Module
        Holds one `MultiheadAttention` or more, anywhere.
    loss : callable
        ``loss(batch)``, a scalar tensor computed through ``module``.
    batches : iterable
        The batches b = 1, ..., B.

    Returns
    -------
    dict of str to Tensor, shape (n_heads,)
        By the layer's name in ``module.named_modules()`` ("" for the module itself).

    Raises
    ------
    InputError
        When there is no such layer, or no batch.

    Notes
    -----
    Costs one backward pass a batch. Parameters and their gradients stay as they are. Michel et al. compare layers
    after dividing each layer's importances by their norm; these are not divided.

    References
    ----------
    Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, NeurIPS.

    Examples
    --------
    >>> layer, x = MultiheadAttention(4, 2), torch.eye(4)
    >>> importance = head_importance(layer, lambda batch: layer(batch).square().mean(), [x])
    >>> importance[""].shape
    torch.Size([2])
    """
    layers = _attention_layers(module)
    expect(bool(layers), "module", "at least one MultiheadAttention in it", type(module).__name__)
    gates = [layer.output.weight.new_ones(layer.n_heads).requires_grad_() for layer in layers.values()]
    with head_gates(dict(zip(layers.values(), gates))):
        # a layer that the loss does not use has no slope
        slopes = [torch.autograd.grad(loss(batch), gates, materialize_grads=True) for batch in batches]
    expect(bool(slopes), "batches", "at least one batch", "none")
    return {name: torch.stack(each).abs().mean(0) for name, each in zip(layers, zip(*slopes))}


def prune_heads(layer: MultiheadAttention, keep: Tensor) -> MultiheadAttention:
    """Return a layer with some of the heads: the same as gates of zero on the others.

    Parameters
    ----------
    layer : MultiheadAttention
        Stays as it is; the new layer's weights are copies.
    keep : Tensor of int, shape (n_kept,), or of bool, shape (n_heads,)
        Which heads to keep: their numbers, or True. From importances: ``importance.topk(n).indices``, or
        ``importance > threshold``.

    Returns
    -------
    MultiheadAttention
        Heads keep the order of their old numbers. Without any head it gives its output bias.

    Raises
    ------
    InputError
        When ``keep`` names a head that is not there, or one twice.

    Examples
    --------
    >>> layer = MultiheadAttention(8, 4)
    >>> importance = torch.tensor([0.1, 0.7, 0.0, 0.2])
    >>> prune_heads(layer, importance.topk(2).indices).n_heads
    2
    """
    numbers = _head_numbers(keep, layer.n_heads)
    # the layer given stays whole
    pruned = copy.deepcopy(layer)
    pruned.n_heads = len(numbers)
    for name, parameter in layer.named_parameters():
        if name != "output.bias":
            part, _, kind = name.rpartition(".")
            kept = take_heads(parameter, int(part == "output"), layer.n_heads, numbers)
            setattr(pruned.get_submodule(part), kind, kept)
    for projection in filter(None, (pruned.query, pruned.key, pruned.value, pruned.output)):
        projection.out_features, projection.in_features = projection.weight.shape
    return pruned


def heads_by_layer(module: nn.Module) -> dict[str, int]:
    """Return the number of heads of every attention layer, by its name in the module.

    Examples
    --------
    >>> heads_by_layer(nn.Sequential(MultiheadAttention(8, 4), nn.ReLU()))
    {'0': 4}
    """
    return {name: layer.n_heads for name, layer in _attention_layers(module).items()}


def keep_heads(module: nn.Module, keep: Mapping[str, Sequence[int]]) -> None:
    """Leave these heads in the layers of these names, in place; other layers stay whole.

    Examples
    --------
    >>> model = nn.Sequential(MultiheadAttention(8, 4))
    >>> keep_heads(model, {"0": [1, 3]})
    >>> heads_by_layer(model)
    {'0': 2}
    """
    layers = _attention_layers(module)
    check_names("keep", "layer with heads", keep, layers)
    for name, heads in keep.items():
        expect(name != "", "module", "a module that holds the layer", "the layer itself", "Call prune_heads.")
        pruned = prune_heads(layers[name], torch.tensor(list(heads), device="cpu"))
        module.set_submodule(name, pruned)


def load_pruned(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state into a module whose layers may have more heads than the state has: they are pruned to as many.

    Tensors are assigned, not copied, so that the module may be on torch's meta device.

    Examples
    --------
    >>> pruned = nn.Sequential(MultiheadAttention(8, 4))
    >>> keep_heads(pruned, {"0": [1, 3]})
    >>> model = nn.Sequential(MultiheadAttention(8, 4))
    >>> load_pruned(model, pruned.state_dict())
    >>> heads_by_layer(model)
    {'0': 2}
    """
    for name, layer in _attention_layers(module).items():
        n_heads = state[f"{name}.output.weight".removeprefix(".")].shape[1] // layer.d_value
        if n_heads < layer.n_heads:
            keep_heads(module, {name: range(n_heads)})
    module.load_state_dict(state, assign=True)


def _attention_layers(module: nn.Module) -> dict[str, MultiheadAttention]:
    return {name: part for name, part in module.named_modules() if isinstance(part, MultiheadAttention)}


def most_important(importance: Tensor, n_keep: int) -> Tensor:
    """Return the numbers of the ``n_keep`` most important heads, in rising order.

    Examples
    --------
    >>> most_important(torch.tensor([0.1, 0.7, 0.0, 0.2]), 2)
    tensor([1, 3])
    """
    n = importance.numel()
    expect(importance.ndim == 1 and 0 <= n_keep <= n, "n_keep", f"a number of heads from 0 to {n}", n_keep)
    return importance.argsort(descending=True, stable=True)[:n_keep].sort().values


def take_heads(parameter: Tensor, dim: int, n_heads: int, numbers: Tensor) -> nn.Parameter:
    """Return a parameter with only the rows (or columns) that belong to these heads: (H d, ...) -> (n_kept d, ...).

    Parameters
    ----------
    parameter : Tensor, (..., H d, ...)
        Heads lie side by side along ``dim``, d entries each.
    dim, n_heads : int
    numbers : Tensor of int, shape (n_kept,)

    Examples
    --------
    >>> take_heads(torch.arange(4.0), 0, 2, torch.tensor([1]))
    Parameter containing:
    tensor([2., 3.], requires_grad=True)
    """
    # a head is a block of rows (or columns) of the projections
    width, rest = divmod(parameter.shape[dim], n_heads)
    expect(rest == 0, "parameter", f"a multiple of n_heads={n_heads} along dim={dim}", parameter.shape[dim])
    kept = (numbers[:, None] * width + torch.arange(width, device=numbers.device)).flatten()
    return nn.Parameter(parameter.detach().index_select(dim, kept.to(parameter.device)))


def _head_numbers(keep: Tensor, n_heads: int) -> Tensor:
    if keep.dtype == torch.bool:
        shape = tuple(keep.shape)
        expect(shape == (n_heads,), "keep", f"one bool per head, shape ({n_heads},)", shape)
        return keep.nonzero().flatten()
    numbers = keep.long().sort().values
    inside = ((numbers >= 0) & (numbers < n_heads)).all() and (keep == keep.long()).all()
    right = keep.ndim == 1 and bool(inside) and len(numbers.unique()) == len(numbers)
    expect(right, "keep", f"different head numbers from 0 to {n_heads - 1}", keep.tolist())
    return numbers
