"""The other commands as a user meets them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from peerattn import cli
from peerattn.cli.app import app
from peerattn.cli.model_file import load_model
from peerattn.evaluation import r2_within_period
from peerattn.models.forecasters import model_names
from peerattn.network import PeerNetwork
from peerattn.store.objects import load_estimator, save_estimator

pytestmark = pytest.mark.usefixtures("fewest_steps")


SAMPLE = Path(__file__).parents[2] / "data" / "sample_panel.csv"
COLUMNS = ["--period", "year", "--outcome", "roa_next", "--industry", "sic"]
FAST = [v for name in ("n_heads=1", "own=linear", "kappa=null") for v in ("--set", f"attention.{name}")]


def said(capsys, *arguments):
    code = cli.run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys, *arguments):
    code, out, err = said(capsys, *arguments)
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and err.startswith("peerattn: "), err
    return err


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A fitted attention model of the sample."""
    path = tmp_path_factory.mktemp("models") / "roa.model"
    code = cli.run(["fit", str(SAMPLE), *COLUMNS, *FAST, "--until", "2009", "--out", str(path), "--quiet"])
    assert code == 0
    return path


def test_fit_learns_from_the_rows_until_the_period(saved):
    from peerattn.models import PeerAttentionRegressor
    from peerattn.panel import read_panel

    panel = read_panel(SAMPLE, outcome="roa_next", period="year", industry="sic")
    past = panel.X.index.get_level_values("period") <= 2009
    model = PeerAttentionRegressor(n_heads=1, own="linear", kappa=None, random_state=0)
    expected = model.fit(panel.X[past], panel.y[past]).predict(panel.X)
    got = load_model(saved).predict(load_model(saved).panel(SAMPLE))
    np.testing.assert_array_equal(got, expected)


def test_what_scikit_learn_raises_about_an_option_is_no_bug(capsys):
    line = refused(capsys, "fit", SAMPLE, *COLUMNS, "--model", "boosting", "--set", "boosting.monotonic_cst=[2]", "--quiet")
    assert "--model: HistGradientBoostingRegressor cannot be fitted (monotonic_cst must be" in line


def test_the_network_of_a_period_is_that_by_which_predict_predicts(tmp_path):
    """The weights of a covariance depend on the outcomes of earlier periods: those of the file, as in a folder of all periods."""
    model, file = tmp_path / "roa.model", tmp_path / "sample.parquet"
    pd.read_csv(SAMPLE).sort_values("year").to_parquet(file, index=False)
    options = [*COLUMNS, "--task", "nowcast", "--model", "covariance", "--until", "2005"]
    assert cli.run(["fit", str(file), *options, "--out", str(model)]) == 0
    for out, more in (("one.parquet", ["--at", "2009"]), ("all", [])):
        assert cli.run(["network", str(model), str(file), *more, "--out", str(tmp_path / out), "--quiet"]) == 0
    one, of_all = (PeerNetwork.from_parquet(tmp_path / name).matrix(2009) for name in ("one.parquet", "all/2009.parquet"))
    np.testing.assert_allclose(one, of_all.reindex_like(one), rtol=0, atol=1e-12)
    panel = load_model(model).panel(file)
    here = panel.X.index.get_level_values("period") == 2009
    standalone = load_model(model).model.peer_network(panel.X[here], outcomes=panel.y[here])
    assert np.abs(standalone.matrix(2009) - of_all).max().max() > 1e-3


@pytest.mark.parametrize("order", [["firm", "year"], ["year", "firm"], ["roa_next"]])
@pytest.mark.parametrize("model", ["firm_mean", "ridge"])
def test_until_leaves_later_periods_out_whatever_the_order_of_the_file(model, order, tmp_path):
    sample = pd.read_csv(SAMPLE)
    late = sample["year"] > 2009
    changed = sample.assign(roa_next=sample["roa_next"] + 100 * late, size=sample["size"] * np.where(late, -3, 1))
    predicted = []
    for name, frame in (("as it is", sample), ("changed", changed.sort_values(order, ascending=False))):
        path = tmp_path / f"{name}.csv"
        frame.to_csv(path, index=False)
        fit = ["fit", path, *COLUMNS, "--model", model, "--until", "2009", "--out", tmp_path / "m.model", "--quiet"]
        assert cli.run([str(each) for each in fit]) == 0
        saved = load_model(tmp_path / "m.model")
        predicted.append(saved.predict(saved.panel(SAMPLE)))
    pd.testing.assert_series_equal(*predicted, check_exact=True)


