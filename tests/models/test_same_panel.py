"""The same panel by another way in gives the same figures, or an error that names the difference."""

import numpy as np
import pandas as pd
import pytest

from peerattn import InputError, cli, load
from peerattn.models import (
    CommonShocksRegressor,
    LinearInMeansRegressor,
    OwnCharacteristicsRegressor,
    OwnHistoryRegressor,
)
from peerattn.panel import Design, read_panel, scan_panel

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")

rng = np.random.default_rng(0)
INDEX = pd.MultiIndex.from_product([range(2001, 2013), range(1001, 1021)], names=["period", "firm"])
FLAT = pd.DataFrame({"size": rng.normal(size=240)}, INDEX).reset_index()
FLAT["roa"] = FLAT["size"] + np.repeat(2 * rng.normal(size=12), 20) + np.tile(rng.normal(size=20), 12)
FLAT.loc[FLAT["period"] == 2010, "roa"] = np.nan
EARLY, LATE = FLAT[FLAT["period"] < 2009], FLAT[FLAT["period"] >= 2009]


def labelled(frame):
    frame = frame.set_index(["firm", "period"])
    return frame[["size"]], frame["roa"]


@pytest.mark.parametrize("name", ["common_shocks", "own_history"])
def test_predict_of_the_command_line_shows_what_the_task_shows(name, tmp_path):
    EARLY.to_parquet(tmp_path / "early.parquet")
    LATE.to_csv(tmp_path / "late.csv", index=False)
    LATE.drop(columns="roa").to_csv(tmp_path / "new.csv", index=False)
    saved, out = tmp_path / "m.model", tmp_path / "p.parquet"
    fit = ["fit", tmp_path / "early.parquet", "--outcome", "roa", "--model", name, "--task", "nowcast", "--out", saved]

    def called(*arguments):
        assert cli.run([str(each) for each in arguments] + ["--quiet"]) == 0
        return pd.read_parquet(out)["prediction"] if out.exists() else None

    called(*fit)
    X, y = labelled(LATE)
    model = load(saved)
    np.testing.assert_allclose(called("predict", saved, tmp_path / "late.csv", "--out", out), model.predict(X, outcomes=y))
    np.testing.assert_allclose(called("predict", saved, tmp_path / "new.csv", "--out", out), model.predict(X))


@pytest.mark.parametrize("model", [OwnHistoryRegressor(gaps=(1, 3)), CommonShocksRegressor()])
def test_files_remember_the_outcomes_of_earlier_periods(model, tmp_path):
    X, y = labelled(EARLY)
    fitted = model.fit(X, y)
    LATE.to_parquet(tmp_path / "late.parquet")
    X, y = labelled(LATE)
    expected = fitted.predict(X, outcomes=y)
    found = fitted.predict(tmp_path / "late.parquet", outcomes="roa")
    np.testing.assert_allclose(found, expected, atol=1e-12)
    folder = fitted.write_predictions(tmp_path / "late.parquet", tmp_path / "out", outcomes="roa")
    np.testing.assert_allclose(pd.read_parquet(folder)["prediction"], expected, atol=1e-12)
    without = fitted.predict(tmp_path / "late.parquet")
    np.testing.assert_allclose(without, fitted.predict(X), atol=1e-12)


def test_medians_of_a_mapped_file_are_those_in_memory(tmp_path):
    frame = FLAT.assign(size=np.where(rng.random(240) < 0.2, np.nan, FLAT["size"]).astype(np.float32))
    frame.to_parquet(tmp_path / "single.parquet")
    mapped = scan_panel(tmp_path / "single.parquet", outcome="roa").mapped()
    memory = read_panel(frame, outcome="roa").sorted()
    assert mapped.characteristics["size"].dtype == np.float32
    np.testing.assert_array_equal(Design.fit(mapped).medians, Design.fit(memory).medians)
    np.testing.assert_array_equal(Design.fit(mapped).filled(mapped), Design.fit(memory).filled(memory))
    assert mapped.before(2005).characteristics["size"].dtype == np.float64


@pytest.mark.parametrize("effect", ["firm", "period"])
def test_effects_are_found_by_labels_of_one_type(effect):
    X, y = labelled(FLAT)
    model = OwnCharacteristicsRegressor(effects=(effect,)).fit(X, y)
    other = FLAT.assign(**{effect: FLAT[effect].astype(str)})
    with pytest.raises(InputError, match="cannot be compared|type"):
        model.predict(labelled(other)[0])
    network = pd.DataFrame(1 - np.eye(20), X.index.levels[0], X.index.levels[0])
    peers = LinearInMeansRegressor(network=network, effects=(effect,), peer_outcome=False).fit(X, y.fillna(0.0))
    with pytest.raises(InputError, match="cannot be compared|type"):
        peers.predict(labelled(other)[0])
