"""What the finding says where a peer model finds no peers."""

import numpy as np
import pandas as pd

from peerattn.evaluation import WalkForward, compare
from peerattn.models import PeerAttentionRegressor


def test_a_model_without_heads_is_not_said_to_help():
    index = pd.MultiIndex.from_product([range(15), range(2001, 2021)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index=index)
    y = (X["size"] + rng.normal(size=len(index))).rename("roa")
    models = {"Attention": PeerAttentionRegressor(n_heads=0)}
    result = compare(models, X, y, cv=WalkForward(10, 10), verbose=False)
    assert result.claims.answer != "Yes" and result.claims.empty[0] == "Attention"
    assert "The network of Attention" in " ".join(result.summary())


def test_the_mean_of_all_others_orders_nobody():
    index = pd.MultiIndex.from_product([range(12), range(2001, 2016)], names=["firm", "period"])
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index=index)
    y = (X["size"] + rng.normal(size=len(index))).rename("roa")
    result = compare(["ridge"], X, y, task="nowcast", cv=WalkForward(5, 5), decomposition=False, verbose=False)
    (line,) = [text for text in str(result.as_table()).splitlines() if text.startswith("All other firms")]
    assert "-1.0000" not in line and line.endswith("n/a")
    assert "Rank IC: mean Spearman correlation; none of means of all others, which fall" in str(result.as_table())
    scores = result.scores[["rank_ic", "rank_icir", "ic"]]
    unordered = ["All other firms (mean)", "Prevailing mean"]
    assert scores.loc[unordered].isna().all(axis=None) and scores.drop(unordered).notna().all(axis=None)
