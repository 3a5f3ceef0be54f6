"""``peerattn compare``: models compared out of sample, and the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerattn.cli import options as o
from peerattn.cli.app import app
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    from peerattn.evaluation import Comparison, WalkForward
    from peerattn.network import PeerNetwork
    from peerattn.panel import Panel

_EDGES = 50  # of each firm, in edges.parquet


@app.command(
    epilog="Example:  peerattn compare panel.parquet --firm permno --period date --outcome ret_next --industry sic "
    "--test-periods 24 --refit-every 12 --out report"
)
def compare(
    panel: o.OptionalPanel = None,
    dataset: o.FromDataset = None,
    preset: o.FromPreset = None,
    firm: o.Firm = None,
    period: o.Period = None,
    outcome: o.Outcome = None,
    characteristics: o.Characteristics = None,
    codes: o.Codes = None,
    industry: o.Industry = None,
    models: o.Models = None,
    settings: o.Settings = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Tested against: a name in the table. [default: the first]"),
    ] = None,
    task: o.AskedTask = None,
    test_periods: o.TestPeriods = None,
    refit_every: o.RefitEvery = None,
    window: o.AskedWindow = None,
    train_periods: o.TrainPeriods = None,
    horizon: o.Horizon = None,
    group_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...", help="Columns to report by, besides year and industry; numbers in fifths."
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A known limit of the panel, for the report; as often as needed."),
    ] = None,
    is_return: Annotated[
        bool | None,
        typer.Option(
            "--is-return/--no-return",
            help="The outcome is a simple return in decimals: portfolios are formed. [default: its name tells]",
        ),
    ] = None,
    market_value: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of market values: portfolios are shown weighted by it as well."
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Try to find a leak in each peer model: four more fits each.")
    ] = False,
    seed: o.Seed = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", help="Fits that run at once; -1 for all cores. Figures stay the same.")
    ] = 1,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A report.toml: make its report again. Options given beside it win."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Fit all again. [default: take finished fits from DIR/pieces]")
    ] = False,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder for the report, tables, predictions, edges and report.toml."
        ),
    ] = Path("report"),
    quiet: o.Quiet = False,
    as_json: o.AsJson = False,
) -> None:
    """Compare models out of sample on a panel and write the report."""
    given = _given(locals())
    from peerattn.cli.config import check_again, write_config
    from peerattn.cli.output import say
    from peerattn.cli.panels import limits_of, split_in_words
    from peerattn.render import check_writable

    asked, sets, made = _asked(given, settings, config)
    taken, chosen, cv = _work(asked, sets)
    folder = check_writable(out, argument="--out")  # found out before the work, not after it
    if not (quiet or as_json):
        print(f"{taken}\nmodels: {', '.join(chosen)}, and the controls\n{split_in_words(cv)}\n", flush=True)
    result = _compare(
        chosen,
        taken,
        cv,
        baseline=asked.get("baseline"),
        task=asked.get("task", "forecast"),
        groups=asked.get("group_by", ()),
        limits=(*asked.get("limit", ()), *limits_of(asked.get("preset"))),
        is_return=asked.get("is_return"),
        market_value=asked.get("market_value"),
        audit=asked.get("audit", False),
        n_jobs=jobs,
        store=None if fresh else folder / "pieces",
        verbose=not quiet,
    )
    result = replace(result, configuration=write_config(asked, sets, result, folder))
    written = _write(result, folder)
    words = [*_truth(result, asked), f"{result}"]
    words += [said] if (said := check_again(made, result)) else []
    report = (folder / "report.html").resolve()
    say("\n\n".join([*words, f"report: {report}"]), _summary(result, written), as_json)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given and that a configuration holds, names taken apart at their commas."""
    from peerattn.cli.config import KEYS

    given = {key: values[key] for key in KEYS if values[key] is not None and (key != "audit" or values[key])}
    apart = {
        key: o.names(value) for key, value in given.items() if isinstance(value, list) and key != "limit"
    }
    return given | apart | ({"panel": str(given["panel"])} if "panel" in given else {})