def test_predict_needs_no_outcome(capsys, saved, tmp_path):
    without = tmp_path / "new.csv"
    pd.read_csv(SAMPLE).drop(columns="roa_next").to_csv(without, index=False)
    code, text, err = said(capsys, "predict", saved, without, "--out", tmp_path / "p.csv", "--quiet")
    assert (code, err) == (0, "") and "predictions of roa_next by Peer attention" in text
    written = pd.read_csv(tmp_path / "p.csv")
    assert list(written) == ["firm", "year", "roa_next", "prediction"]
    assert written["prediction"].notna().all() and written["roa_next"].isna().all()
    code, text, _ = said(capsys, "predict", saved, SAMPLE, "--out", tmp_path / "p.parquet", "--json", "--quiet")
    assert code == 0 and json.loads(text)["rows"] == len(written)
    np.testing.assert_array_equal(
        pd.read_parquet(tmp_path / "p.parquet")["prediction"].to_numpy().round(12),
        written["prediction"].round(12),
    )


def test_predict_scores_the_rows_of_the_fit_apart_from_others(capsys, saved, tmp_path):
    sample = pd.read_csv(SAMPLE)
    sample.loc[3, "roa_next"] = np.nan
    sample.to_csv(tmp_path / "all.csv", index=False)
    sample[sample["year"] > 2009].to_csv(tmp_path / "new.csv", index=False)
    for file in ("all.csv", "new.csv"):
        code, text, _ = said(capsys, "predict", saved, tmp_path / file, "--out", tmp_path / "p.csv", "--quiet")
        assert code == 0
        made = pd.read_csv(tmp_path / "p.csv").dropna()
        of_fit = "rows of the fit, in-sample where their outcome was known then"
        parts = {of_fit: made[made["year"] <= 2009], "other rows": made[made["year"] > 2009]}
        for which, rows in parts.items():
            assert (f"R² within period, {which} (" in text) == bool(len(rows))
            if len(rows):
                r2 = r2_within_period(rows["roa_next"], rows["prediction"], rows["year"])
                assert f"{which} ({len(rows):,} rows): {r2:.4f}" in text


def test_plain_models_and_explanations(capsys, tmp_path):
    for name, task in (("boosting", "forecast"), ("industry", "nowcast")):
        path = tmp_path / f"{name}.model"
        assert said(capsys, "fit", SAMPLE, *COLUMNS, "--model", name, "--task", task, "--out", path)[0] == 0
        assert said(capsys, "predict", path, SAMPLE, "--out", tmp_path / "p.parquet")[0] == 0
        assert pd.read_parquet(tmp_path / "p.parquet")["prediction"].notna().all()
    assert "expected the file of a peer model" in refused(capsys, "network", tmp_path / "boosting.model", SAMPLE)
    without = tmp_path / "new.csv"
    pd.read_csv(SAMPLE).drop(columns="roa_next").to_csv(without, index=False)
    assert "the file holds none" in refused(capsys, "predict", tmp_path / "industry.model", without)


@pytest.mark.parametrize("kind", ["parquet", "csv", "html", "graphml", "gexf"])
def test_network_in_every_form(capsys, saved, tmp_path, kind):
    out = tmp_path / f"n.{kind}"
    firm = pd.read_csv(SAMPLE).query("year == 2010")["firm"].iloc[0]
    code, text, _ = said(
        capsys,
        "network",
        saved,
        SAMPLE,
        "--at",
        "2010",
        "--firm",
        firm,
        "-k",
        "3",
        "--out",
        out,
        "--quiet",
    )
    assert code == 0 and f"Peers of {firm} " in text and "effective peers" in text and "not causal peer effects" in text
    assert out.stat().st_size > 100
    if kind == "parquet":
        network = PeerNetwork.from_parquet(out)
        total = network.matrix().sum(axis=1).drop(network.isolates["firm"])  # of firms without industry peers
        assert network.periods.tolist() == [2010] and len(total) and np.allclose(total, 1)


