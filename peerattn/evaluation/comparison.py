"""The result of a comparison: a table, its tests, every prediction, and the peer networks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from peerattn.evaluation.forecast_tests import MIN_PERIODS, DieboldMariano, format_p
from peerattn.evaluation.information import InformationCoefficient
from peerattn.evaluation.scores import METRICS, Metric, Scores, score
from peerattn.exceptions import InputError, did_you_mean
from peerattn.panel.columns import ColumnChoice
from peerattn.render import Table, atomic_path, show_label, write_atomic

if TYPE_CHECKING:
    from peerattn.evaluation.intervals import ConformalIntervals
    from peerattn.evaluation.multiple_tests import ConfidenceSet, SuperiorAbility
    from peerattn.evaluation.steps import Nesting, Step
    from peerattn.network import PeerNetwork

PRINTED = ("r2_zero", "r2_mean", "r2_within", "rmse", "rank_ic", "rank_ic_t", "dm_t", "dm_p")
#: Packages whose versions a comparison records.
PACKAGES = ("torch", "scikit-learn", "pandas", "numpy", "scipy", "statsmodels")
_TASK_TITLES = {"forecast": "Forecast", "explain": "Explanation"}


@dataclass(frozen=True)
class ModelNote:
    """What a comparison tells about one of its models.

    Attributes
    ----------
    name : str
    kind : str
        "peer model", "plain regressor", or "level control" (the mean of all other firms, which compare adds).
    shown_outcomes : bool
        Whether it was shown the outcomes of each firm's peers.
    settings : str
        The estimator as it prints itself.
    trials : int
        Settings its search tried in each fit; 1 without a search.
    """

    name: str
    kind: str
    shown_outcomes: bool
    settings: str
    trials: int = 1

    @property
    def looks_to_peers(self) -> bool:
        """Whether it is a peer model of this package."""
        return self.kind == "peer model"


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Models compared out of sample on one common sample; made by :func:`peerattn.evaluation.compare`.

    Attributes
    ----------
    predictions : DataFrame
        One row for each tested (firm, period): columns firm, period, outcome (NaN = unknown) and one for
        each model.
    training_mean : ndarray of length n
        The prevailing mean of each row: the mean of the outcomes its models learned from.
    models : tuple of ModelNote
    baseline : str
        The model the others are tested against.
    task : str
        "forecast" or "explain".
    outcome : str
        Name of the outcome.
    horizon : int
        Forecast horizon in periods.
    networks : dict of str to PeerNetwork
        Of each peer model, for the last tested period.
    choice : ColumnChoice
        The columns taken as characteristics and codes, and those left.
    settings : dict of str to str
        Split and package versions.
    notes : tuple of str
        What a reader should know besides.
    window : str
        "expanding" or "rolling": of the rows learned from; "" where the split has none.

    Notes
    -----
    All models are scored on the same rows: those of the tested periods whose outcome is known.
    """

    predictions: pd.DataFrame
    training_mean: np.ndarray
    models: tuple[ModelNote, ...]
    baseline: str
    task: str
    outcome: str
    horizon: int = 1
    networks: dict[str, PeerNetwork] = field(default_factory=dict)
    choice: ColumnChoice = ColumnChoice((), ())
    settings: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    window: str = "expanding"

    @cached_property
    def _scored(self) -> Scores:
        return score(self.predictions, self.names, self.training_mean, self.baseline, self.horizon)

    @property
    def names(self) -> list[str]:
        """Names of the models, in the order of the table."""
        return [model.name for model in self.models]

    @property
    def scores(self) -> pd.DataFrame:
        """All metrics as numbers: one row for each model; NaN where a number does not exist."""
        return self._scored.frame.copy()

    @property
    def n_trials(self) -> int:
        """Settings tried in all: those of every search, and one for each other model that was passed."""
        return sum(model.trials for model in self.models)

    @property
    def tests(self) -> dict[str, DieboldMariano]:
        """The Diebold–Mariano test of each model against the baseline."""
        return dict(self._scored.tests)

    @property
    def rank_ics(self) -> dict[str, InformationCoefficient]:
        """The rank information coefficient of each model, with its series."""
        return dict(self._scored.rank_ics)

    @property
    def losses(self) -> pd.DataFrame:
        """Mean squared error of each scored period (rows) and model (columns)."""
        return self._scored.losses.copy()

    @cached_property
    def _known(self) -> pd.DataFrame:
        return self.predictions.loc[self.predictions["outcome"].notna(), ["firm", "period"]]

    @property
    def n_outcomes(self) -> int:
        """Number of scored rows."""
        return len(self._known)

    @property
    def n_firms(self) -> int:
        """Number of firms with a scored row."""
        return int(self._known["firm"].nunique())

    @property
    def periods(self) -> pd.Index:
        """The scored periods, in time order."""
        return self.losses.index

    def table(self, metrics: Sequence[str] = PRINTED) -> pd.DataFrame:
        """Return the comparison as it prints, one row for each model.

        Parameters
        ----------
        metrics : sequence of str
            Keys of ``scores``, in the order wanted.

        Returns
        -------
        DataFrame
            Indexed by model. Numbers are unrounded; where there is none the cell says why, such as ``n/a
            (T=2)``. For numbers only take :attr:`scores`.
        """
        return self.as_table(metrics).to_frame().set_index("Model")

    def as_table(self, metrics: Sequence[str] = PRINTED) -> Table:
        """Return the comparison as a table that renders as text and as HTML; see :meth:`table`."""
        known = {metric.key: metric for metric in METRICS}
        for key in metrics:
            if key not in known:
                raise InputError(
                    f"metrics: there is no {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}."
                )
        chosen = [known[key] for key in metrics]
        rows = [
            (self._shown_name(model), *(self._cell(model.name, m) for m in chosen)) for model in self.models
        ]
        return Table(
            f"{_TASK_TITLES[self.task]} of {self.outcome}, out of sample",
            ("Model", *(metric.head for metric in chosen)),
            rows,
            alignment="l" + "r" * len(chosen),
            formats=("", *(metric.format for metric in chosen)),
            footnotes=self._footnotes(),
        )

    def _shown_name(self, model: ModelNote) -> str:
        return f"{model.name} †" if self.task == "explain" and not model.shown_outcomes else model.name

    def _cell(self, name: str, metric: Metric) -> float | str:
        if metric.key == "rank_ic_t":
            ic = self._scored.rank_ics[name]
            short = ic.t is None and 0 < ic.n_periods
            return f"n/a (T={ic.n_periods})" if short else _number(ic.t)
        if metric.key in ("dm_t", "dm_p"):
            if name == self.baseline:
                return "baseline" if metric.key == "dm_t" else ""
            test = self._scored.tests[name]
            if test.statistic is None or test.p_value is None:
                return test.reason if metric.key == "dm_t" else ""
            return test.statistic if metric.key == "dm_t" else format_p(test.p_value)
        return _number(self._scored.frame.loc[name, metric.key])

    def _footnotes(self) -> list[str]:
        lags = next(
            (f", {test.lags} lags" for test in self._scored.tests.values() if test.statistic is not None), ""
        )
        notes = [
            self.sample + ".",
            "R² zero, R² mean: out of sample, against a forecast of zero and against the prevailing mean. R² within: "
            "between the firms of a period. Rank IC: mean Spearman correlation; its t by Newey–West.",
            f"DM t: panel Diebold–Mariano against {self.baseline!r}{lags}; positive = better.",
        ]
        if len(self.periods) < MIN_PERIODS:
            notes.append(
                f"T={len(self.periods)} periods are too few for a test over time ({MIN_PERIODS} are needed)."
            )
        if any(not model.shown_outcomes for model in self.models) and self.task == "explain":
            notes.append("† a control: sees no peers' outcomes.")
        tuned = [f"{model.name} {model.trials}" for model in self.models if model.trials > 1]
        if tuned:
            notes.append(f"Settings tried inside the training rows of each fit: {', '.join(tuned)}.")
        return [*notes, *(f"Note: {note}" for note in self.notes)]

    @property
    def sample(self) -> str:
        """The scored sample in words."""
        first, last = show_label(self.periods[0]), show_label(self.periods[-1])
        span = first if len(self.periods) == 1 else f"{first} to {last}"
        plural = "" if len(self.periods) == 1 else "s"
        return f"{self.n_outcomes:,} outcomes of {self.n_firms:,} firms in {len(self.periods)} period{plural} ({span})"

    def test(self, model: str, against: str | None = None, *, nesting: Nesting = "none") -> Step:
        """Test a model against another one (by default the baseline) with the test that fits; see :class:`Step`."""
        from peerattn.evaluation.steps import step

        return step(self, model, self.baseline if against is None else against, nesting=nesting)

    def confidence_set(self, *, size: float = 0.1, reps: int = 1000, random_state: int = 0) -> ConfidenceSet:
        """Return the models that cannot be told from the best; see :func:`model_confidence_set`."""
        from peerattn.evaluation.multiple_tests import model_confidence_set

        return model_confidence_set(
            self.losses, size=size, horizon=self.horizon, reps=reps, random_state=random_state
        )

    def superior(self, *, size: float = 0.05, reps: int = 1000, random_state: int = 0) -> SuperiorAbility:
        """Test whether any model beats the baseline, the search accounted for; see :func:`superior_ability`."""
        from peerattn.evaluation.multiple_tests import superior_ability

        return superior_ability(
            self.losses, self.baseline, size=size, horizon=self.horizon, reps=reps, random_state=random_state
        )

    def intervals(self, model: str, *, level: float = 0.95) -> ConformalIntervals:
        """Return conformal prediction intervals of a model; see :func:`conformal_intervals`."""
        from peerattn.evaluation.intervals import conformal_intervals

        if model not in self.names:
            raise InputError(f"there is no model {model!r}.{did_you_mean(model, self.names)}")
        frame = self.predictions
        return conformal_intervals(
            frame["outcome"],
            frame[model],
            frame["period"],
            level=level,
            horizon=self.horizon,
            firm=frame["firm"],
        )

    def by(self, groups: str | pd.Series, *, n_groups: int | None = None) -> pd.DataFrame:
        """Return the scores by year, size group or industry; see :func:`peerattn.evaluation.scores_by`."""
        from peerattn.evaluation.groups import scores_by

        return scores_by(self, groups, n_groups=n_groups)

    def summary(self) -> list[str]:
        """Return the finding in plain words, a sentence or two each: who wins, by how much, and is it chance."""
        from peerattn.evaluation.verdict import verdict

        return verdict(self)

    def text(self, width: int | None = None) -> str:
        """Return the table and the finding as text.

        Parameters
        ----------
        width : int, optional
            Widest line, by default the terminal's.
        """
        import textwrap

        width = width or shutil.get_terminal_size((100, 24)).columns
        words = "\n".join(textwrap.fill(sentence, width) for sentence in self.summary())
        table = self.as_table()
        notes = "\n".join(textwrap.fill(note, width) for note in table.footnotes)
        bare = Table(table.title, table.columns, table.rows, table.alignment, table.formats)
        return f"{bare.text(width)}\n\n{notes}\n\n{words}"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return (
            f"Comparison({self.task} of {self.outcome}: {len(self.models)} models, baseline {self.baseline!r}, "
            f"{self.n_firms} firms, {len(self.periods)} periods, {self.n_outcomes} outcomes)"
        )

    def _repr_html_(self) -> str:
        return self.as_table().html()

    def to_frame(self) -> pd.DataFrame:
        """Return :meth:`table`."""
        return self.table()

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Write all predictions to a Parquet file: firm, period, outcome and one column for each model.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        with atomic_path(path) as temporary:
            self.predictions.to_parquet(temporary, index=False)
        return Path(path)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report: one self-contained page that opens offline.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        from peerattn.evaluation.report import report_page

        return write_atomic(path, report_page(self))


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)