def _work(
    asked: dict[str, Any], sets: dict[str, dict[str, Any]]
) -> tuple[Panel, dict[str, Any], WalkForward]:
    """Return the panel, the models and the split that were asked for."""
    from peerattn.cli.panels import take_models, take_panel, walk_forward

    names = ("firm", "period", "outcome", "industry", "characteristics", "codes")
    path = Path(asked["panel"]) if "panel" in asked else None
    source = o.Dataset(asked["dataset"]) if "dataset" in asked else None
    seed = asked.get("seed", 0)
    taken = take_panel(path, source, asked.get("preset"), {name: asked.get(name) for name in names}, seed)
    chosen = take_models(asked.get("models"), taken, asked.get("task", "forecast"), seed, sets)
    split = {key: asked.get(key) for key in ("test_periods", "refit_every", "train_periods")}
    window, horizon = asked.get("window", "expanding"), asked.get("horizon", 1)
    return taken, chosen, walk_forward(taken, **split, window=window, horizon=horizon)


def _asked(
    given: dict[str, Any], settings: list[str] | None, config: Path | None
) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any]]:
    """Return options, models' settings and what the configuration was made with: what is given wins over the file."""
    from peerattn.cli.config import panel_path, read_config
    from peerattn.cli.panels import read_settings

    own = read_settings(settings)
    given = {name: value for name, value in given.items() if value is not None}
    if config is None:
        return given, own, {}
    read = read_config(config)
    options = dict(read["options"])
    if "panel" in options:
        options["panel"] = str(panel_path(options["panel"], config))
    if given.keys() & {"panel", "dataset"}:
        options = {name: value for name, value in options.items() if name not in ("panel", "dataset")}
    changed = given.keys() - {"panel"} or own
    chosen = given.get("models") or read["set"]  # settings of models that are no longer asked for fall away
    sets = {name: dict(values) for name, values in read["set"].items() if name in chosen}
    for name, values in own.items():
        sets.setdefault(name, {}).update(values)
    return options | given, sets, {} if changed else read["made"]


def _compare(models: dict[str, Any], panel: Panel, cv: WalkForward, **options: Any) -> Comparison:
    from peerattn.evaluation import compare as compare_models

    return compare_models(models, panel, cv=cv, **options)


def _truth(result: Comparison, asked: dict[str, Any]) -> list[str]:
    """Return how far each model's network agrees with the true one, where the panel is simulated."""
    if asked.get("dataset") != o.Dataset.simulated:
        return []
    from peerattn.cli.panels import simulated

    return [_against_truth(result, simulated(asked.get("seed", 0)).network)]


def _against_truth(result: Comparison, truth: PeerNetwork) -> str:
    """Say how far each model's network agrees with the true one, over all pairs of the last tested period."""
    import numpy as np

    found = []
    for name, network in result.networks.items():
        period = network.periods[-1]
        true = truth.matrix(period)
        learned = network.matrix(period).reindex(index=true.index, columns=true.columns, fill_value=0.0)
        pairs = ~np.eye(len(true), dtype=bool)
        weights = learned.to_numpy()[pairs]
        agreement = np.corrcoef(weights, true.to_numpy()[pairs])[0, 1] if np.ptp(weights) > 0 else 0.0
        found.append(f"{name} {agreement:.2f}")
    return f"correlation with the true weights: {', '.join(found)}" if found else "no model gave a network"


def _write(result: Comparison, folder: Path) -> list[str]:
    """Write the report in all its forms; return the files' names."""
    from importlib.util import find_spec

    from peerattn.evaluation.report.page import REPORTED
    from peerattn.render import write_atomic

    try:
        result.to_parquet(folder / "predictions.parquet", edges=folder / "edges.parquet", top_k=_EDGES)
        result.to_latex(folder / "table.tex", metrics=REPORTED)
        result.to_markdown(folder / "table.md", metrics=REPORTED)
        write_atomic(folder / "table.txt", f"{result}\n")
        write_atomic(folder / "methods.txt", f"{result.methods()}\n")
        write_atomic(folder / "report.toml", result.configuration)
        if find_spec("openpyxl") is not None:
            result.to_excel(folder / "report.xlsx")
        result.to_html(folder / "report.html")
    except OSError as error:
        raise InputError(f"--out: cannot write in {str(folder)!r}: {error.strerror or error}.") from error
    return sorted(str((folder / path.name).resolve()) for path in folder.iterdir() if path.is_file())


def _summary(result: Comparison, written: list[str]) -> dict[str, Any]:
    """Return the result for other programs."""
    return {
        "outcome": result.outcome,
        "task": result.task,
        "baseline": result.baseline,
        "firms": result.n_firms,
        "periods": list(result.periods),
        "outcomes": result.n_outcomes,
        "scores": result.scores.to_dict("index"),
        "failures": {failure.model: failure.error for failure in result.failures},
        "finding": result.summary(),
        "audit": {name: audit.to_frame() for name, audit in result.audit.items()},
        "files": written,
    }
