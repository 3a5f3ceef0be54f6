"""Nonlinear own-firm models (curves, products, trees, forests): no interaction of own characteristics passes for a peer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from peerattn.exceptions import InputError
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.linear import Lines, by_section, fit_best_line, stacked_rows
from peerattn.models.learners.losses import Pinball, cross_entropy
from peerattn.models.learners.training import Training
from peerattn.scaling import centre_and_spread

KNOTS = 5  # of a curve, at quantiles: it is linear between them and constant beyond
TREES = 150  # of gradient boosting
FOREST = 100
ROWS_OF_TREE = 4000  # trees of a forest, and the rows that each is drawn at most
LEAF = 5, 20  # rows of a leaf of these, at least and at most
MOST_COLUMNS = 600  # of curves and products; with more characteristics products are left out


@dataclass(frozen=True)
class Curves:
    """A ridge regression on a curve of every characteristic, and with ``products`` on all products of two.

    A curve is linear between knots, which are quantiles, and constant beyond. The penalty is the one of least generalised
    cross-validation (Golub, Heath and Wahba 1979).
    """

    knots: list[np.ndarray]
    center: np.ndarray
    spread: np.ndarray
    products: bool
    slope: np.ndarray
    intercept: float

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, 1)."""
        columns = self.columns(stacked_rows(sections).x)
        return by_section((columns @ self.slope + self.intercept)[:, None], sections)

    def columns(self, x: np.ndarray) -> np.ndarray:
        """Return the columns of these characteristics, (n, q)."""
        bounded = _bounded(x, self.knots)
        parts = [bounded]
        parts += [np.clip(bounded[:, [k]] - knots[1:-1], 0, None) for k, knots in enumerate(self.knots)]
        if self.products:
            z = (bounded - self.center) / self.spread
            first, second = np.triu_indices(z.shape[1], 1)
            parts.append(z[:, first] * z[:, second])
        return np.concatenate(parts, axis=1)


def fit_curves(training: Training) -> "Curves | Estimated | None":
    """Fit curves, and products where these are not too many, to the focal rows; None without characteristics.

    Of classes it is a logistic regression on them.
    """
    rows = stacked_rows(training.sections)
    weight = rows.loss_weights
    if not rows.x.shape[1]:
        return None
    shape = _flat_curves(rows.x, None if (weight == 1).all() else weight)
    if training.problem.loss is cross_entropy:
        return fit_estimator(training, LogisticRegression(max_iter=1000), curves=shape)
    Z = shape.columns(rows.x)
    center, size = centre_and_spread(Z, weight=weight)
    level = float(np.average(rows.outcomes, weights=weight))
    slope = ridge((Z - center) / size, rows.outcomes - level, weight) / size
    return replace(shape, slope=slope, intercept=level - float(center @ slope))


def _flat_curves(x: np.ndarray, weight: np.ndarray | None) -> Curves:
    """Return curves with their knots, and without slopes."""
    p = x.shape[1]
    # columns grow with the square of p
    products = p * (p - 1) // 2 + p * KNOTS <= MOST_COLUMNS
    quantiles = np.linspace(0, 1, KNOTS) * 0.98 + 0.01
    knots = [np.unique(weighted_quantiles(column, quantiles, weight)) for column in x.T]
    return Curves(knots, *centre_and_spread(_bounded(x, knots), weight=weight), products, np.zeros(0), 0.0)


