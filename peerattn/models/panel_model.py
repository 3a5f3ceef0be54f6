"""What every model of a panel shares: options that are checked, the gate, files, and how predictions are scored."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils._param_validation import InvalidParameterError, StrOptions
from sklearn.utils.validation import check_is_fitted

from peerattn.exceptions import InputError, did_you_mean
from peerattn.models.by_period import periods_of, stored_call, training_panel, warn_once, write_frame, written
from peerattn.models.learned import rows_of, warn_of_shared_periods
from peerattn.panel.gate import check_panel, warn_of_lost_labels
from peerattn.panel.panel import Panel
from peerattn.panel.stored import is_stored
from peerattn.processes import joined
from peerattn.store.objects import Saved
from peerattn.types import OutcomesLike, PanelLike

SHOWN = 20  # rows of a table in a summary
COLUMN = (str, Integral, tuple)  # what may name a column
COLUMNS = (list, tuple, np.ndarray, pd.Index)  # a list of their names; text would be taken letter by letter


class PanelModel(Saved, BaseEstimator):
    """Base class of every estimator that reads a panel: labels, characteristics and codes."""

    firm: str
    period: str
    #: As of scikit-learn's own estimators: by option what it may be. A subclass adds its own.
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "firm": [*COLUMN],
        "period": [*COLUMN],
        "industry": [*COLUMN, None],
        "codes": [*COLUMNS],
        "scale": [StrOptions({"standard", "rank"}), None],
        "random_state": ["random_state"],
    }
    _shares_periods: ClassVar[bool] = False  # whether several processes can fit it together

    def summary(self) -> object:
        """Return what was fitted, as text: options that differ from their defaults, training rows, tables and numbers.

        Shown are the fitted attributes (whose names end in ``_``) that are tables, results with a table of their own, or
        numbers, each under its name. Long tables show their first and last rows.

        Returns
        -------
        str, or a table of estimates
            To be printed.

        Raises
        ------
        NotFittedError
            Before ``fit``.

        Examples
        --------
        >>> from peerattn import CrossSectionalRidge, simulate_panel
        >>> panel = simulate_panel(12, 8, 2, random_state=0)
        >>> print(CrossSectionalRidge().fit(panel.X, panel.y).summary().partition(chr(10))[0])
        CrossSectionalRidge(): 96 rows, 8 periods, 2 columns
        """
        check_is_fitted(self, "learned_rows_")
        properties = [n for n in dir(type(self)) if isinstance(getattr(type(self), n, None), property)]
        names = [n for n in (*vars(self), *properties) if n.endswith("_") and not n.startswith("_")]
        fitted = {name: getattr(self, name) for name in names}
        size = ""
        if self.learned_rows_ is not None:
            periods, rows = self.learned_rows_
            size = f"{len(rows):,} rows, {len(periods):,} periods, "
        wording = [f"{self!r}: {size}{self.n_features_in_} columns"]
        numbers = [f"{name} {value:.6g}" for name, value in fitted.items() if isinstance(value, float)]
        wording += [", ".join(numbers)] if numbers else []
        for name, value in fitted.items():
            if isinstance(value, pd.DataFrame | pd.Series) and len(value):
                wording.append(f"{name}\n{value.to_string(max_rows=SHOWN)}")
            elif hasattr(value, "_repr_html_") and type(value).__module__.startswith("peerattn"):
                wording.append(f"{name}\n{value}")
        return "\n\n".join(wording)

    def _validate_params(self) -> None:
        """Raise for an option that is not what ``_parameter_constraints`` say, with the nearest choices of text."""
        try:
            super()._validate_params()
        except InvalidParameterError as error:
            name = str(error).split("'")[1]
            given = getattr(self, name)
            allowed = self._parameter_constraints[name]
            hint = did_you_mean(given, [text for each in allowed if isinstance(each, StrOptions) for text in each.options])
            if isinstance(given, str) and list in allowed:
                hint = f" Write [{given!r}]."
            raise InputError(f"{error}{hint}") from None

    def _code_columns(self) -> tuple[Any, ...]:
        """Columns declared to be codes."""
        codes = tuple(getattr(self, "codes", ()))
        return codes + tuple(name for name in self._groupings() if name not in codes)

    def _groupings(self) -> tuple[Any, ...]:
        """Code columns that group firms without being learned: they may name nearly every firm."""
        industry = getattr(self, "industry", None)
        return () if industry is None else (industry,)

    def _check(
        self, X: PanelLike, y: OutcomesLike = None, *, fitting: bool, undated: bool = False, universe: PanelLike = None
    ) -> Panel:
        if fitting:
            self._validate_params()
            if joined() and not self._shares_periods:
                raise InputError(
                    f"{type(self).__name__}: several processes fit attention models only. Fit it outside data_parallel()."
                )
            if is_stored(X):
                X = training_panel(self, X, y)
                y = None
        names: dict[str, Any] = {"firm": self.firm, "period": self.period}
        names |= {"codes": self._code_columns(), "groupings": self._groupings()}
        panel = check_panel(self, X, y, fitting=fitting, undated=undated, universe=universe, **names)
        if fitting:
            self.dated_ = panel.dated
            self.learned_rows_ = rows_of(panel)
        elif self.dated_ and not panel.dated and not undated:
            fitted = f"{type(self).__name__} was fitted on a panel"
            warn_of_lost_labels(f"{fitted} but X carries no {self.firm!r} and {self.period!r}")
        return panel

    def _warn_of_shared_periods(self, panel: Panel) -> None:
        warn_of_shared_periods(panel, getattr(self, "learned_rows_", None))

    @property
    def _classes(self) -> tuple[Any, ...]:
        """Classes, of which ``_predicted`` gives a column each; empty for one column of predictions."""
        return ()

    @abstractmethod
    def _gate_call(self, X: PanelLike, outcomes: OutcomesLike) -> tuple[Panel, Any]:
        """Return the checked rows of a call, and what is needed to predict them."""

    @abstractmethod
    def _predicted(self, panel: Panel, call: Any) -> np.ndarray:
        """Return what is predicted of the rows of a call, in the order they came in."""

    def _by_period(self, X: PanelLike, outcomes: OutcomesLike = None, **options: Any) -> Iterator[tuple[Panel, Any]]:
        """Yield :meth:`_gate_call` of each period of a panel in files."""
        for panel, observed in periods_of(self, X, outcomes):
            yield self._gate_call(panel, observed, **options)

    @warn_once()
    def _predict_periods(self, X: PanelLike, outcomes: OutcomesLike = None, **options: Any) -> np.ndarray:
        """Return the predictions of all periods of a panel in files, in the order of the files' rows."""
        stored = stored_call(self, X, outcomes)
        calls = self._by_period(stored, outcomes=outcomes, **options)
        predicted = np.concatenate([self._predicted(*call) for call in calls])
        found = np.empty_like(predicted)
        found[stored.order] = predicted
        return found

    def _predictions(self, X: PanelLike, outcomes: OutcomesLike = None, **options: Any) -> np.ndarray:
        """Return the predictions of rows in memory or in files."""
        if is_stored(X):
            return self._predict_periods(X, outcomes=outcomes, **options)
        return self._predicted(*self._gate_call(X, outcomes, **options))

    def write_predictions(self, X: PanelLike, out: str | os.PathLike[str], **options: Any) -> Path:
        """Predict each period of a panel in files and write it, one period at a time.

        Parameters
        ----------
        X : StoredPanel, path, Dataset, or iterator of frames
        out : path-like
            A folder; one Parquet file a period: firm, period, and ``prediction`` (of a classifier the probability of each
            class). Called again after it was killed, with the same model and panel, it goes on from there.
        **options
            As in ``predict``; ``outcomes`` names the column.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            When the folder cannot be written, or holds files of other periods.

        Examples
        --------
        >>> import tempfile
        >>> from peerattn import NadarayaWatsonRegressor, load_grunfeld
        >>> panel = load_grunfeld()
        >>> model = NadarayaWatsonRegressor(bandwidth=1000.0).fit(panel.X, panel.y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     periods = (frame for _, frame in panel.X.groupby(level="period"))
        ...     out = model.write_predictions(periods, f"{folder}/predictions")
        ...     found = pd.read_parquet(out)
        >>> found.shape
        (220, 3)
        """

        def write(panel: Panel, call: Any, path: Path) -> None:
            write_frame(panel, self._predicted(panel, call), names, path)

        names = [str(name) for name in self._classes] or ["prediction"]
        return written(out, self._by_period(X, **options), write)

    def _scored(
        self, X: PanelLike, y: OutcomesLike, sample_weight: OutcomesLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return known outcomes, their predictions and weights, for ``score``."""
        y = X.y if y is None and isinstance(X, Panel) else y
        observed = getattr(self, "needs_outcomes", False) and getattr(self, "dated_", True)
        predicted = np.asarray(self.predict(X, outcomes=y) if observed else self.predict(X))
        panel = self._check(X, y, fitting=False)
        if panel.outcomes is None:
            raise InputError("y: a score needs the outcomes, got None.")
        known = np.isfinite(panel.outcomes)
        weight = None if sample_weight is None else panel.align(sample_weight, "sample_weight")[known]
        return panel.outcomes[known], predicted[panel.order][known], weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class PanelRegressor(RegressorMixin, PanelModel):
    """Base class of the panel regressors."""

    @property
    def _reads_characteristics(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = not self._reads_characteristics
        return tags

    def score(self, X: PanelLike, y: OutcomesLike = None, sample_weight: OutcomesLike = None) -> float:
        """Return R² of ``predict(X)`` over the rows whose outcome is known."""
        known, predicted, weight = self._scored(X, y, sample_weight)
        return float(r2_score(known, predicted, sample_weight=weight))
