import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import LinearRegression, Ridge

from peerattn.evaluation import WalkForward, compare, r2_out_of_sample
from peerattn.evaluation.claims import Step
from peerattn.evaluation.compared import ModelNote
from peerattn.evaluation.comparison import Comparison
from peerattn.evaluation.report.figures import _draw, _drawn_models, steps_picture
from peerattn.evaluation.sample import PanelFacts
from peerattn.exceptions import InputError
from peerattn.models.industry import IndustryPeerRegressor
from peerattn.panel.columns import ColumnChoice

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

NASTY = "<script>alert(1)</script> & $x$ {{ 7*7 }} αβ'\""


def made(n_periods=12, n_firms=20, noise=(0.5, 1.0), seed=0, peers=(), task="forecast", names=None):
    """A comparison of forecasts with given noise; the first is the baseline."""
    rng = np.random.default_rng(seed)
    period = np.repeat(np.arange(2001, 2001 + n_periods), n_firms)
    y = rng.normal(size=len(period))
    names = names or [f"Model {k}" for k in range(len(noise))]
    forecasts = {name: y + size * rng.normal(size=len(y)) for name, size in zip(names, noise, strict=True)}
    frame = pd.DataFrame({"firm": np.tile(np.arange(n_firms), n_periods), "period": period, "outcome": y})
    frame = frame.assign(**forecasts, **{"Prevailing mean": 0.01})
    frame.loc[3, "outcome"] = np.nan
    notes = tuple(
        ModelNote(name, "peers" if name in peers else "own", "own x", f"{name}()") for name in (*names, "Prevailing mean")
    )
    return Comparison(
        frame,
        np.full(len(frame), 0.01),
        notes,
        names[0],
        task,
        "roa_next",
        panel=PanelFacts(choice=ColumnChoice(("size", "lev"), ("sic",), {"ret_next": "looks like another outcome"})),
        settings={"split": "WalkForward()", "pandas": "3.0"},
    )


@pytest.fixture(scope="module")
def real():
    rng = np.random.default_rng(3)
    index = pd.MultiIndex.from_product([[f"F{i:02d}" for i in range(12)], range(2001, 2015)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=len(index))}, index=index)
    X["sic"] = [["3711", "2911", "3570", "3571"][int(firm[1:]) % 4] for firm, _ in index]
    y = (X["size"] + rng.normal(size=len(index))).rename("roa_next")
    models = {NASTY: IndustryPeerRegressor(industry="sic"), "OLS": LinearRegression()}
    return compare(models, X, y, cv=WalkForward(10, 5), decomposition=False, verbose=False)


def test_scores_use_the_common_sample_and_the_prevailing_mean():
    result = made()
    frame = result.predictions.dropna()
    assert result.n_outcomes == len(frame) == 239
    expected = 1 - ((frame["outcome"] - frame["Model 1"]) ** 2).sum() / ((frame["outcome"] - 0.01) ** 2).sum()
    assert result.scores.loc["Model 1", "r2_mean"] == pytest.approx(expected)
    assert result.scores.loc["Model 1", "r2_zero"] == pytest.approx(r2_out_of_sample(frame["outcome"], frame["Model 1"]))
    assert result.scores.loc["Prevailing mean", "r2_mean"] == pytest.approx(0)
    assert np.isnan(result.scores.loc["Model 0", "dm_t"])
    assert set(result.tests) == {"Model 1", "Prevailing mean"}
    assert result.tests["Model 1"].statistic < 0
    assert result.losses.shape == (12, 3)


def test_the_table_has_words_where_there_is_no_number():
    long, short = made().table(), made(n_periods=2).table()
    assert long.loc["Model 0", "DM t"] == "baseline" and isinstance(long.loc["Model 1", "DM t"], float)
    assert short.loc["Model 1", "DM t"] == "n/a (T=2)" and short.loc["Model 1", "IC t"] == "n/a (T=2)"
    for result in (made(), made(n_periods=2), made(n_periods=1)):
        shown = str(result) + result._repr_html_()
        assert "nan" not in shown.lower() and "*" not in shown
    assert made().table(["mae"]).columns.tolist() == ["MAE"]
    with pytest.raises(InputError, match="no metric is named 'maee'.*'mae'"):
        made().table(["maee"])


def test_printed_forms_leave_out_tests_that_the_periods_do_not_allow():
    short = made(n_periods=4)
    for printed in (short._repr_html_(), short.to_latex(), short.to_markdown(), str(short)):
        assert "DM t" not in printed and "IC t" not in printed and "too few for a test over time" in printed
    assert {"IC t", "DM t", "p"} <= set(short.to_frame()) and "DM t" in made().to_latex()
    assert list(short.to_frame()) == list(made().to_frame())  # data keeps its columns
    assert "n/a (T=4)" in short.to_latex(metrics=["dm_t"])  # what alone was requested
    logs = replace(short, outcome="log_mb")
    assert "Median" in str(logs) and "Median" in logs.to_latex() and "Median" not in logs.to_latex(metrics=["rmse"])


@pytest.mark.parametrize(("n_periods", "how"), [(4, "clustered by firm, given these periods"), (12, "over time")])
def test_the_note_names_the_standard_error_of_the_table(n_periods, how):
    assert f"s.e.: of R² mean, {how}." in " ".join(str(made(n_periods)).split())


