"""Results shown are those of the benchmark, all of them: cells that attention loses stand beside those it wins."""

import json
import re
import runpy
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.image import imread

ROOT = Path(__file__).resolve().parents[2]
PANELS = {
    "grunfeld invest_next": "Grunfeld 1935–54, investment",
    "empluk dlemp_next": "UK firms 1976–84, growth of employment",
    "empluk lemp_next": "UK firms 1976–84, employment",
    "tobinq ikn_next": "US firms 1951–85, investment rate",
    "tobinq qn_next": "US firms 1951–85, Tobin's q",
    "r3000 ebit_ta_next": "Russell 3000 2013–16, profitability",
    "r3000 ni_ta_next": "Russell 3000 2013–16, net income",
    "r3000 sales_growth_next": "Russell 3000 2013–16, sales growth",
    "r3000 ret_fy_next": "Russell 3000 2013–16, fiscal-year return",
    "2000 ret_next": "US stocks 2000–12, monthly return",
}


IN_README = ["grunfeld invest_next", "empluk dlemp_next", "tobinq qn_next", "r3000 ebit_ta_next", "2000 ret_next"]
PAGES = {"docs/background/model.md": list(PANELS), "README.md": IN_README}


def table(names: list[str]) -> str:
    """The table of these outcomes, from the stored results: error over the best control and gain of peers, means over seeds."""
    rows = pd.DataFrame(json.loads((ROOT / "benchmarks/results/no_harm.json").read_text(encoding="utf-8"))["rows"])
    mean = rows.groupby(["panel and outcome", "task"])[["over best control", "gain of peers"]].mean()
    lines = ["| outcome | forecast | peers, % | nowcast | peers, % |", "|---|---|---|---|---|"]
    for name in names:
        cells = []
        for task in ("forecast", "nowcast"):
            error, gain = mean.loc[(name, task)]
            cells.append(f"{error:.3f} | {100 * gain:.1f}".replace("-", "−"))
        lines.append(f"| {PANELS[name]} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES)
def test_the_results_are_those_of_the_benchmark(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    [shown] = re.findall(r"<!-- results: benchmarks/results/no_harm.json -->\n((?:\|.*\n)+)", text)
    expected = table(PAGES[page])
    assert shown.strip() == expected, f"the page's table should be\n{expected}"


def test_pictures_and_citation_are_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert (ROOT / path).stat().st_size < 300_000
    import peerattn

    assert f"version: {peerattn.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.full_search
def test_the_first_picture_of_the_site_is_drawn_by_its_script(tmp_path):
    script = ROOT / "docs/figures/plot_19_strongest_links.py"
    runpy.run_path(str(script))["figure"].savefig(tmp_path / "russell.png", dpi=150)
    drawn, shown = (imread(where / "russell.png") for where in (tmp_path, ROOT / "docs/_static"))
    assert drawn.shape == shown.shape and abs(drawn - shown).mean() < 0.02


def sequence_table() -> str:
    """The table of sequence models, from the stored results."""
    rows = json.loads((ROOT / "benchmarks/results/sequence.json").read_text(encoding="utf-8"))["rows"]
    lines = ["| task | measure | model | control | better by |", "|---|---|---|---|---|"]
    return "\n".join(
        lines
        + [
            f"| {one['task']} | {one['measure']} | {one['model']} | {one['which']}: {one['control']} | {one['better by']} |"
            for one in rows
        ]
    )


def test_the_results_of_sequence_models_are_those_of_the_benchmark():
    text = (ROOT / "docs/core/domains.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"<!-- results: benchmarks/results/sequence.json -->\n((?:\|.*\n)+)", text)
    assert shown.strip() == sequence_table(), f"the page's table should be\n{sequence_table()}"


def rows_of(name):
    """Return the rows of a committed result."""
    return pd.DataFrame(json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))["rows"])


def own_curves_table():
    """Panels in which peers were selected, and the mean R² of held-out periods, by the size of the curve."""
    rows = rows_of("own_curves")
    models = ["attention, own curves", "attention, own linear", "stack"]
    lines = [
        "| peers | curve | selected: own curves | own linear | stack | R²: own curves | own linear | stack |",
        "|---" * 8 + "|",
    ]
    for (none, curve), of in rows.groupby([rows["share"] == 0, "curve"]):
        by_model = of.groupby("model")
        selected = (of["correlation"] != "").groupby(of["model"]).sum()
        counts = [f"{selected[name]} of {len(by_model.get_group(name))}" for name in models]
        cells = [*counts, *(f"{by_model['R2'].mean()[name]:.2f}" for name in models)]
        lines.append(f"| {'none' if none else 'yes'} | {curve:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def own_curves_full_table():
    """Means of the weight of heads in full, of the correlation with the true network, and of R², by the size of the curve."""
    rows = rows_of("own_curves_full")
    rows["correlation"] = pd.to_numeric(rows["correlation"])
    lines = [
        "| peers | curve | weight: own curves | linear | correlation: own curves | linear | R²: own curves | linear |",
        "|---" * 8 + "|",
    ]
    for (none, curve), of in rows.groupby([rows["share"] == 0, "curve"]):
        mean = of.groupby("model")[["weight", "correlation", "R2"]].mean()
        cells = [mean.loc[f"in full, own {own}", figure] for figure in mean for own in ("curves", "linear")]
        written = ["" if pd.isna(cell) else f"{cell:.2f}" for cell in cells]
        lines.append(f"| {'none' if none else 'yes'} | {curve:g} | " + " | ".join(written) + " |")
    return "\n".join(lines)


@pytest.mark.parametrize(("name", "table"), [("own_curves", own_curves_table), ("own_curves_full", own_curves_full_table)])
def test_the_page_shows_the_results_of_own_curves(name, table):
    text = (ROOT / "docs/background/decisions.md").read_text(encoding="utf-8")
    [shown] = re.findall(rf"<!-- results: benchmarks/results/{name}.json -->\n((?:\|.*\n)+)", text)
    assert shown.strip() == table(), f"the page's table should be\n{table()}"


PAGES_OF_RESULTS = {  # page, results, columns shown and what they are called
    "examples/lead-lag.md lead_lag": {
        "trained": "trained", "tested": "tested", "own, within": "own returns", "VAR, within": "autoregression",
        "attention, within": "attention", "to fifth 1": "to the smallest", "to fifth 5": "to the largest",
    },
    "examples/industry-lead.md industry_lead": {
        "peer part": "peer part", "tested": "tested", "decile spread, % a month": "decile spread, % a month", "t": "t",
        "rank IC": "rank IC", "t of IC": "t of IC",
    },
    "core/real-sentences.md words_attended": {
        "what": "what is looked for", "sentences": "sentences", "attention": "attention", "controls": "controls",
    },
    "core/real-sentences.md translator_heads": {
        "what": "heads that are left", "heads": "heads", "loss": "loss of new pairs, nats a symbol",
    },
    "background/limitations.md nulls": {
        "no peers, but": "no peers, but", "task": "task", "panels": "panels", "peers selected": "peers selected, share",
    },
    "background/decisions.md ablations_full": {
        "rule or constant": "in full, without the rule", "wages": "wages", "log q": "log q", "investment rate": "investment rate",
        "price to book": "price to book", "EBIT over assets": "EBIT over assets", "time": "time",
    },
    "background/decisions.md ablations_heads": {
        "rule or constant": "without the rule, or with the constant at", "value": "value",
        "share .5, 40 × 24": "share .5, 40 × 24", "share .3, 120 × 54": "share .3, 120 × 54",
        "common shocks, share .5, 40 × 24": "common shocks, share .5, 40 × 24",
        "two networks, share .5, 150 × 54": "two networks, share .5, 150 × 54", "log q": "log q", "time": "time",
    },
    "guide/transformer-over-firms.md transformer": {
        "outcome": "outcome", "periods": "periods", "truth": "truth", "transformer": "transformer",
        "without attention": "without attention", "boosting": "boosting", "seconds": "CPU seconds",
    },
    "guide/transformer-over-firms.md transformer_real": {
        "panel": "panel", "transformer": "transformer", "without attention": "without attention",
        "boosting": "boosting", "least squares": "least squares", "weight": "weight",
    },
    "guide/replication.md replications": {
        "figure": "figure", "published": "published", "ours": "ours", "source": "source", "command": "command",
    },
}  # fmt: skip


@pytest.mark.parametrize("where", PAGES_OF_RESULTS)
def test_the_results_of_a_page_are_those_of_its_benchmark(where):
    page, name = where.split()
    columns = PAGES_OF_RESULTS[where]
    rows = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))["rows"]
    lines = [list(columns.values()), ["---"] * len(columns)]
    for row in sorted(rows, key=lambda row: row.get("tested", "")):
        lines.append([f"{c:.3f}" if isinstance(c := row[key], float) else str(c) for key in columns])
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    [shown] = re.findall(rf"<!-- results: benchmarks/results/{name}.json -->\n((?:\|.*\n)+)", text)
    assert shown.strip() == table, f"the page's table should be\n{table}"


def test_formulas_in_the_comments_of_scripts_have_single_backslashes():
    """Comments are no strings: two backslashes begin a new line in LaTeX, and the page is not built."""
    scripts = [*(ROOT / "docs").glob("*/plot_*.py")]
    lines = [(path.name, line) for path in scripts for line in path.read_text(encoding="utf-8").splitlines()]
    doubled = [where for where in lines if where[1].startswith("#") and re.search(r":math:`[^`]*\\\\", where[1])]
    assert scripts and not doubled


def test_the_course_shows_the_results_of_peers_of_peers():
    rows = json.loads((ROOT / "benchmarks/results/peers_of_peers.json").read_text(encoding="utf-8"))["rows"]
    page = (ROOT / "docs/course/plot_10_peers_of_peers.py").read_text(encoding="utf-8")
    names = ("true layers", "signal share", "seed")
    for row in rows:
        cells = [str(row[name]) for name in names] + [f"{row[name]:.3f}" for name in ("two / one", "two layers, correlation")]
        assert f"({', '.join(cells)})," in page
