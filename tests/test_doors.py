"""Every way into the package: no later value changes what comes before it, and the same panel gives the same figures by each way.

A door is a command, a public function or an estimator that takes a panel, files, a formula or a date. Each is called below with
(a) the panel whose later values are changed, (b) the same panel by another way, its rows shuffled, its columns in another order,
and (c) outcome and characteristics in other units. What is public is walked: a new door fails until it is among them.
"""

import inspect
import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression

import peerattn.datasets
import peerattn.evaluation
import peerattn.models
import peerattn.network
import peerattn.panel
from peerattn import PeerNetwork, cli, evaluation, models
from peerattn.cli.commands import COMMANDS
from peerattn.evaluation import IntervalRegressor, NewFirms, WalkForward
from peerattn.models import make_model
from peerattn.models.base import PanelEstimator
from peerattn.panel import Design, PanelEncoder, as_panel, check_panel, from_formula, read_panel, scan_panel

pytestmark = [
    pytest.mark.usefixtures("fewest_steps", "heads_in_full", "blank_pictures"),
    pytest.mark.filterwarnings("ignore::peerattn.exceptions.PeerAttnWarning"),  # few periods; later values that are far
]

# ---------------------------------------------------------------- the panel, and its later values changed

rng = np.random.default_rng(0)
N, T, START = 16, 9, 2007  # START is the last period before the change
FLAT = pd.DataFrame({"firm": np.repeat([f"F{k:02d}" for k in range(N)], T), "period": np.tile(range(2001, 2001 + T), N)})
FLAT["size"] = rng.normal(size=N * T)
FLAT["lev"] = np.where(rng.random(N * T) < 0.1, np.nan, rng.normal(size=N * T))
FLAT["sector"] = np.repeat(np.resize(["01", "02", "03"], N), T)
FLAT["roa"] = FLAT["size"] + np.repeat(rng.normal(size=N), T) + rng.normal(size=N * T)
FLAT["filed"] = FLAT["period"] + 1
LATER = FLAT["period"] > START
CHANGED = FLAT.assign(size=FLAT["size"] * np.where(LATER, -9, 1), roa=FLAT["roa"] + 9 * LATER, lev=FLAT["lev"].where(~LATER, 7.0))
OUTCOME, COLUMN = 2.0**20, 2.0**-20  # units; powers of two scale numbers without rounding
SCALED = FLAT.assign(roa=FLAT["roa"] * OUTCOME, size=FLAT["size"] * COLUMN, lev=FLAT["lev"] / COLUMN)
ORDERS = {
    "firm": lambda f: f.sort_values(["firm", "period"]),
    "newest first": lambda f: f.sort_values("period", ascending=False, kind="stable"),
    "shuffled": lambda f: f.sample(frac=1, random_state=3)[["roa", "period", "sector", "filed", "size", "lev", "firm"]],
}
READ = {"outcome": "roa", "characteristics": ["size", "lev"], "codes": ["sector"]}
NETWORK = pd.DataFrame(rng.random((N, N)), *[FLAT["firm"].unique()] * 2)
LINKS = NETWORK.where(NETWORK > 0.7, 0.0)


def panel_of(frame):
    return read_panel(frame, industry="sector", **READ)


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


def sources(frame, folder):
    """Return the same panel by every way in."""
    import pyarrow as pa

    kinds = {kind: files(frame, folder, kind) for kind in ("csv", "parquet", "feather", "folder")}
    by_period = (part for _, part in frame.groupby("period"))
    return {
        "frame": panel_of(frame),
        "index": panel_of(frame.set_index(["period", "firm"])),
        "arrow": panel_of(pa.Table.from_pandas(frame, preserve_index=False)),
        **{kind: panel_of(path) for kind, path in kinds.items()},
        "mapped folder": scan_panel(kinds["folder"], industry="sector", **READ).mapped(),
        "iterator": scan_panel(by_period, industry="sector", **READ).sample(),
    }


def test_a_panel_is_the_same_by_every_way_in(tmp_path):
    """To the bit: what takes a Panel has the same figures for all of them."""
    expected = panel_of(FLAT).sorted()
    for order, arrange in ORDERS.items():
        (tmp_path / order).mkdir()
        for way, panel in sources(arrange(FLAT), tmp_path / order).items():
            found = panel.sorted()
            options = {"check_exact": True, "obj": f"{way}, {order}"}
            pd.testing.assert_frame_equal(found.X[expected.X.columns], expected.X, check_dtype=False, **options)
            pd.testing.assert_series_equal(found.y, expected.y, **options)