@pytest.mark.parametrize("n_periods", [1, 2, 12])
@pytest.mark.parametrize("task", ["forecast", "nowcast"])
def test_the_text_fits_the_terminal(n_periods, task):
    result = made(n_periods, task=task, names=["Own characteristics (OLS)", "Kernel"])
    for width in (80, 100):
        assert max(map(len, result.text(width).splitlines())) <= width
    assert result.text(100).count("Kernel") >= 1
    heads = [line for line in result.text(100).splitlines() if line.startswith("Model ")]
    assert len(heads) == 1  # one block


def test_the_table_is_as_wide_as_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, str(made()).splitlines())) <= 60


def test_repr_is_one_line():
    assert repr(made()) == ("Comparison(forecast of roa_next: 3 models, baseline 'Model 0', 20 firms, 12 periods, 239 outcomes)")


def test_parquet_holds_all_predictions(real, tmp_path):
    path = real.to_parquet(tmp_path / "predictions.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(path), real.predictions)
    with pytest.raises(InputError, match="cannot write"):
        real.to_parquet(tmp_path / "missing" / "predictions.parquet")


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.sections, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "section":
            self.sections.append(dict(attrs)["id"])
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("#", "data:")), value

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_is_whole_safe_and_offline(real, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # matplotlib's complaints about names
        text = real.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert "script" not in page.tags
    assert page.sections == [
        "findings",
        "the-models",
        "over-time",
        "sorted-by-forecast",
        "peers-by-model",
        "descriptive-statistics",
        "the-sample-and-its-limits",
        "inputs",
        "reproduction",
    ]
    words = " ".join(page.words)
    assert NASTY in words and "{{ 7*7 }}" in words
    for needed in (
        "not causal peer effects",
        "Prevailing mean",
        "s.e.",
        "Welch and Goyal",
        "comparison was not decomposed",
        "scikit-learn",
    ):
        assert needed in words
    assert page.tags.count("svg") == 2 and page.tags.count("iframe") == 0
    assert "nan" not in re.sub(r"<(svg|iframe).*?</\1>", "", text, flags=re.DOTALL).lower()


def test_the_page_of_a_short_panel(tmp_path):
    for n_periods, pictures in ((1, 1), (2, 2)):
        text = made(n_periods).to_html(tmp_path / "report.html").read_text(encoding="utf-8")
        page = Page(text)
        words = " ".join(page.words)
        assert page.tags.count("svg") == pictures
        assert f"T = {n_periods} is too few" in words and "DM t" not in words
        assert "(12 are needed)" in words and "Statistical tests" not in words
    assert "Over time" not in made(1).to_html(tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_chart_has_at_most_five_lines():
    """The stack with and without peers, the peer models, then the models of least error; in the order of the table."""
    names = ["worst", "kernel", "best", "attention", "Stack", "Without", "good"]
    rmse = pd.Series([9.0, 3.0, 1.0, 2.5, 2.0, 2.2, 1.5], names)
    compared = SimpleNamespace(scores={"rmse": rmse}, stack="Stack", without_name="Without", peer_models=["kernel", "attention"])
    assert _drawn_models(compared, names) == ["kernel", "best", "attention", "Stack", "Without"]
    many = [*map(str, range(8)), *names]  # more models than colours
    compared.scores = {"rmse": pd.Series([*range(10, 18), *rmse], many)}
    axes = Figure().subplots()
    _draw(axes, pd.DataFrame(0.0, range(3), _drawn_models(compared, many)), compared, range(3))
    assert len({line.get_color() for line in axes.lines}) == 5
    compared.scores = {"rmse": rmse}
    compared.stack = None
    assert _drawn_models(compared, names) == ["kernel", "best", "attention", "Stack", "good"]


def test_ticks_of_small_gains_do_not_run_into_each_other():
    gain = SimpleNamespace(low=-0.0064, high=0.0189, r2_against=-0.0067)
    steps = [Step("own", -0.0067), Step("nonlinear", -0.0004, gain), Step("peers", -0.0004)]
    markup = str(steps_picture(SimpleNamespace(claims=SimpleNamespace(steps=steps), outcome="ret_next")).svg)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", markup)
    assert len([text for text in texts if re.fullmatch(r"−?0\.\d+", text)]) <= 6 + len(steps)
    assert "−0.000" not in texts and texts.count("0.000") == 3  # two values, and the tick


def test_periods_survive_parquet(tmp_path):
    result = made()
    months = pd.PeriodIndex([pd.Period(year=y, month=6, freq="M") for y in result.predictions["period"]])
    monthly = replace(result, predictions=result.predictions.assign(period=months))
    back = pd.read_parquet(monthly.to_parquet(tmp_path / "p.parquet"))
    pd.testing.assert_frame_equal(back, monthly.predictions)
    assert "(2001-06 to 2012-06)" in monthly.sample
    monthly.to_html(tmp_path / "p.html")


def test_two_reports_of_one_comparison_are_equal(real, tmp_path):
    first, second = (real.to_html(tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_dates_read_as_dates(tmp_path):
    months = pd.date_range("2010-01-31", periods=30, freq="ME")
    index = pd.MultiIndex.from_product([range(8), months], names=["firm", "period"])
    X = pd.DataFrame({"size": np.random.default_rng(0).normal(size=len(index))}, index=index)
    options = {"cv": WalkForward(28, 28), "decomposition": False, "verbose": False}
    result = compare({"Ridge": Ridge()}, X, X["size"].rename("y") ** 2, **options)
    assert "(2010-03-31 to 2012-06-30)" in result.sample
    text = result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "00:00" not in text
