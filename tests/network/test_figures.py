from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from peerattn.exceptions import InputError
from peerattn.network import (
    PeerNetwork,
    ego_plot,
    flow_map,
    group_flows,
    heat_map,
    search_map,
    ties_plot,
)
from peerattn.network.figures.matrices import by_ties
from peerattn.network.figures.ties import _apart
from peerattn.render import svg


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
    given = network.matrix().sum()
    groups = pd.Series({"F0": "b", "F1": "a", "F2": "b", "F3": "a", "F4": np.nan})
    expected = [
        *sorted(["F1", "F3"], key=lambda firm: -given[firm]),
        *sorted(["F0", "F2"], key=lambda firm: -given[firm]),
        "F4",
    ]
    assert names(network.heat_map(order=groups)) == expected
    by_period = pd.concat({2001: groups, 2002: groups.map({"a": "b", "b": "a"})}, names=["period", "firm"])
    assert names(network.heat_map(order=by_period)) == expected
    for unknown, why in (
        ({"G0": "a"}, "none of its labels"),
        ({"F1": None}, "the code of every firm in period 2001"),
    ):
        with pytest.raises(InputError, match=f"order: {why}"):
            network.heat_map(order=pd.Series(unknown))


def test_many_firms_stand_beside_those_they_give_weight() -> None:
    """700 firms in shuffled blocks make blocks, not a grey square."""
    block = np.random.default_rng(0).permutation(700) % 7
    weights = np.where(block[:, None] == block, 1.0, 0.02) * (1 - np.eye(700))
    weights /= weights.sum(axis=1, keepdims=True)
    network = PeerNetwork.from_matrices({2001: ([f"F{i}" for i in range(700)], None, weights)})
    order = by_ties(network.matrix().to_numpy())
    assert (np.diff(block[order]) != 0).sum() == 6  # each block in one piece
    axes = network.heat_map()
    image = np.asarray(axes.images[0].get_array())
    assert image.shape == (234, 234) and np.median(image) < 0.1 * image.max()


def test_a_large_heat_map_averages_blocks_and_names_groups() -> None:
    network = network_of(1300)
    groups = {f"F{i}": "steel" if i % 3 else "oil" for i in range(1300)}
    axes = network.heat_map(order=groups)
    assert names(axes) == ["oil", "steel"]
    image = axes.images[0].get_array()
    assert image.shape == (260, 260)
    given = network.matrix().sum().sort_values(ascending=False, kind="stable")
    firms = [f for f in given.index if groups[f] == "oil"]
    np.testing.assert_allclose(image[0, 0], network.matrix().loc[firms[:5], firms[:5]].to_numpy().mean())
    steel = [f for f in given.index if groups[f] == "steel"][-5:]
    last = network.matrix().loc[steel, steel]
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


