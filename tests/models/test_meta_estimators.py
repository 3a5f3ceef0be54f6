"""scikit-learn's meta-estimators take the models on labelled rows: predictions are arrays in the order of the rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier, MultiOutputRegressor, RegressorChain

from peerattn import (
    CrossSectionalRidge,
    IndustryPeerRegressor,
    NadarayaWatsonRegressor,
    PeerAttentionClassifier,
    PeerAttentionRegressor,
)
from peerattn.evaluation.inference.interval_regressor import IntervalRegressor
from peerattn.models import (
    FamaMacBethRegressor,
    FirmMeanRegressor,
    IndustryMeansRegressor,
    LastValueRegressor,
    LinearInMeansRegressor,
    OwnCharacteristicsRegressor,
    OwnHistoryRegressor,
)

pytestmark = [
    pytest.mark.usefixtures("fewest_steps"),
    # folds of rows are small cross-sections, whose periods training had, too; the outcome is a characteristic's exponential
    pytest.mark.filterwarnings("ignore::peerattn.exceptions.PeerAttnWarning"),
]

RNG = np.random.default_rng(0)
INDEX = pd.MultiIndex.from_product([range(12), range(2001, 2007)], names=["firm", "period"])
#: neither sorted by firm nor by period
INDEX = INDEX[RNG.permutation(len(INDEX))]
X = pd.DataFrame(RNG.normal(size=(len(INDEX), 2)), INDEX, ["size", "lev"])
Y = np.exp(X["size"] + 0.1 * RNG.normal(size=len(X))).rename("value")
UP = pd.Series(np.where(X["size"] + RNG.normal(size=len(X)) > 0, "up", "down"), INDEX)
RATING = pd.Series(np.resize(list("abc"), len(X)), INDEX)
KERNEL = NadarayaWatsonRegressor(bandwidth=0.5)
CLASSES = PeerAttentionClassifier(n_heads=0, own="linear", random_state=0)
BOTH = [("kernel", KERNEL), ("firm mean", FirmMeanRegressor()), ("ols", LinearRegression())]
BOTH_CLASSES = [("attention", CLASSES), ("logit", LogisticRegression())]
TWO = pd.DataFrame({"one": Y, "other": np.log(Y)})
TWO_CLASSES = pd.DataFrame({"one": UP, "other": np.where(X["lev"] > 0, "up", "down")})

REGRESSORS = {
    "transformed": TransformedTargetRegressor(KERNEL, func=np.log, inverse_func=np.exp),
    "stacking": StackingRegressor(BOTH, cv=3),
    "stacking, passthrough": StackingRegressor(BOTH, final_estimator=KERNEL, cv=3, passthrough=True),
    "voting": VotingRegressor(BOTH),
    "bagging": BaggingRegressor(KERNEL, n_estimators=2, random_state=0),
    "boosting": AdaBoostRegressor(KERNEL, n_estimators=2, random_state=0),
    "search": GridSearchCV(KERNEL, {"bandwidth": [0.3, 0.5]}, scoring="neg_mean_absolute_error", error_score="raise"),
    "selection": RFE(OwnCharacteristicsRegressor(), n_features_to_select=1, importance_getter="slopes_"),
}
CLASSIFIERS = {
    "calibration": CalibratedClassifierCV(CLASSES, cv=3),
    "isotonic": CalibratedClassifierCV(CLASSES, cv=3, method="isotonic", ensemble=False),
    "stacking": StackingClassifier(BOTH_CLASSES, cv=3),
    "voting": VotingClassifier(BOTH_CLASSES, voting="soft"),
    "bagging": BaggingClassifier(CLASSES, n_estimators=2, random_state=0),
    "one against the rest": OneVsRestClassifier(CLASSES),
    "threshold": FixedThresholdClassifier(CLASSES, threshold=0.3, pos_label="up"),
    "tuned threshold": TunedThresholdClassifierCV(CLASSES, cv=3, thresholds=5),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name):
    found = clone(REGRESSORS[name]).fit(X, Y).predict(X)
    assert type(found) is np.ndarray and found.shape == (len(X),)
    assert np.isfinite(found).all() and np.corrcoef(found, Y)[0, 1] > 0.7


def test_a_transformed_target_is_the_model_of_the_logarithm():
    expected = np.exp(clone(KERNEL).fit(X, np.log(Y)).predict(X))
    np.testing.assert_allclose(clone(REGRESSORS["transformed"]).fit(X, Y).predict(X), expected, rtol=1e-12)


def test_regressors_of_two_outcomes():
    expected = np.column_stack([clone(KERNEL).fit(X, TWO[name]).predict(X) for name in TWO])
    np.testing.assert_allclose(MultiOutputRegressor(KERNEL).fit(X, TWO).predict(X), expected, rtol=1e-12)
    assert np.isfinite(RegressorChain(KERNEL).fit(X, TWO).predict(X)).all()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name):
    model = clone(CLASSIFIERS[name]).fit(X, UP)
    found, probability = model.predict(X), model.predict_proba(X)
    assert type(found) is np.ndarray and set(found) == {"down", "up"}
    assert type(probability) is np.ndarray and probability.shape == (len(X), 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert (found == UP).mean() > 0.6


@pytest.mark.parametrize(
    "meta",
    [
        OneVsRestClassifier(CLASSES),
        OneVsOneClassifier(CLASSES),
        OutputCodeClassifier(CLASSES, random_state=0),
    ],
)
def test_classifiers_of_three_classes(meta):
    assert set(clone(meta).fit(X, RATING).predict(X)) <= set("abc")


def test_classifiers_of_two_outcomes():
    expected = clone(CLASSES).fit(X, UP).predict_proba(X)
    found = MultiOutputClassifier(CLASSES).fit(X, TWO_CLASSES).predict_proba(X)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    assert ClassifierChain(CLASSES).fit(X, TWO_CLASSES == "up").predict_proba(X).shape == (len(X), 2)


def test_a_fitted_classifier_is_calibrated():
    fitted = FrozenEstimator(clone(CLASSES).fit(X, UP))
    assert np.isfinite(CalibratedClassifierCV(fitted).fit(X, UP).predict_proba(X)).all()


def test_columns_are_selected():
    selected = SequentialFeatureSelector(KERNEL, n_features_to_select=1, cv=3).fit(X, Y)
    assert selected.get_feature_names_out().tolist() == ["size"]


@pytest.mark.parametrize("scoring", ["roc_auc", "average_precision", "neg_log_loss", "neg_brier_score", "f1_macro"])
def test_scores_of_probabilities(scoring):
    found = cross_val_score(CLASSES, X, (UP == "up").astype(int), cv=3, scoring=scoring, error_score="raise")
    assert np.isfinite(found).all() and len(set(found)) == 3


def test_scores_of_three_classes():
    found = cross_val_score(CLASSES, X, RATING, cv=3, scoring="roc_auc_ovr", error_score="raise")
    assert np.isfinite(found).all()


def test_predictions_by_folds():
    assert type(cross_val_predict(KERNEL, X, Y, cv=3)) is np.ndarray
    assert cross_val_predict(CLASSES, X, UP, cv=3, method="predict_proba").shape == (len(X), 2)


@pytest.mark.parametrize(
    "model",
    [
        KERNEL,
        CrossSectionalRidge(alpha=1.0),
        FamaMacBethRegressor(),
        FirmMeanRegressor(),
        IndustryMeansRegressor(),
        IndustryPeerRegressor(),
        IntervalRegressor(LinearRegression(), level=0.6),
        LastValueRegressor(),
        LinearInMeansRegressor(effects=()),
        OwnCharacteristicsRegressor(),
        OwnHistoryRegressor(),
        PeerAttentionRegressor(n_heads=0, own="linear", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_predictions_are_arrays_in_the_order_of_the_rows(model):
    fitted = clone(model).fit(X, Y)
    found = fitted.predict(X)
    assert type(found) is np.ndarray and found.shape == (len(X),)
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_allclose(fitted.predict(X.iloc[order].swaplevel()), found[order], rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(X.iloc[order].reset_index()), found[order], rtol=1e-9)
