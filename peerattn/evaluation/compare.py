"""Compare models on a panel: every model predicts the same rows, out of sample, from the same inputs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import pandas as pd

from peerattn.evaluation.comparison import PACKAGES, Comparison, ModelNote
from peerattn.evaluation.comparisons import Comparisons, frames_by_outcome
from peerattn.evaluation.contestants import Contestant, Task, check_task, contestants
from peerattn.evaluation.inputs import LABELS, ComparisonPanel, comparison_panel
from peerattn.evaluation.other_splits import NewFirms, PurgedKFold
from peerattn.evaluation.periods import sorted_periods
from peerattn.evaluation.running import Folds, run
from peerattn.evaluation.splits import ShortPanelWarning, WalkForward
from peerattn.exceptions import InputError, did_you_mean
from peerattn.models.forecasters import make_models, model_names, model_title
from peerattn.panel import PanelFrame
from peerattn.panel.frames import as_pandas


@overload
def compare(
    models: Mapping[str, Any] | Sequence[str],
    X: Any,
    y: Any = None,
    *,
    outcome: list[str] | tuple[str, ...],
    **options: Any,
) -> Comparisons: ...


@overload
def compare(
    models: Mapping[str, Any] | Sequence[str],
    X: Any,
    y: Any = None,
    *,
    outcome: str | None = None,
    **options: Any,
) -> Comparison: ...


def compare(  # type: ignore[misc]  # the overloads leave the options unnamed
    models: Mapping[str, Any] | Sequence[str],
    X: Any,
    y: Any = None,
    *,
    cv: Any = None,
    baseline: str | None = None,
    task: Task = "forecast",
    outcome: str | list[str] | tuple[str, ...] | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    firm: str = "firm",
    period: str = "period",
    industry: str | None = None,
    reference: Any = None,
    verbose: bool = True,
) -> Comparison | Comparisons:
    r"""Compare models out of sample: the same rows, the same inputs, the same tests for all.

    For each fold every model is cloned and fitted on the training rows,

    .. math:: \hat y^m_{it} = f^m(x_{it};\ \{(x_{js}, y_{js}) : s \le t_0 - h\}),

    t₀ the origin of the fold and h the horizon, and predicts all rows of the tested periods.
    Own-characteristics OLS and the prevailing mean are always among the models.

    Parameters
    ----------
    models : dict of str to estimator, or list of str
        Peer models of this package, scikit-learn regressors, or Pipelines of either, by name. A list holds ready names
        (:func:`~peerattn.models.forecasters.make_model`), such as ``["industry", "ridge", "attention"]``.
    X : DataFrame, polars frame, pyarrow table, PanelFrame, or path
        Characteristics and codes beside ``y``; or, with ``outcome=``, a whole frame or file; or what
        ``read_panel`` returned.
    y : Series or array-like of length n, optional
        Outcome of each row of X, aligned by label where it has X's; NaN means unknown.
    cv : splitter, optional
        By default ``WalkForward()``: the last third of the periods, refitted each period.
    baseline : str, optional
        The model that the others are tested against; by default the first one.
    task : {"forecast", "explain"}, default "forecast"
        ``"forecast"``: no outcome of the target period is used. ``"explain"``: peer models are shown the
        outcomes of each firm's peers in the same period, never its own; plain regressors are controls that
        see none, and the mean of all other firms is added as the control for the level of the period.
    outcome : str or list of str, optional
        Column of X that is the outcome, when y is not passed; or a list of several, each compared on its own.
    characteristics : sequence of str, optional
        Columns to use. By default all columns of X beside ``y``, and those ``read_panel`` chooses of a
        whole frame.
    codes : sequence of str
        Columns that are codes (SIC, sector); columns of text are codes in any case.
    firm, period : str
        Names of the index levels or columns with the labels. All models get index levels named firm and period (a
        peer model those it was built with).
    industry : str, optional
        A code column, counted among the codes.
    reference : Reference, frame, or pair (X_ref, y_ref), optional
        The firms that answer, for models with ``attention="cross"``; with outcomes only to explain.
    verbose : bool, default True
        Show a progress bar on stderr.

    Returns
    -------
    Comparison
        Prints as a table; ``.to_html(path)`` writes the report. Comparisons, one for each outcome, where
        several were asked for.

    Raises
    ------
    InputError
        For unusable input; a model that cannot do the task, or whose predictions are not finite, is named.
        A splitter that would learn from a tested or later period is refused.

    Notes
    -----
    Plain regressors get the panel through one :class:`~peerattn.panel.PanelEncoder` fitted on each fold's
    training rows: codes one-hot, missing values the period's median with an indicator. Rows with unknown
    outcomes are left out of *their* fit only; peer models keep them as peers. The OLS control sees
    characteristics, no codes. Models are fitted one after the other; the time is the sum of theirs.

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
    Comparison(forecast of roa_next: 3 models, baseline 'Ridge', 30 firms, 12 periods, 360 outcomes)
    """
    check_task(task)
    if isinstance(outcome, list | tuple):
        options = {"cv": cv, "baseline": baseline, "task": task, "reference": reference, "verbose": verbose}
        options |= {"characteristics": characteristics, "codes": codes, "industry": industry}
        options |= {"firm": firm, "period": period}
        each = frames_by_outcome(X, y, outcome).items()
        return Comparisons({name: compare(models, frame, outcome=name, **options) for name, frame in each})
    panel = comparison_panel(
        X,
        y,
        outcome=outcome,
        characteristics=characteristics,
        codes=codes,
        firm=firm,
        period=period,
        industry=industry,
    )
    named: Any = models
    if isinstance(models, list | tuple) and models and all(isinstance(name, str) for name in models):
        column = industry or (X.industry if isinstance(X, PanelFrame) else None)
        baseline = model_title(baseline, column) if baseline in model_names() else baseline
        named = make_models(models, task=task, industry=column)
    chosen = contestants(named, task, panel, reference)
    names = [contestant.name for contestant in chosen]
    baseline = names[0] if baseline is None else baseline
    if baseline not in names:
        raise InputError(
            f"baseline: there is no model {baseline!r} among {', '.join(map(repr, names))}."
            f"{did_you_mean(baseline, names)}"
        )
    cv = WalkForward() if cv is None else cv
    folds, short = _folds(cv, panel, task)
    done = run(chosen, panel, folds, verbose=verbose)
    return Comparison(
        predictions=done.predictions,
        training_mean=done.training_mean,
        models=tuple(_note(contestant, done.trials[contestant.name]) for contestant in chosen),
        baseline=baseline,
        task=task,
        outcome=panel.outcome,
        horizon=int(getattr(cv, "horizon", 1)),
        networks=done.networks,
        choice=panel.choice,
        settings=_settings(cv, panel, folds),
        notes=(*short, *done.notes),
        window=str(getattr(getattr(cv, "walk", None) or cv, "window", "")),
    )


def _folds(cv: Any, panel: ComparisonPanel, task: str) -> tuple[Folds, list[str]]:
    """Return the folds of any splitter, and what a reader must know of them."""
    if not getattr(cv, "forecasts", True) and task == "forecast":
        raise InputError(
            f"cv: {type(cv).__name__} learns from periods after those tested, which is no forecast; use WalkForward, or "
            "task='explain'."
        )
    cv = by_our_labels(cv)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folds = [(np.asarray(train), np.asarray(test)) for train, test in cv.split(panel.X, panel.y)]
    for entry in caught:
        warnings.warn(entry.message, stacklevel=3)
    _refuse_leaks(cv, panel, folds)
    notes = [str(entry.message) for entry in caught if isinstance(entry.message, ShortPanelWarning)]
    if not getattr(cv, "forecasts", True):
        notes.append(
            f"Not a forecast: models learn from periods after those tested, too ({type(cv).__name__})."
        )
    return folds, notes


def by_our_labels(cv: Any) -> Any:
    """Return a splitter that reads the labels of a comparison's panel."""
    if not hasattr(cv, "split"):
        raise InputError(
            f"cv must be a splitter such as WalkForward(test_periods=12), got {type(cv).__name__}."
        )
    if not isinstance(cv, WalkForward | PurgedKFold | NewFirms):
        return cv
    cv = copy.copy(cv)
    if isinstance(cv, NewFirms):
        cv.walk = by_our_labels(cv.walk or WalkForward())
        return cv
    known_at = as_pandas(getattr(cv, "known_at", None))
    if known_at is not None:
        if not isinstance(known_at, pd.Series) or set(known_at.index.names) != {cv.firm, cv.period}:
            raise InputError(
                f"cv: in a comparison known_at must be a Series indexed by {cv.firm!r} and {cv.period!r}."
            )
        cv.known_at = known_at.reorder_levels([cv.firm, cv.period]).rename_axis(LABELS)
    cv.firm, cv.period = LABELS
    return cv


