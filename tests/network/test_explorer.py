from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork, asymmetry, group_flows, write_explorer

HOSTILE = "<img src=x onerror=alert(1)>"
FIRMS = [f"Firm {n:02d}" for n in range(29)] + [HOSTILE]
YEARS = pd.to_datetime(["2010-12-31", "2011-12-31", "2012-12-31"])


def learned(firms: Any = FIRMS, periods: Any = YEARS, **options: Any) -> PeerNetwork:
    rng = np.random.default_rng(3)
    matrices = {}
    for period in periods:
        scores = rng.normal(size=(len(firms), len(firms))) * 2
        np.fill_diagonal(scores, -np.inf)
        weights = np.exp(scores)
        matrices[period] = (firms, None, weights / weights.sum(axis=1, keepdims=True))
    return PeerNetwork.from_matrices(matrices, name="a </script> <b>network</b>", **options)


CODES = pd.Series([["Retail", "Autos & <i>", None][n % 3] for n in range(len(FIRMS))], index=FIRMS, name="industry")


def intervals_of(network: PeerNetwork) -> pd.DataFrame:
    edges = network.edges()
    return edges.assign(lower=edges["weight"] / 2, upper=edges["weight"] * 1.5).drop(columns="weight")


def content_of(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="network">(.*?)</script>', path.read_text("utf-8"))
    assert found
    return json.loads(found.group(1))


def numbers_of(content: dict[str, Any], position: int) -> dict[str, np.ndarray]:
    """A second reader of the packed numbers, beside page.js."""
    section = content["sections"][position]
    packed = gzip.decompress(base64.b64decode(section["packed"]))
    n, edges = len(content["firms"]), section["edges"]
    layout = [("group", "<i4", n), ("strength", "<f4", n), ("effective", "<f4", n), ("total", "<f4", n)]
    layout += [("degree", "<i4", n), ("to", "<i4", edges), ("weight", "<f4", edges)]
    layout += [(side, "<f4", edges) for side in ("lower", "upper")] if content["intervals"] else []
    found, start = {}, 0
    for name, kind, count in layout:
        found[name] = np.frombuffer(packed, kind, count, start)
        start += 4 * count
    assert start == len(packed)
    return found


def test_the_page_holds_the_strongest_edges_in_both_directions(tmp_path: Path) -> None:
    network = learned()
    network.to_explorer(tmp_path / "n.html", codes=CODES, top_k=4, intervals=intervals_of(network))
    content = content_of(tmp_path / "n.html")
    assert content["periods"] == ["2010-12-31", "2011-12-31", "2012-12-31"]
    for position, period in enumerate(network.periods):
        found = numbers_of(content, position)
        W = network.matrix(period)[list(network.labels)].loc[list(network.labels)]
        kept = sparse.csr_array((found["weight"], found["to"], np.append(0, found["degree"].cumsum())), shape=W.shape).toarray()
        at = kept > 0
        np.testing.assert_allclose(kept[at], W.to_numpy()[at], rtol=2**-12)
        ranks = (-W).rank(axis=1).to_numpy(), (-W).rank(axis=0).to_numpy()
        np.testing.assert_array_equal(at, (ranks[0] <= 4) | (ranks[1] <= 4))
        np.testing.assert_allclose(found["strength"], W.sum(axis=0), rtol=2**-12)
        np.testing.assert_allclose(found["effective"], 1 / (W**2).sum(axis=1), rtol=2**-12)
        np.testing.assert_allclose(found["lower"], found["weight"] / 2, rtol=2**-11)
        flows = group_flows(network, CODES, period)
        shown = pd.DataFrame(content["sections"][position]["flows"], content["groups"], content["groups"], dtype=float)
        np.testing.assert_allclose(shown.loc[flows.index, flows.columns], flows, rtol=1e-3)
        direction = asymmetry(network).most_one_sided(25, kind="direction", period=period)
        pairs = content["sections"][position]["pairs"]["direction"]
        assert [content["firms"][row[0]] for row in pairs] == list(direction["firm"])


@pytest.mark.parametrize("case", ["undated", "rectangle", "sparse", "signed", "isolates", "empty", "one"])
def test_every_kind_of_network_has_a_page(case: str, tmp_path: Path, page: Any) -> None:
    W = np.array([[0.0, 0.7, 0.3], [0.0, 0.0, 0.0], [0.1, 0.9, 0.0]])
    networks = {
        "undated": lambda: PeerNetwork.from_matrices({None: ("ABC", None, W)}),
        "rectangle": lambda: PeerNetwork.from_matrices({1: ("AB", "XYZ", np.full((2, 3), 1 / 3))}),
        "sparse": lambda: PeerNetwork.from_matrices({1: ("ABC", None, sparse.csr_array(W))}),
        "signed": lambda: PeerNetwork.from_matrices({1: ("ABC", None, W - 0.2)}, signed=True),
        "isolates": lambda: PeerNetwork.from_matrices({1: ("ABC", None, np.zeros((3, 3)))}),
        "empty": lambda: PeerNetwork.from_matrices({1: ([], None, np.zeros((0, 0)))}),
        "one": lambda: PeerNetwork.from_matrices({pd.Period("2001-01"): ([7], None, np.zeros((1, 1)))}),
    }
    write_explorer(networks[case](), tmp_path / "n.html")
    page.open(tmp_path / "n.html")
    assert page.complaints == []


def test_it_opens_without_complaint_or_outside_request(tmp_path: Path, page: Any) -> None:
    learned().to_explorer(tmp_path / "n.html", codes=CODES, intervals=intervals_of(learned()))
    page.open(tmp_path / "n.html")
    assert page.complaints == [] and page.dialogs == []
    assert [url for url in page.requests if not url.startswith("data:")] == [(tmp_path / "n.html").as_uri()]
    assert page.run("document.title") == "a </script> <b>network</b>"
    # the policy lets nothing else run or load: an injected handler, script and image are all refused
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=\"http://127.0.0.1:9/x.png\" onerror=\"window.hit=1\">')")
    page.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hit=2'}))")
    page.until("document.images.length > 0")
    assert page.run("window.hit") is None
    assert any("Content Security Policy" in complaint for complaint in page.complaints)