# ---------------------------------------------------------------- the doors: each gives figures by (firm, period)


def by_label(values, panel):
    """Return one number a row of a panel by its labels."""
    return pd.Series(np.asarray(values, dtype=float), panel.labels)


def edges(network, column="weight"):
    """Return a network's weights by period, firm and peer."""
    return network.edges().set_index(["period", "firm", "peer"])[column].sort_index()


def past(panel):
    """Return what is known before the change; of the panel as it came in, not of one that ends there."""
    return panel.before(START + 1)


ATTENTION = models.PeerAttentionRegressor(n_heads=1, d_head=2, kappa=None, random_state=0)
IN_MEANS = models.LinearInMeansRegressor(network=LINKS, cluster=None)


def fitted(model, panel):
    return clone(model).fit(past(panel))


def contributions(panel):
    return edges(models.contributions(fitted(ATTENTION, panel), panel))


def head_importance(panel):
    return evaluation.head_importance(fitted(ATTENTION, panel), past(panel).X, past(panel).y)


def pruning_curve(panel):
    model = fitted(ATTENTION, panel)
    importance = evaluation.head_importance(model, past(panel).X, past(panel).y)
    return evaluation.pruning_curve(model, importance, past(panel).X, past(panel).y).select_dtypes("number").stack()


def influence(panel):
    found = evaluation.influence(fitted(models.NadarayaWatsonRegressor(), panel), panel, outcomes=panel.y)
    return edges(found.influence)


def split_sample(panel):
    learner = models.IndustryPeerRegressor(industry="sector")
    found = models.split_sample(learner, past(panel).X, past(panel).y, until=2004, codes=["sector"], peer_outcome=False)
    return found.results_.pvalues


def marginal_effects(panel):
    before = past(panel)
    last = before.y[before.period == START]
    found = evaluation.marginal_effects(fitted(models.NadarayaWatsonRegressor(), panel), before.X, outcomes=last, n_batches=3)
    return found.params


def peer_weights(panel):
    numbers = PanelEncoder().fit(past(panel).X).transform(panel.X)
    before = panel.period <= START
    line = LinearRegression().fit(numbers[before], panel.y[before])
    return edges(models.peer_weights(line, numbers, numbers[before], panel.y[before]))


CV = WalkForward(3, 3)


def compare(panel):
    return predictions_of(evaluation.compare(["ridge", "kernel"], panel, cv=CV, decomposition=False, verbose=False))


def predictions_of(result):
    found = result.predictions.set_index(["firm", "period"]).drop(columns="outcome").sort_index()
    return found.rename_axis(columns="model").stack()


def audit(panel):
    found = evaluation.audit(make_model("ridge"), past(panel), cv=CV, n_placebo=2).to_frame()
    return found.select_dtypes("bool").astype(float).stack()


def describe_panel(panel):
    frame = evaluation.describe_panel(past(panel).X, past(panel).y).frame
    return frame.select_dtypes("number").stack()


def known(panel, cv):
    """Return the rows of the first fold that is tested, 1 for training, 2 for test."""
    role = np.zeros(len(panel))
    train, test = next(iter(cv.split(panel.X)))
    role[train] = 1
    role[test] = 2
    return by_label(role, panel)


def intervals(panel):
    dated = as_panel(panel, known_at=pd.Series(panel.period + 1, panel.labels))
    one = IntervalRegressor(make_model("last_value"), level=0.5, calibration_periods=2, n_refits=2).fit(past(dated))
    return one.residuals_.set_index(["firm", "period"])["prediction"].sort_index()


def formula(panel):
    frame = panel.X.reset_index().assign(roa=panel.y.to_numpy())
    found = from_formula("roa ~ size + lag(lev) + size:lev | sector", frame)
    return found.characteristics.set_index(found.labels).sort_index().rename_axis(columns="column").stack()


def preset(panel):
    months = pd.PeriodIndex(panel.period.astype(str) + "-01", freq="M").astype(str).str.replace("-", "")
    frame = panel.characteristics.assign(permno=panel.firm.str[1:].astype(int), DATE=months.astype(int), ret=panel.outcomes)
    found = peerattn.datasets.read_preset(frame.assign(mvel1=1.0), "gu_kelly_xiu", outcome="ret").characteristics
    return found[["size", "lev"]].set_index(panel.labels).sort_index().rename_axis(columns="column").stack()


