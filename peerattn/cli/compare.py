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
    from peerattn.panel import PanelFrame

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
    from peerattn.cli.config import check_again, write_config
    from peerattn.cli.output import say
    from peerattn.cli.panels import limits_of, split_in_words, take_models, take_panel, walk_forward
    from peerattn.render import check_writable

    given: dict[str, Any] = {
        "panel": panel and str(panel),
        "dataset": dataset,
        "preset": preset,
        "firm": firm,
        "period": period,
    }
    given |= {"outcome": outcome, "characteristics": o.names(characteristics), "codes": o.names(codes)}
    given |= {"industry": industry, "models": o.names(models), "baseline": baseline, "task": task}
    given |= {"test_periods": test_periods, "refit_every": refit_every, "window": window, "seed": seed}
    given |= {"train_periods": train_periods, "horizon": horizon, "group_by": o.names(group_by)}
    given |= {"limit": limit, "audit": audit or None}
    asked, set_options, made = _asked(given, settings, config)
    columns = {
        name: asked.get(name)
        for name in ("firm", "period", "outcome", "industry", "characteristics", "codes")
    }
    wanted_task, draw = asked.get("task") or "forecast", asked.get("seed") or 0
    path = Path(asked["panel"]) if asked.get("panel") else None
    source = o.Dataset(asked["dataset"]) if asked.get("dataset") else None
    taken = take_panel(path, source, asked.get("preset"), columns, draw)
    chosen = take_models(asked.get("models"), taken, wanted_task, draw, set_options)
    cv = walk_forward(
        taken,
        asked.get("test_periods"),
        asked.get("refit_every"),
        asked.get("window") or "expanding",
        asked.get("train_periods"),
        asked.get("horizon") or 1,
    )
    folder = check_writable(out, argument="--out")  # found out before the work, not after it
    if not (quiet or as_json):
        print(f"{taken}\nmodels: {', '.join(chosen)}, and the controls\n{split_in_words(cv)}\n", flush=True)
    result = _compare(
        chosen,
        taken,
        cv,
        baseline=asked.get("baseline"),
        task=wanted_task,
        groups=asked.get("group_by") or (),
        limits=(*(asked.get("limit") or ()), *limits_of(asked.get("preset"))),
        audit=bool(asked.get("audit")),
        n_jobs=jobs,
        store=None if fresh else folder / "pieces",
        verbose=not quiet,
    )
    result = replace(result, configuration=write_config(asked, set_options, result, folder))
    written = _write(result, folder)
    words = [f"{result}"]
    if source is o.Dataset.simulated:
        from peerattn.cli.panels import simulated

        words.insert(0, _against_truth(result, simulated(draw).network))
    words += [said] if (said := check_again(made, result)) else []
    report = (folder / "report.html").resolve()
    say("\n\n".join([*words, f"report: {report}"]), _summary(result, written), as_json)


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
    sets = {name: dict(values) for name, values in read["set"].items()}
    for name, values in own.items():
        sets.setdefault(name, {}).update(values)
    return options | given, sets, {} if changed else read["made"]


def _compare(models: dict[str, Any], panel: PanelFrame, cv: WalkForward, **options: Any) -> Comparison:
    from peerattn.evaluation import compare as compare_models

    return compare_models(models, panel, cv=cv, **options)


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
    return f"correlation with the true weights: {', '.join(found)}"


def _write(result: Comparison, folder: Path) -> list[str]:
    """Write the report in all its forms; return the files' names."""
    from importlib.util import find_spec

    from peerattn.evaluation.report import REPORTED
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