def test_a_firm_is_found_by_keyboard_and_shown_with_its_peers(tmp_path: Path, page: Any) -> None:
    network = learned()
    network.to_explorer(tmp_path / "n.html", codes=CODES, intervals=intervals_of(network))
    page.open(tmp_path / "n.html")
    page.press("/", "/")
    assert page.run("document.activeElement.id") == "search"
    page.write("firm 1")
    page.until("document.querySelectorAll('#found li').length === 10")
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("Enter", "\r")
    page.until("document.getElementById('firm').textContent === 'Firm 12'")
    shown = page.run("[...document.querySelectorAll('#peers button')].map(b => b.title)")
    assert shown == list(network.peers("Firm 12", YEARS[2])["peer"])
    back = page.run("[...document.querySelectorAll('#followers button')].map(b => b.title)")
    assert back == list(network.followers("Firm 12", YEARS[2])["firm"])
    top = network.peers("Firm 12", YEARS[2])["weight"].iloc[0]
    value = page.run("document.querySelector('#peers .value').textContent")
    assert value == f"{100 * top:.1f}% [{50 * top:.1f}%, {150 * top:.1f}%]"

    page.run("document.activeElement.blur()")
    page.press("[", "[")  # the period before
    page.until("document.getElementById('period').value === '1'")
    page.until("document.getElementById('facts').textContent.includes('2011-12-31')")
    assert page.run("document.querySelector('#peers button').title") == network.peers("Firm 12", YEARS[1])["peer"][0]
    page.run("document.querySelector('#peers button').click()")
    page.until(f"document.getElementById('firm').textContent === {json.dumps(network.peers('Firm 12', YEARS[1])['peer'][0])}")
    page.run("history.back()")
    page.until("document.getElementById('firm').textContent === 'Firm 12'")
    assert page.complaints == []


def test_a_name_that_is_markup_is_text(tmp_path: Path, page: Any) -> None:
    network = learned()
    codes = CODES.fillna("<script>alert(2)</script>")
    network.to_explorer(tmp_path / "n.html", codes=codes, title=HOSTILE)
    assert HOSTILE not in (tmp_path / "n.html").read_text("utf-8")
    page.open(tmp_path / "n.html")
    page.run("document.getElementById('search').focus()")
    page.write("<IMG")
    page.until("document.querySelectorAll('#found li').length === 1")
    assert page.run("document.querySelector('#found li span').textContent") == HOSTILE
    page.press("Enter", "\r")
    page.until(f"document.getElementById('firm').textContent === {json.dumps(HOSTILE)}")
    assert page.run("document.querySelectorAll('img, i > *, script').length") == 2  # our own two scripts
    assert page.complaints == [] and page.dialogs == []


def test_a_search_that_finds_nothing_and_a_wrong_address_are_harmless(tmp_path: Path, page: Any) -> None:
    learned().to_explorer(tmp_path / "n.html")
    page.open(tmp_path / "n.html", "#firm=nobody&period=1999")
    page.run("document.getElementById('search').focus()")
    page.write("zzz")
    page.until("document.getElementById('found').textContent === 'No such firm.'")
    page.press("Enter", "\r")
    page.press("Escape")
    assert page.run("document.getElementById('found').hidden")
    assert page.complaints == []


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1200, True)])
def test_it_fits_a_phone_and_a_dark_room(width: int, dark: bool, tmp_path: Path, page: Any) -> None:
    learned().to_explorer(tmp_path / "n.html", codes=CODES, intervals=intervals_of(learned()))
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True)
    scheme = "dark" if dark else "light"
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.open(tmp_path / "n.html")
    assert page.run("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.run("document.querySelector('#later').getBoundingClientRect().height >= 40")
    paper = page.run("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", paper)[0]) < 60) == dark


def test_size_of_a_large_network_stays_sane(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n, k = 2_400, 10
    columns = np.argsort(rng.random((n, 60)), axis=1)[:, :k] * 40 + rng.integers(0, 40, size=(n, k))
    weights = rng.random((n, k))
    weights /= weights.sum(axis=1, keepdims=True)
    W = sparse.csr_array((weights.ravel(), (np.repeat(np.arange(n), k), columns.ravel())), shape=(n, n))
    network = PeerNetwork.from_matrices({1: ([f"F{i}" for i in range(n)], None, W)})
    network.to_explorer(tmp_path / "n.html")
    assert (tmp_path / "n.html").stat().st_size < 24 * n * k / 2  # 24 periods of it: under 7 MB


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    network = learned()
    with pytest.raises(InputError, match="top_k: expected at least 1"):
        network.to_explorer(tmp_path / "n.html", top_k=0)
    with pytest.raises(InputError, match="at most 60"):
        network.to_explorer(tmp_path / "n.html", codes=pd.Series(range(61)))
    with pytest.raises(InputError, match="intervals: no column is named 'lower'"):
        network.to_explorer(tmp_path / "n.html", intervals=network.edges())
    bounds = intervals_of(network)
    with pytest.raises(InputError, match="'Nobody' is not in the network"):
        network.to_explorer(tmp_path / "n.html", intervals=bounds.assign(peer="Nobody"))
    with pytest.raises(InputError, match="given twice"):
        network.to_explorer(tmp_path / "n.html", intervals=pd.concat([bounds, bounds]))
    assert not (tmp_path / "n.html").exists()