def numbers_of(panel):
    return panel.characteristics.set_index(panel.labels).sort_index().rename_axis(columns="column").stack()


def encoded(panel):
    made = PanelEncoder().fit(past(panel)).transform(panel.X)
    return made.sort_index().rename_axis(columns="column").stack()


def scanned(panel):
    frames = (part for _, part in panel.X.assign(roa=panel.y).reset_index().groupby("period"))
    return numbers_of(scan_panel(frames, **READ).sample())


def gate(panel):
    class Empty(BaseEstimator):
        pass

    found = check_panel(Empty(), panel.X, panel.y, fitting=True)
    return numbers_of(found)


def nowcast_score(panel):
    model = fitted(models.IndustryPeerRegressor(industry="sector"), panel)
    return pd.Series({"r2": evaluation.nowcast_score(model, past(panel).X, past(panel).y)})


def peer_features(panel):
    made = models.PeerFeatures(over=["sector"], keep=False).fit(past(panel).X).transform(panel.X)
    return (made / made[panel.period <= START].abs().max()).sort_index().rename_axis(columns="column").stack()


#: Functions and transformers.
FUNCTIONS = {
    "as_panel": lambda p: numbers_of(as_panel(p.X.reset_index(), p.y.to_numpy())),
    "read_panel": numbers_of,
    "scan_panel": scanned,
    "from_formula": formula,
    "read_preset": preset,
    "check_panel": gate,
    "PanelEncoder": encoded,
    "Design": lambda p: by_label(Design.fit(past(p), scale="standard").transform(p)[:, 0], p),
    "describe_panel": describe_panel,
    "WalkForward": lambda p: known(p, WalkForward(3, known_at=pd.Series(p.period + 1, p.labels))),
    "NewFirms": lambda p: known(p, NewFirms(CV, n_splits=2, random_state=0)),
    "PeerFeatures": peer_features,
    "IntervalRegressor": intervals,
    "compare": compare,
    "audit": audit,
    "nowcast_score": nowcast_score,
    "contributions": contributions,
    "head_importance": head_importance,
    "pruning_curve": pruning_curve,
    "influence": influence,
    "marginal_effects": marginal_effects,
    "peer_weights": peer_weights,
    "split_sample": split_sample,
}
#: Power of the outcome's unit in the figures, 0 where it is not named; None: they are in units of columns, or of several.
UNITS = {
    **dict.fromkeys(["compare", "IntervalRegressor", "contributions", "influence"], 1),
    **dict.fromkeys(["as_panel", "read_panel", "scan_panel", "from_formula", "read_preset", "check_panel"], None),
    **dict.fromkeys(["PanelEncoder", "describe_panel", "pruning_curve", "head_importance"], None),
    "peer_weights": None,  # of a plain regression on columns as they are
}
#: Estimators of a panel.
MODELS = {
    "CommonShocksRegressor": models.CommonShocksRegressor(industry="sector"),
    "CovariancePeerRegressor": models.CovariancePeerRegressor(random_state=0),
    "CrossSectionalRidge": models.CrossSectionalRidge(),
    "FamaMacBethRegressor": models.FamaMacBethRegressor(),
    "FirmMeanRegressor": models.FirmMeanRegressor(),
    "IndustryMeansRegressor": models.IndustryMeansRegressor(industry="sector"),
    "IndustryMedianRegressor": models.IndustryMedianRegressor(industry="sector"),
    "IndustryPeerRegressor": models.IndustryPeerRegressor(industry="sector"),
    "LastValueRegressor": models.LastValueRegressor(),
    "LinearInMeansRegressor": models.LinearInMeansRegressor(network=LINKS),
    "NadarayaWatsonRegressor": models.NadarayaWatsonRegressor(),
    "OwnCharacteristicsRegressor": models.OwnCharacteristicsRegressor(effects=("firm",)),
    "OwnHistoryRegressor": models.OwnHistoryRegressor(),
    "PeerAttentionClassifier": models.PeerAttentionClassifier(n_heads=1, kappa=None, random_state=0),
    "PeerAttentionRegressor": models.PeerAttentionRegressor(task="nowcast", n_heads=1, kappa=None, random_state=0),
    "PeerTransformerRegressor": models.PeerTransformerRegressor(n_heads=1, n_seeds=1, d_model=8, random_state=0),
    "PrecomputedPeerRegressor": models.PrecomputedPeerRegressor(network=NETWORK),
    "StackedPeerRegressor": models.StackedPeerRegressor(task="nowcast", n_heads=1, random_state=0),
}


