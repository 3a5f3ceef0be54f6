"""Panels in files: the same figures as in memory, a period at a time."""

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest

from peerattn import PeerNetwork, read_panel, simulate_panel
from peerattn.exceptions import InputError, SmallCrossSectionWarning
from peerattn.models import (
    FirmMeanRegressor,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionClassifier,
    PeerAttentionRegressor,
)
from peerattn.panel import scan_panel

pytestmark = [
    pytest.mark.usefixtures("fewest_steps"),
    # the outcomes of the last period are unknown, so that nobody there has a peer
    pytest.mark.filterwarnings("ignore::peerattn.exceptions.IsolateWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A panel of unequal cross-sections as a file, in any order within a period, and partitioned by period."""
    panel = simulate_panel(20, 9, 2, n_industries=3, sharpness=2.0, random_state=0)
    frame = panel.X.assign(y_next=panel.y).reset_index().sample(frac=0.9, random_state=0)
    frame["period"] = frame["period"].astype(str)
    frame.loc[frame.index[::7], frame.columns[2]] = np.nan
    frame.loc[frame["period"] == frame["period"].max(), "y_next"] = np.nan  # unknown throughout the last period
    frame = frame.sort_values("period", kind="stable")
    path = tmp_path_factory.mktemp("panel")
    frame.to_parquet(path / "one.parquet", row_group_size=50, index=False)
    frame.to_parquet(path / "parts", partition_cols=["period"], index=False)
    return path


def in_memory(folder):
    return read_panel(folder / "one.parquet", outcome="y_next", codes=["industry"])


MODELS = {
    "industry": (IndustryPeerRegressor(industry="industry"), False),
    "industry, outcomes shown": (IndustryPeerRegressor(industry="industry"), True),
    "kernel": (NadarayaWatsonRegressor(bandwidth=1.0, codes=["industry"]), True),
    "firm mean": (FirmMeanRegressor(), False),
    "attention": (
        PeerAttentionRegressor(codes=["industry"], kappa=None, n_heads=1, random_state=0),
        False,
    ),
    "the stack with the past": (
        PeerAttentionRegressor(codes=["industry"], task="nowcast", own="linear", kappa=0.0, n_heads=0, random_state=0),
        True,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_figures_are_those_in_memory(folder, name):
    model, shown = MODELS[name]
    panel = in_memory(folder)
    stored = scan_panel(folder / "one.parquet", outcome="y_next", codes=["industry"])
    inside = model.fit(panel).predict(panel, **({"outcomes": panel.y} if shown else {}))
    called = {"outcomes": "y_next"} if shown else {}
    outside = model.fit(stored).predict(stored, **called)
    np.testing.assert_allclose(outside, inside, rtol=1e-12)  # in the order of the file's rows
    if hasattr(model, "peer_network"):
        inside = model.peer_network(panel, **({"outcomes": panel.y} if shown else {}))
        outside = model.peer_network(stored, **called)
        for (a, one), (b, other) in zip(inside.sections(), outside.sections(), strict=True):
            assert a == b
            np.testing.assert_allclose(one.dense(), other.dense(), rtol=1e-12, atol=1e-12)


def test_a_path_a_dataset_and_an_iterator_are_one_panel(folder):
    model = MODELS["industry"][0].fit(in_memory(folder))
    frame = pd.read_parquet(folder / "one.parquet").set_index(["firm", "period"])
    expected = model.predict(in_memory(folder))
    sources = [
        folder / "one.parquet",
        str(folder / "parts"),
        ds.dataset(folder / "parts", partitioning="hive"),
        (section for _, section in frame.groupby(level="period")),
    ]
    for source in sources:
        np.testing.assert_allclose(model.predict(source), expected, rtol=1e-12)
    fitted = MODELS["industry"][0].fit(folder / "parts", "y_next")
    np.testing.assert_allclose(fitted.predict(folder / "parts"), expected, rtol=1e-12)


def test_predictions_of_files_are_in_the_order_of_their_rows(folder, tmp_path):
    """Whatever the order of periods among files, and of firms within a period."""
    panel = in_memory(folder)
    model = MODELS["kernel"][0].fit(panel)
    frame = panel.X.reset_index()
    given = [frame[frame["period"] == label] for label in frame["period"].unique()[[3, 0, 2]]]
    expected = model.predict(pd.concat(given))
    np.testing.assert_allclose(model.predict(iter(given)), expected, rtol=1e-12)
    pd.concat(given).to_parquet(tmp_path / "a.parquet", index=False)
    np.testing.assert_allclose(model.predict(tmp_path / "a.parquet"), expected, rtol=1e-12)
    assert len(np.unique(expected)) == len(expected)


def test_a_classifier_reads_files(folder, tmp_path):
    frame = pd.read_parquet(folder / "one.parquet")
    frame["up"] = (frame["y_next"] > 0).astype(float).where(frame["y_next"].notna())
    frame.drop(columns="y_next").to_parquet(tmp_path / "up.parquet", index=False)
    stored = scan_panel(tmp_path / "up.parquet", outcome="up", codes=["industry"])
    model = PeerAttentionClassifier(n_heads=0, codes=["industry"]).fit(stored)
    panel = read_panel(tmp_path / "up.parquet", outcome="up", codes=["industry"])
    np.testing.assert_allclose(model.predict_proba(stored), model.predict_proba(panel), rtol=1e-12)
    assert model.predict(stored).tolist() == model.predict(panel).tolist()
    written = by_label(model.write_predictions(stored, tmp_path / "p"), panel)
    np.testing.assert_array_equal(written[["0.0", "1.0"]], model.predict_proba(panel))


# ---------------------------------------------------------------- what is written


def by_label(written, panel):
    """Return what was written in the order of the panel's rows."""
    return pd.read_parquet(written).set_index(["firm", "period"]).loc[panel.X.index]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("name", ["industry, outcomes shown", "the stack with the past"])
def test_a_call_that_was_killed_is_made_again(folder, tmp_path, monkeypatch, name):
    model, _ = MODELS[name]
    stored = scan_panel(folder / "parts", outcome="y_next", codes=["industry"])
    model.fit(stored)
    model.write_predictions(stored, tmp_path / "whole", outcomes="y_next")
    whole = contents(tmp_path / "whole")
    written = by_label(tmp_path / "whole", in_memory(folder))
    np.testing.assert_array_equal(written["prediction"], model.predict(stored, outcomes="y_next"))
    attend, calls = type(model)._attend, []

    def dies(self, section):
        calls.append(section.period)
        if len(calls) == 5:
            raise Killed
        return attend(self, section)

    monkeypatch.setattr(type(model), "_attend", dies)
    with pytest.raises(Killed):
        model.write_predictions(stored, tmp_path / "killed", outcomes="y_next")
    (tmp_path / "killed" / ".2003.parquet.a1b2.part").write_bytes(b"half of it")
    model.write_predictions(stored, tmp_path / "killed", outcomes="y_next")
    assert contents(tmp_path / "killed") == whole


def test_other_models_and_rows_are_predicted_again(folder, tmp_path):
    stored = scan_panel(folder / "one.parquet", outcome="y_next", codes=["industry"])
    model = IndustryPeerRegressor(industry="industry").fit(stored)
    first = contents(model.write_predictions(stored, tmp_path / "out"))
    other = IndustryPeerRegressor(industry="industry", shrinkage=5.0).fit(stored)
    second = contents(other.write_predictions(stored, tmp_path / "out"))
    assert first.keys() == second.keys() and first != second
    written = by_label(tmp_path / "out", in_memory(folder))
    np.testing.assert_array_equal(written["prediction"], other.predict(stored))


def test_networks_are_written_by_period(folder, tmp_path):
    model = MODELS["attention"][0]
    stored = scan_panel(folder / "one.parquet", outcome="y_next", codes=["industry"])
    model.fit(stored)
    out = model.write_networks(stored, tmp_path / "edges", top_k=3)
    inside = model.peer_network(in_memory(folder), top_k=3)
    edges = pd.read_parquet(out).sort_values(["period", "firm", "peer"], ignore_index=True)
    expected = inside.edges().sort_values(["period", "firm", "peer"], ignore_index=True)
    pd.testing.assert_frame_equal(edges, expected, check_dtype=False)
    last = PeerNetwork.from_parquet(out / f"{stored.periods[-1]}.parquet")
    assert last.top_k == 3 and last.periods.tolist() == [stored.periods[-1]]


def test_warnings_are_given_once(folder):
    stored = scan_panel(folder / "one.parquet", outcome="y_next", codes=["industry"])
    model = PeerAttentionRegressor(codes=["industry"], n_heads=0).fit(stored)
    model.median_cross_section_ = 100.0
    with pytest.warns(SmallCrossSectionWarning, match=r"9 such warnings in all") as caught:
        model.predict(stored)
    assert len(caught) == 1


# ---------------------------------------------------------------- errors


def test_errors(folder, tmp_path):
    stored = scan_panel(folder / "one.parquet", outcome="y_next", codes=["industry"])
    model = IndustryPeerRegressor(industry="industry")
    with pytest.raises(InputError, match="y: X is read from files, so y must name the column"):
        model.fit(folder / "one.parquet", np.zeros(3))
    with pytest.raises(InputError, match="y: the stored panel holds the outcome 'y_next', not 'y'"):
        model.fit(stored, "y")
    with pytest.raises(InputError, match="y: the stored panel has no outcome"):
        model.fit(scan_panel(folder / "one.parquet", codes=["industry"]))
    with pytest.raises(InputError, match="sample_weight: not used with a panel read from files"):
        model.fit(stored, sample_weight=np.ones(len(stored)))
    with pytest.raises(InputError, match="peer_weight: not used with a panel read from files"):
        PeerAttentionRegressor().fit(stored, peer_weight=np.ones(len(stored)))
    model.fit(stored)
    with pytest.raises(InputError, match="outcomes: X is read from files, so outcomes must name the column"):
        model.predict(stored, outcomes=np.zeros(len(stored)))
    with pytest.raises(InputError, match="outcomes: the stored panel holds the outcome 'y_next', not 'y'"):
        model.predict(stored, outcomes="y")
    (tmp_path / "1999.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"holds 1 files of other periods, such as '1999.parquet'"):
        model.write_predictions(stored, tmp_path)
    arrays = NadarayaWatsonRegressor(bandwidth=1.0).fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(InputError, match="X: the model was fitted on an array"):
        arrays.predict(folder / "one.parquet")


def test_a_network_that_does_not_fit_says_so(folder, monkeypatch):
    stored = scan_panel(folder / "one.parquet", outcome="y_next", codes=["industry"])
    model = PeerAttentionRegressor(codes=["industry"], kappa=None, n_heads=1, random_state=0)
    model.fit(stored)
    monkeypatch.setattr("peerattn.panel.memory.available_memory", lambda: 1000)
    with pytest.raises(InputError, match=r"network of \d+ firms would take about .*top_k="):
        model.peer_network(in_memory(folder))
    assert len(model.peer_network(in_memory(folder), top_k=3).edges())


# ---------------------------------------------------------------- folders that are hard to write


def frames(labels):
    for label in labels:
        yield pd.DataFrame({"firm": [1, 2], "period": label, "size": [1.0, 2.0]})


def written_of(labels, folder):
    model = NadarayaWatsonRegressor(bandwidth=1.0).fit(pd.concat(frames(["2000"])), np.ones(2))
    return pd.read_parquet(model.write_predictions(frames(labels), folder))


def test_names_that_readers_pass_over_or_no_disk_takes(tmp_path):
    for k, label in enumerate(["_2001", ".2001", "2001" + 300 * "x"]):
        assert written_of([label], tmp_path / str(k))["period"].tolist() == [label, label]


def test_a_path_with_a_zero_byte():
    model = NadarayaWatsonRegressor(bandwidth=1.0).fit(pd.concat(frames(["2000"])), np.ones(2))
    for call in (model.save, NadarayaWatsonRegressor.load, lambda path: written_of(["2001"], path)):
        with pytest.raises(InputError, match="path|out"):
            call("a\x00b")