def _refuse_leaks(cv: Any, panel: ComparisonPanel, folds: Folds) -> None:
    """Raise where a tested period or a later one is learned from, or nothing is."""
    when, periods = sorted_periods(panel.X.index.get_level_values(1))
    tested = np.concatenate([test for _, test in folds]) if folds else np.empty(0, dtype=int)
    if not len(tested) or len(np.unique(tested)) != len(tested):
        raise InputError("cv: each row may be tested once, and some must be; use WalkForward.")
    ahead = int(getattr(cv, "horizon", 1))
    for train, test in folds:
        if getattr(cv, "forecasts", True) and when[train].max(initial=-1) > when[test].min() - ahead:
            raise InputError(
                f"cv: {type(cv).__name__} learns from {periods[when[train].max()]} to predict "
                f"{periods[when[test].min()]} at horizon {ahead}; a panel is tested on periods after those learned from. Use "
                "WalkForward."
            )
        if panel.y.iloc[train].notna().sum() < 2:
            raise InputError(
                f"cv: fewer than two outcomes are known in the rows that a model for {periods[when[test].min()]} may learn "
                "from; test fewer periods."
            )


def _note(contestant: Contestant, tried: int) -> ModelNote:
    kind = "peer model" if contestant.native and not contestant.control else "plain regressor"
    kind = "level control" if contestant.native and contestant.control else kind
    settings = " ".join(str(contestant.model).split())
    return ModelNote(contestant.name, kind, contestant.shown_outcomes, settings, tried)