def of_model(model):
    """Return the figures of an estimator: predictions without and with outcomes of the call, and its network."""

    def figures(panel):
        classes = hasattr(model, "predict_proba")
        y = (panel.y > 0).astype(int) if classes else panel.y
        before = panel.period <= START
        one = clone(model).fit(panel.X[before], y[before]) if classes else fitted(model, panel)
        found = {}
        if not getattr(one, "needs_outcomes", False):
            found["alone"] = by_label(one.predict_proba(panel.X)[:, 0] if classes else one.predict(panel), panel)
        options = {"outcomes": panel.y} if getattr(one, "reads_outcomes", False) else {}
        if options or isinstance(one, models.OwnHistoryRegressor):
            found["shown"] = by_label(one.predict(panel, outcomes=panel.y), panel)
        return pd.concat(found, names=["how"]).sort_index()

    return figures


DOORS = {**FUNCTIONS, **{name: of_model(model) for name, model in MODELS.items()}}


@cache
def of_frame(name):
    """Return a door's figures of the panel as it is."""
    return DOORS[name](panel_of(FLAT))


def early(figures):
    """Return the figures of periods before the change."""
    if "period" not in figures.index.names:
        return figures
    return figures[figures.index.get_level_values("period") <= START]


def same(found, expected, **tolerance):
    assert len(expected) and np.abs(expected).max() > 0, "no figures to compare"
    found = found.reindex(expected.index)
    np.testing.assert_allclose(found, expected, **tolerance)


@pytest.mark.parametrize("name", DOORS)
def test_later_values_change_nothing_before_them(name):
    found = early(of_frame(name))
    assert len(found)
    pd.testing.assert_series_equal(early(DOORS[name](panel_of(CHANGED))), found, check_exact=True)


@pytest.mark.parametrize("name", DOORS)
def test_the_same_panel_by_another_way_in_another_order(name, tmp_path):
    frame = ORDERS["shuffled"](FLAT)
    found = DOORS[name](panel_of(files(frame, tmp_path, "csv")))
    expected = of_frame(name)
    same(found, expected, rtol=1e-12, atol=1e-12 * expected.abs().max())


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if UNITS.get(name, 0) is not None])
def test_units_change_nothing(name):
    """Those of estimators are in tests/models/test_units.py, which lists each of them, too."""
    expected = of_frame(name)
    found = DOORS[name](panel_of(SCALED)) / OUTCOME ** UNITS.get(name, 0)
    same(found, expected, rtol=1e-9, atol=1e-9 * expected.abs().max())


@pytest.mark.parametrize("name", [name for name in MODELS if name != "PeerAttentionClassifier"])
def test_estimators_read_files_by_period(name, tmp_path):
    """Fitted on a folder and called with an iterator of frames, as with the panel itself."""
    folder = files(ORDERS["shuffled"](FLAT[~LATER]), tmp_path, "folder")
    model = clone(MODELS[name]).fit(scan_panel(folder, industry="sector", **READ))
    figures = of_frame(name)
    how = figures.index.get_level_values("how")[-1]  # with outcomes where it reads some
    expected = figures[how]
    stored = scan_panel((part for _, part in ORDERS["shuffled"](FLAT).groupby("period")), **READ)
    found = model.predict(stored, **({"outcomes": "roa"} if how == "shown" else {}))
    labels = pd.concat([each.labels.to_frame(index=False) for each in stored], ignore_index=True)
    same(pd.Series(found, pd.MultiIndex.from_frame(labels)), expected, rtol=1e-12, atol=1e-12 * expected.abs().max())


# ---------------------------------------------------------------- the command line


def run(*arguments):
    assert cli.run([str(each) for each in arguments] + ["--quiet"]) == 0


COLUMNS = ["--outcome", "roa", "--characteristics", "size,lev", "--industry", "sector"]


def fit_and_predict(path, out, capsys):
    run("fit", path, *COLUMNS, "--model", "ridge", "--until", START, "--out", out / "m.model")
    run("predict", out / "m.model", path, "--out", out / "p.parquet")
    found = pd.read_parquet(out / "p.parquet").set_index(["firm", "period"])["prediction"]
    return found.sort_index()


