"""What a fitted transformer over firms shows: its heads, their losses, and which layer a network is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from peerattn.exceptions import check_at_least, check_one_of, expect
from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.transformer import TransformerLearner


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


def chosen_layer(table: pd.DataFrame, n_layers: int, layer: int | None, head: int | None, top_k: int | None) -> dict[str, Any]:
    """Return the layer, and the head where one is named, after the options are checked; ``table`` is ``heads_``."""
    check_one_of(layer=(layer, (None, *range(n_layers))), head=(head, (None, *table.index)))
    if top_k is not None:
        check_at_least(1, top_k=top_k)
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
