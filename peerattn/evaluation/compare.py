"""Compare models on a panel: every model predicts the same rows, out of sample, from the same inputs."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from importlib.metadata import version
from typing import Any, cast, overload

import numpy as np
import pandas as pd

from peerattn.datasets import SimulatedPanel
from peerattn.evaluation.compared import ModelNote
from peerattn.evaluation.comparison import Comparison, Comparisons
from peerattn.evaluation.leak_audit.runner import run_audits
from peerattn.evaluation.measures.factor_adjusted import ADJUSTED, net_of_factors
from peerattn.evaluation.measures.factors import factors_realised
from peerattn.evaluation.report.words import PACKAGES
from peerattn.evaluation.running.checks import check_entries
from peerattn.evaluation.running.entries import Entry, Task, entries_of
from peerattn.evaluation.running.fitting import FoldResult, How, failures_of, fit_all, warn_once
from peerattn.evaluation.running.information import information_of
from peerattn.evaluation.running.inputs import LABELS, comparison_panel, frames_by_outcome
from peerattn.evaluation.running.nested import decomposition_of, placebo_gains, stack_among
from peerattn.evaluation.running.store import FoldStore
from peerattn.evaluation.sample import Labels, PanelFacts, as_return, panel_facts
from peerattn.evaluation.splits import Split, WalkForward, gaps_of, horizon_of, split_of, split_words
from peerattn.exceptions import Function, check_at_least, check_names, expect, validate_arguments
from peerattn.models.forecasters import make_models, model_names, model_title
from peerattn.panel.knowledge import dated_by_horizon
from peerattn.panel.panel import Panel, panel_digest
from peerattn.render import File
from peerattn.types import ColumnLike, OutcomesLike, PanelLike, ReferenceLike

Models = Mapping[str, Any] | Sequence[str]


def outcome_by_outcome(compare_one: Function) -> Function:
    """Let a comparison take several outcomes, which are compared one by one, each with all options of the call."""

    @wraps(compare_one)
    def compare_all(
        models: Models, X: PanelLike, y: OutcomesLike = None, *, outcome: Any = None, **options: Any
    ) -> Comparison | Comparisons:
        if not isinstance(outcome, list | tuple):
            return compare_one(models, X, y, outcome=outcome, **options)
        each = frames_by_outcome(X, outcome).items()
        return Comparisons({name: compare_one(models, frame, y, outcome=name, **options) for name, frame in each})

    return cast(Function, compare_all)


@overload
def compare(
    models: Models, X: PanelLike, y: OutcomesLike = None, *, outcome: list[str] | tuple[str, ...], **options: Any
) -> Comparisons: ...


@overload
def compare(
    models: Models, X: PanelLike, y: OutcomesLike = None, *, outcome: str | None = None, **options: Any
) -> Comparison: ...


@validate_arguments  # type: ignore[misc]  # the overloads leave the options unnamed
@outcome_by_outcome
def compare(
    models: Mapping[str, Any] | Sequence[str],
    X: PanelLike,
    y: OutcomesLike = None,
    *,
    cv: Any = None,
    baseline: str | None = None,
    task: Task = "forecast",
    outcome: str | list[str] | tuple[str, ...] | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    firm: ColumnLike = "firm",
    period: ColumnLike = "period",
    industry: ColumnLike | None = None,
    reference: ReferenceLike = None,
    groups: Sequence[str] = (),
    limits: Sequence[str] = (),
    is_return: bool | None = None,
    market_value: str | None = None,
    factors: pd.DataFrame | None = None,
    outcome_horizon: int | None = None,
    labels: Labels | None = None,
    decomposition: bool = True,
    audit: bool | Sequence[str] = False,
    placebo: int = 0,
    n_jobs: int | None = None,
    store: File | None = None,
    verbose: bool = True,
) -> Comparison | Comparisons:
    r"""Compare models out of sample: the same rows, the same inputs, the same tests for all.

    For each fold every model is cloned and fitted on the training rows,

    .. math:: \hat y^m_{it} = f^m(x_{it};\ \{(x_{js}, y_{js}) : s \le t_0 - h\}),

    t₀ the origin of the fold and h the horizon, and predicts all rows of the tested periods.
    Beside the models one stack is fitted (:class:`~peerattn.models.StackedPeerRegressor`, or yours where its options are the
    defaults). Its predictions after each group, own characteristics (linear), nonlinear own-firm models, firm history, common
    shocks and peers, decompose held-out R²: nested models on the same rows, nothing chosen on them. Whether peers help is the
    test of the last step; your peer models are tested against the stack without peers. Controls are always among the models: own
    characteristics, linear and boosted; the firm's mean, its last value, and characteristics with the firm's past; and what firms
    have in common. In nowcasts that are the means of all other firms and, with ``industry``, of those of the industry's period,
    and their shocks beside all of the former; in forecasts the characteristics of all others, or of those of the industry. A
    column gives the information that each uses.

    Parameters
    ----------
    models : dict of str to estimator, or list of str
        Peer models of this package, scikit-learn regressors, or Pipelines of either, by name. A list holds ready names
        (:func:`~peerattn.models.make_model`), such as ``["industry", "ridge", "attention"]``.
    X : DataFrame, polars frame, pyarrow table, Panel, or path; or StoredPanel, folder, Dataset, iterator of frames
        Characteristics and codes beside ``y``; or, with ``outcome=``, a whole frame or file; or what
        ``read_panel`` returned. Of what ``scan_panel`` returned, and of folders, Datasets and iterators, characteristics are
        mapped into memory from a temporary file, and those of one fold are read at a time: a rolling window bounds them.
    y : Series or array-like of length n, optional
        Outcome of each row of X, aligned by label where it has X's; NaN means unknown.
    cv : splitter, optional
        By default ``WalkForward()``: the last third of the periods, refitted each period.
    baseline : str, optional
        The model that the others are tested against, by its name in the table or its ready name; by default the first one.
    task : {"forecast", "nowcast"}, default "forecast"
        ``"forecast"``: no outcome of the target period is used. ``"nowcast"``: peer models observe the
        outcomes of each firm's peers in the same period, never its own; plain regressors are controls that
        see none, and the means of all other firms and of those of the industry are added as controls for the level of the period.
    outcome : str or list of str, optional
        Column of X that is the outcome, when y is not passed; or a list of several, each compared on its own.
    characteristics : sequence of str, optional
        Columns to use. By default all columns of X beside ``y``, and those ``read_panel`` chooses of a
        whole frame.
    codes : sequence of str, default ()
        Columns that are codes (SIC, sector); columns of text are codes in any case.
    firm, period : str, default "firm", "period"
        Names of the index levels or columns with the labels. All models get index levels named firm and period (a
        peer model those it was built with).
    industry : str, optional
        A code column, counted among the codes.
    reference : Reference, frame, or pair (X_ref, y_ref), optional
        The candidate peers of models with ``attention="cross"``; with outcomes only for a nowcast.
    groups : sequence of str, default ()
        Columns that the report scores models by, besides year and codes: numbers, in fifths of each
        period.
    limits : sequence of str, default ()
        Known limits of the panel, a sentence each; those that the panel itself shows are added.
    is_return : bool, optional
        Whether the outcome is a simple return in decimals, on which portfolios can be formed. By default inferred from its
        name (``ret_next``, ``ret_exc_lead1m``), and the report notes it. With values below −1 (per cent) it is none.
    market_value : str, optional
        Column of X with market values, in any unit: the report then shows portfolios weighted by them, too, and the scores by
        fifths of them in each period.
    factors : DataFrame, optional
        Factor returns in decimals, indexed by period (month-ends, Periods, 201207). Forecasts: where the outcome is a return, the
        report shows the spread's alpha against the factors of the time in which the outcome is realised. Nowcasts: all models
        predict the outcome net of these factors, with the loadings of each firm's earlier periods
        (:func:`~peerattn.evaluation.factor_adjusted`), so that peers are tested for what the factors leave; factors may then be
        indexed by firm and period, too.
    outcome_horizon : int, optional
        When that is: an outcome labelled t is realised over the periods t + 1 to t + h, or in t for 0. By default 1 where the
        outcome's name implies it (``ret_next``, ``ret_lead1m``); otherwise 0 in nowcasts, and factors of forecasts need this.
    labels : mapping of str to str or (str, str), optional
        Names, or names and definitions with units, of the variables in the table of descriptive statistics; see
        :func:`peerattn.evaluation.describe_panel`.
    decomposition : bool, default True
        Whether to fit the stack; without it nothing is reported on what peers add.
    audit : bool or sequence of str, default False
        Audit these models, or (True) all peer models that were passed: five to ten more fits each. See
        :func:`peerattn.evaluation.audit`.
    placebo : int, default 0
        Number of refits of the stack on outcomes whose unexplained part is exchanged between the firms of a period (of those of
        an industry that has five, so that its shock stays), to report the gains of its peers beside that in the data.
    n_jobs : int, optional
        Fits (a model on a fold) that run at once, as joblib counts: −1 for all cores. The backend is yours to set by
        ``joblib.parallel_config``, a Dask cluster for one. Every fit uses one thread, so that figures are the same
        however many run.
    store : path-like, optional
        A folder in which every finished fit is kept at once, as Parquet with JSON: nothing in it is run. Called again with the
        same folder, a comparison that was killed goes on and repeats nothing; a model whose settings or source changed (the
        class, and the functions and constants of its module that it refers to), or whose file was damaged, is fitted again.
    verbose : bool, default True
        Show progress on stderr: the columns that ``outcome=`` leaves as inputs, the number of fits, then a line for each
        finished fit (model, fold, seconds, R² so far, whether no peers were found), on a terminal above a bar with the time left.

    Returns
    -------
    Comparison
        Prints as a table; ``.to_html(path)`` writes the report. Comparisons, one for each outcome, where
        ``outcome`` lists several.

    Raises
    ------
    InputError
        For unusable input; a model that cannot do the task is named. A splitter that would learn from a tested or later
        period is an error.
    Exception
        What the first model raised, when every model that was passed fails; otherwise a model that fails, or whose
        predictions are not finite, is a row of the table with its error (``Comparison.failures``).

    Notes
    -----
    Plain regressors get the panel through one :class:`~peerattn.panel.PanelEncoder` fitted on each fold's
    training rows: codes one-hot, missing values the period's median with an indicator. Rows with unknown
    outcomes are left out of *their* fit only; peer models keep them as peers. The OLS control sees
    characteristics, no codes; a control under whose name a model is passed is not
    added. Cost: one fit for each model and fold, ``n_jobs`` at once.

    References
    ----------
    Gu, S., Kelly, B. and Xiu, D. (2020), Empirical asset pricing via machine learning, Review of Financial
    Studies 33(5), 2223–2273.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import Ridge
    >>> index = pd.MultiIndex.from_product([range(30), range(2001, 2025)], names=["firm", "period"])
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(720, 2)), index=index, columns=["size", "lev"])
    >>> y = (X["size"] + np.random.default_rng(1).normal(size=720)).rename("roa_next")
    >>> compare({"Ridge": Ridge()}, X, y, cv=WalkForward(test_periods=12, refit_every=6), verbose=False)
    Comparison(forecast of roa_next: 10 models, baseline 'Ridge', 30 firms, 12 periods, 360 outcomes)
    """
    check_at_least(0, placebo=placebo, outcome_horizon=outcome_horizon or 0)
    expect(decomposition or not placebo, "placebo", "0 beside decomposition=False, as it is of the stack's peers", placebo)
    if n_jobs is not None:
        expect(n_jobs != 0 and abs(n_jobs) <= 1024, "n_jobs", "1 to 1024 processes", n_jobs, "-1 takes all cores.")
    panel = comparison_panel(
        X, y, cv, reference, outcome=outcome, characteristics=characteristics, codes=codes, firm=firm, period=period,
        industry=industry,
    )  # fmt: skip
    if verbose and outcome is not None:
        print(panel.choice, file=sys.stderr, flush=True)
    if cv is None:
        cv = WalkForward(horizon=max(1, outcome_horizon or 1))
    horizon = horizon_of(cv, panel, outcome_horizon)
    net = net_of_factors(panel, factors, task, outcome_horizon, reference, horizon)
    split = split_of(cv, net, horizon)
    plan = _plan(models, net, split, task, reference, horizon, baseline, decomposition, audit)
    # what a report needs of the panel is looked up before the fits, so that what is wrong with it costs no time
    is_return, notes = as_return(net.outcome, net.y.to_numpy(dtype=float), is_return)
    if net.outcome != panel.outcome:
        notes.append(ADJUSTED)
        if labels is not None and panel.outcome in labels:  # the words for the outcome are those of it net of factors
            others = {name: words for name, words in labels.items() if name != panel.outcome}
            labels = {net.outcome: labels[panel.outcome]} | others
    facts = panel_facts(net, split.tested, groups, limits, market_value, labels)
    realised = factors_realised(factors, net, split.tested, task, outcome_horizon)
    facts = replace(facts, is_return=is_return, factors=realised)
    if isinstance(X, SimulatedPanel):  # the network that made the data in the last tested period
        facts = replace(facts, truth=X.network.subset(periods=[net.period[split.tested].max()]))
    digest = panel_digest(net)
    # fits depend on the dates that a longer horizon implies
    key = digest if plan.panel is net else panel_digest(plan.panel)
    how = How(n_jobs, FoldStore(store, key), verbose)
    found = _compared(plan, how, facts, _settings(split, net, digest), notes)
    if placebo and plan.stack is not None and found.stack is not None:
        found = replace(found, placebo=placebo_gains(plan.stack, plan.panel, split.folds, placebo, how))
    return found


@dataclass(frozen=True)
class _Plan:
    """What is fitted, audited and tested."""

    entries: list[Entry]
    panel: Panel  # with the dates that a longer horizon implies
    split: Split
    task: Task
    horizon: int
    stack: Entry | None
    baseline: str
    audited: set[str]


def _plan(
    models: Models, panel: Panel, split: Split, task: Task, reference: ReferenceLike, horizon: int, baseline: str | None,
    decomposition: bool, audit: bool | Sequence[str],
) -> _Plan:  # fmt: skip
    """Return which models are fitted, beside which stack; what they cannot do is an error before any is."""
    # ready names need the panel first: their titles name its industry
    if isinstance(models, list | tuple) and models and all(isinstance(name, str) for name in models):
        models = make_models(models, task=task, industry=panel.industry)
    known = dated_by_horizon(panel, task, horizon)
    entries = entries_of(models, task, panel, reference, gaps_of(known, split.folds, task), horizon)  # type: ignore[arg-type]
    stack = stack_among(entries, task, horizon) if decomposition else None
    names = [entry.name for entry in entries]
    titles = {name: model_title(name, panel.industry) for name in model_names()}
    if baseline is None:
        baseline = names[0]
    elif baseline not in names and titles.get(baseline) in names:
        baseline = titles[baseline]
    check_names("baseline", "model", [baseline], names)
    audited = _audited(audit, entries)
    check_entries(entries, panel, split.folds, horizon)
    return _Plan(entries, known, split, task, horizon, stack, baseline, audited)


def _compared(plan: _Plan, how: How, facts: PanelFacts, settings: dict[str, str], notes: list[str]) -> Comparison:
    """Fit and audit the models, and return how they compare; ``notes`` are those on the outcome."""
    panel = plan.panel
    folds = plan.split.folds
    results = fit_all(plan.entries, panel, folds, how)
    failures = failures_of(plan.entries, results)
    errors = {failure.model: failure.error for failure in failures}
    left = [entry for entry in plan.entries if entry.name not in errors]
    fits = {entry.name: [results[entry.name, k] for k in range(len(folds))] for entry in left}
    # models that failed leave the table, and may take the baseline with them
    baseline, informed = _baseline_left(plan.baseline, list(fits))
    warned = warn_once([fits[name][k] for k in range(len(folds)) for name in fits])
    audits = run_audits([e for e in left if e.name in plan.audited], panel, plan.split.cv, folds, how)
    models = [_note(entry, fits[entry.name]) for entry in left]
    nested = decomposition_of(plan.stack, fits, models, errors)
    return Comparison(
        task=plan.task, outcome=panel.outcome, horizon=plan.horizon, settings=settings, panel=facts,
        predictions=_predictions(panel, plan.split.tested, fits),
        training_mean=np.concatenate([np.full(len(at), panel.y.iloc[train].mean()) for train, at in folds]),
        models=tuple(models), baseline=baseline, notes=(*plan.split.notes, *informed, *warned, *notes), failures=failures,
        networks={name: made[-1].network for name, made in fits.items() if made[-1].network is not None},
        profiles={name: made[-1].profile for name, made in fits.items() if made[-1].profile is not None},
        audit=audits, stack=nested.stack, undecomposed=nested.undecomposed, steps=nested.steps,
        without_peers=nested.without_peers,
    )  # fmt: skip


def _audited(audit: bool | Sequence[str], entries: list[Entry]) -> set[str]:
    """Return the names of the models to audit."""
    if isinstance(audit, bool):
        return {entry.name for entry in entries if audit and entry.native and not entry.control}
    check_names("audit", "model", audit, [entry.name for entry in entries])
    return set(audit)


def _baseline_left(baseline: str, names: list[str]) -> tuple[str, list[str]]:
    """Return the baseline, or the simplest model left where it failed, and what a reader must know."""
    if baseline in names:
        return baseline, []
    stand_in = next((name for name in map(model_title, ("mean", "ols")) if name in names), names[0])
    return stand_in, [f"The baseline {baseline!r} failed: models are tested against {stand_in!r} instead."]


def _predictions(panel: Panel, tested: np.ndarray, fits: dict[str, list[FoldResult]]) -> pd.DataFrame:
    """Return labels and outcomes of the tested rows beside the predictions of each model."""
    labels = panel.X.index[tested].set_names(LABELS).to_frame(index=False)
    made = {name: np.concatenate([fit.predicted for fit in of_one]) for name, of_one in fits.items()}
    return labels.assign(outcome=panel.y.to_numpy()[tested]).join(pd.DataFrame(made))


def _note(entry: Entry, fits: list[FoldResult]) -> ModelNote:
    # long arrays among the parameters would fill the page
    with np.printoptions(precision=3, threshold=6):
        settings = " ".join(str(entry.model).split())
    trials = max(fit.trials for fit in fits)
    last = fits[-1]
    group, reads = information_of(entry.model, entry.task)
    # the last fit that selected anything, and how many did
    parts = {step: [(), *(fit.selected[step] for fit in fits if fit.selected[step])] for step in last.selected}
    selected = {step: (of_fits[-1], len(of_fits) - 1) for step, of_fits in parts.items()}
    untested = {step: why for step, why in last.untested.items() if not selected[step][1]}
    return ModelNote(entry.name, group, reads, settings, trials, entry.control, len(fits), selected, untested)


def _settings(split: Split, panel: Panel, digest: str) -> dict[str, str]:
    """Return what makes the comparison again, in words."""
    from peerattn import __version__

    folds = split.folds
    first, last = (int(panel.y.iloc[folds[k][0]].notna().sum()) for k in (0, -1))
    settings = {
        "split": split_words(split.cv, panel.known_at is not None),
        "fits per model": f"{len(folds)}, the first on {first:,} known outcomes, the last on {last:,}",
        "panel": panel.description,
        "data (SHA-256 of what models see)": digest,
    }
    settings |= {name: version(name) for name in PACKAGES} | {"peerattn": __version__}
    # most panels come without a description
    return {name: value for name, value in settings.items() if value}