def network(path, out, capsys):
    run("fit", path, *COLUMNS, "--model", "kernel", "--until", START, "--out", out / "m.model")
    run("network", out / "m.model", path, "--at", START, "--out", out / "n.parquet")
    return edges(PeerNetwork.from_parquet(out / "n.parquet"))


def compare_command(path, out, capsys):
    run("compare", path, *COLUMNS, "--models", "industry,ridge", "--test-periods", 3, "--out", out)
    found = pd.read_parquet(out / "predictions.parquet").set_index(["firm", "period"]).drop(columns="outcome")
    return found.sort_index().rename_axis(columns="model").stack()


def printed(*arguments, capsys):
    capsys.readouterr()
    run(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def audit_command(path, out, capsys):
    found = printed("audit", path, *COLUMNS, "--model", "firm_mean", "--test-periods", 2, capsys=capsys)
    return pd.Series({"passed": float(found["passed"]), "lines": float(len(found["lines"]))})


def describe_command(path, out, capsys):
    found = printed("describe", path, capsys=capsys)
    return pd.Series({key: float(found[key]) for key in ("rows", "columns", "firms", "periods")})


COMMAND_DOORS = {
    "fit": fit_and_predict,
    "predict": fit_and_predict,
    "network": network,
    "compare": compare_command,
    "audit": audit_command,
    "describe": describe_command,
}


@pytest.mark.parametrize("command", ["fit", "network", "compare", "audit", "describe"])
def test_commands_have_the_same_figures_for_every_file_and_know_nothing_later(command, tmp_path, capsys):
    """The files hold the panel in another order each, and later values that differ."""
    expected = None
    ways = {"parquet": FLAT, "csv": CHANGED, "feather": FLAT, "folder": CHANGED}
    if command == "compare":  # fits all controls each time
        ways = {"csv": FLAT, "folder": CHANGED}
    for (kind, frame), order in zip(ways.items(), [*ORDERS, "shuffled"]):
        (folder := tmp_path / kind).mkdir()
        path = files(ORDERS[order](frame), folder, kind)
        (out := folder / "out").mkdir()
        found = early(COMMAND_DOORS[command](path, out, capsys))
        expected = found if expected is None else expected
        same(found, expected, rtol=1e-12, atol=1e-12 * expected.abs().max())


def test_a_simulation_is_the_same_in_every_format(tmp_path):
    found = []
    for kind in ("csv", "parquet", "feather"):
        run("simulate", "--firms", 5, "--periods", 3, "--seed", 1, "--out", tmp_path / f"s.{kind}")
        panel = read_panel(tmp_path / f"s.{kind}", outcome="outcome")
        # days are text in CSV
        found.append(panel.X.set_index([panel.firm, pd.DatetimeIndex(panel.period).as_unit("ns")]))
    options = {"check_exact": True, "check_dtype": False, "check_index_type": False, "check_names": False}
    for one in found[1:]:
        pd.testing.assert_frame_equal(one, found[0], **options)


# ---------------------------------------------------------------- every door is among them

#: Parameters by which a panel, files, a formula or a date comes in.
COMES_IN = {"X", "panel", "source", "frame", "formula", "known_at", "until"}
#: What is public and no door: base classes and a protocol, a function of plain arrays, and one whose refits must converge
#: (tests/evaluation/inference/test_network_bootstrap.py).
NO_DOORS = {"PanelEstimator", "PanelRegressorMixin", "PanelClassifierMixin", "Learner", "wild_cluster_p", "bootstrap_network"}


def public():
    for module in (peerattn.panel, peerattn.models, peerattn.evaluation, peerattn.datasets, peerattn.network, peerattn):
        for name in module.__all__:
            yield name, getattr(module, name)


def is_door(one):
    if inspect.isclass(one):
        return issubclass(one, PanelEstimator) or any(hasattr(one, method) for method in ("fit", "split"))
    return callable(one) and bool(COMES_IN & set(inspect.signature(one).parameters))


def test_every_door_is_among_them():
    found = {name for name, one in public() if is_door(one)} - NO_DOORS
    assert found == {*DOORS}, found ^ {*DOORS}
    assert {command.__name__.lower() for command in COMMANDS} == {*COMMAND_DOORS, "simulate"}
    assert all(issubclass(getattr(models, name), PanelEstimator) for name in MODELS)
