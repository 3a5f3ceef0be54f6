"""What the finding says where a peer model finds no peers."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from peerattn.evaluation import WalkForward, compare
from peerattn.models import IndustryPeerRegressor, PeerAttentionRegressor


def finding(attention, sector_effect=0.0):
    """The finding about a panel without peers, in which sectors may have a mean of their own."""
    index = pd.MultiIndex.from_product([range(15), range(2001, 2021)], names=["firm", "period"])
    rng = np.random.default_rng(0)
    sector = index.get_level_values("firm").to_numpy() % 3
    X = pd.DataFrame({"size": rng.normal(size=len(index)), "sector": sector.astype(str)}, index=index)
    y = (X["size"] + sector_effect * sector + rng.normal(size=len(index))).rename("roa")
    models = {"Peers": IndustryPeerRegressor(), "Attention": attention}
    return " ".join(compare(models, X, y, cv=WalkForward(10, 10), verbose=False).summary())


def test_a_model_without_heads_is_said_to_have_found_no_peers():
    assert "Do peers help? No: Attention, the best peer model, found no peers that help" in finding(
        PeerAttentionRegressor(n_heads=0)
    )
    assert "found no peers" not in finding(LinearRegression())


def test_what_codes_explain_is_not_said_to_come_from_peers():
    said = finding(PeerAttentionRegressor(n_heads=0, own=LinearRegression()), sector_effect=3.0)
    assert "Attention, a peer model whose network is empty, has the smallest squared error" in said
    assert "from its own term (its codes and its scale), not from peers" in said


def test_the_mean_of_all_others_orders_nobody():
    index = pd.MultiIndex.from_product([range(12), range(2001, 2016)], names=["firm", "period"])
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index=index)
    y = (X["size"] + rng.normal(size=len(index))).rename("roa")
    result = compare(["ridge"], X, y, task="explain", cv=WalkForward(5, 5), verbose=False)
    (line,) = [text for text in str(result.as_table()).splitlines() if text.startswith("All other firms")]
    assert "-1.0000" not in line and "n/a        n/a" in line
