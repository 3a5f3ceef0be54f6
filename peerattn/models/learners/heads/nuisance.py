"""A nonlinear function of a firm's own characteristics, beside which heads are trained, so that they do not follow it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from peerattn.models.cross_section import CrossSection, Rows, count_rows, section_numbers
from peerattn.models.learners.heads.selection import ALL, LaterRows
from peerattn.models.learners.linear import CLIP, by_section, stacked_rows
from peerattn.models.learners.losses import Loss
from peerattn.models.learners.protocol import Part
from peerattn.models.learners.training import FEW_ROWS

FOLDS = 5
FitOwn = Callable[[Sequence[CrossSection]], Part | None]


@dataclass(frozen=True)
class Nuisance:
    """A nuisance function (Robinson 1988): what an own-firm model predicts beyond a line in x, times a factor."""

    model: Part
    line: np.ndarray  # (1 + p, K)
    factor: float = 1.0

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the value for every focal row of each cross-section, (n_focal, K)."""
        return by_section(self.factor * self.of(sections), sections)

    def of(self, sections: Sequence[CrossSection]) -> np.ndarray:
        """Return the values of all focal rows, before the factor, (n, K)."""
        return np.concatenate(self.model.predict(sections)) - _constant_and_x(stacked_rows(sections)) @ self.line


@dataclass(frozen=True)
class CrossFitted:
    """A nuisance function, and cross-fitted values of the rows that it was fitted to, (n, K)."""

    function: Nuisance
    values: np.ndarray


def fit_nuisance(fit: FitOwn, sections: Sequence[CrossSection], loss: Loss, within: bool) -> CrossFitted | None:
    """Return the nuisance function of all rows, and its cross-fitted values.

    Values are of models that were fitted to other periods (to other rows, where there are few periods), so that they do not hold
    a row's own error (Chernozhukov et al. 2018). Their factor is the slope of the outcome on them, shrunk by its standard error
    (:meth:`LaterRows.factor`), of differences within periods where ``within``. None where it is zero, and with fewer rows than a
    held-out test needs.

    References
    ----------
    Chernozhukov, Chetverikov, Demirer, Duflo, Hansen, Newey and Robins (2018), Double/debiased machine learning for treatment and
    structural parameters, Econometrics Journal 21.
    Robinson (1988), Root-N-consistent semiparametric regression, Econometrica 56.
    """
    if count_rows(sections) < FEW_ROWS:
        return None
    whole = _fitted(fit, sections)
    if whole is None:
        return None
    fold = section_numbers(sections) % FOLDS
    if len(sections) < FOLDS:
        fold = stacked_rows(sections).checksums() % FOLDS
    folds = by_section(fold, sections)
    own = np.concatenate([section.own_term for section in sections])
    values = np.zeros_like(own)
    for held_out in range(FOLDS):
        rest = [s.take(np.flatnonzero(of != held_out), slice(None)) for s, of in zip(sections, folds, strict=True)]
        fitted = _fitted(fit, [section for section in rest if len(section.focal)])
        if fitted is None:
            return None
        values[fold == held_out] = fitted.of(sections)[fold == held_out]
    factor = LaterRows(sections, own, loss, ALL * within).factor(values)
    if factor == 0:
        return None
    return CrossFitted(replace(whole, factor=factor), factor * values)


def _fitted(fit: FitOwn, sections: Sequence[CrossSection]) -> Nuisance | None:
    """Return an own-firm model, and the line that is nearest to what it predicts."""
    model = fit(sections)
    if model is None:
        return None
    rows = stacked_rows(sections)
    root = np.sqrt(rows.loss_weights)[:, None]
    line, *_ = np.linalg.lstsq(root * _constant_and_x(rows), root * np.concatenate(model.predict(sections)), rcond=None)
    return Nuisance(model, line)


def _constant_and_x(rows: Rows) -> np.ndarray:
    # as in the own slopes of heads; curves are bounded, too, so that no outlier has a value of any size
    return np.column_stack([np.ones(len(rows)), rows.x.clip(-CLIP, CLIP)])
