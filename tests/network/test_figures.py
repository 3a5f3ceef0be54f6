from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def network_of(n: int, *, signed: bool = False) -> PeerNetwork:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(n, n)) if signed else rng.random((n, n))
    if not signed:
        weights /= weights.sum(axis=1, keepdims=True)
    firms = [f"F{i}" for i in range(n)]
    return PeerNetwork.from_matrices({2001: (firms, None, weights)}, name="trial", signed=signed)


def names(axes: matplotlib.axes.Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_a_small_heat_map_names_every_firm() -> None:
    network = network_of(11)
    axes = network.heat_map()
    assert names(axes) == network.firms[network.labels.get_indexer_for(network.matrix().index)].tolist()
    np.testing.assert_allclose(axes.images[0].get_array(), network.matrix())
    assert axes.get_title(loc="left") == "trial, 2001"


def test_orders() -> None:
    network = network_of(5)
    listed = network.heat_map(order=["F3", "F1"])
    assert names(listed) == ["F3", "F1"]
    np.testing.assert_allclose(listed.images[0].get_array(), network.matrix().loc[["F3", "F1"], ["F3", "F1"]])
    strength = network.matrix().sum().sort_values(ascending=False)
    assert names(network.heat_map(order="in-strength")) == strength.index.tolist()
    groups = pd.Series({"F0": "b", "F1": "a", "F2": "b", "F3": "a", "F4": np.nan})
    assert names(network.heat_map(order=groups)) == ["F1", "F3", "F0", "F2", "F4"]
    for bad in ("size", ["F9"]):
        with pytest.raises(InputError, match="order"):
            network.heat_map(order=bad)


def test_a_large_heat_map_averages_blocks_and_names_groups() -> None:
    network = network_of(1300)
    groups = {f"F{i}": "steel" if i % 3 else "oil" for i in range(1300)}
    axes = network.heat_map(order=groups)
    assert names(axes) == ["oil", "steel"]
    image = axes.images[0].get_array()
    assert image.shape == (434, 434)
    firms = [f for f in network.matrix().index if groups[f] == "oil"]
    np.testing.assert_allclose(image[0, 0], network.matrix().loc[firms[:3], firms[:3]].to_numpy().mean())
    steel = [f for f in network.matrix().index if groups[f] == "steel"]
    last = network.matrix().loc[steel[-1:], steel[-1:]]
    np.testing.assert_allclose(image[-1, -1], last.to_numpy().mean())


def test_given_axes_rectangles_and_signs() -> None:
    figure, axes = plt.subplots()
    assert network_of(4, signed=True).heat_map(ax=axes) is axes
    limits = axes.images[0].get_clim()
    assert limits[0] == -limits[1]
    wide = PeerNetwork.from_matrices({None: (["a", "b"], list("vwxyz"), np.full((2, 5), 0.2))})
    assert len(wide.heat_map().get_xticklabels()) == 5
    empty = PeerNetwork.from_matrices({None: (["a", "b"], None, np.zeros((2, 2)))})
    empty.heat_map().figure.canvas.draw()
