"""scikit-learn's contract, to the letter, for every estimator: no expected failure."""

import importlib
import inspect
import pkgutil
from functools import partial

import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import SkipTestWarning
from sklearn.linear_model import ElasticNetCV
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, check_estimator

import peerattn
from peerattn.models import own_characteristics
from peerattn.models.attention.options import AttentionOptions
from peerattn.models.learners import transformer
from peerattn.models.stacking import origins

pytestmark = [
    pytest.mark.usefixtures("fewest_steps"),  # the contract does not ask what is found
    pytest.mark.filterwarnings("ignore::peerattn.exceptions.LostPeriodWarning"),  # its rows have no labels
]


@pytest.fixture(scope="module", autouse=True)
def _few_penalties_and_steps():
    with pytest.MonkeyPatch.context() as few:
        few.setattr(transformer, "ROWS_PER_STEP", 10**6)  # the fewest steps, however many rows
        few.setattr(origins, "FOLDS", 2)  # of a matrix, which is one cross-section
        few.setattr(own_characteristics, "ElasticNetCV", partial(ElasticNetCV, alphas=[0.01, 1.0]))
        yield


#: Parts whose estimators read a matrix or a panel; those of ``sequence`` read texts, images, graphs or series.
ROOMS = ("models", "panel", "evaluation")
OPTIONAL = {"check_array_api_input"}  # runs where SCIPY_ARRAY_API is set


def estimators():
    """Every class of the package that fits a matrix and can be made without arguments; bases are left out."""
    found = set()
    for room in ROOMS:
        package = importlib.import_module(f"peerattn.{room}")
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            module = importlib.import_module(info.name)
            found |= {
                value
                for value in vars(module).values()
                if inspect.isclass(value)
                and issubclass(value, BaseEstimator)
                and value.__module__ == module.__name__
                and not value.__name__.startswith("_")
                and value.__init__ is not object.__init__
                and not any(getattr(getattr(value, n), "__isabstractmethod__", False) for n in dir(value))
                and all(p.default is not p.empty for p in inspect.signature(value).parameters.values())
            }
    return sorted(found, key=lambda value: value.__name__)


def test_the_list_holds_every_public_estimator():
    names = {estimator.__name__ for estimator in estimators()}
    public = {
        name
        for home in (peerattn, peerattn.models)
        for name in home.__all__
        if inspect.isclass(value := getattr(home, name))
        and issubclass(value, BaseEstimator)
        and not value.__module__.startswith("peerattn.sequence")
    }
    assert public - names == {"PanelEstimator"}  # the base
    assert len(names) >= 13


def instances():
    """Every estimator at its defaults, and attention whose heads all enter, trained in few steps."""
    everything = [(estimator.__name__, estimator()) for estimator in estimators()]
    attention = [name for name, one in everything if isinstance(one, AttentionOptions)]
    assert attention == ["PeerAttentionClassifier", "PeerAttentionRegressor", "StackedPeerRegressor"]
    return [*everything, ("PeerAttentionRegressor unpruned", peerattn.PeerAttentionRegressor(kappa=None))]


@pytest.mark.filterwarnings("ignore:X carries neither")  # its frames have no labels
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [pytest.param(one, id=name) for name, one in instances()])
def test_check_estimator(estimator):
    results = check_estimator(estimator, on_fail="raise", on_skip=None)
    assert len(results) > 40
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= OPTIONAL


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:X carries neither")
@pytest.mark.parametrize("estimator", estimators())
def test_names_of_columns_are_checked(estimator):
    assert issubclass(SkipTestWarning, Warning)
    check_dataframe_column_names_consistency(estimator.__name__, estimator())
