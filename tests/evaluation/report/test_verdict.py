"""What the finding says where a peer model finds no peers."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from peerattn.evaluation import WalkForward, compare
from peerattn.models import IndustryPeerRegressor, PeerAttentionRegressor


def test_a_model_without_heads_is_said_to_be_least_squares():
    index = pd.MultiIndex.from_product([range(15), range(2001, 2021)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index=index)
    y = (X["size"] + rng.normal(size=len(index))).rename("roa")
    models = {"Peers": IndustryPeerRegressor(), "Attention": PeerAttentionRegressor(n_heads=0)}
    said = " ".join(compare(models, X, y, cv=WalkForward(10, 10), verbose=False).summary())
    assert (
        "Do peers help? Attention, the best peer model, predicts what Own characteristics (OLS) does" in said
    )
    models["Attention"] = LinearRegression()
    assert "predicts what" not in " ".join(
        compare(models, X, y, cv=WalkForward(10, 10), verbose=False).summary()
    )
