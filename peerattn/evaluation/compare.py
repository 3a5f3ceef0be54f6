"""Compare models on a panel: every model predicts the same rows, out of sample, from the same inputs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from peerattn.evaluation.comparison import PACKAGES, Comparison, ModelNote
from peerattn.evaluation.contestants import Contestant, Task, check_task, contestants
from peerattn.evaluation.inputs import LABELS, ComparisonPanel, comparison_panel
from peerattn.evaluation.periods import sorted_periods
from peerattn.evaluation.running import Folds, run
from peerattn.evaluation.splits import ShortPanelWarning, WalkForward
from peerattn.exceptions import InputError, did_you_mean


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: Any = None,
    *,
    cv: Any = None,
    baseline: str | None = None,
    task: Task = "forecast",
    outcome: str | None = None,
    characteristics: Sequence[str] | None = None,
    codes: Sequence[str] = (),
    firm: str = "firm",
    period: str = "period",
    industry: str | None = None,
    verbose: bool = True,
) -> Comparison:
    r"""Compare models out of sample: the same rows, the same inputs, the same tests for all.

    For each fold every model is cloned and fitted on the training rows,

    .. math:: \hat y^m_{it} = f^m(x_{it};\ \{(x_{js}, y_{js}) : s \le t_0 - h\}),

    t₀ the origin of the fold and h the horizon, and predicts all rows of the tested periods.
    Own-characteristics OLS and the prevailing mean are always among the models.

    Parameters
    ----------
    models : dict of str to estimator
        Peer models of this package, scikit-learn regressors, or Pipelines of either, by name.
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
        see none.
    outcome : str, optional
        Column of X that is the outcome, when y is not passed.
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
    verbose : bool, default True
        Show a progress bar on stderr.

    Returns
    -------
    Comparison
        Prints as a table; ``.to_html(path)`` writes the report.

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
    chosen = contestants(models, task, panel)
    names = [contestant.name for contestant in chosen]
    baseline = names[0] if baseline is None else baseline
    if baseline not in names:
        raise InputError(
            f"baseline: there is no model {baseline!r} among {', '.join(map(repr, names))}."
            f"{did_you_mean(baseline, names)}"
        )
    cv = WalkForward() if cv is None else cv
    folds, short = _folds(cv, panel)
    done = run(chosen, panel, folds, verbose=verbose)
    return Comparison(
        predictions=done.predictions,
        training_mean=done.training_mean,
        models=tuple(_note(contestant) for contestant in chosen),
        baseline=baseline,
        task=task,
        outcome=panel.outcome,
        horizon=int(getattr(cv, "horizon", 1)),
        networks=done.networks,
        choice=panel.choice,
        settings=_settings(cv, panel, folds),
        notes=(*short, *done.notes),
    )


def _folds(cv: Any, panel: ComparisonPanel) -> tuple[Folds, list[str]]:
    """Return the folds of any splitter, and what it warned of a short panel."""
    if isinstance(cv, WalkForward):
        cv = copy.copy(cv)
        cv.firm, cv.period = LABELS
    elif not hasattr(cv, "split"):
        raise InputError(
            f"cv must be a splitter such as WalkForward(test_periods=12), got {type(cv).__name__}."
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folds = [(np.asarray(train), np.asarray(test)) for train, test in cv.split(panel.X, panel.y)]
    for entry in caught:
        warnings.warn(entry.message, stacklevel=3)
    _refuse_leaks(cv, panel, folds)
    return folds, [str(entry.message) for entry in caught if isinstance(entry.message, ShortPanelWarning)]


def _refuse_leaks(cv: Any, panel: ComparisonPanel, folds: Folds) -> None:
    """Raise where a tested period or a later one is learned from, or nothing is."""
    when, periods = sorted_periods(panel.X.index.get_level_values(1))
    tested = np.concatenate([test for _, test in folds]) if folds else np.empty(0, dtype=int)
    if not len(tested) or len(np.unique(tested)) != len(tested):
        raise InputError("cv: each row may be tested once, and some must be; use WalkForward.")
    for train, test in folds:
        if when[train].max(initial=-1) >= when[test].min():
            raise InputError(
                f"cv: {type(cv).__name__} learns from {periods[when[train].max()]} to predict "
                f"{periods[when[test].min()]}; a panel is tested on periods after those learned from. Use WalkForward."
            )
        if panel.y.iloc[train].notna().sum() < 2:
            raise InputError(
                f"cv: fewer than two outcomes are known in the rows that a model for {periods[when[test].min()]} may learn "
                "from; test fewer periods."
            )


def _note(contestant: Contestant) -> ModelNote:
    kind = "peer model" if contestant.native else "plain regressor"
    return ModelNote(
        contestant.name, kind, contestant.shown_outcomes, " ".join(str(contestant.model).split())
    )


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
    if not isinstance(cv, WalkForward):
        return " ".join(str(cv).split())
    window = cv.window if cv.train_periods is None else f"{cv.window}, {cv.train_periods} periods"
    asked = "last third of the periods" if cv.test_periods is None else f"test_periods={cv.test_periods}"
    return f"walk forward ({asked}, refit_every={cv.refit_every}, window {window}, horizon={cv.horizon})"
