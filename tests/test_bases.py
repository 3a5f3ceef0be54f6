"""Objects own their parts: chains of bases inside the package are short."""

import importlib
import inspect
import pkgutil

import pytest
from sklearn.base import BaseEstimator

import peerattn
import peerattn.models
from peerattn.models import PanelEstimator

LONGEST = 3


def classes():
    """Return every class of the package, private and abstract ones too."""
    names = [info.name for info in pkgutil.walk_packages(peerattn.__path__, "peerattn.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    found = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    return sorted(filter(ours, found), key=lambda value: f"{value.__module__}.{value.__qualname__}")


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


@pytest.mark.parametrize("one", classes(), ids=lambda one: f"{one.__module__}.{one.__name__}")
def test_no_class_stands_on_a_tower_of_bases(one):
    chain = longest_chain(one)
    assert len(chain) <= LONGEST, " -> ".join(chain)


def test_every_public_panel_estimator_is_among_them_and_stands_on_the_one_base():
    listed = set(classes())
    for home in (peerattn, peerattn.models):
        for name in home.__all__:
            value = getattr(home, name)
            if inspect.isclass(value) and issubclass(value, BaseEstimator) and value.__module__.startswith("peerattn.models"):
                assert value in listed
                assert issubclass(value, PanelEstimator) or name == "PeerFeatures"  # a transformer