def weighted_quantiles(x: np.ndarray, at: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return quantiles of values (n,), linear between observations; a weight of 2 equals the value twice."""
    if weight is None:
        return np.quantile(x, at)
    order = x.argsort()
    up_to = weight[order].cumsum()
    place = at * max(up_to[-1] - 1, 0)
    below, above = (x[order[np.searchsorted(up_to, np.floor(place) + k, side="right").clip(max=len(x) - 1)]] for k in (0, 1))
    return below + (place - np.floor(place)) * (above - below)


def _bounded(x: np.ndarray, knots: Sequence[np.ndarray]) -> np.ndarray:
    return x.clip([at[0] for at in knots], [at[-1] for at in knots])


def ridge(Z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return ridge coefficients (q,) at the penalty of least generalised cross-validation; columns have unit variance."""
    n = float(weight.sum())
    # in the eigenvectors every penalty costs one division
    values, vectors = np.linalg.eigh((Z * weight[:, None]).T @ Z)
    moment = vectors.T @ ((Z * weight[:, None]).T @ y)
    values = values.clip(0)
    penalties = n * np.logspace(-5, 1, 13)
    shrunk = moment[:, None] / (values[:, None] + penalties)
    errors = (weight * y * y).sum() - (shrunk * (2 * moment[:, None] - values[:, None] * shrunk)).sum(0)
    freedom = 1 + (values[:, None] / (values[:, None] + penalties)).sum(0)
    best = int(np.argmin(errors / (1 - freedom / n).clip(1e-3) ** 2))
    return np.asarray(vectors @ shrunk[:, best])


def forest(n_rows: int, n_periods: int, seed: int) -> ExtraTreesRegressor:
    """Return extremely randomised trees (Geurts, Ernst and Wehenkel 2006), each of rows that are drawn with replacement.

    A leaf holds more rows than a firm has periods (5 to 20), so that it is not one firm: a forest that knows firms by their
    characteristics predicts nothing of others.
    """
    return ExtraTreesRegressor(
        FOREST,
        n_jobs=1,  # sums of trees in one order, whatever backend a caller has chosen
        min_samples_leaf=int(np.clip(n_periods + 1, *LEAF)),
        bootstrap=True,
        max_samples=min(1.0, ROWS_OF_TREE / n_rows),
        random_state=seed,
    )


def with_levels(rows: Rows, code_levels: Sequence[int]) -> np.ndarray:
    """Return characteristics followed by one column a level of each code (all zero where it is unknown), (n, p)."""
    levels = [np.eye(n + 1)[rows.levels[:, c]][:, 1:] for c, n in enumerate(code_levels)]
    return np.concatenate([rows.x, *levels], axis=1)


@dataclass(frozen=True)
class Estimated:
    """A scikit-learn estimator of the firm's own characteristics and codes.

    It reads codes as one column a level; or, with ``places``, as numbers: for each code the place of every level in the order of
    its mean outcome in training (Fisher 1958), in which a tree finds the best split of a code's levels; NaN where it is unknown.
    ``accompanying``: a line that it adds to, as it was fitted to what that leaves. ``unit``: by what its predictions are
    multiplied. ``curves``: it reads their columns in place of characteristics and codes.
    """

    estimator: Any
    levels: tuple[int, ...]
    n_outputs: int
    places: tuple[np.ndarray, ...] | None = None
    accompanying: Lines | None = None
    unit: float = 1.0
    curves: Curves | None = None

    def inputs(self, rows: Rows, *more: np.ndarray) -> np.ndarray:
        """Return the columns that the estimator reads of these rows, and further ones."""
        if self.curves is not None:
            return self.curves.columns(rows.x)
        if self.places is None:
            return with_levels(rows, self.levels)
        codes = [place[rows.levels[:, c]][:, None] for c, place in enumerate(self.places)]
        return np.concatenate([rows.x, *codes, *more], axis=1)

    def predict(self, sections: Sequence[CrossSection]) -> list[np.ndarray]:
        """Return the prediction of every focal row of each cross-section, (n_focal, K)."""
        return by_section(self.of(stacked_rows(sections)), sections)

    def of(self, rows: Rows, *more: np.ndarray) -> np.ndarray:
        """Return the prediction of every row, given further columns, (n, K): numbers, or log odds of a classifier."""
        inputs = self.inputs(rows, *more)
        if not len(inputs):
            return np.zeros((0, self.n_outputs))
        if not is_classifier(self.estimator):
            found = self.unit * np.asarray(self.estimator.predict(inputs), dtype=float).reshape(len(inputs), -1)
            if self.accompanying is not None:
                found += self.accompanying.predict(rows)
            return found
        probability = np.zeros((len(inputs), max(self.n_outputs, 2)))  # a fold may lack a class
        probability[:, self.estimator.classes_.astype(int)] = self.estimator.predict_proba(inputs)
        log = np.log(np.clip(probability, 1e-6, None))
        if self.n_outputs == 1:
            return log[:, 1:] - log[:, :1]
        return log


def fit_trees(training: Training, *more: np.ndarray) -> Estimated:
    """Fit gradient boosting of the loss, without early stopping, which would hold out random rows of a panel."""
    loss = training.problem.loss
    options: dict[str, Any] = {"learning_rate": 0.05, "max_iter": TREES, "max_leaf_nodes": 15}
    boosting = HistGradientBoostingRegressor
    if loss is cross_entropy:
        boosting = HistGradientBoostingClassifier
    if isinstance(loss, Pinball):
        options |= {"loss": "quantile", "quantile": loss.quantile}
    return fit_estimator(training, boosting(early_stopping=False, random_state=0, **options), *more, by_place=True)


def fit_forest(training: Training, seed: int, accompanying: Lines | None = None) -> Estimated:
    """Fit a forest to the focal rows, or to what a line leaves of them."""
    n_rows = sum(len(section.focal) for section in training.sections)
    trees = forest(n_rows, len(training.sections), seed)
    return fit_estimator(training, trees, by_place=True, accompanying=accompanying, drawn=True)


def fit_line_and_forest(training: Training, seed: int) -> Estimated | None:
    """Fit the best line of one characteristic, and a forest to what it leaves (Zhang, Nettleton and Zhu 2019).

    Leaves are constant: where an outcome follows its own last value one for one, a line predicts better than many of them.
    """
    line = fit_best_line(training.sections)
    if line is None:
        return None
    return fit_forest(training, seed, line)


def fit_estimator(
    training: Training,
    given: Any,
    *more: np.ndarray,
    by_place: bool = False,
    accompanying: Lines | None = None,
    drawn: bool = False,
    curves: Curves | None = None,
) -> Estimated:
    """Fit an estimator to the focal rows (and further columns of them); it reads codes as one column a level, or ``by_place``.

    One whose rows are ``drawn`` gets them in the order of their numbers: which are drawn does not depend on the names of firms.
    """
    rows = stacked_rows(training.sections)
    levels = training.problem.code_levels
    found = Estimated(clone(given), levels, training.problem.n_outputs, accompanying=accompanying, curves=curves)
    y = rows.outcomes
    if accompanying is not None:
        y = y - accompanying.predict(rows)[:, 0]
    if by_place:
        found = replace(found, places=tuple(_places(rows.levels[:, c], y, n) for c, n in enumerate(levels)))
    if by_place and not is_classifier(given):
        # trees stop where the variance of a node is below a constant, and sum in single precision
        found = replace(found, unit=float(y.std()) or 1.0)
        y = y / found.unit
    weight = {}
    # weights of one are none: with some a forest draws other rows
    if rows.loss_weight is not None and (rows.loss_weight != 1).any():
        if not has_fit_parameter(given, "sample_weight"):
            raise InputError(
                f"own, learners: {type(given).__name__} takes no sample_weight, but weights were given: use one that does."
            )
        weight["sample_weight"] = rows.loss_weight
    if is_classifier(given) and len(np.unique(y)) == 1:  # there is nothing to learn before the second class is met
        found = replace(found, estimator=DummyClassifier())
    inputs = found.inputs(rows, *more)
    if drawn:
        order = _order(inputs, y)
        inputs = inputs[order]
        y = y[order]
        weight = {name: each[order] for name, each in weight.items()}
    found.estimator.fit(inputs, y, **weight)
    return found


def _order(inputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the order of rows by their outcome, and of equal ones by a sum over their inputs, (n,)."""
    # factors whose sums differ wherever inputs do
    factors = np.sqrt(np.arange(2, 2 + inputs.shape[1]))
    return np.lexsort((np.nan_to_num(inputs) @ factors, y))


def _places(code: np.ndarray, target: np.ndarray, n: int) -> np.ndarray:
    """Return the place of every level in the order of its mean; a level without a row is placed at the mean."""
    count = np.bincount(code, minlength=n + 1)
    total = np.bincount(code, target - target.mean(), minlength=n + 1)
    place = (total / np.maximum(count, 1)).argsort().argsort().astype(float)
    # unknown: a split sends it to the side that fits better
    place[0] = np.nan
    return place
