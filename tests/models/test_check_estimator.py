"""scikit-learn's contract, to the letter: the default instance of every estimator, no expected failure."""

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, check_estimator

from peerattn import IndustryPeerRegressor, NadarayaWatsonRegressor, PanelEncoder, PeerAttentionRegressor

ESTIMATORS = [IndustryPeerRegressor, NadarayaWatsonRegressor, PanelEncoder, PeerAttentionRegressor]
OPTIONAL = {"check_array_api_input"}  # runs where SCIPY_ARRAY_API is set


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_check_estimator(estimator):
    results = check_estimator(estimator(), on_fail="raise", on_skip=None)
    assert len(results) > 40
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= OPTIONAL


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_names_of_columns_are_checked(estimator):
    assert issubclass(SkipTestWarning, Warning)
    check_dataframe_column_names_consistency(estimator.__name__, estimator())