def test_ego_names_both_sides() -> None:
    weights = np.array([[0, 0.75, 0.25, 0], [1.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    network = PeerNetwork.from_matrices({2001: (list("abcd"), None, weights)})
    texts = [text.get_text() for text in ego_plot(network, "a").texts]
    assert texts == ["a", "b\u2002100.0%", "followers", "75.0%\u2002b", "25.0%\u2002c", "peers"]
    assert [text.get_text() for text in ego_plot(network, "c").texts] == ["c", "a\u200225.0%", "followers"]
    with pytest.raises(InputError, match="'d' has neither peers nor followers"):
        ego_plot(network, "d")


def test_ties_are_the_strongest_and_names_do_not_overlap() -> None:
    firms = [f"Firm {i:02d}" for i in range(30)]
    weights = np.full((30, 30), 0.001)
    partner = np.arange(30) ^ 1  # 0 with 1, 2 with 3, ...
    weights[np.arange(30), partner] = np.linspace(0.9, 0.5, 30)
    network = PeerNetwork.from_matrices({2001: (firms, None, weights)}, row_normalized=False)
    axes = ties_plot(network, firms=10, groups=pd.Series(["even", "odd"] * 15, index=firms, name="parity"))
    assert axes.get_legend().get_title().get_text() == "parity"
    shown = [text.get_text() for text in axes.texts if text.get_text()]
    assert sorted(shown) == firms[:10]  # the ends of the strongest ties
    assert sum(text.get_text() == "" for text in axes.texts) == 10  # faint ties are left out
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["even", "odd"]
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    named = ties_plot(network.subset(firms=["Firm 28", "Firm 29", "Firm 03"]))
    assert sorted(text.get_text() for text in named.texts if text.get_text()) == ["Firm 28", "Firm 29"]
    with pytest.raises(InputError, match="nothing to draw"):
        ties_plot(PeerNetwork.from_matrices({None: (list("ab"), None, np.zeros((2, 2)))}))
    with pytest.raises(InputError, match="groups: none of its labels"):
        ties_plot(network, groups=pd.Series({"x": 1}))


def test_a_firms_own_past_is_no_tie() -> None:
    weights = np.diag([0.9, 0.9, 0.9, 1.0])
    weights[0, 1] = weights[1, 2] = weights[2, 0] = 0.1
    axes = ties_plot(PeerNetwork.from_matrices({2001: (list("ABCD"), None, weights)}), firms=2)
    assert sorted(text.get_text() for text in axes.texts if text.get_text()) == ["A", "B"]
    assert sum(text.get_text() == "" for text in axes.texts) == 1
    with pytest.raises(InputError, match="nothing to draw"):
        ties_plot(PeerNetwork.from_matrices({2001: (list("AB"), None, np.eye(2))}))


def test_flows_are_mean_rows_by_group() -> None:
    network = network_of(6)
    groups = pd.Series(["10", "2", "10", None, "2", "2"], index=[f"F{i}" for i in range(6)])
    flows = group_flows(network, groups)
    assert flows.index.tolist() == flows.columns.tolist() == ["2", "10"]
    matrix = network.matrix()
    for looks in ("2", "10"):
        for looked_to in ("2", "10"):
            block = matrix.loc[groups.index[groups == looks], groups.index[groups == looked_to]]
            assert flows.loc[looks, looked_to] == pytest.approx(block.sum(axis=1).mean())
    axes = flow_map(network, groups)
    assert [text.get_text() for text in axes.texts] == [f"{100 * share:.0f}" for share in flows.to_numpy().ravel()]
    assert axes.images[0].get_clim()[1] == pytest.approx(100 * flows.to_numpy().max())  # the bar has their unit
    with pytest.raises(InputError, match="1 to 60 groups"):
        flow_map(network_of(70), pd.Series({f"F{i}": str(i) for i in range(70)}))
    across = PeerNetwork.from_matrices({2001: (["A", "B"], ["X"], np.ones((2, 1)))})
    with pytest.raises(InputError, match="groups: expected 1 to 60 groups, of focal firms and of peers, got 1 and 0"):
        flow_map(across, pd.Series("g", ["A", "B"]))


def test_dollar_signs_in_names_are_names() -> None:
    """Two dollar signs are a formula to matplotlib, and most are none that it can read."""
    firms = ["A$$", "US$ 5_% $", "$\\frac{1", "_x", "B\n$", "C"]
    weights = (np.ones((6, 6)) - np.eye(6)) / 5
    network = PeerNetwork.from_matrices({"$^$": (firms, None, weights)}, name="$a_$ $")
    groups = pd.Series(["$_$", "_g", "$x$", "$_$", "_g", "$x$"], index=firms)
    drawn = [
        heat_map(network),
        heat_map(network, order=groups),
        ego_plot(network, "A$$"),
        ego_plot(network, "US$ 5_% $"),
        ties_plot(network, groups=groups),
        flow_map(network, groups),
        search_map(pd.DataFrame(np.eye(2), index=["$s$", "$_$"], columns=["$s$", "$_$"])),
    ]
    pages = [svg(axes.figure) for axes in drawn]
    assert all(name in pages[0] for name in ("A$$", "US$ 5_% $", "$\\frac{1", "B $"))
    assert "US$ 5_% $" in pages[3] and "$a_$ $, $^$" in pages[0]
    assert {text.get_text() for text in drawn[4].get_legend().get_texts()} == {
        r"\$_\$",
        "\u200b_g",
        r"\$x\$",
    }  # none left out


def test_search_map_is_centred_on_zero() -> None:
    profile = pd.DataFrame([[1.0, -3.0], [0.0, 0.5]], index=["size", "rd"], columns=["size", "rd"])
    axes = search_map(profile)
    assert axes.images[0].get_clim() == (-3.0, 3.0)
    assert [text.get_text() for text in axes.texts] == ["1.00", "−3.00", "0.00", "0.50"]
    with pytest.raises(InputError, match="nothing to draw"):
        search_map(profile.iloc[:0])


def test_whole_numbers_are_groups_without_decimals_and_axes_name_them() -> None:
    network = network_of(4)
    fifths = pd.Series([1.0, 2.0, 2.0, 1.0], index=network.firms, name="size")
    axes = flow_map(network, fifths)
    assert names(axes) == ["1", "2"]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("size of the focal firm", "size of the peer")
    dated = pd.concat({2001: fifths}, names=["period", "firm"])
    np.testing.assert_allclose(group_flows(network, dated), group_flows(network, fifths))
    with pytest.raises(InputError, match="the network has no periods"):
        flow_map(network.mean(), dated)


@pytest.mark.parametrize("points", [np.zeros((5, 2)), np.random.default_rng(0).normal(size=(12, 2))])
def test_names_do_not_overlap_wherever_their_points_are(points):
    boxes = np.ones((len(points), 2))
    moved = _apart(points, boxes)
    lack = 1 - np.abs(moved - moved[:, None])
    assert not ((lack > 1e-5).all(axis=2) & ~np.eye(len(points), dtype=bool)).any()
