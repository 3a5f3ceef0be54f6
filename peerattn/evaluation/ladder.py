"""The ladder: fixed peers, kernel, linear attention, cross- and self-attention, beside controls without peers."""

from collections.abc import Mapping, Sequence
from typing import Any

from peerattn import models
from peerattn.evaluation.compare import compare
from peerattn.evaluation.comparison import Comparison
from peerattn.evaluation.running.entries import OWN_CHARACTERISTICS, Task
from peerattn.exceptions import InputError, checked
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike

INDUSTRY = "Industry mean"
KERNEL = "Kernel"
RIDGE = "Linear attention (ridge)"
CROSS = "Cross-attention"
SOFTMAX = "Softmax attention"
STACKED = "Attention of two layers"


@checked
def ladder(
    X: PanelLike,
    y: OutcomesLike = None,
    *,
    industry: str | None = None,
    codes: Sequence[str] = (),
    task: Task = "forecast",
    reference: ReferenceLike = None,
    progression: Mapping[str, Any] | None = None,
    random_state: int = 0,
    **options: Any,
) -> Comparison:
    r"""Compare the models from fixed peers to attention of two layers.

    .. math:: \text{industry mean} \to \text{kernel} \to \text{linear attention}
              \;[\to \text{cross-attention}] \to \text{softmax attention} \to \text{attention of two layers}

    Cross-attention, which searches a separate universe, takes part where ``reference`` is given. The models are not nested, so
    that the steps are not tested against each other: where predictability comes from is in the decomposition of the comparison.

    Parameters
    ----------
    X, y
        As in :func:`peerattn.compare`.
    industry : str, optional
        Code column of the industry mean; without it that model is the mean of all other firms.
    codes : sequence of str
        Further code columns.
    task : {"forecast", "nowcast"}, default "forecast"
    reference : Reference, frame, or pair (X_ref, y_ref), optional
        The candidate peers of cross-attention; with outcomes only for a nowcast.
    progression : dict of str to estimator, optional
        By default :func:`models_for` the task.
    random_state : int, default 0
        Of the default models.
    **options
        Passed on to :func:`peerattn.compare`: cv, outcome, characteristics, firm, period, verbose, ...

    Returns
    -------
    Comparison
        A table of models in the order of the progression, then of the controls.

    Raises
    ------
    InputError
        As ``compare``.

    Examples
    --------
    >>> from peerattn.models import CrossSectionalRidge, IndustryPeerRegressor
    >>> import pandas as pd
    >>> index = pd.MultiIndex.from_product([range(20), range(2000, 2012)], names=["firm", "period"])
    >>> X = pd.DataFrame({"size": [37 * k % 97 / 97 for k in range(240)]}, index=index)
    >>> models = {"All firms": IndustryPeerRegressor(), "Ridge": CrossSectionalRidge()}
    >>> ladder(X, X["size"].pow(4).rename("roa"), progression=models, verbose=False).names[:2]
    ['All firms', 'Ridge']
    """
    if progression is None:
        progression = models_for(task, industry=industry, cross=reference is not None, random_state=random_state)
    options.setdefault("baseline", OWN_CHARACTERISTICS)
    result = compare(progression, X, y, task=task, industry=industry, codes=codes, reference=reference, **options)
    if not isinstance(result, Comparison):
        raise InputError("outcome: a ladder has one outcome; call it once for each.")
    return result


@checked
def models_for(
    task: Task, *, industry: str | None = None, cross: bool = False, random_state: int = 0
) -> dict[str, Any]:
    """Return the default models, from the simplest; ``cross``: with cross-attention.

    Attention is ``PeerAttentionRegressor`` with its defaults.
    """
    attention: dict[str, Any] = {"task": task, "random_state": random_state}
    return {
        INDUSTRY: models.IndustryPeerRegressor(industry=industry),
        KERNEL: models.NadarayaWatsonRegressor(),
        RIDGE: models.CrossSectionalRidge(),
        **({CROSS: models.PeerAttentionRegressor(attention="cross", **attention)} if cross else {}),
        SOFTMAX: models.PeerAttentionRegressor(**attention),
        STACKED: models.PeerAttentionRegressor(n_layers=2, **attention),
    }
