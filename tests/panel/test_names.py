"""A column's role is data, never read from how its name is spelled: random names change no figure."""

import warnings

import numpy as np
import pandas as pd
import pytest

from peerattn import PeerAttentionRegressor, WalkForward, compare
from peerattn.exceptions import PeerAttnWarning
from peerattn.models import (
    CrossSectionalRidge,
    FamaMacBethRegressor,
    IndustryMeansRegressor,
    IndustryPeerRegressor,
    LinearInMeansRegressor,
    NadarayaWatsonRegressor,
    OwnCharacteristicsRegressor,
)
from peerattn.panel import PanelEncoder

# what is found is beside the point; heads of few steps would else enter by nothing
pytestmark = pytest.mark.usefixtures("fewest_steps", "heads_in_full")

PLAIN = ["a", "b", "c", "s"]
PIECES = [
    "a",
    "b",
    "s",
    "=",
    "_missing",
    "[",
    "]",
    "(",
    "2)",
    " ",
    "u",
    "0100",
    "firm",
    "period",
    "intercept",
    "outcome",
]
PIECES += [
    "é",
    "利",
    "\n",
    "'",
    '"',
    "{x}",
    "%",
    "peers' ",
    "x0",
    "1",
    "0",
    "nan",
    "None",
    "__",
    "peers of peers' ",
]


def random_names(rng):
    """Four different names of columns: text out of dangerous pieces, or integers; the last is of the code."""
    while True:
        names = [
            int(rng.integers(-2, 5)) if rng.random() < 0.2 else "".join(rng.choice(PIECES, rng.integers(1, 4))) for _ in PLAIN
        ]
        related = [f"{names[0]}_missing", f"{names[3]}=u", f"{names[0]}_missing (2)", str(names[0])]
        for k in (1, 2):
            names[k] = str(rng.choice(related)) if rng.random() < 0.3 else names[k]
        if len(set(names)) == len(names):
            return names


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([list("ABCDEFGHIJ"), range(2001, 2007)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(60, 3)), index, PLAIN[:3])
    X = X.mask(rng.random(X.shape) < 0.2).assign(s=rng.choice(["u", "v", None], 60))
    return X, X["a"].fillna(0) + rng.normal(size=60)


def figures(model, X, y, code):
    """Predictions of a model whose option ``industry`` names the code."""
    model = model.set_params(industry=code) if "industry" in model.get_params() else model
    model = model.fit(X, y)
    if hasattr(model, "transform"):
        return model.transform(X).to_numpy()
    return np.asarray(model.predict(X))


def check(model, panel, n):
    X, y = panel
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PeerAttnWarning)
        expected = figures(model, X, y, "s")
        for _ in range(n):
            names = random_names(rng)
            np.testing.assert_array_equal(figures(model, X.set_axis(names, axis=1), y, names[3]), expected, err_msg=repr(names))


def test_forty_sets_of_names_change_no_matrix(panel):
    check(PanelEncoder(), panel, 40)


@pytest.mark.parametrize(
    "model, n",
    [
        (OwnCharacteristicsRegressor(), 10),
        (IndustryPeerRegressor(), 10),
        (CrossSectionalRidge(), 5),
        (FamaMacBethRegressor(), 5),
        (IndustryMeansRegressor(), 5),
        (LinearInMeansRegressor(), 5),
        (NadarayaWatsonRegressor(), 5),
        (PeerAttentionRegressor(n_heads=1, kappa=None, random_state=0), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_names_change_no_figure_of_any_model(model, n, panel):
    check(model, panel, n)


@pytest.mark.filterwarnings("ignore::peerattn.exceptions.PeerAttnWarning")
def test_names_change_no_figure_of_a_comparison(panel):
    X, y = panel
    rng, tables = np.random.default_rng(2), []
    for names in (PLAIN, *(random_names(rng) for _ in range(2))):
        result = compare(
            ["ols", "industry_characteristics", "fama_macbeth", "boosting", "industry"],
            X.set_axis(names, axis=1),
            y,
            industry=names[3],
            cv=WalkForward(2, 2),
            decomposition=False,
            verbose=False,
        )
        tables.append(result.predictions.to_numpy())
        np.testing.assert_array_equal(tables[-1], tables[0], err_msg=repr(names))


def test_names_of_the_matrix_are_unique(panel):
    X, _ = panel
    rng = np.random.default_rng(3)
    for _ in range(100):
        encoder = PanelEncoder().fit(X.set_axis(random_names(rng), axis=1))
        names = encoder.get_feature_names_out()
        assert len(set(names)) == len(names)
        assert [column.role for column in encoder.columns_] == ["characteristic"] * 3 + ["missing"] * 3 + ["level"] * 2
