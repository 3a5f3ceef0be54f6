"""The ladder: from own characteristics to stacked attention, with the gain of each rung and its test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from peerattn.evaluation.compare import compare
from peerattn.evaluation.comparison import Comparison
from peerattn.evaluation.running.entries import OWN_CHARACTERISTICS, Task
from peerattn.evaluation.steps import Ladder, climb
from peerattn.exceptions import InputError, checked
from peerattn.models import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
)

INDUSTRY, KERNEL, RIDGE = "Industry mean", "Kernel", "Linear attention (ridge)"
CROSS, SOFTMAX, STACKED = "Cross-attention", "Softmax attention", "Stacked attention"


@checked
def ladder(
    X: Any,
    y: Any = None,
    *,
    industry: str | None = None,
    codes: Sequence[str] = (),
    task: Task = "forecast",
    reference: Any = None,
    rungs: Mapping[str, Any] | None = None,
    stacked_on: str = SOFTMAX,
    random_state: int = 0,
    **options: Any,
) -> Ladder:
    r"""Climb from own characteristics to stacked attention, and say where the gain comes from.

    .. math:: \text{own characteristics} \to \text{industry mean} \to \text{kernel} \to \text{linear attention}
              \;[\to \text{cross-attention}] \to \text{softmax attention} \to \text{stacked attention}

    Cross-attention, which searches a separate universe, takes part where ``reference`` is given.
    Every rung predicts the same rows of the same split and is tested against the one below.

    Parameters
    ----------
    X, y
        As in :func:`peerattn.compare`.
    industry : str, optional
        Code column of the industry mean; without it that rung is the mean of all other firms.
    codes : sequence of str
        Further code columns.
    task : {"forecast", "explain"}, default "forecast"
    reference : Reference, frame, or pair (X_ref, y_ref), optional
        The firms that answer in cross-attention; with outcomes only to explain.
    rungs : dict of str to estimator, optional
        The rungs above own characteristics, from below; by default :func:`rungs_for` the task.
    stacked_on : str, default "Softmax attention"
        The rung that the rung above it holds as a special case, learned; see :class:`Step`.
    random_state : int, default 0
        Of the default rungs.
    **options
        Passed on to :func:`peerattn.compare`: cv, outcome, characteristics, firm, period, verbose, ...

    Returns
    -------
    Ladder

    Raises
    ------
    InputError
        As ``compare``; without characteristics there is no lowest rung.

    Examples
    --------
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([range(20), range(2000, 2012)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": [37 * k % 97 / 97 for k in range(240)]}, index=index)
    >>> rungs = {"All firms": IndustryPeerRegressor(), "Ridge": CrossSectionalRidge()}
    >>> ladder(X, X["size"].pow(4).rename("roa"), rungs=rungs, verbose=False).to_frame()["model"].tolist()
    ['All firms', 'Ridge']
    """
    if rungs is None:
        rungs = rungs_for(task, industry=industry, cross=reference is not None, random_state=random_state)
    chosen = dict(rungs)
    options.setdefault("baseline", OWN_CHARACTERISTICS)
    result = compare(chosen, X, y, task=task, industry=industry, codes=codes, reference=reference, **options)
    if not isinstance(result, Comparison):
        raise InputError("outcome: a ladder has one outcome; call it once for each.")
    if OWN_CHARACTERISTICS not in result.names:
        raise InputError("X has no characteristics: the lowest rung, own characteristics, needs some.")
    names = [OWN_CHARACTERISTICS, *(n for n in chosen if n != OWN_CHARACTERISTICS and n in result.names)]
    return climb(result, names, stacked_on)


@checked
def rungs_for(
    task: Task, *, industry: str | None = None, cross: bool = False, random_state: int = 0
) -> dict[str, Any]:
    """Return the default rungs above own characteristics, from below; ``cross``: with cross-attention.

    Attention is ``PeerAttentionRegressor`` with its defaults.
    """
    attention: dict[str, Any] = {"task": task, "random_state": random_state}
    return {
        INDUSTRY: IndustryPeerRegressor(industry=industry),
        KERNEL: NadarayaWatsonRegressor(),
        RIDGE: CrossSectionalRidge(),
        **({CROSS: PeerAttentionRegressor(attention="cross", **attention)} if cross else {}),
        SOFTMAX: PeerAttentionRegressor(**attention),
        STACKED: PeerAttentionRegressor(n_layers=2, **attention),
    }
