"""Estimators own their parts: chains of bases inside the package are short."""

import importlib
import inspect
import pkgutil

import pytest
from sklearn.base import BaseEstimator

import peerattn
from peerattn.models import PanelEstimator

LONGEST = 3


def estimators():
    """Return every estimator class of the models, private and abstract ones too."""
    found = set()
    package = importlib.import_module("peerattn.models")
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        classes = [value for value in vars(module).values() if inspect.isclass(value)]
        found |= {value for value in classes if issubclass(value, BaseEstimator) and ours(value)}
    return sorted(found, key=lambda value: value.__name__)


def ours(one):
    return one.__module__.split(".")[0] == "peerattn"


def longest_chain(one):
    """Return the longest chain of a class and its bases of this package, the class first."""
    below = max((longest_chain(base) for base in one.__bases__), key=len, default=[])
    return [one.__name__, *below] if ours(one) else below


def test_a_chain_is_counted_along_the_bases():
    class Base(PanelEstimator):
        __module__ = "peerattn.models"

    class Middle(dict):
        pass

    class Leaf(Middle, Base):
        __module__ = "peerattn.models"

    assert longest_chain(Leaf) == ["Leaf", "Base", "PanelEstimator"]
    assert longest_chain(Middle) == []


@pytest.mark.parametrize("estimator", estimators(), ids=lambda one: one.__name__)
def test_no_estimator_stands_on_a_tower_of_bases(estimator):
    chain = longest_chain(estimator)
    assert len(chain) <= LONGEST, " -> ".join(chain)


def test_every_public_estimator_is_among_them_and_stands_on_the_one_base():
    listed = set(estimators())
    for home in (peerattn, peerattn.models):
        for name in home.__all__:
            value = getattr(home, name)
            if inspect.isclass(value) and issubclass(value, BaseEstimator) and value.__module__.startswith("peerattn.models"):
                assert value in listed
                assert issubclass(value, PanelEstimator) or name == "PeerFeatures"  # a transformer
