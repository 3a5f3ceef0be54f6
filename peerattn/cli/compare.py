"""``peerattn compare``: models compared out of sample, and the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerattn.cli import options as o
from peerattn.cli.app import command
from peerattn.exceptions import InputError

if TYPE_CHECKING:
    from peerattn.evaluation import Comparison, NewFirms, WalkForward
    from peerattn.panel import Panel

_EDGES = 50  # of each firm, in edges.parquet


@command(
    epilog="Example:  peerattn compare panel.parquet --firm permno --period date --outcome ret_next --industry sic "
    "--test-periods 24 --refit-every 12 --out report"
)
def compare(
    options: o.CompareOptions,
    settings: o.Settings = None,
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
        bool, typer.Option("--fresh", help="Repeat all fits. [default: reuse the finished fits in DIR/fits]")
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
    from peerattn.cli.asked import panel_asked, reference_asked, split_asked
    from peerattn.cli.config import check_again, write_config
    from peerattn.cli.factors import read_factors
    from peerattn.cli.output import say
    from peerattn.cli.panels import limits_of, split_in_words, take_models
    from peerattn.render import check_writable

    asked, sets, made = _asked(o.given(options), settings, config)
    taken, task = panel_asked(asked), asked.get("task", "forecast")
    reference = reference_asked(asked, taken, task)
    chosen = take_models(
        asked.get("models"), taken, task, asked.get("seed", 0), sets, reference=reference is not None
    )
    cv = split_asked(taken, asked)
    folder = check_writable(out, argument="--out")  # found out before the work, not after it
    if not (quiet or as_json):
        print(f"{taken}\nmodels: {', '.join(chosen)}, and the controls\n{split_in_words(cv)}\n", flush=True)
    result = _compare(
        chosen,
        taken,
        cv,
        task=task,
        reference=reference,
        groups=asked.get("group_by", ()),
        limits=(*asked.get("limit", ()), *limits_of(asked.get("preset"))),
        audit=asked.get("audit", False),
        n_jobs=jobs,
        store=None if fresh else folder / "fits",
        verbose=not quiet,
        factors=read_factors(asked.get("factors")),
        **{name: asked.get(name) for name in ("baseline", "is_return", "market_value", "outcome_horizon")},
    )
    result = replace(result, configuration=write_config(asked, sets, result, folder))
    written = _write(result, folder)
    again = check_again(made, result)
    words = (str(result), again, f"report: {(folder / 'report.html').resolve()}")
    say("\n\n".join(said for said in words if said), _summary(result, written), as_json)


def _asked(
    given: dict[str, Any], settings: list[str] | None, config: Path | None
) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any]]:
    """Return options, models' settings and what the configuration was made with: what is given wins over the file."""
    from peerattn.cli.config import panel_path, read_config
    from peerattn.cli.panels import called, read_settings

    own = read_settings(settings)
    if config is None:
        return given, own, {}
    options, sets, made = read_config(config)
    for name in options.keys() & {"panel", "reference"}:
        options[name] = str(panel_path(options[name], config))
    if given.keys() & {"panel", "dataset"}:
        options = {name: value for name, value in options.items() if name not in ("panel", "dataset")}
    changed = given.keys() - {"panel"} or own
    # settings of models that no longer take part fall away
    chosen = [called(entry) for entry in given["models"]] if given.get("models") else sets
    sets = {name: values for name, values in sets.items() if name in chosen}
    for name, values in own.items():
        sets[name] = sets.get(name, {}) | values
    return options | given, sets, {} if changed else made


def _compare(models: dict[str, Any], panel: Panel, cv: WalkForward | NewFirms, **options: Any) -> Comparison:
    from peerattn.evaluation import compare as compare_models

    return compare_models(models, panel, cv=cv, **options)


def _write(result: Comparison, folder: Path) -> list[str]:
    """Write the report in all its forms; return the files' names."""
    from importlib.util import find_spec

    from peerattn.evaluation.report.table import REPORTED, without_tests
    from peerattn.render import write_atomic

    try:
        result.to_parquet(folder / "predictions.parquet", edges=folder / "edges.parquet", top_k=_EDGES)
        metrics = without_tests(result, REPORTED)
        result.to_latex(folder / "table.tex", metrics=metrics)
        result.to_markdown(folder / "table.md", metrics=metrics)
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
