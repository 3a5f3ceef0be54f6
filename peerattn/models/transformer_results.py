"""What a fitted transformer over firms shows: its heads, which layer a network is of, and its portfolio beside others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import RidgeCV
from torch import Tensor

from peerattn.exceptions import check_one_of, expect
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.linear import by_section, stacked_rows
from peerattn.models.learners.training import Problem, Training
from peerattn.models.learners.transformer import TransformerLearner
from peerattn.models.ridge import ALPHAS
from peerattn.models.stacking.origins import forward_origins


def table_of_heads(n_heads: Mapping[str, int]) -> pd.DataFrame:
    """Return seed, layer and number of every head, from the numbers of heads by the names of layers.

    >>> table_of_heads({"0.blocks.1.attention": 2}).to_numpy().tolist()
    [[0, 1, 0], [0, 1, 1]]
    """
    rows = []
    for name, n in n_heads.items():
        seed, _, layer, _ = name.split(".")
        rows += [(int(seed), int(layer), head) for head in range(n)]
    return pd.DataFrame(rows, columns=["seed", "layer", "head"])


def chosen_layer(table: pd.DataFrame, n_layers: int, layer: int | None, head: int | None) -> dict[str, Any]:
    """Return the layer, and the head where one is named, after the options are checked; ``table`` is ``heads_``."""
    check_one_of(layer=(layer, (None, *range(n_layers))), head=(head, (None, *table.index)))
    if head is None:
        if layer is None:
            layer = n_layers - 1
        return {"layer": layer}
    seed, of_layer, number = (int(table[name][head]) for name in ("seed", "layer", "head"))
    expect(layer in (None, of_layer), "head", f"one of layer {layer} in heads_", f"{head}, of layer {of_layer}")
    return {"layer": of_layer, "head": (seed, number)}


def squared_error_of(learner: TransformerLearner, module: torch.nn.ModuleList, prepared: CrossSection) -> tuple[Tensor, int]:
    """Return the sum of squared errors of the focal rows of known outcome, and their number."""
    known = prepared.take(np.flatnonzero(np.isfinite(prepared.focal.outcomes)), slice(None))
    error = learner.outputs(module, known)[:, 0] - torch.tensor(known.focal.outcomes)
    return error.square().sum(), len(known.focal)


LINEAR = "linear"


def portfolio_table(sections: Sequence[CrossSection], problem: Problem, learners: dict[str, TransformerLearner]) -> pd.DataFrame:
    """Return the Sharpe ratio on held-out later periods of the portfolios of learners, and of a linear one.

    Each is fitted before each forward origin and held until the next.

    Returns
    -------
    DataFrame
        One row a portfolio; columns sharpe (mean over standard deviation of the returns of a period, not annualised),
        t (of the mean) and periods.
    """
    returns: dict[str, list[float]] = {name: [] for name in (*learners, LINEAR)}
    for origin in forward_origins(sections, problem.purge):
        training = Training.of(origin.training, problem)
        later = training.prepared(origin.held_out)
        slopes = linear_portfolio(training.residuals)
        found = {LINEAR: [_with_constant(section.focal) @ slopes[:, None] for section in later]}
        for name, learner in learners.items():
            found[name] = replace(learner).fit(training.residuals).predict(later)
        for name, weights in found.items():
            # of each period the mean over firms of weight times return
            returns[name] += [float(np.mean(w[:, 0] * s.focal.outcomes)) for w, s in zip(weights, later, strict=True)]
    earned = pd.DataFrame(returns, dtype=float)
    deviation = earned.std()
    sharpe = earned.mean() / deviation.where(deviation > 0)
    table = pd.DataFrame({"sharpe": sharpe, "t": sharpe * np.sqrt(len(earned)), "periods": len(earned)})
    return table.rename_axis("portfolio")


def linear_portfolio(sections: Sequence[CrossSection]) -> np.ndarray:
    """Return slopes of portfolio weights on characteristics: the regression of 1 on the factors' returns, by ridge.

    Factors are the means of characteristic times return; the penalty has the least leave-one-out error over periods.
    """
    factors = by_section(_with_constant(stacked_rows(sections)), sections)
    pairs = zip(factors, sections, strict=True)
    F = np.stack([z.T @ s.focal.y / len(z) for z, s in pairs if s.focal.y is not None])
    # penalties in units of the factors' variance
    alphas = 1e-3 * np.array(ALPHAS) * np.square(F).sum() / F.shape[1]
    return np.asarray(RidgeCV(alphas, fit_intercept=False).fit(F, np.ones(len(F))).coef_)


def _with_constant(rows: Rows) -> np.ndarray:
    return np.column_stack([rows.x, np.ones(len(rows))])
