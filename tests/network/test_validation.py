"""A network against links that others observed, by plain loops and by its sizes and power."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from peerattn import simulate_panel
from peerattn.exceptions import InputError
from peerattn.network import PeerNetwork, group_flows, overlap, validate

FIRMS = [f"F{i:02d}" for i in range(30)]


def estimate(rng: np.random.Generator, *, signed: bool = False) -> np.ndarray:
    weights = rng.normal(size=(30, 30)) if signed else rng.random((30, 30)) ** 3
    np.fill_diagonal(weights, 0.7)
    return weights


def network_of(weights: np.ndarray | dict, *, signed: bool = False, firms: list[str] = FIRMS) -> PeerNetwork:
    given = weights if isinstance(weights, dict) else {None: weights}
    matrices = {t: (firms, None, w) for t, w in given.items()}
    return PeerNetwork.from_matrices(matrices, signed=signed, row_normalized=False)


@pytest.mark.parametrize("signed", [False, True])
def test_precision_recall_and_auc_by_plain_loops(signed: bool) -> None:
    rng = np.random.default_rng(0)
    W = {t: estimate(rng, signed=signed) for t in (1, 2)}
    links = {t: (rng.random((30, 30)) < 0.15 + 0.3 * (w > 0.5)).astype(float) for t, w in W.items()}
    for t in links:
        links[t][:5] = 0.0  # no link: not covered, no evidence
    found = validate(network_of(W, signed=signed), network_of(links), k=4, n_permutations=1)
    precision, recall, auc, chance, n = [], [], [], [], 0
    for t, w in W.items():
        for i in range(5, 30):
            others = [j for j in range(30) if j != i]
            linked = links[t][i, others] > 0
            top = np.argsort(-w[i, others], kind="stable")[:4]
            precision.append(linked[top].mean())
            recall.append(linked[top].sum() / linked.sum())
            auc.append(roc_auc_score(linked, w[i, others]))
            chance.append(linked.mean())
            n += int(linked.sum())
    assert found.precision == pytest.approx(np.mean(precision)) and found.recall == pytest.approx(np.mean(recall))
    assert found.auc == pytest.approx(np.mean(auc)) and found.chance == pytest.approx(np.mean(chance))
    assert (found.n_firms, found.n_links) == (50, n)
    assert np.isnan(found.matched) and found.lift == pytest.approx(np.mean(precision) / np.mean(chance))


def test_a_network_that_only_knows_the_industry_finds_nothing_beyond_it() -> None:
    """Links within industries: weights within industries are no more than that; the links themselves are."""
    rng = np.random.default_rng(1)
    industry = np.arange(30) % 3
    same = (industry[:, None] == industry) & ~np.eye(30, dtype=bool)
    links = (same & (rng.random((30, 30)) < 0.4)).astype(float)
    codes = pd.Series(industry.astype(str), index=FIRMS)
    size = pd.Series(rng.normal(size=30), index=FIRMS)
    by_industry = validate(
        network_of(same + 0.01 * rng.random((30, 30))), network_of(links), k=5, codes=codes, size=size, n_size_groups=1,
        n_permutations=99,
    )  # fmt: skip
    assert by_industry.p_precision == 0.01 and by_industry.lift > 2
    assert by_industry.p_matched > 0.05 and by_industry.lift_beyond == pytest.approx(1.0, abs=0.15)
    better = validate(
        network_of(links + 0.5 * same + 0.01 * rng.random((30, 30))), network_of(links), k=3, codes=codes, size=size,
        n_size_groups=1, n_permutations=99,
    )  # fmt: skip
    assert better.p_matched == 0.01 and better.lift_beyond > 1.5


def test_the_p_value_of_unrelated_links_is_uniform() -> None:
    """Both networks have popular firms of their own: pairs are far from independent."""
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        W = rng.random((30, 30)) * np.exp(rng.normal(size=30))
        links = rng.random((30, 30)) < 0.2 * np.exp(0.7 * rng.normal(size=30))
        found = validate(network_of(W), network_of(links.astype(float)), k=3, n_permutations=39)
        rejected += found.p_precision <= 0.05
    assert rejected <= 8  # 60 draws at 5 %: at most 8 in 99.6 % of all cases


def test_other_periods_firms_and_shapes() -> None:
    rng = np.random.default_rng(2)
    W = estimate(rng)
    links = (rng.random((30, 30)) < 0.3).astype(float)
    undated = validate(network_of({1: W, 2: W}), network_of(links), k=3, n_permutations=9)
    once = validate(network_of(W), network_of(links), k=3, n_permutations=9)
    assert undated.precision == pytest.approx(once.precision) and undated.n_firms == 2 * once.n_firms
    order = rng.permutation(30)
    shuffled = PeerNetwork.from_matrices(
        {None: ([FIRMS[i] for i in order], None, links[np.ix_(order, order)])}, row_normalized=False
    )
    assert validate(network_of(W), shuffled, k=3, n_permutations=9).to_frame().equals(once.to_frame())
    wide = PeerNetwork.from_matrices({None: (FIRMS[:4], FIRMS, W[:4])}, row_normalized=False)
    assert validate(wide, network_of(links), k=3, n_permutations=9).n_firms == 4
    with pytest.raises(InputError, match="links: no firm.*spelled alike"):
        validate(network_of(W), network_of(links, firms=[f"G{i}" for i in range(30)]), k=3)
    with pytest.raises(InputError, match="validate: the network holds the 2 largest"):
        validate(network_of(W).replaced(top_k=2), network_of(links), k=3)
    assert "against same industry and size" not in once.to_frame().index
    text = str(once)
    assert "precision at 3" in text and "\n" not in repr(once)


@pytest.mark.parametrize("kind", ["csv", "tsv", "txt.gz", "parquet", "dta"])
def test_edge_files_of_every_kind(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"year": [2001, 2001, 2002], "gvkey1": ["001690", "012141", "001690"], "gvkey2": ["012141", "001690", "012141"],
         "score": [0.2, 0.2, 0.1]}
    )  # fmt: skip
    path = tmp_path / f"tnic.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "dta":
        frame.to_stata(path, write_index=False)
    else:
        frame.to_csv(path, sep="," if kind == "csv" else "\t", index=False)
    text = {"gvkey1": str, "gvkey2": str}
    columns = {"firm": "gvkey1", "peer": "gvkey2", "period": "year"}
    links = PeerNetwork.from_edge_file(path, **columns, weight="score", dtype=text)
    assert links.edges()[["firm", "peer", "weight"]].to_numpy().tolist()[:2] == [
        ["001690", "012141", 0.2],
        ["012141", "001690", 0.2],
    ]
    assert links.name == path.name and not links.row_normalized
    unweighted = PeerNetwork.from_edge_file(path, **columns, dtype=text)
    assert len(unweighted.edges()) == 3 and (unweighted.edges().weight == 1.0).all()
    with pytest.raises(InputError, match="firm: no column is named 'gvkey_1'. Near matches: 'gvkey1'"):
        PeerNetwork.from_edge_file(path, firm="gvkey_1", peer="gvkey2")
    with pytest.raises(InputError, match=r"edges\['weight'\]: expected numbers, got 'x'"):
        (tmp_path / "words.csv").write_text("firm,peer,weight\nA,B,x\n")
        PeerNetwork.from_edge_file(tmp_path / "words.csv", weight="weight")
    (tmp_path / "bad.csv.zip").write_bytes(b"no zip")
    for name in ("none.csv", "bad.csv.zip"):
        with pytest.raises(InputError, match="path: cannot read"):
            PeerNetwork.from_edge_file(tmp_path / name)


def test_values_of_no_period_of_the_network_raise():
    """Months for dates, or another day of the month, would match no firm, and a benchmark without them would pass for one."""
    panel = simulate_panel(20, 6, 3, n_industries=4, sharpness=2.0, random_state=0)
    edges = panel.network.edges(panel.network.periods[-1], top_k=3).drop(columns="period").assign(weight=1.0)
    links = PeerNetwork.from_edges(edges, row_normalized=False)
    industry = panel.X["industry"]
    months = industry.index.levels[1].to_period("M")
    of_months = industry.set_axis(industry.index.set_levels(months, level=1))
    assert np.isfinite(validate(panel.network, links, k=3, codes=industry).lift_beyond)
    for measure in (
        lambda: validate(panel.network, links, k=3, codes=of_months),
        lambda: overlap(panel.network, of_months),
        lambda: group_flows(panel.network, of_months, panel.network.periods[0]),
    ):
        with pytest.raises(InputError, match="none of its periods .* is one of the network"):
            measure()