def _settings(cv: Any, panel: ComparisonPanel, folds: Folds) -> dict[str, str]:
    """Return what makes the comparison again, in words."""
    from importlib.metadata import PackageNotFoundError, version

    from peerattn import __version__

    learned = [int(panel.y.iloc[train].notna().sum()) for train, _ in folds]
    fits = f"{len(folds)}, the first on {learned[0]:,} known outcomes"
    settings = {
        "split": _split_words(cv),
        "fits per model": fits + (f", the last on {learned[-1]:,}" if len(folds) > 1 else ""),
    }
    if panel.description:
        settings["panel"] = panel.description
    for package in PACKAGES:
        try:
            settings[package] = version(package)
        except PackageNotFoundError:
            continue
    return settings | {"peerattn": __version__}


def _split_words(cv: Any) -> str:
    if isinstance(cv, NewFirms):
        return f"{_split_words(cv.walk or WalkForward())}, on firms never seen ({cv.n_splits} groups)"
    if not isinstance(cv, WalkForward):
        return " ".join(str(cv).split())
    window = cv.window if cv.train_periods is None else f"{cv.window}, {cv.train_periods} periods"
    asked = "last third of the periods" if cv.test_periods is None else f"test_periods={cv.test_periods}"
    said = [asked, f"refit_every={cv.refit_every}", f"window {window}", f"horizon={cv.horizon}"]
    said += [f"embargo={cv.embargo}"] if cv.embargo else []
    said += ["rows learned from when known (known_at)"] if cv.known_at is not None else []
    return f"walk forward ({', '.join(said)})"
