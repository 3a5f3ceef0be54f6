"""Names with HTML, template, LaTeX, spreadsheet and Unicode characters come out as text in every form."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from peerattn.evaluation import WalkForward, compare
from peerattn.models import NadarayaWatsonRegressor
from peerattn.render import latex_text, markdown_text

pytestmark = pytest.mark.usefixtures("fewest_steps")  # what is found is beside the point

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MODEL = "</script><script>document.title='broken'</script> {{7*7}} {% x %} \\input{x} $x$ 50% a_b #1 ~^&"
FORMULA = '=HYPERLINK("http://x.invalid/","y")'
FIRM = "<img src=x onerror=\"document.title='broken'\">"
ODD = ["+1", "@SUM(A1)", "東芝 ‮evil", "R&D_%", "|a|b|`c`*d*[e](f)", "-2"]
SIZE = "<b>size</b> $\\alpha_{1}$ |x|"


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    firms = [FIRM, FORMULA, *ODD, *(f"F{k}" for k in range(4))]
    index = pd.MultiIndex.from_product([firms, range(2001, 2015)], names=["firm", "period"])
    X = pd.DataFrame({SIZE: rng.normal(size=len(index))}, index=index)
    X["branch"] = [["<i>1</i>", "=2"][firms.index(firm) % 2] for firm, _ in index]
    y = (X[SIZE] + rng.normal(size=len(index))).rename("<u>roa</u>_next")
    models = {MODEL: NadarayaWatsonRegressor(), FORMULA: Ridge(), "Bad": Broken()}
    limits = ["<blink>limit</blink>"]
    return compare(
        models,
        X,
        y,
        industry="branch",
        cv=WalkForward(10, 5),
        task="nowcast",
        limits=limits,
        audit=[MODEL],
        decomposition=False,
        verbose=False,
    )


class Broken(Ridge):
    def fit(self, X, y):
        raise ValueError("<b>no</b> {{1}} \\end{table}")


def test_html(result, tmp_path):
    text = result.to_html(tmp_path / "r.html").read_text(encoding="utf-8")
    outer = re.sub(r'srcdoc="[^"]*"', "", text)
    for tag in ("<script", "<img", "<blink", "<i>", "<u>", "<b>"):
        assert tag not in outer, tag
    assert html.escape(MODEL) in outer and "{{7*7}}" in outer and html.escape(FORMULA) in outer
    inner = html.unescape(re.search(r'srcdoc="([^"]*)"', text)[1])
    assert inner.count("<script") == 2 and "<img" not in inner
    assert FIRM in json.loads(re.search(r'<script type="application/json" id="network">(.*?)</script>', inner)[1])["firms"]


def test_latex(result, tmp_path):
    path = tmp_path / "t.tex"
    text = result.to_latex(path, stars=True)
    assert path.read_text(encoding="utf-8") == text
    commands = set(re.findall(r"\\([A-Za-z]+)", text))
    assert commands <= {
        "usepackage", "begin", "end", "centering", "caption", "toprule", "midrule", "bottomrule", "par", "medskip", "linewidth",
        "footnotesize", "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar",
        "textquotedbl", "textendash", "textemdash", "textasciigrave", "dagger", "ldots", "times",
    }  # fmt: skip
    body = text.split("\n", 1)[1]
    assert not re.search(r"(?<!\\)[#%_]", body.replace("\\%", "").replace("\\#", "").replace("\\_", ""))
    depth = 0
    for token in re.findall(r"\\.|[{}]", body, flags=re.DOTALL):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    assert depth == 0
    rows = body[body.index(r"\midrule") : body.index(r"\bottomrule")]
    n_rows = rows.count("\\\\\n")  # of six cells, no stray column
    assert n_rows == len(result.scores) + 1 and len(re.findall(r"(?<!\\)&", rows)) == 5 * n_rows
    assert latex_text("[a") == "[a" and latex_text("é 東") == "é 東"


def test_markdown(result):
    text = result.to_markdown()
    table = [line for line in text.splitlines() if line.startswith("|")]
    for line in table:
        assert len(re.findall(r"(?<!\\)\|", line)) == 7
    assert markdown_text(MODEL) in text and "<script" not in text.replace("\\<", "")


def test_excel(result, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(result.to_excel(tmp_path / "r.xlsx"))
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert FORMULA in [cell.value for cell in cells] and MODEL in [cell.value for cell in cells]
    assert {cell.data_type for cell in cells} <= {"s", "n", "b", "d"}
    scores = pd.read_excel(tmp_path / "r.xlsx", sheet_name="Scores", index_col="model")
    np.testing.assert_allclose(scores["rmse"], result.scores["rmse"])


def test_parquet_and_text(result, tmp_path):
    result.to_parquet(tmp_path / "p.parquet", edges=tmp_path / "e.parquet", top_k=2)
    assert set(pd.read_parquet(tmp_path / "p.parquet")["firm"]) >= {FIRM, FORMULA, *ODD}
    edges = pd.read_parquet(tmp_path / "e.parquet")
    assert set(edges["model"]) == {MODEL, FORMULA, "Gradient boosting"}
    assert edges.groupby(["model", "firm"]).size().max() <= 2
    assert "‮" not in str(result) and "\x1b" not in str(result)
    assert MODEL in result.methods()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_real_browser_shows_it_and_asks_for_nothing(result, tmp_path):
    page = result.to_html(tmp_path / "r.html")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    command += [
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
    ]
    command += ["--enable-logging=stderr", "--v=0", "--virtual-time-budget=4000", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "<title>Do peers help to nowcast &lt;u&gt;roa&lt;/u&gt;_next? Could not be tested</title>" in done.stdout
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line or "x.invalid" in line]
    assert said == []
