"""Panels in files: read period by period, whatever they lie in."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from peerattn import read_panel
from peerattn.exceptions import InputError
from peerattn.panel import scan_panel
from peerattn.panel.files import Reader
from peerattn.panel.memory import available_memory


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    periods = pd.date_range("2001-01-31", periods=9, freq="ME")
    index = pd.MultiIndex.from_product([periods, [f"F{i:02}" for i in range(20)]], names=["period", "firm"])
    made = pd.DataFrame(rng.normal(size=(180, 2)).astype("float32"), index, ["size", "lev"])
    made["sic"] = rng.choice(["0100", "2834", None], 180)
    made["y_next"] = made["size"] + rng.normal(size=180)
    made = made.reset_index().sample(frac=0.8, random_state=1).sort_values("period", kind="stable")
    return made.reset_index(drop=True)


def write(frame, path, kind):
    if kind == "parquet":
        frame.to_parquet(path / "one.parquet", row_group_size=13)
        return path / "one.parquet"
    if kind == "parquet with index":
        frame.set_index(["firm", "period"]).to_parquet(path / "one.parquet")
        return path / "one.parquet"
    if kind == "arrow":
        frame.to_feather(path / "one.arrow")
        return path / "one.arrow"
    if kind == "partitioned":
        text = frame.assign(period=frame["period"].dt.strftime("%Y-%m-%d"))
        text.to_parquet(path / "parts", partition_cols=["period"])
        return path / "parts"
    if kind == "files by firm":  # every file has some firms of every period
        (path / "parts").mkdir()
        for number, some in enumerate((frame["firm"] < "F10", frame["firm"] >= "F10")):
            frame[some].to_parquet(path / "parts" / f"{number}.parquet", row_group_size=7)
        return path / "parts"
    return (section for _, section in frame.groupby("period"))


@pytest.mark.parametrize("kind", ["parquet", "parquet with index", "arrow", "partitioned", "files by firm", "iterator"])
def test_every_source_is_the_panel_in_memory(frame, tmp_path, kind):
    expected = read_panel(frame, outcome="y_next", industry="sic").sorted()
    stored = scan_panel(write(frame, tmp_path, kind), outcome="y_next", industry="sic")
    assert len(stored) == len(expected) and stored.sizes.tolist() == [len(p) for p in stored]
    whole = stored.sample()
    sections = list(stored)
    for found in (whole, *sections):
        assert found.choice == expected.choice and found.industry == "sic" and found.outcome == "y_next"
    np.testing.assert_array_equal(whole.characteristics, expected.characteristics)
    np.testing.assert_array_equal(np.concatenate([p.sorted().outcomes for p in sections]), expected.outcomes)
    assert whole.firm.tolist() == expected.firm.tolist()
    assert whole.codes["sic"].fillna("").tolist() == expected.codes["sic"].fillna("").tolist()
    backwards = list(stored.read([7, 2, 3]))
    assert [len(p) for p in backwards] == stored.sizes[[7, 2, 3]].tolist()
    np.testing.assert_array_equal(backwards[1].outcomes, sections[2].outcomes)


def test_a_file_below_folders_with_names_and_values_is_read_by_itself(frame, tmp_path):
    """Its own column of that name counts, of another type or not."""
    folder = tmp_path / "period=2001" / "part"
    folder.mkdir(parents=True)
    path = write(frame, folder, "parquet")
    assert scan_panel(path, outcome="y_next").periods.equals(read_panel(path, outcome="y_next").period.unique())
    assert scan_panel(folder, outcome="y_next").sizes.sum() == len(frame)


def test_files_in_any_order_of_time(frame, tmp_path):
    backwards = frame.iloc[::-1]
    backwards.to_parquet(tmp_path / "one.parquet", row_group_size=11, index=False)
    stored = scan_panel(tmp_path / "one.parquet", outcome="y_next", codes=["sic"])
    assert stored.periods.is_monotonic_increasing
    expected = read_panel(frame, outcome="y_next", codes=["sic"]).sorted()
    np.testing.assert_array_equal(stored.sample().outcomes, expected.outcomes)


def test_one_pass_reads_every_row_group_once(frame, tmp_path, monkeypatch):
    stored = scan_panel(write(frame, tmp_path, "parquet"), outcome="y_next", codes=["sic"])
    opened = []

    class Part:
        def __init__(self, part):
            self.part = part

        def to_batches(self, **options):
            opened.append(self.part.row_groups[0].id)
            return self.part.to_batches(**options)

    class Watched(Reader):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.parts = [Part(part) for part in self.parts]

    monkeypatch.setattr("peerattn.panel.stored.Reader", Watched)
    list(stored)
    assert opened == list(range(-(-len(frame) // 13)))


def test_training_rows_are_whole_periods_evenly_spaced(frame, tmp_path):
    stored = scan_panel(write(frame, tmp_path, "parquet"), outcome="y_next", codes=["sic"], training_rows=60)
    at = stored.sampled
    assert at[0] == 0 and at[-1] == len(stored.periods) - 1 and np.ptp(np.diff(at)) <= 1
    assert stored.sizes[at].sum() <= 60 < stored.sizes[at].sum() + 2 * stored.sizes.max()
    assert len(stored.sample()) == stored.sizes[at].sum()
    assert "fit reads" in repr(stored)
    assert len(replace(stored, training_rows=None).sample()) == len(stored)


def test_errors(frame, tmp_path, monkeypatch):
    path = write(frame, tmp_path, "parquet")
    with pytest.raises(InputError, match="characteristics: no column is named 'sze'"):
        scan_panel(path, characteristics=["sze"])
    with pytest.raises(InputError, match="outcome: no column is named 'y_nxt'.*'y_next'"):
        scan_panel(path, outcome="y_nxt")
    with pytest.raises(InputError, match="no such file or folder"):
        scan_panel(tmp_path / "none.parquet")
    (tmp_path / "a.csv").write_text("firm,period\n")
    with pytest.raises(InputError, match="a Parquet or Arrow file can be read by period; read others whole"):
        scan_panel(tmp_path / "a.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"bad.parquet: cannot be read by period"):
        scan_panel(tmp_path / "bad.parquet")
    frame.sample(frac=1.0, random_state=0).to_parquet(tmp_path / "mixed.parquet")
    with pytest.raises(InputError, match="are in several places of a file: sort the file by 'period'"):
        scan_panel(tmp_path / "mixed.parquet")
    with pytest.raises(InputError, match="training_rows.* a whole number"):
        scan_panel(path, training_rows=0.5)
    with pytest.raises(InputError, match="training_rows: 5 are fewer than the"):
        scan_panel(path, outcome="y_next", training_rows=5).sample()
    with pytest.raises(InputError, match="a path, a pyarrow Dataset or an iterator of frames"):
        scan_panel(3)
    with pytest.raises(InputError, match="expected an iterator of frames, got one of int"):
        scan_panel(iter([3]))
    with pytest.raises(InputError, match="the iterator gave no frame"):
        scan_panel(iter([]))
    with pytest.raises(InputError, match="the panel has no rows"):
        scan_panel(iter([frame[:0]]))
    with pytest.raises(InputError, match="'period' is missing"):
        scan_panel(iter([frame.assign(period=frame["period"].where(frame.index > 3))]))
    monkeypatch.setattr("peerattn.panel.memory.available_memory", lambda: 2**20)
    few = scan_panel(path, outcome="y_next", codes=["sic"])
    assert len(few.sample())
    wide = pd.concat([frame, pd.DataFrame(0.0, frame.index, [f"x{k}" for k in range(99)])], axis=1)
    with pytest.raises(InputError, match="fit on 144 rows of 101 characteristics would take about 3 MiB"):
        scan_panel(iter([wide]), outcome="y_next", codes=["sic"]).sample()


def test_memory_is_known_on_linux():
    free = available_memory()
    assert free is None or 2**20 < free < 2**50
