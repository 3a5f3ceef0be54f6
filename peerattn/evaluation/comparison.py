"""The results of ``compare``, on one outcome or on several, and how they are shown and written."""

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from peerattn.evaluation.claims import WithClaims
from peerattn.evaluation.gains import Gain, gain_by, gain_by_firm, gain_of
from peerattn.evaluation.inference.multiple_tests import ConfidenceSet, model_confidence_set
from peerattn.evaluation.measures.groups import scores_by
from peerattn.evaluation.measures.portfolios import QuantilePortfolios, Weighting, portfolios_of
from peerattn.evaluation.report import page, words
from peerattn.evaluation.report import table as tables
from peerattn.exceptions import InputError, check_count, check_names, validate_methods
from peerattn.render import File, Table, atomic_path, markdown_text, write_atomic, write_workbook


@validate_methods
class Comparison(WithClaims):
    """Models compared out of sample on one common sample; made by :func:`peerattn.evaluation.compare`.

    It prints as a table with the finding under it.

    Attributes
    ----------
    claims : Claims
        The claims it supports: the decomposition of held-out R², whether peers help and why, how small a network could be found.
    without_name : str
        The name of the stack without peers.
    predictions : DataFrame
        One row for each tested (firm, period): columns firm, period, outcome (NaN = unknown) and one for each model.
    training_mean : ndarray of length n
        The prevailing mean of each row: the mean of the outcomes its models learned from.
    models : tuple of ModelNote
        Those that were fitted and predicted every row.
    baseline : str
        The model the others are tested against.
    task : str
        "forecast" or "nowcast".
    outcome : str
        Name of the outcome.
    horizon : int
        Forecast horizon in periods.
    networks : dict of str to PeerNetwork
        For the last tested period: of each peer model, and of gradient boosting and other plain regressors, whose peers are the
        firms whose training outcomes their predictions are made of (:func:`~peerattn.models.peer_weights`; 100 firms at most).
    profiles : dict of str to SearchProfile
        What the heads of each attention model search for, as fitted for the last tested period.
    settings : dict of str to str
        Split and package versions.
    notes : tuple of str
        What a reader should know besides.
    failures : tuple of Failure
        Models that could not be fitted, or could not predict: rows of the table, with their errors.
    panel : PanelFacts
    audit : dict of str to Audit
        Of the models that were audited.
    placebo : ndarray
        Gains of the stack's peers, refitted on outcomes exchanged between firms; empty where none was requested.
    stack : str or None
        The stack whose predictions after each group are the decomposition; None where the comparison was not decomposed.
    undecomposed : str
        Why it was not.
    steps : DataFrame
        Predictions of the stack after each group, a row for each of ``predictions``.
    without_peers : DataFrame
        Predictions of each model that has a version of its own without peers by that version.
    configuration : str
        What makes the comparison again, as TOML; of the command line.

    Notes
    -----
    The common-sample rule: all models are scored on the same rows, those of the tested periods whose outcome is known. A
    model that cannot predict one of them is not scored at all: it is a failure.
    """

    def summary(self) -> list[str]:
        """Return the finding in plain words: whether peers help, on what evidence, where predictability comes from."""
        return words.summary(self)

    def methods(self) -> str:
        """Return a paragraph on method and sample (models, tests, versions), ready to be edited into a paper."""
        return words.methods_paragraph(self)

    def test(self, model: str, against: str | None = None) -> Gain:
        """Return how much more a model explains than another (by default the baseline), with its interval and test."""
        return gain_of(self, model, against or self.baseline)

    def gain_by_firm(self, model: str | None = None, against: str | None = None) -> pd.DataFrame:
        """Return the squared error saved on each firm, by default by the stack's peers."""
        return gain_by_firm(self, *self._pair(model, against))

    def gain_by(self, groups: pd.Series, model: str | None = None, against: str | None = None) -> pd.DataFrame:
        """Return the squared error saved in each group of rows, as :meth:`gain_by_firm`."""
        return gain_by(self, groups, *self._pair(model, against))

    def _pair(self, model: str | None, against: str | None) -> tuple[str, str]:
        if self.stack is None and (model is None or against is None):
            raise InputError("model: the comparison was not decomposed; name a model and the one that it is compared with.")
        return model or str(self.stack), against or self.without_name

    def confidence_set(self, *, size: float = 0.1) -> ConfidenceSet:
        """Return the models that may be the best; see :func:`model_confidence_set`."""
        return model_confidence_set(self.losses, size=size, horizon=self.horizon)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.as_table().html()

    def to_frame(self) -> pd.DataFrame:
        """Return :meth:`table`."""
        return self.table()

    def as_table(self, metrics: Sequence[str] = tables.PRINTED, *, stars: bool = False) -> Table:
        """Return the comparison as a table that renders as text, HTML, LaTeX and Markdown; see :meth:`table`.

        Tests over time are left out where the periods are too few for any.
        """
        return tables.as_table(self, tables.without_tests(self, metrics), stars=stars)

    def table(self, metrics: Sequence[str] = tables.PRINTED, *, stars: bool = False) -> pd.DataFrame:
        """Return the comparison as it prints, one row for each model.

        Parameters
        ----------
        metrics : sequence of str, optional
            Keys of ``scores``, in the order wanted; also ``reads`` (what the model reads), ``fm_slope``, ``fm_t`` (Fama–MacBeth)
            and ``cal_slope``, ``cal_p`` (Mincer–Zarnowitz).
        stars : bool, default False
            Mark the DM t by its two-sided p-value: ``*`` below 10 %, ``**`` below 5 %, ``***`` below 1 %.

        Returns
        -------
        DataFrame
            Indexed by model. Numbers are unrounded; where there is none the cell explains why, such as ``n/a
            (T=2)``. For numbers only take :attr:`scores`.
        """
        return tables.as_table(self, metrics, stars=stars).to_frame().set_index("Model")

    def text(self, width: int | None = None) -> str:
        """Return the table and the finding as text, no wider than ``width`` (by default the terminal)."""
        check_count(width=width)
        width = width or shutil.get_terminal_size((100, 24)).columns
        finding = "\n".join(textwrap.fill(wording, width) for wording in self.summary())
        return f"{self.as_table().text(width)}\n\n{finding}"

    def to_latex(
        self,
        path: File | None = None,
        *,
        metrics: Sequence[str] = tables.PRINTED,
        stars: bool = False,
        caption: str | None = None,
        label: str = "",
    ) -> str:
        """Return the table as LaTeX (package booktabs), and write it where a path is given; see :meth:`table`."""
        made = self.as_table(metrics, stars=stars)
        if caption is not None:
            made = replace(made, title=caption)
        return made.to_latex(path, label=label)

    def to_markdown(self, path: File | None = None, *, metrics: Sequence[str] = tables.PRINTED, stars: bool = False) -> str:
        """Return the table and the finding as Markdown, and write it where a path is given; see :meth:`table`."""
        finding = "\n\n".join(map(markdown_text, self.summary()))
        wording = f"{self.as_table(metrics, stars=stars).to_markdown()}\n\n{finding}\n"
        if path is not None:
            write_atomic(path, wording)
        return wording

    def to_html(self, path: File) -> Path:
        """Write the report: one self-contained page that opens offline.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        return page.to_html(self, path)

    def to_excel(self, path: File) -> Path:
        """Write a workbook: finding, scores, decomposition, tests, losses, sample and settings, a sheet each.

        Raises
        ------
        InputError
            When the file cannot be written, or openpyxl (the extra ``excel``) is missing.
        """
        columns = ["model", "baseline", "loss_difference", "statistic", "p_value", "n_periods", "freedom"]
        tests = [[getattr(test, column) for column in columns] for test in self.tests.values()]
        models = pd.DataFrame([vars(model) for model in self.models]).rename(columns={"name": "model"})
        settings = [*self.settings.items(), *(("limit of the panel", wording) for wording in self.panel.limits)]
        sheets = {
            "Summary": pd.DataFrame({"Finding": self.summary()}),
            "Decomposition": self.claims.to_frame().reset_index(),
            "Scores": self.scores.reset_index(),
            "Table": self.to_frame().reset_index(),
            "Tests": pd.DataFrame(tests, columns=columns),
            "Losses by period": self.losses.reset_index(),
            "Failures": pd.DataFrame([vars(failure) for failure in self.failures]),
            **{f"Audit {name}": audit.to_frame() for name, audit in self.audit.items()},
            "Sample": self.panel.sample_loss,
            "Models": models[["model", "information", "reads", "settings"]],
            "Settings": pd.DataFrame(settings, columns=["setting", "value"]),
        }
        return write_workbook(path, {name: sheet for name, sheet in sheets.items() if len(sheet)})

    def to_parquet(self, path: File, *, edges: File | None = None, top_k: int | None = None) -> Path:
        """Write all predictions to a Parquet file, and the networks' edges to another.

        Parameters
        ----------
        path : path-like
            Columns firm, period, outcome and one for each model.
        edges : path-like, optional
            As :meth:`edges` gives them.
        top_k : int, optional
            Number of edges kept of each firm.

        Raises
        ------
        InputError
            When a file cannot be written.
        """
        frames = {path: self.predictions}
        if edges is not None:
            frames[edges] = self.edges(top_k=top_k)
        for at, frame in frames.items():
            with atomic_path(at) as temporary:
                frame.to_parquet(temporary, index=False)
        return Path(path)

    def edges(self, *, top_k: int | None = None) -> pd.DataFrame:
        """Return the edges of all networks: columns model, period, firm, peer, weight; with ``top_k`` the strongest."""
        columns = ["model", "period", "firm", "peer", "weight"]
        if not self.networks:
            return pd.DataFrame(columns=columns)
        parts = [network.edges(top_k=top_k).assign(model=name) for name, network in self.networks.items()]
        return pd.concat(parts, ignore_index=True)[columns]

    def portfolios(self, model: str, *, n_quantiles: int | None = None, weighting: Weighting = "equal") -> QuantilePortfolios:
        """Return portfolios of firms sorted by a model's forecast; see :func:`quantile_portfolios`.

        By default there are as many as the periods hold firms for: 10, 5 or 3. Where the outcome is not a return they are groups,
        and only their mean outcomes have a meaning. ``weighting="value"`` weighs firms by market value; firms without one are
        left out.

        Raises
        ------
        InputError
            For a nowcast, which nobody could have traded on; an unknown model; market values that are missing.
        """
        return portfolios_of(self, model, n_quantiles=n_quantiles, weighting=weighting)

    def by(self, by: str | pd.Series) -> pd.DataFrame:
        """Return the scores of every model within groups of rows; see :func:`scores_by`."""
        return scores_by(self, by)


@dataclass(frozen=True, repr=False, eq=False)
class Comparisons(Mapping[str, Comparison]):
    """Comparisons of the same models on several outcomes, by the name of the outcome; prints one block each."""

    blocks: dict[str, Comparison]

    def __getitem__(self, outcome: str) -> Comparison:
        check_names("outcome", "outcome", [outcome], self.blocks)
        return self.blocks[outcome]

    def __contains__(self, outcome: object) -> bool:
        return outcome in self.blocks

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def to_frame(self) -> pd.DataFrame:
        """Return the scores of all outcomes, one row for each (outcome, model)."""
        return pd.concat({name: block.scores for name, block in self.blocks.items()}, names=["outcome"])

    def to_html(self, path: File) -> Path:
        """Write the reports of all outcomes as one self-contained page that opens offline.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        return page.outcomes_to_html(self, path)

    def as_table(self) -> Table:
        """Return one line an outcome: horizon, R² without and with peers and their standard errors, the gain and its test."""
        return page.outcomes_table(self)

    def __repr__(self) -> str:
        return f"Comparisons({len(self.blocks)} outcomes: {', '.join(self.blocks)})"

    def __str__(self) -> str:
        return "\n\n".join([self.as_table().text(), *map(str, self.blocks.values())])

    def _repr_html_(self) -> str:
        return "\n".join(block._repr_html_() for block in self.blocks.values())
