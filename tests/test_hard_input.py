"""Hard input ends in finite figures or in the package's own error: a sample of the benchmark, and what it has found."""

import importlib.util
import io
import resource
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from peerattn import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionRegressor,
    PeerNetwork,
    cli,
    read_panel,
    simulate_panel,
)
from peerattn.exceptions import InputError
from peerattn.models import FamaMacBethRegressor, LastValueRegressor
from peerattn.models.kernel.bandwidth import normal_reference_bandwidth
from peerattn.render import write_workbook

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "data" / "sample_panel.csv"
COLUMNS = ["--period", "year", "--outcome", "roa_next", "--industry", "sic"]


def test_a_sample_of_the_benchmark(tmp_path):
    spec = importlib.util.spec_from_file_location("hard_input", ROOT / "benchmarks" / "hard_input.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    found = list(script.cases(range(150)))
    assert {area for _, area, _, _ in found} == set(script.AREAS)
    assert [case for case in found if ":" in case[2]] == []
    assert sum(end == "answered" for _, _, end, _ in found) > 20


def test_what_ten_thousand_cases_found(tmp_path):
    index = pd.MultiIndex.from_product([["A", "B", "C"], [2001, 2002]], names=["firm", "period"])
    X = pd.DataFrame({"size": np.arange(6.0)}, index)
    y = pd.Series(np.arange(6.0) ** 2, index, name="y")
    with pytest.raises(InputError, match="'task' parameter .*array"):
        PeerAttentionRegressor(task=np.array([1.0, 2.0])).fit(X, y)
    for option, value in (("loss", np.array([1.0, 2.0])), ("kappa", np.array([1.0, 2.0])), ("codes", True)):
        with pytest.raises(InputError, match=f"The '{option}' parameter of"):
            PeerAttentionRegressor(**{"task": "nowcast", option: value}).fit(X, y)
    with pytest.raises(InputError, match="bandwidth must be at least 1e-60, got 1e-300"):
        NadarayaWatsonRegressor(bandwidth=1e-300).fit(X, y)
    backwards = pd.CategoricalDtype([2002, 2001], ordered=True)
    other = X.reset_index().astype({"period": backwards})
    with pytest.raises(InputError, match="ordered categories in another order than their labels"):
        LastValueRegressor().fit(X, y).predict(other)
    with pytest.raises(InputError, match="outcome: 'firm' is already named as firm or period"):
        read_panel(X.reset_index(), outcome="firm")
    scaled = X.assign(size=1e55 * X["size"], one=1e40 * X["size"] ** 2)
    many = pd.concat([scaled.rename(lambda firm, k=k: f"{firm}{k}", level="firm") for k in range(3)])
    assert np.isfinite(FamaMacBethRegressor().fit(many, np.arange(18.0)).predict(many)).all()
    text = X.reset_index().astype({"period": str}).astype({"period": "category"})
    text.to_parquet(tmp_path / "text.parquet")
    assert cli.run(["describe", str(tmp_path / "text.parquet"), "--quiet"]) == 0
    broken = pa.StringArray.from_buffers(1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff"))
    table = pa.table({"firm": broken, "period": [2001], "size": [1.0], "y": [1.0]})
    with pytest.raises(InputError, match="no valid Unicode"):
        read_panel(table, outcome="y")


@pytest.fixture(scope="module")
def panel():
    return simulate_panel(6, 4, 2, n_industries=2, random_state=0)


@pytest.mark.parametrize("factor", [1e61, 1e155, 1e300])
@pytest.mark.parametrize(
    "model",
    [NadarayaWatsonRegressor(bandwidth=1.0), PeerAttentionRegressor(n_heads=0), CrossSectionalRidge()],
)
def test_values_whose_products_overflow_are_refused(panel, model, factor):
    X = panel.X.select_dtypes("number")
    with pytest.raises(InputError, match="y holds values up to .* choose a larger unit"):
        model.fit(X, panel.y * factor)
    with pytest.raises(InputError, match=f"column {X.columns[0]!r} of X holds values up to .* choose a larger unit"):
        model.fit(X.assign(**{X.columns[0]: X.iloc[:, 0] * factor}), panel.y)


def test_large_frequency_weights_take_no_memory(panel):
    rng = np.random.default_rng(0)
    x, counts = rng.normal(size=(30, 2)), rng.integers(0, 5, 30).astype(float)
    copies = np.repeat(x, counts.astype(int), axis=0)
    np.testing.assert_allclose(normal_reference_bandwidth(x, weight=counts), normal_reference_bandwidth(copies), rtol=1e-12)
    assert np.isfinite(normal_reference_bandwidth(x, weight=counts * 1e9)).all()
    X, y = panel.X.select_dtypes("number"), panel.y
    heavy = np.full(len(X), 1e9)
    assert np.isfinite(NadarayaWatsonRegressor(bandwidth=1.0).fit(X, y, sample_weight=heavy).predict(X)).all()
    with pytest.raises(InputError, match="sample_weight: a criterion"):
        NadarayaWatsonRegressor(bandwidth="cv_ls").fit(X.to_numpy(), y.to_numpy(), sample_weight=heavy)
    with pytest.raises(InputError, match="sample_weight: expected frequency weights"):
        IndustryPeerRegressor().fit(X, y, sample_weight=heavy * 10)


@pytest.mark.parametrize(
    ("model", "option"),
    [
        (CrossSectionalRidge(alpha=(1.0,)), "alpha"),
        (CrossSectionalRidge(alpha=float("inf")), "alpha"),
        (CrossSectionalRidge(codes="sic"), "codes"),
        (CrossSectionalRidge(codes=[{}]), "codes"),
        (CrossSectionalRidge(firm={}), "firm"),
        (IndustryPeerRegressor(industry=["sic"]), "industry"),
        (IndustryPeerRegressor(min_peers=np.ones(2)), "min_peers"),
        (IndustryPeerRegressor(shrinkage="much"), "shrinkage"),
        (NadarayaWatsonRegressor(bandwidth=object()), "bandwidth"),
        (NadarayaWatsonRegressor(ordered=3), "ordered"),
        (PeerAttentionRegressor(prior=3), "prior"),
        (PeerAttentionRegressor(d_head=10**9), "d_head"),
    ],
)
def test_options_of_another_kind_are_named(panel, model, option):
    with pytest.raises(InputError, match=option):
        model.fit(panel.X, panel.y)


def test_text_that_is_no_unicode_is_refused(panel):
    X = panel.X.assign(code=pd.Series(["a", "b\ud800"] * (len(panel.X) // 2), panel.X.index, dtype=object))
    with pytest.raises(InputError, match="no valid Unicode"):
        CrossSectionalRidge().fit(X, panel.y)


@contextmanager
def full_disk():
    """No file can grow: what a full disk does, for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_no_bug_and_leaves_what_was_there(capsys, tmp_path):
    model = tmp_path / "a.model"
    fit = ["fit", str(SAMPLE), *COLUMNS, "--model", "industry", "--out", str(model), "--quiet"]
    assert cli.run(fit) == 0
    before = model.read_bytes()
    compare = ["compare", str(SAMPLE), *COLUMNS, "--models", "industry", "--test-periods", "2", "--no-decomposition", "--out"]
    commands = [
        fit,
        ["predict", str(model), str(SAMPLE), "--out", str(tmp_path / "p.csv"), "--quiet"],
        ["predict", str(model), str(SAMPLE), "--out", str(tmp_path / "p.parquet"), "--quiet"],
        ["network", str(model), str(SAMPLE), "--out", str(tmp_path / "n.parquet"), "--quiet"],
        ["simulate", "--firms", "12", "--periods", "4", "--out", str(tmp_path / "s.csv"), "--quiet"],
        [*compare, str(tmp_path / "r"), "--quiet"],
        [*compare, str(tmp_path / "r"), "--quiet", "--fresh"],
    ]
    for command in commands:
        capsys.readouterr()
        with full_disk():
            code = cli.run(command)
        out, err = capsys.readouterr()
        said = [line for line in err.splitlines() if not line.startswith("warning: ")]
        assert code == 2 and len(said) == 1 and "File too large" in said[0], (command, err)
    assert model.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["a.model"]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 894. GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_little_memory_is_no_bug(capsys, tmp_path, monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(IndustryPeerRegressor, "fit", fails)
    code = cli.run(["fit", str(SAMPLE), *COLUMNS, "--model", "industry", "--out", str(tmp_path / "a.model"), "--quiet"])
    assert code == 2 and "not enough memory" in capsys.readouterr().err


def test_predictions_in_csv_are_no_formulas(capsys, tmp_path):
    hostile = pd.read_csv(SAMPLE)
    hostile["firm"] = "=HYPERLINK(1)" + hostile["firm"].astype(str)
    hostile.to_csv(tmp_path / "p.csv", index=False)
    for command in (
        ["fit", str(tmp_path / "p.csv"), *COLUMNS, "--model", "industry", "--out", str(tmp_path / "a.model")],
        ["predict", str(tmp_path / "a.model"), str(tmp_path / "p.csv"), "--out", str(tmp_path / "o.csv")],
    ):
        assert cli.run(command) == 0
    text = (tmp_path / "o.csv").read_text()
    assert "'=HYPERLINK" in text and "\n=HYPERLINK" not in text


def test_xml_holds_labels_of_any_character(tmp_path):
    characters = [chr(c) for c in (*range(32), 127, 133, 0x202E, 0xFFFE, 0xFFFF)]
    firms = [f"a{c}b" for c in characters]
    edges = pd.DataFrame({"firm": firms, "peer": firms[1:] + firms[:1], "weight": 1.0})
    network = PeerNetwork.from_edges(edges, name="".join(characters))
    attributes = pd.DataFrame({"".join(characters): firms}, index=pd.Index(firms, name="firm"))
    network.to_graphml(tmp_path / "a.graphml", attributes=attributes)
    network.to_gexf(tmp_path / "a.gexf", attributes=attributes)
    for name in ("a.graphml", "a.gexf"):
        ElementTree.parse(tmp_path / name)
    back = PeerNetwork.from_graphml(tmp_path / "a.graphml")
    assert len(back.firms) == len(firms) and len(back.edges()) == len(firms)
    whole = (tmp_path / "a.graphml").read_bytes()
    for damaged in (whole[:200], whole.replace(b"graphml", b"other"), b"", b"<!DOCTYPE x>"):
        (tmp_path / "a.graphml").write_bytes(damaged)
        with pytest.raises(InputError, match="^path: "):
            PeerNetwork.from_graphml(tmp_path / "a.graphml")
    with pytest.raises(InputError, match="cannot read"):
        PeerNetwork.from_graphml(tmp_path / "none.graphml")


def test_the_same_figures_give_the_same_bytes(tmp_path, monkeypatch):
    import time

    frame = pd.DataFrame({"firm": ["A"], "weight": [1.0]})
    network = PeerNetwork.from_edges(pd.DataFrame({"firm": ["A", "B"], "peer": ["B", "A"], "weight": 1.0}))
    made = []
    for day in (1e9, 1.1e9):
        monkeypatch.setattr(time, "time", lambda day=day: day)
        monkeypatch.setattr(time, "strftime", lambda *_, day=day: f"day {day}")
        monkeypatch.setattr(time, "localtime", lambda *_, day=day, was=time.gmtime: was(day))
        write_workbook(tmp_path / "a.xlsx", {"one": frame})
        network.to_gexf(tmp_path / "a.gexf")
        network.to_parquet(tmp_path / "a.parquet")
        made.append([(tmp_path / f"a.{kind}").read_bytes() for kind in ("xlsx", "gexf", "parquet")])
        time.sleep(1.1)  # a workbook's time has seconds
    assert made[0] == made[1]
    assert pd.read_excel(io.BytesIO(made[0][0])).equals(frame.astype({"weight": int}))
