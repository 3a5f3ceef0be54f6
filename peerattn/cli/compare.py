"""``peerattn compare``: models compared out of sample, and the report."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from peerattn import evaluation
from peerattn.cli import panels
from peerattn.cli.commands import Compare
from peerattn.cli.config import check_again, read_config, write_config
from peerattn.cli.options import CompareOptions, given
from peerattn.cli.output import announce, report_line
from peerattn.evaluation.report.table import REPORTED
from peerattn.evaluation.splits import split_words
from peerattn.render import check_writable, write_atomic

_EDGES = 50  # of each firm, in edges.parquet
_MANY_ROWS = 5_000  # from which a fit takes longer than to start a process; the help says so
_PASSED_ON = ("baseline", "is_return", "market_value", "outcome_horizon")  # to compare, as they are


def run(command: Compare) -> None:
    """Compare, write, print."""
    options, made = _configured(command)
    panel = panels.take_panel(options)
    task = options.task or "forecast"
    reference = panels.take_reference(options, panel, task)
    models = panels.take_models(options, options.models, panel, reference=reference is not None)
    cv = panels.take_split(panel, options)
    folder = check_writable(command.out, argument="--out")  # found out before the work, not after it
    announce(command, f"{panel}\nmodels: {', '.join(models)}, and the controls\nsplit: {split_words(cv)}")
    jobs = command.jobs
    if jobs is None:  # small fits are done before a process has started
        jobs = -1 if len(panel.X) >= _MANY_ROWS else 1
    result = evaluation.compare(
        models,
        panel,
        cv=cv,
        task=task,
        reference=reference,
        groups=options.group_by or (),
        limits=(*(options.limit or ()), *panels.limits_of(options.preset)),
        decomposition=options.decomposition is not False,
        audit=bool(options.audit),
        placebo=options.placebo or 0,
        n_jobs=jobs,
        store=None if command.fresh else folder / "fits",
        verbose=not command.quiet,
        factors=panels.read_factors(options.factors),
        **{name: getattr(options, name) for name in _PASSED_ON},
    )
    result = replace(result, configuration=write_config(options, result, folder))
    files = _write(result, folder)
    texts = (str(result), check_again(made, result), f"report: {(folder / 'report.html').resolve()}")
    report_line(command, "\n\n".join(filter(None, texts)), _summary(result, files))


def _configured(command: Compare) -> tuple[CompareOptions, dict[str, Any]]:
    """Return the options and what the configuration was made with: what is given wins over the file."""
    changes = given(command)
    if command.config is None:
        return CompareOptions(**changes), {}
    options, made = read_config(command.config)
    if changes.keys() - {"panel"}:  # another comparison
        made = {}
    if changes.keys() & {"panel", "dataset"}:
        options = replace(options, panel=None, dataset=None)
    kept = options.settings or []
    if command.models:  # settings of models that no longer take part fall away
        chosen = [panels.called(entry) for entry in command.models]
        kept = [text for text in kept if text.partition(".")[0].strip() in chosen]
    # of two settings of an option the later one counts
    changes["settings"] = [*kept, *(command.settings or ())]
    return replace(options, **changes), made


def _write(result: evaluation.Comparison, folder: Path) -> list[str]:
    """Write the report in all its forms; return the files' names."""
    result.to_parquet(folder / "predictions.parquet", edges=folder / "edges.parquet", top_k=_EDGES)
    result.to_latex(folder / "table.tex", metrics=REPORTED)
    result.to_markdown(folder / "table.md", metrics=REPORTED)
    write_atomic(folder / "table.txt", f"{result}\n")
    write_atomic(folder / "methods.txt", f"{result.methods()}\n")
    write_atomic(folder / "report.toml", result.configuration)
    if find_spec("openpyxl") is not None:
        result.to_excel(folder / "report.xlsx")
    result.to_html(folder / "report.html")
    return sorted(str(path) for path in folder.resolve().iterdir() if path.is_file())


def _summary(result: evaluation.Comparison, files: list[str]) -> dict[str, Any]:
    """Return the result for other programs."""
    return {
        **{name: getattr(result, name) for name in ("outcome", "task", "baseline")},
        "firms": result.n_firms,
        "periods": list(result.periods),
        "outcomes": result.n_outcomes,
        "scores": result.scores.to_dict("index"),
        "failures": {failure.model: failure.error for failure in result.failures},
        "finding": result.summary(),
        "audit": {name: audit.to_frame() for name, audit in result.audit.items()},
        "files": files,
    }
