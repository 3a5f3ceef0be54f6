"""``peerattn compare`` as a user meets it: what it prints, what it writes, and how it says no."""

import json
import re
import subprocess
import sys
from itertools import product

import numpy as np
import pandas as pd
import pytest

from peerattn import cli, evaluation
from peerattn.cli import app, config, options, panels
from peerattn.cli.options import CompareOptions
from peerattn.datasets import load_grunfeld, simulate_panel
from peerattn.exceptions import InputError

pytestmark = pytest.mark.usefixtures("fewest_steps", "blank_pictures")


FAST = ["--models", "industry,kernel", "--test-periods", "4", "--refit-every", "4", "--no-decomposition"]


@pytest.fixture
def grunfeld(tmp_path):
    panel = load_grunfeld()
    path = tmp_path / "grunfeld.parquet"
    panel.X.assign(invest_next=panel.y, invest_lead2=1.0, note="text").reset_index(names=["firm", "year"]).to_parquet(path)
    return path


def said(capsys, *arguments):
    """Run the command; return its exit code, what it printed, and its words on stderr."""
    code = cli.run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys, *arguments):
    """Run the command, which must refuse in one line and leave nothing behind; return the line."""
    code, out, err = said(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("peerattn: "), err
    return err


def test_file_in_report_out(capsys, grunfeld, tmp_path):
    out = tmp_path / "out" / "deep"
    code, text, _ = said(
        capsys,
        "compare",
        grunfeld,
        "--period",
        "year",
        "--outcome",
        "invest_next",
        "--industry",
        "sic",
        *FAST,
        "--out",
        out,
    )
    assert code == 0
    assert "characteristics (3): invest, value, capital" in text
    assert "invest_lead2 (looks like another outcome)" in text
    assert "note (not a number" in text
    for name in ("SIC peers", "Kernel regression", "OLS", "revailing mean"):
        assert name in text
    assert text.rstrip().endswith(f"report: {out / 'report.html'}")
    assert {path.name for path in out.iterdir()} == {
        "report.html", "report.toml", "report.xlsx", "predictions.parquet", "edges.parquet", "methods.txt", "table.md",
        "table.tex", "table.txt", "fits",
    }  # fmt: skip
    edges = pd.read_parquet(out / "edges.parquet")
    assert list(edges) == ["model", "period", "firm", "peer", "weight"]
    assert set(edges["model"]) == {"SIC peers", "Kernel regression", "Gradient boosting"}
    assert (out / "table.txt").read_text(encoding="utf-8").strip() in text
    predictions = pd.read_parquet(out / "predictions.parquet")
    assert {"SIC peers", "Kernel regression"} <= set(predictions.columns)
    assert np.isfinite(predictions["SIC peers"]).all()


def test_dataset_and_quiet(capsys, tmp_path):
    options = [*FAST, "--decomposition", "--quiet"]
    code, text, err = said(capsys, "compare", "--dataset", "grunfeld", *options, "--out", tmp_path)
    assert code == 0
    assert "by nested models of one stack" in " ".join(text.split())
    assert "characteristics (3)" not in text
    assert "SIC peers" in text
    assert err == ""


def test_explain(capsys, tmp_path):
    code, text, _ = said(
        capsys,
        "compare",
        "--dataset",
        "grunfeld",
        *FAST,
        "--task",
        "nowcast",
        "--test-periods",
        "3",
        "--out",
        tmp_path,
    )
    assert code == 0
    assert "Nowcast of invest_next" in text and "All other firms (mean)" in text  # a control


def test_every_model_by_name(capsys, tmp_path):
    from peerattn.models.forecasters import model_names, model_title

    for task in ("forecast", "nowcast"):
        chosen = panels.take_models(CompareOptions(task=task, seed=7), list(model_names()), load_grunfeld())
        assert list(chosen) == [model_title(name, "sic") for name in model_names()]
    assert chosen["Peer attention"].task == "nowcast"
    assert chosen["Peer attention"].random_state == 7
    assert list(panels.take_models(CompareOptions(), None, load_grunfeld())) == [
        "SIC peers",
        "Kernel regression",
        "Peer attention",
        "Stack with peers",
    ]


def test_one_model_again_under_a_name_of_ones_own():
    options = CompareOptions(task="nowcast", settings=["linear.own=none", "attention.n_heads=3"])
    wanted = ["attention", "linear = attention", "two=attention"]
    made = panels.take_models(options, wanted, load_grunfeld())
    assert list(made) == ["Peer attention", "linear", "two"]
    assert (made["linear"].own, made["two"].own) == ("none", "curves")
    assert (made["Peer attention"].n_heads, made["linear"].task) == (3, "nowcast")
    for bad, why in (
        (["two=atention"], "no model is named 'atention'"),
        (["attention", "attention"], "each name once, .* linear=attention"),
    ):
        with pytest.raises(InputError, match=why):
            panels.take_models(CompareOptions(task="nowcast"), bad, load_grunfeld())
    with pytest.raises(InputError, match="--set: no model of this call is named 'linaer'.*Known: attention, linear"):
        panels.take_models(CompareOptions(settings=["linaer.own=none"]), ["attention", "linear=attention"], load_grunfeld())


def test_a_baseline_by_its_ready_name_or_one_of_ones_own(capsys, tmp_path):
    options = ["--models", "industry,mine=ridge", *FAST[2:], "--json", "--quiet"]
    for given, title in (("ols", "Own characteristics (OLS)"), ("industry", "SIC peers"), ("mine", "mine")):
        run = ["compare", "--dataset", "grunfeld", *options, "--baseline", given, "--out", tmp_path]
        code, text, err = said(capsys, *run)
        assert code == 0, err
        assert json.loads(text)["baseline"] == title


def test_a_reference_from_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    panel = simulate_panel(12, 14, 2, n_industries=3, random_state=0)
    frame = panel.X.assign(roa=panel.y).reset_index().rename(columns={"firm": "permno"})
    frame.to_parquet("panel.parquet")
    listed = frame[frame["permno"] <= "F004"]
    listed.to_csv("listed.csv", index=False)
    labels = [
        "--firm",
        "permno",
        "--outcome",
        "roa",
        "--industry",
        "industry",
        "--test-periods",
        "4",
        "--refit-every",
        "4",
        "--no-decomposition",
        "--quiet",
    ]
    options = ["--models", "cross_attention,again=cross_attention"]
    for name, quick in product(("cross_attention", "again"), ("kappa=null", "n_heads=1", "own=linear")):
        options += ["--set", f"{name}.{quick}"]
    run = ["compare", "panel.parquet", *labels, *options, "--reference", "listed.csv"]
    code, text, err = said(capsys, *run, "--out", "a")
    assert code == 0, err
    assert "Cross-attention" in text and "again" in text
    edges = pd.read_parquet("a/edges.parquet")
    assert set(edges.loc[edges["model"] == "Cross-attention", "peer"]) <= set(listed["permno"])
    assert 'reference = "../listed.csv"' in (tmp_path / "a" / "report.toml").read_text()
    code, text, _ = said(capsys, "compare", "--config", "a/report.toml", "--quiet", "--out", "b")
    assert code == 0 and "to the bit" in text
    listed.drop(columns="x1").to_csv("listed.csv", index=False)
    assert "--reference: no column is named 'x1'" in refused(capsys, *run, "--out", "c")
    assert panels.DEFAULT_MODELS[2] == "cross_attention"
    default = panels.take_models(CompareOptions(), None, panel, reference=True)
    assert list(default) == ["Industry peers", "Kernel regression", "Cross-attention", "Peer attention", "Stack with peers"]


def test_simulated_dataset_is_a_panel_with_industries():
    panel = panels.take_panel(CompareOptions(dataset="simulated", seed=3))
    assert panel.industry == "industry"
    assert panel.y.notna().all()


def test_simulated_networks_are_held_to_the_truth(capsys, tmp_path, monkeypatch):
    panel = simulate_panel(12, 12, 2, n_industries=3, truth="industry", random_state=0)
    monkeypatch.setattr(panels.datasets, "simulate_panel", lambda *sizes, **options: panel)
    options = [
        "--task",
        "nowcast",
        "--models",
        "industry,kernel",
        "--test-periods",
        "3",
        "--refit-every",
        "3",
        "--no-decomposition",
    ]
    code, text, _ = said(capsys, "compare", "--dataset", "simulated", *options, "--out", tmp_path)
    assert code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.search(r"with the true ones: .*Industry peers 1\.00", page)
    assert re.search(r"with the true ones: .*Kernel regression 0\.\d+", page)


@pytest.mark.parametrize(("tested", "expected"), [(None, 2), (4, 2), (7, 3), (13, 5), (99, 2)])
def test_refits_by_default(tested, expected):
    """At most three fits; without --test-periods, or with too many, a third of Grunfeld's 19 known years is tested."""
    assert panels.take_split(load_grunfeld(), CompareOptions(test_periods=tested)).refit_every == expected


def test_the_split_leaves_the_time_in_which_the_outcome_is_realised():
    panel = load_grunfeld()
    assert panels.take_split(panel, CompareOptions(outcome_horizon=3)).horizon == 3
    assert panels.take_split(panel, CompareOptions(outcome_horizon=3, horizon=4)).horizon == 4
    assert panels.take_split(panel, CompareOptions(outcome_horizon=0)).horizon == 1


def test_rolling_window():
    rolling = CompareOptions(test_periods=4, refit_every=2, window="rolling", train_periods=5)
    cv = panels.take_split(load_grunfeld(), rolling)
    assert (cv.window, cv.train_periods, cv.refit_every) == ("rolling", 5, 2)


def test_outcomes_known_late(grunfeld, tmp_path):
    late = pd.read_parquet(grunfeld).assign(filed=lambda d: d["year"] + 3)
    late.to_csv(tmp_path / "late.csv", index=False)
    asked = CompareOptions(panel=tmp_path / "late.csv", period="year", outcome="invest_next", known_at="filed", test_periods=4)
    panel = panels.take_panel(asked)
    fold = panels.take_split(panel, asked).folds(panel)[0]
    assert "filed" not in panel.columns
    when = panel.X.index.get_level_values(1)
    assert when[fold.train].max() == when[fold.test].min() - 3


def test_names_with_commas_and_repeats():
    assert options.names(["a, b", "c", ""]) == ["a", "b", "c"]
    assert options.names(None) is None


# ---------------------------------------------------------------------- refusals


def test_missing_file(capsys, tmp_path):
    line = refused(capsys, "compare", tmp_path / "absent.parquet", "--outcome", "y")
    assert "no such file" in line


def test_file_cut_in_half(capsys, grunfeld):
    whole = grunfeld.read_bytes()
    grunfeld.write_bytes(whole[: len(whole) // 2])
    line = refused(capsys, "compare", grunfeld, "--outcome", "invest_next")
    assert "not a readable Parquet file" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--outcome", "invest_nxt"], "'invest_next'"),
        (["--outcome", "invest_next", "--industry", "sick"], "'sic'"),
        (["--outcome", "invest_next", "--characteristics", "value,capitol"], "'capital'"),
        (["--outcome", "invest_next", "--characteristics", "invest_next"], "leak"),
        (["--outcome", "invest_next", "--models", "atention"], "'attention'"),
        (["--outcome", "invest_next", "--models", "industry"], "needs --industry"),
        (["--outcome", "invest_next", "--models", ","], "at least one name"),
        (["--outcome", "invest_next", "--window", "rolling"], "go together"),
        (["--outcome", "invest_next", "--test-periods", "0"], "--test-periods"),
        (["--outcome", "invest_next", "--task", "explan"], "'nowcast'"),
        (["--outcome", "invest_next", "--baseline", "SIC pers"], "baseline"),
        ([], "--outcome: name the column to predict; "),
        (["--outcom", "invest_next"], "--outcome"),
    ],
)
def test_refusals_name_what_was_wrong(capsys, grunfeld, options, words, monkeypatch):
    monkeypatch.chdir(grunfeld.parent)
    if "--models" not in options:
        options = [*options, "--models", "kernel"]
    code, _, err = said(capsys, "compare", grunfeld, "--period", "year", *options, "--quiet")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1 and err.startswith("peerattn: ")


def test_neither_and_both(capsys, grunfeld):
    assert "got neither" in refused(capsys, "compare")
    assert "both" in refused(capsys, "compare", grunfeld, "--dataset", "grunfeld")
    assert "--outcome: not used" in refused(capsys, "compare", "--dataset", "grunfeld", "--outcome", "invest")
    assert "--known-at: not used" in refused(capsys, "compare", "--dataset", "grunfeld", "--known-at", "filed")


def test_a_folder_knows_no_dates_of_outcomes(capsys, tmp_path):
    line = refused(capsys, "compare", tmp_path, "--outcome", "y", "--known-at", "filed")
    assert "--known-at: expected one file, got the folder" in line


def test_unwritable_folder_is_found_before_the_work(capsys, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(evaluation, "compare", lambda *_, **__: pytest.fail("the work began"))
    line = refused(capsys, "compare", "--dataset", "grunfeld", "--out", tmp_path / "file" / "out")
    assert "--out" in line


def test_bad_input_leaves_no_folder(capsys, grunfeld, tmp_path):
    refused(capsys, "compare", grunfeld, "--outcome", "nothing", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bug_is_not_bad_input(capsys, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a wire came loose")

    monkeypatch.setattr(evaluation, "compare", broken)
    code, _, err = said(capsys, "compare", "--dataset", "grunfeld", "--out", tmp_path)
    assert code == 1
    assert "a wire came loose" in err and "this is a bug" in err


def test_stopping_is_no_traceback(capsys, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "compare", stopped)
    code, _, err = said(capsys, "compare", "--dataset", "grunfeld", "--out", tmp_path)
    assert code == 130
    assert err.strip() == "peerattn: stopped."


def test_own_warnings_are_one_line(capsys):
    import warnings

    from peerattn.exceptions import CodeWarning

    with app._plain_warnings():
        for _ in range(2):
            warnings.warn("'sic' looks like a code", CodeWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: 'sic' looks like a code\n"


# ---------------------------------------------------------------------- as a process


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "peerattn", *arguments], capture_output=True, text=True, timeout=120)


def test_bare_command_shows_help():
    done = command()
    assert done.returncode == 0
    assert "compare" in done.stdout and done.stderr == ""


def test_version_and_help():
    import peerattn

    assert command("--version").stdout == f"peerattn {peerattn.__version__}\n"
    shown = command("compare", "--help")
    assert shown.returncode == 0
    assert "Example:" in shown.stdout and "--refit-every" in shown.stdout


def test_unknown_command():
    done = command("comp")
    assert done.returncode == 2
    assert done.stderr.startswith("peerattn: No such command 'comp'")


# ---------------------------------------------------------------------- again


@pytest.fixture
def sample(tmp_path, monkeypatch):
    """The sample panel in a folder of its own, which is the current one."""
    from pathlib import Path

    content = (Path(__file__).parents[2] / "data" / "sample_panel.csv").read_bytes()
    (tmp_path / "panel.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SAMPLE = [
    "panel.csv",
    "--period",
    "year",
    "--outcome",
    "roa_next",
    "--industry",
    "sic",
    "--test-periods",
    "4",
    "--refit-every",
    "4",
    "--no-decomposition",
]


def test_a_configuration_makes_the_report_again(capsys, sample, tmp_path_factory, monkeypatch):
    settings = [
        "--set",
        "attention.kappa=null",
        "--set",
        "attention.n_heads=1",
        "--set",
        "attention.own=linear",
        "--seed",
        "3",
        "--group-by",
        "leverage",
    ]
    settings += ["--models", "industry,attention", "--limit", 'generated, "not real"']
    settings += ["--no-return"]
    code, _, _ = said(capsys, "compare", *SAMPLE, *settings, "--quiet", "--out", "first")
    written = (sample / "first" / "report.toml").read_text()
    assert code == 0 and "is_return = false" in written and "decomposition = false" in written
    elsewhere = tmp_path_factory.mktemp("clone")  # a fresh clone: the panel and the report's folder, no fits
    (elsewhere / "panel.csv").write_bytes((sample / "panel.csv").read_bytes())
    (elsewhere / "first").mkdir()
    (elsewhere / "first" / "report.toml").write_bytes((sample / "first" / "report.toml").read_bytes())
    monkeypatch.chdir(elsewhere)
    code, text, err = said(capsys, "compare", "--config", "first/report.toml", "--quiet", "--out", "second", "--jobs", "1")
    assert code == 0 and "figures differ" not in err
    assert "figures: the same as in the configuration's report, to the bit" in text
    for name in ("predictions.parquet", "report.html", "table.txt", "report.toml"):
        assert (elsewhere / "second" / name).read_bytes() == (sample / "first" / name).read_bytes(), name
    code, text, err = said(
        capsys,
        "compare",
        "--config",
        "first/report.toml",
        "--models",
        "industry",
        "--quiet",
        "--out",
        "fewer",
    )
    assert code == 0  # settings of models that are left out fall away
    frame = pd.read_csv("panel.csv")
    frame.assign(size=frame["size"] ** 3).to_csv("panel.csv", index=False)
    code, text, err = said(capsys, "compare", "--config", "fewer/report.toml", "--quiet", "--out", "third")
    assert code == 0 and "the data have changed" in text and "warning: figures differ" in err


def test_any_setting_survives_the_configuration(capsys, sample):
    odd = 'a "quoted"\\ \x7f\ttext, é 東'
    options = ["--models", "ridge", "--set", "ridge.estimator__scoring=null", "--limit", odd, "--quiet"]
    assert said(capsys, "compare", *SAMPLE, *options, "--out", "first")[0] == 0
    asked, made = config.read_config(sample / "first" / "report.toml")
    assert asked.settings == ["ridge.estimator__scoring=null"] and asked.limit == [odd]
    assert set(made) > {"data_sha256", "predictions_sha256", "python", "torch"}
    code, text, err = said(capsys, "compare", "--config", "first/report.toml", "--quiet", "--out", "second")
    assert code == 0 and "to the bit" in text
    assert (sample / "second" / "report.toml").read_bytes() == (sample / "first" / "report.toml").read_bytes()


def test_json_is_one_object(capsys, sample):
    code, text, err = said(capsys, "compare", *SAMPLE, "--models", "industry", "--json", "--quiet", "--out", "o")
    result = json.loads(text)
    assert code == 0 and "━" not in err
    assert result["baseline"] == "SIC peers" and result["periods"] == [2008, 2009, 2010, 2011]
    assert set(result["scores"]) == {
        "SIC peers",
        "Own characteristics (OLS)",
        "Gradient boosting",
        "Own and others' characteristics",
        "Firm's mean",
        "Last value",
        "Own characteristics and history",
        "Prevailing mean",
    }
    assert result["scores"]["SIC peers"]["dm_t"] is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[compare]\npanl = 'x'", "no option of [compare] is named 'panl'"),
        ("[compare]\nseed = 'x'", "seed: expected a whole number, got 'x'"),
        ("[compare]\naudit = 1", "audit: expected True or False, got 1"),
        ("[compare]\ntest_periods = true", "expected a whole number"),
        ("[compare]\nmodels = [1]", "expected a list of texts"),
        (
            "[compare]\ndataset = 'x'",
            "dataset: expected 'grunfeld' or 'multiples' or 'russell' or 'simulated', got 'x'",
        ),
        ("[compare]\ntask = 'x'", "task: expected 'forecast' or 'nowcast', got 'x'"),
        ("made = 3", "[made]: expected a section"),
        ("[compare]\nsettings = [3]", "expected a list of texts"),
        ("[other]", "no section is named 'other'"),
        ("[compare", "is not valid TOML"),
        ("a = " + 100_000 * "[", "is not valid TOML"),
        ("seed = 1" + 5_000 * "0", "is not valid TOML"),
    ],
)
def test_bad_configurations(capsys, tmp_path, text, words):
    (tmp_path / "c.toml").write_text(text)
    assert words in refused(capsys, "compare", "--config", tmp_path / "c.toml", "--out", tmp_path / "out")
    assert "cannot read" in refused(capsys, "compare", "--config", tmp_path / "absent.toml")


def test_bad_settings(capsys, sample):
    for setting, words in (
        ("attention", "expected MODEL.OPTION=VALUE"),
        ("atention.n_heads=3", "no model of this call is named 'atention'"),
        ("attention.n_heads=" + "[" * 10_000, "attention.n_heads is nested too deeply"),
        ("attention.n_hads=3", "no option of attention is named 'n_hads'. Near matches: 'n_heads'"),
    ):
        assert words in refused(capsys, "compare", *SAMPLE, "--models", "attention", "--set", setting)
    # a word of scikit-learn about its own model is no bug of ours
    wrong = ["--models", "attention,boosting", "--set", "attention.n_heads = 2", "--set", "boosting.learning_rate=abc"]
    line = refused(capsys, "compare", *SAMPLE, *wrong)
    assert "--set: The 'learning_rate' parameter of HistGradientBoostingRegressor must be a float" in line


def test_factors_come_from_a_file_and_are_those_of_the_period_after(tmp_path, capsys):
    from peerattn.cli.panels import read_factors

    assert read_factors(None) is None
    with pytest.raises(InputError, match="--factors"):
        read_factors(str(tmp_path / "nowhere.csv"))
    index = pd.MultiIndex.from_product([range(12), pd.period_range("2012-01", periods=9, freq="M")], names=["firm", "period"])
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=108), "ret_next": 0.1 * rng.normal(size=108)}, index=index)
    frame.to_parquet(tmp_path / "panel.parquet")
    months = [201200 + k for k in range(2, 11)]
    factors = pd.DataFrame({"date": months, "mkt": 0.04 * rng.normal(size=9)})
    options = [
        "compare",
        str(tmp_path / "panel.parquet"),
        "--outcome",
        "ret_next",
        "--models",
        "ols",
        "--test-periods",
        "4",
        "--refit-every",
        "4",
        "--no-decomposition",
    ]
    for rows, missing in ((factors, None), (factors.iloc[:-1], "2012-10")):
        rows.to_csv(tmp_path / "factors.csv", index=False)
        call = [*options, "--factors", str(tmp_path / "factors.csv"), "--out", str(tmp_path / "r"), "--quiet"]
        if missing is None:
            assert said(capsys, *call)[0] == 0
            assert 'factors = "../factors.csv"' in (tmp_path / "r" / "report.toml").read_text()
            assert "net of mkt of the next period" in (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
        else:
            message = refused(capsys, *call)
            assert missing in message and "factors.csv" in message


def test_nowcasts_are_net_of_the_factors_of_a_file(tmp_path, capsys):
    years = range(2001, 2013)
    index = pd.MultiIndex.from_product([range(12), years], names=["firm", "period"])
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=144), "ret": 0.1 * rng.normal(size=144)}, index=index)
    frame.to_parquet(tmp_path / "panel.parquet")
    pd.DataFrame({"year": years, "mkt": 0.1 * rng.normal(size=12)}).to_csv(tmp_path / "factors.csv", index=False)
    options = ["--outcome", "ret", "--task", "nowcast", "--models", "ols", "--test-periods", "4", "--refit-every", "4"]
    files = ["--factors", tmp_path / "factors.csv", "--out", tmp_path / "r", "--quiet", "--no-decomposition"]
    assert said(capsys, "compare", tmp_path / "panel.parquet", *options, *files)[0] == 0
    assert "ret net of mkt" in (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
