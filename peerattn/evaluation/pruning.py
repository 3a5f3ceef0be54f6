"""Pruning of trained models: which heads matter, the model without the others, and what that costs."""

from typing import Any, cast

import pandas as pd

from peerattn.exceptions import InputError, expect, reworded, validate_arguments
from peerattn.models.attention.contributions import panel_head_importance, panel_with_heads
from peerattn.models.attention.options import AttentionOptions
from peerattn.training.prunable import PrunableHeads
from peerattn.types import OutcomesLike, PanelLike


@validate_arguments
def head_importance(model: Any, X: PanelLike, y: OutcomesLike = None, **options: Any) -> pd.Series:
    r"""Return how much a trained model's loss would change, to first order, were each head silenced.

    .. math:: I_h = \frac1B \sum_b \left| \frac{\partial L_b}{\partial \xi_h} \right|_{\xi_h = 1}

    :math:`L_b` is the mean loss of a batch (of a panel: of a cross-section), :math:`\xi_h` a factor on what head h adds.

    Parameters
    ----------
    model : attention estimator of panels, or of sequences
        Fitted.
    X, y
        As in ``fit``; rows that the model has not been fitted on are more informative. A language model takes no y.
    **options
        Of a panel: ``outcomes`` and ``reference``, as in ``predict``.

    Returns
    -------
    Series
        By seed and head of a panel model, in units of its standardised outcome's loss; by layer and head of a sequence
        model.

    Raises
    ------
    InputError
        When the model has no heads of softmax attention.

    Notes
    -----
    One backward pass a batch. Michel et al. compare layers after dividing by each layer's norm; this does not divide.
    ``heads_`` holds another measure, the standard deviation of what a head adds.

    References
    ----------
    Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, NeurIPS.

    Examples
    --------
    >>> from peerattn import PeerAttentionRegressor, simulate_panel
    >>> panel = simulate_panel(12, 10, 2, random_state=0)
    >>> model = PeerAttentionRegressor(n_heads=1, kappa=None, random_state=0).fit(panel.X, panel.y)
    >>> importance = head_importance(model, panel.X, panel.y)
    >>> importance.index.names, len(importance) == len(model.heads_)
    (FrozenList(['seed', 'head']), True)
    >>> len(prune(model, keep=importance > importance.max()).heads_)
    0
    """
    if isinstance(model, AttentionOptions):  # heads over the firms of a panel, numbered by member
        return panel_head_importance(model, X, y, **options)
    found = _named(model).head_importance(X, y, **options)
    index = pd.MultiIndex.from_arrays(list(zip(*found)) or [[], []], names=["layer", "head"])
    return pd.Series(list(found.values()), index=index, name="importance", dtype=float)


@validate_arguments
def prune(model: Any, keep: Any) -> Any:
    """Return a trained model with only some of its heads; nothing is fitted again.

    Parameters
    ----------
    model : attention estimator of panels, or of sequences
        Fitted; it stays as it is.
    keep : MultiIndex, list of pairs, or Series of bool
        The heads that stay, as :func:`head_importance` names them: ``importance.nlargest(4).index`` or ``importance > 0.01``.

    Returns
    -------
    estimator
        It predicts, shows its attention and is saved like the model itself. Without any head a layer adds its constant, a panel
        model its own part with the own slopes that were trained beside the heads, which is not the model without peers.

    Raises
    ------
    InputError
        When a head is named that the model does not have.
    """
    have = _heads(model)
    if isinstance(keep, pd.Series):
        keep = keep.index[keep.to_numpy(dtype=bool)]
    with reworded("keep: expected pairs of layer (of a panel: seed) and head", kinds=TypeError):
        named = set(map(tuple, keep))
    if unknown := [name for name in named if name not in have]:
        raise InputError(f"keep: the model has no head {unknown[0]}; its heads are {sorted(have)}.")
    kept = {layer: sorted(int(head) for other, head in named if other == layer) for layer, _ in have}
    if isinstance(model, AttentionOptions):
        return panel_with_heads(model, kept)
    return model.with_heads(kept)


@validate_arguments
def pruning_curve(model: Any, importance: pd.Series, X: PanelLike, y: OutcomesLike = None) -> pd.DataFrame:
    """Return the score of a trained model with fewer and fewer heads, the least important left out first.

    Parameters
    ----------
    model : attention estimator of panels, or of sequences
    importance : Series
        From :func:`head_importance`.
    X, y
        As in ``model.score``; rows that neither fit nor ``importance`` has seen.

    Returns
    -------
    DataFrame
        Columns ``heads`` (how many are left, from all to none), ``importance`` (of the head left out last) and ``score``.
        ``.plot(x="heads", y="score")`` draws it.
    """
    order = importance.sort_values(ascending=False, kind="stable")
    scored = [part for part in (X, y) if part is not None]  # a language model takes no y
    heads = range(len(order), -1, -1)
    scores = [prune(model, order.index[:n]).score(*scored) for n in heads]
    return pd.DataFrame({"heads": heads, "importance": [float("nan"), *order[::-1]], "score": scores})


def _heads(model: Any) -> set[tuple[Any, int]]:
    if isinstance(model, AttentionOptions):
        return {(k, head) for k, member in enumerate(model.members_) for head in range(member.spec.n_heads)}
    return {(name, head) for name, n in _named(model).n_heads_by_layer().items() for head in range(n)}


def _named(model: object) -> PrunableHeads:
    """Return a model whose layers are named: of sequences, or a transformer over firms."""
    wanted = "an attention estimator of panels or sequences"
    expect(isinstance(model, PrunableHeads), "model", wanted, type(model).__name__)
    return cast("PrunableHeads", model)