def test_audit(capsys):
    code, text, _ = said(capsys, "audit", SAMPLE, *COLUMNS, "--model", "industry", "--test-periods", "3", "--json", "--quiet")
    result = json.loads(text)
    assert code == 0 and result["passed"] and len(result["lines"]) == 11


def test_simulate_is_read_by_compare(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--firms", "12", "--periods", "10", "--characteristics", "2", "--industries", "3", "--seed", "1"]
    code, text, _ = said(capsys, "simulate", *small, "--out", "s.csv", "--network", "true.parquet", "--quiet")
    assert code == 0 and "next: peerattn compare s.csv --outcome outcome --industry industry" in text
    assert PeerNetwork.from_parquet("true.parquet").row_normalized
    first = Path("s.csv").read_bytes()
    said(capsys, "simulate", *small, "--out", "s.csv")
    assert Path("s.csv").read_bytes() == first
    compared = [
        "--outcome",
        "outcome",
        "--industry",
        "industry",
        "--models",
        "industry",
        "--test-periods",
        "3",
        "--refit-every",
        "3",
        "--no-decomposition",
    ]
    assert said(capsys, "compare", "s.csv", *compared, "--quiet")[0] == 0


def test_describe_puts_dates_in_time(capsys, tmp_path):
    """Written day first, 28/02/2001 comes first and 31/12/2000 last in the alphabet."""
    months = pd.date_range("2000-01-31", periods=16, freq="ME").strftime("%d/%m/%Y")
    frame = pd.MultiIndex.from_product([["A", "B"], months], names=["firm", "date"]).to_frame(index=False)
    frame.assign(size=1.0).to_csv(tmp_path / "days.csv", index=False)
    facts = json.loads(said(capsys, "describe", tmp_path / "days.csv", "--json")[1])
    assert (facts["first"][:10], facts["last"][:10]) == ("2000-01-31", "2001-04-30")


def test_describe(capsys, tmp_path):
    code, text, _ = said(capsys, "describe", SAMPLE, "--quiet")
    assert code == 0
    for needed in (
        "firm: firm",
        "period: year",
        "ragged",
        "look like outcomes (1): roa_next",
        "look like codes (1): sic",
    ):
        assert needed in text, needed
    assert text.rstrip().endswith("--period year --outcome roa_next --industry sic")
    facts = json.loads(said(capsys, "describe", SAMPLE, "--json")[1])
    frame = pd.read_csv(SAMPLE)
    assert facts["firms"] == frame["firm"].nunique() and facts["repeated"] == 0
    assert facts["missing"]["rnd"] == pytest.approx(frame["rnd"].isna().mean())
    pd.concat([frame, frame.iloc[:2]]).to_feather(tmp_path / "twice.feather")
    assert "PROBLEM: 2 rows repeat a firm and period" in said(capsys, "describe", tmp_path / "twice.feather")[1]
    frame[["rnd"]].to_csv(tmp_path / "unlabelled.csv", index=False)
    code, text, _ = said(capsys, "describe", tmp_path / "unlabelled.csv")
    assert code == 0 and "period: no column looks like it; name it with --period" in text


def test_columns_of_lists_are_described_and_are_no_labels(capsys, tmp_path):
    path = tmp_path / "lists.parquet"
    pd.read_csv(SAMPLE).assign(sic=lambda frame: [[1]] * len(frame)).to_parquet(path)
    code, text, _ = said(capsys, "describe", path)
    assert code == 0 and "look like codes (0): none" in text
    assert "numbers, text or dates" in refused(capsys, "describe", path, "--firm", "sic")
    for labels in (("--firm", "sic", "--period", "year"), ("--firm", "firm", "--period", "sic")):
        assert "must be numbers, text or dates" in refused(capsys, "fit", path, "--outcome", "roa_next", *labels)


def test_a_file_without_labels_is_described(capsys, tmp_path):
    (tmp_path / "plain.csv").write_text("x,y\n1,2\n")
    code, text, _ = said(capsys, "describe", tmp_path / "plain.csv")
    assert code == 0 and "firm: no column looks like it; name it with --firm" in text
    assert text.rstrip().endswith("--firm COLUMN --period COLUMN --outcome y")
    both = refused(capsys, "describe", SAMPLE, "--firm", "year", "--period", "year")
    assert "--firm and --period: expected two columns, got 'year' for both" in both
    assert "--network: expected a name that ends in .parquet" in refused(capsys, "simulate", "--network", "true.csv")


def test_refusals(capsys, saved, tmp_path):
    assert "MODEL: expected a file that save() of this package wrote" in refused(capsys, "predict", SAMPLE, SAMPLE)
    model, about = load_estimator(saved)
    for said, words in (
        ([1], "without the columns that it uses"),
        (about | {"period": {}}, "period: expected text"),
        (about | {"versions": [1]}, "versions: expected a dictionary"),
        (about | {"more": 1}, "unexpected keyword argument 'more'"),
    ):
        save_estimator(model, tmp_path / "other.model", said)
        assert words in refused(capsys, "predict", tmp_path / "other.model", SAMPLE)
    (tmp_path / "half.model").write_bytes(saved.read_bytes()[:200])
    assert "changed or damaged" in refused(capsys, "predict", tmp_path / "half.model", SAMPLE)
    assert "cannot read" in refused(capsys, "network", tmp_path / "absent.model", SAMPLE)
    assert "ends in .parquet" in refused(capsys, "predict", saved, SAMPLE, "--out", tmp_path / "p.txt")
    pd.read_csv(SAMPLE).drop(columns="leverage").to_csv(tmp_path / "less.csv", index=False)
    assert "characteristics: no column is named 'leverage'" in refused(capsys, "predict", saved, tmp_path / "less.csv")
    assert "no column is named 'firma'. Near matches: 'firm'" in refused(capsys, "describe", SAMPLE, "--firm", "firma")
    assert "no such file" in refused(capsys, "describe", tmp_path / "absent.csv")
    assert "--network: expected a name that ends in .parquet" in refused(capsys, "simulate", "--network", tmp_path / "n.txt")
    assert "--until" in refused(capsys, "fit", SAMPLE, *COLUMNS, "--model", "ridge", "--until", "1990")
    assert "ends in .model" in refused(capsys, "fit", SAMPLE, *COLUMNS, "--out", tmp_path / "m.pkl")


@pytest.mark.parametrize("name", ["compare", "fit", "predict", "network", "audit", "simulate", "describe"])
def test_every_command_helps(name, capsys):
    code, text, _ = said(capsys, name, "--help")
    assert code == 0
    assert f"Example:  peerattn {name} " in " ".join(text.split()).replace("Example: ", "Example:  ")
    for option in ("--quiet", "--json"):
        assert option in text


def test_every_option_is_described():
    from typer.main import get_command

    for name, command in get_command(app).commands.items():
        for option in command.params:
            assert option.help or option.name == "help", f"{name} {option.name}"


@pytest.mark.parametrize(("name", "without"), [("compare", set()), ("fit", {"cross_attention"})])
def test_help_lists_all_models(name, without, capsys):
    _, text, _ = said(capsys, name, "--help")
    listed = set(re.findall(r"\w+", text.replace("\n", " ")))
    assert set(model_names()) - listed == without  # fit has no reference


def test_help_lists_all_commands():
    done = subprocess.run([sys.executable, "-m", "peerattn"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    for name in ("compare", "fit", "predict", "network", "audit", "simulate", "describe"):
        assert f"\n  {name} " in done.stdout


def test_panels_in_files_are_read_by_period(tmp_path, capsys):
    frame = pd.read_csv(SAMPLE, dtype={"sic": str}).sort_values("year", kind="stable")
    frame.to_parquet(tmp_path / "one.parquet", row_group_size=50, index=False)
    frame.to_parquet(tmp_path / "parts", partition_cols=["year"], index=False)
    for rows, name in ((None, "all"), (150, "some")):
        limit = [] if rows is None else ["--training-rows", str(rows)]
        asked = ["fit", str(tmp_path / "parts"), *COLUMNS, *FAST, *limit, "--json", "--quiet"]
        assert cli.run([*asked, "--out", str(tmp_path / f"{name}.model")]) == 0
        fitted = json.loads(capsys.readouterr().out)["rows"]
        assert fitted == len(frame) if rows is None else 0 < fitted <= rows
    model = str(tmp_path / "all.model")
    assert cli.run(["predict", model, str(tmp_path / "one.parquet"), "--out", str(tmp_path / "p"), "--quiet"]) == 0
    found = pd.read_parquet(tmp_path / "p").set_index(["firm", "year"])["prediction"]
    expected = load_model(tmp_path / "all.model").predict(load_model(tmp_path / "all.model").panel(SAMPLE))
    np.testing.assert_allclose(found, expected.reindex(found.index), rtol=1e-12)
    network = ["network", model, str(tmp_path / "one.parquet"), "--out", str(tmp_path / "n"), "--quiet"]
    assert cli.run([*network, "--top-k", "2"]) == 0
    assert len(list((tmp_path / "n").glob("*.parquet"))) == frame["year"].nunique()
    assert cli.run([*network, "--firm", "A"]) == 2
    assert "a folder, which takes all periods" in capsys.readouterr().err
    asked = [
        "compare",
        str(tmp_path / "parts"),
        *COLUMNS,
        "--models",
        "industry",
        "--test-periods",
        "2",
        "--no-decomposition",
        "--quiet",
    ]
    assert cli.run([*asked, "--out", str(tmp_path / "report")]) == 0
    plain = ["fit", "--dataset", "grunfeld", "--training-rows", "9", "--out", str(tmp_path / "x.model")]
    assert cli.run(plain) == 2
    assert "--training-rows: used with a file or folder" in capsys.readouterr().err
    assert cli.run(["fit", str(SAMPLE), *COLUMNS, "--model", "boosting", "--out", model, "--quiet"]) == 0
    asked = ["predict", model, str(tmp_path / "one.parquet"), "--out", str(tmp_path / "q"), "--quiet"]
    assert cli.run(asked) == 2
    assert "is not predicted by period; name a file" in capsys.readouterr().err


def test_a_firm_that_is_not_in_the_network_is_an_error_before_a_file_is_written(capsys, saved, tmp_path):
    out = tmp_path / "n.csv"
    assert "unknown firm 'Nobody'" in refused(capsys, "network", saved, SAMPLE, "--firm", "Nobody", "--out", out, "--quiet")
    assert not out.exists()
    # a firm of the training rows that is not in the period of the network
    model = tmp_path / "industry.model"
    assert cli.run(["fit", str(SAMPLE), *COLUMNS, "--model", "industry", "--out", str(model), "--quiet"]) == 0
    capsys.readouterr()
    frame = pd.read_csv(SAMPLE, dtype={"sic": str})
    firm = frame.loc[frame["year"] == frame["year"].max(), "firm"].iloc[0]
    gone = tmp_path / "gone.csv"
    frame[(frame["firm"] != firm) | (frame["year"] < frame["year"].max())].to_csv(gone, index=False)
    assert "is not a focal firm in period" in refused(capsys, "network", model, gone, "--firm", firm, "--out", out, "--quiet")
    assert not out.exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit", r"--training-rows N .* Parquet or Arrow file sorted by period, or a folder"),
        ("predict", "a period at a time, .* PANEL is then sorted by period"),
        ("network", "one at a time; PANEL is then sorted by period"),
        ("audit", "eight times, five where the split has one fold; ten or six times a peer model in a forecast"),
        ("compare", "five to ten more fits each"),
    ],
)
def test_help_names_the_order_of_a_file_and_the_number_of_fits(capsys, command, words):
    assert cli.run([command, "--help"]) == 0
    assert re.search(words, " ".join(capsys.readouterr().out.split()))
