"""Every way into the package: no later value changes what comes before it, and the same panel gives the same figures by each way.

The lists below name every public call that takes a panel, files, a formula or a date; a new one fails until it is listed.
Calls that are not exercised here have tests of their own: of formulas, networks, dates of knowledge, files.
"""

import inspect

import numpy as np
import pandas as pd
import pytest

import peerattn.datasets
import peerattn.evaluation
import peerattn.models
import peerattn.panel
from peerattn import PeerNetwork, cli, compare
from peerattn.cli.commands import COMMANDS
from peerattn.evaluation import IntervalRegressor, WalkForward
from peerattn.models import make_model
from peerattn.models.panel_model import PanelModel
from peerattn.panel import as_panel, read_panel, scan_panel

#: Parameters by which a panel, files, a formula or a date comes in.
COMES_IN = {"X", "panel", "source", "frame", "formula", "known_at", "path", "until"}
COMMAND_DOORS = {"audit", "compare", "describe", "fit", "network", "predict", "simulate"}
FUNCTION_DOORS = {
    "as_panel", "audit", "bootstrap_network", "check_panel", "compare", "contributions", "describe_panel", "from_formula",
    "head_importance", "impacts", "influence", "ladder", "marginal_effects", "nowcast_score", "peer_weights",
    "pruning_curve", "read_panel", "read_preset", "scan_panel", "shock", "split_sample", "wild_cluster_p",
}  # fmt: skip
FIT_DOORS = {
    "Design",
    "IntervalRegressor",
    "Learner",
    "NewFirms",
    "PanelEncoder",
    "PeerFeatures",
    "WalkForward",
}
MODEL_DOORS = {
    "CommonShocksRegressor", "CovariancePeerRegressor", "CrossSectionalRidge", "FamaMacBethRegressor", "FirmMeanRegressor",
    "IndustryMeansRegressor", "IndustryMedianRegressor", "IndustryPeerRegressor", "LastValueRegressor",
    "LinearInMeansRegressor", "NadarayaWatsonRegressor", "OwnCharacteristicsRegressor", "OwnHistoryRegressor", "PanelModel",
    "PeerAttentionClassifier", "PeerAttentionRegressor", "PeerModel", "PeerRegressor", "PeerTransformerRegressor",
    "PrecomputedPeerRegressor",
    "StackedPeerRegressor",
}  # fmt: skip


def public():
    for module in (peerattn.panel, peerattn.models, peerattn.evaluation, peerattn.datasets):
        for name in module.__all__:
            yield name, getattr(module, name)


def test_every_door_is_listed():
    functions, fits, models = set(), set(), set()
    for name, one in public():
        if inspect.isclass(one) and issubclass(one, PanelModel):
            models.add(name)
        elif inspect.isclass(one):
            takes = [getattr(one, method, None) for method in ("fit", "split")]
            fits |= {name} if any(takes) else set()
        elif callable(one) and COMES_IN & set(inspect.signature(one).parameters):
            functions.add(name)
    assert {command.__name__.lower() for command in COMMANDS} == COMMAND_DOORS
    assert functions == FUNCTION_DOORS, functions ^ FUNCTION_DOORS
    assert fits == FIT_DOORS, fits ^ FIT_DOORS
    assert models == MODEL_DOORS, models ^ MODEL_DOORS


# ---------------------------------------------------------------- the panel, and its later values changed

rng = np.random.default_rng(0)
N, T, START = 18, 8, 2007
FLAT = pd.DataFrame(
    {"firm": np.repeat([f"F{k:02d}" for k in range(N)], T), "period": np.tile(range(2001, 2001 + T), N)}
)
FLAT["size"] = rng.normal(size=N * T)
FLAT["lev"] = np.where(rng.random(N * T) < 0.1, np.nan, rng.normal(size=N * T))
FLAT["sector"] = np.repeat(rng.permutation(N) % 3, T)
FLAT["sector"] = FLAT["sector"].map({0: "a", 1: "b", 2: "c"})
FLAT["roa"] = FLAT["size"] + np.repeat(rng.normal(size=N), T) + rng.normal(size=N * T)
LATER = FLAT["period"] > START
CHANGED = FLAT.assign(
    size=FLAT["size"] * np.where(LATER, -9, 1),
    roa=FLAT["roa"] + 50 * LATER,
    lev=FLAT["lev"].where(~LATER, 7.0),
)
ORDERS = {
    "firm": lambda f: f.sort_values(["firm", "period"]),
    "newest first": lambda f: f.sort_values("period", ascending=False, kind="stable"),
    "shuffled": lambda f: f.sample(frac=1, random_state=3),
}
MODELS = ["firm_mean", "last_value", "ols", "fama_macbeth", "kernel", "industry", "cross_sectional_ridge"]


def files(frame, folder, kind):
    """Write a panel in one way, and return its path."""
    path = folder / f"panel.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path, index=False)
    elif kind == "feather":
        frame.reset_index(drop=True).to_feather(path)
    else:
        for period, part in frame.groupby("period"):
            (path / f"period={period}").mkdir(parents=True)
            part.drop(columns="period").to_parquet(path / f"period={period}" / "part.parquet", index=False)
    return path


def run(*arguments):
    assert cli.run([str(each) for each in arguments] + ["--quiet"]) == 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("model", ["firm_mean", "ridge"])
