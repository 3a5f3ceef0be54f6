"""A ratio's own ingredients are found among its explanations; what merely goes along with it is not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from peerattn import WalkForward, audit, load_multiples
from peerattn.datasets import load_market_values
from peerattn.evaluation.leak_audit.ingredients import ingredients


@pytest.fixture(scope="module")
def rows():
    panel = load_multiples()
    cap = load_market_values().reindex(panel.X.index)
    return panel, cap, cap / np.exp(panel.y)


@pytest.mark.parametrize("form", ["levels", "logs", "one of them a log"])
def test_price_and_book_value_beside_price_to_book(rows, form):
    panel, cap, book = rows
    made = {
        "levels": {"cap": cap, "book": book},
        "logs": {"cap": np.log(cap), "book": np.log(book)},
        "one of them a log": {"cap": cap, "book": book * 3, "more": 1 / cap},
    }[form]
    X = panel.X.select_dtypes("number").assign(**made)
    for y in (panel.y, np.exp(panel.y)):
        found = ingredients(X, y.to_numpy())
        assert "book" in found and len(found) == 2, found


def test_the_embedded_panel_and_persistent_outcomes_are_clean(rows):
    panel, cap, _ = rows
    for name in ("log_pb", "log_ps", "log_pe", "log_cap_ebitda"):
        one = load_multiples(name)
        assert not ingredients(one.X.select_dtypes("number"), one.y.to_numpy()), name
    rng = np.random.default_rng(0)
    sales, growth = rng.lognormal(3, 2, 500), rng.normal(0, 0.05, 500)
    later = sales * np.exp(
        0.5 * growth + rng.normal(0, 0.02, 500)
    )  # next year's sales: last year's say nearly all
    assert not ingredients(pd.DataFrame({"sales": sales, "growth": np.exp(growth)}), later)
    assert not ingredients(pd.DataFrame({"cap": cap}), panel.y.to_numpy())


def test_the_audit_refutes_it(rows):
    panel, cap, book = rows
    kept = panel.X.index.get_level_values("period") < "2014-07"
    X = panel.X.assign(cap=cap, book=book)[kept]
    found = audit(Ridge(), X, panel.y[kept], cv=WalkForward(1, 1), task="explain")
    assert not found.passed
    assert "'cap'" in str(found) and "ingredient" in str(found)
