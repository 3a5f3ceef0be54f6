"""``peerattn compare``: models compared out of sample, and the report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from peerattn.cli.app import command
from peerattn.cli.config import Configuration, check_again, read_config, write_config
from peerattn.cli.options import CompareOptions, Settings, given
from peerattn.cli.output import Output
from peerattn.cli.panels import (
    called,
    limits_of,
    read_factors,
    read_settings,
    take_models,
    take_panel,
    take_reference,
    take_split,
)

if TYPE_CHECKING:
    from peerattn.evaluation import Comparison

_EDGES = 50  # of each firm, in edges.parquet
_MANY_ROWS = 5_000  # from which a fit takes longer than to start a process
_PASSED_ON = ("baseline", "is_return", "market_value", "outcome_horizon")  # to compare, as they are


@command
@dataclass(kw_only=True)
class Compare(Settings, CompareOptions, Output):
    """Compare models out of sample on a panel and write the report.

    Attributes
    ----------
    jobs : N
        Fits that run at once; -1 for all cores. Figures stay the same. [default: all cores from 5,000 rows on, else 1]
    config : FILE
        A report.toml: make its report again. Options given beside it win.
    fresh
        Repeat all fits. [default: reuse the finished fits in DIR/fits]
    out : DIR
        Folder for the report, tables, predictions, edges and report.toml.
    """

    example: ClassVar = (
        "compare panel.parquet --firm permno --period date --outcome ret_next --industry sic "
        "--test-periods 24 --refit-every 12 --out report"
    )
    jobs: int | None = None
    config: Path | None = None
    fresh: bool = False
    out: Path = Path("report")

    def run(self) -> None:
        """Compare, write, print."""
        from peerattn.evaluation import compare
        from peerattn.evaluation.splits.folds import split_words
        from peerattn.render import check_writable

        options, sets, made = self._configured()
        panel, task = take_panel(options), options.task or "forecast"
        reference = take_reference(options, panel, task)
        models = take_models(
            options.models, panel, task, options.seed or 0, sets, reference=reference is not None
        )
        cv = take_split(panel, options)
        folder = check_writable(self.out, argument="--out")  # found out before the work, not after it
        self.announce(f"{panel}\nmodels: {', '.join(models)}, and the controls\nsplit: {split_words(cv)}")
        result = compare(
            models,
            panel,
            cv=cv,
            task=task,
            reference=reference,
            groups=options.group_by or (),
            limits=(*(options.limit or ()), *limits_of(options.preset)),
            audit=bool(options.audit),
            n_jobs=self.jobs if self.jobs is not None else -1 if len(panel.X) >= _MANY_ROWS else 1,
            store=None if self.fresh else folder / "fits",
            verbose=not self.quiet,
            factors=read_factors(options.factors),
            **{name: getattr(options, name) for name in _PASSED_ON},
        )
        result = replace(result, configuration=write_config(options, sets, result, folder))
        written = _write(result, folder)
        texts = (str(result), check_again(made, result), f"report: {(folder / 'report.html').resolve()}")
        self.say("\n\n".join(filter(None, texts)), _summary(result, written))

    def _configured(self) -> Configuration:
        """Return options, models' settings and what the configuration was made with: what is given wins over the file."""
        changes, sets = given(self), read_settings(self.settings)
        if self.config is None:
            return Configuration(CompareOptions(**changes), sets, {})
        read = read_config(self.config)
        kept = given(read.options)
        if changes.keys() & {"panel", "dataset"}:
            kept = {name: value for name, value in kept.items() if name not in ("panel", "dataset")}
        # settings of models that no longer take part fall away
        chosen = [called(entry) for entry in self.models] if self.models else read.settings
        merged = {name: values for name, values in read.settings.items() if name in chosen}
        merged |= {name: merged.get(name, {}) | values for name, values in sets.items()}
        changed = changes.keys() - {"panel"} or sets
        return Configuration(CompareOptions(**kept | changes), merged, {} if changed else read.made)


def _write(result: Comparison, folder: Path) -> list[str]:
    """Write the report in all its forms; return the files' names."""
    from importlib.util import find_spec

    from peerattn.evaluation.report.table import REPORTED, without_tests
    from peerattn.render import write_atomic

    result.to_parquet(folder / "predictions.parquet", edges=folder / "edges.parquet", top_k=_EDGES)
    metrics = without_tests(result, REPORTED)
    result.to_latex(folder / "table.tex", metrics=metrics)
    result.to_markdown(folder / "table.md", metrics=metrics)
    texts = {
        "table.txt": f"{result}\n",
        "methods.txt": f"{result.methods()}\n",
        "report.toml": result.configuration,
    }
    for name, text in texts.items():
        write_atomic(folder / name, text)
    if find_spec("openpyxl") is not None:
        result.to_excel(folder / "report.xlsx")
    result.to_html(folder / "report.html")
    return sorted(str((folder / path.name).resolve()) for path in folder.iterdir() if path.is_file())


def _summary(result: Comparison, written: list[str]) -> dict[str, Any]:
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
        "files": written,
    }