def test_commands_learn_from_no_later_row_in_any_order_or_file(model, order, tmp_path):
    columns = ["--outcome", "roa", "--codes", "sector", "--model", model, "--until", START]
    expected = None
    for frame, kind in ((FLAT, "parquet"), (CHANGED, "csv"), (CHANGED, "feather"), (CHANGED, "folder")):
        (folder := tmp_path / kind).mkdir()
        path = files(ORDERS[order](frame), folder, kind)
        run("fit", path, *columns, "--out", folder / "m.model")
        rows = tmp_path / "early.csv"
        FLAT[~LATER].to_csv(rows, index=False)
        run("predict", folder / "m.model", rows, "--out", folder / "p.parquet")
        found = pd.read_parquet(folder / "p.parquet").set_index(["firm", "period"])["prediction"]
        expected = found if expected is None else expected
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def sources(frame, folder):
    """Return the same panel by every way in."""
    import pyarrow as pa

    by_period = (part for _, part in frame.groupby("period"))
    options = {"outcome": "roa", "codes": ["sector"]}
    return {
        "frame": read_panel(frame, **options),
        "index": read_panel(frame.set_index(["period", "firm"]), **options),
        "arrow": read_panel(pa.Table.from_pandas(frame, preserve_index=False), **options),
        **{kind: read_panel(files(frame, folder, kind), **options) for kind in ("csv", "parquet", "feather")},
        "folder": scan_panel(files(frame, folder, "folder"), **options).mapped(),
        "iterator": scan_panel(by_period, **options).sample(),
    }


@pytest.mark.parametrize("name", MODELS)
def test_models_give_the_same_figures_for_every_source_and_order(name, tmp_path):
    rows = FLAT.sample(frac=1, random_state=5).set_index(["firm", "period"])[["size", "lev", "sector"]]
    ways = sources(ORDERS["shuffled"](FLAT), tmp_path)
    ways |= {
        order: read_panel(arrange(FLAT), outcome="roa", codes=["sector"]) for order, arrange in ORDERS.items()
    }
    model = make_model(name, industry="sector")
    expected = model.fit(ways.pop("frame")).predict(rows)
    for way, panel in ways.items():
        np.testing.assert_allclose(
            model.fit(panel).predict(rows), expected, rtol=1e-10, atol=1e-11, err_msg=way
        )


@pytest.mark.parametrize("name", MODELS)
def test_models_fitted_before_a_period_know_nothing_of_it(name):
    model = make_model(name, industry="sector")
    found = []
    for frame in (FLAT, CHANGED):
        panel = as_panel(frame.sample(frac=1, random_state=1), outcome="roa", codes=["sector"])
        early = FLAT[~LATER].set_index(["firm", "period"])[["size", "lev", "sector"]]
        found.append(np.asarray(model.fit(panel.before(START + 1)).predict(early)))
    np.testing.assert_array_equal(*found)


def test_intervals_and_splits_know_nothing_later():
    known = FLAT["period"] + 1
    found = []
    for frame in (FLAT, CHANGED):
        panel = as_panel(frame, outcome="roa", codes=["sector"], characteristics=["size"])
        panel = as_panel(panel, known_at=known.to_numpy())
        one = IntervalRegressor(make_model("last_value"), level=0.5, calibration_periods=2, n_refits=2)
        found.append(one.fit(panel.before(START + 1)).residuals_)
        folds = WalkForward(3, known_at=known.to_numpy()).folds(panel)
        assert [int(fold.train_periods.max()) for fold in folds] == [2005, 2006, 2007]
    pd.testing.assert_frame_equal(*found)


def test_compare_gives_the_same_figures_for_every_source_and_knows_nothing_later(tmp_path):
    expected = None
    options = {"cv": WalkForward(2, 2), "verbose": False}
    for order, arrange in ORDERS.items():
        (folder := tmp_path / order).mkdir()
        frame = arrange(FLAT)
        ways = {"frame": frame, "csv": files(frame, folder, "csv"), "folder": files(frame, folder, "folder")}
        for source in ways if order == "shuffled" else ["frame"]:
            found = compare(["ridge"], ways[source], outcome="roa", codes=["sector"], **options).predictions
            found = found.sort_values(["firm", "period"]).drop(columns="firm").reset_index(drop=True)
            expected = found if expected is None else expected
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    changed = compare(["ridge"], CHANGED, outcome="roa", codes=["sector"], **options).predictions
    changed = changed.sort_values(["firm", "period"]).reset_index(drop=True)
    first = (changed["period"] == START).to_numpy()
    assert first.any()
    models = expected.columns.difference(["period", "outcome"])
    pd.testing.assert_frame_equal(changed.loc[first, models], expected.loc[first, models], check_exact=True)


def test_networks_are_those_of_the_period(tmp_path):
    FLAT.to_csv(tmp_path / "p.csv", index=False)
    shuffled = CHANGED.sample(frac=1, random_state=2)
    shuffled.to_csv(tmp_path / "q.csv", index=False)
    run(
        "fit",
        tmp_path / "p.csv",
        "--outcome",
        "roa",
        "--industry",
        "sector",
        "--model",
        "industry",
        "--out",
        tmp_path / "m.model",
    )
    found = []
    for name in ("p", "q"):
        out = tmp_path / f"{name}.parquet"
        run("network", tmp_path / "m.model", tmp_path / f"{name}.csv", "--at", START, "--out", out)
        found.append(PeerNetwork.from_parquet(out).matrix(START).sort_index().sort_index(axis=1))
    pd.testing.assert_frame_equal(*found)
