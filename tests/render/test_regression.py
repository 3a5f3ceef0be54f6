"""One vocabulary for regressions, and the table of a paper."""

import numpy as np
import pandas as pd
import pytest

from peerattn.evaluation import calibration
from peerattn.exceptions import InputError
from peerattn.models import LinearInMeansRegressor
from peerattn.network import Difference, PeerNetwork, dyadic_regression, mrqap
from peerattn.render import Regression, regression_table


def result(**given):
    series = {"params": [-0.5, 0.0001234], "std_errors": [0.1, 0.5], "pvalues": [0.001, 0.07]}
    made = {name: pd.Series(values, ["size", "R&D_x"]) for name, values in (series | given).items()}
    return Regression(**made, nobs=1234, rsquared=-0.25, freedom=30, title="What makes a peer?")


def every_result():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(40), range(14)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=560)}, index)
    y = X["size"] + rng.normal(size=560)
    firms = [f"F{k:02d}" for k in range(26)]
    network = PeerNetwork.from_matrices({None: (firms, None, rng.random((26, 26)) * (1 - np.eye(26)))}, row_normalized=False)
    pairs = {"gap": Difference(pd.Series(rng.normal(size=26), firms))}
    yield dyadic_regression(network, pairs)
    yield mrqap(network, pairs, n_permutations=9)
    yield LinearInMeansRegressor().fit(X, y).results_
    yield calibration(y, X["size"], index.get_level_values(1), firm=index.get_level_values(0))


@pytest.mark.parametrize("found", list(every_result()), ids=lambda found: type(found).__name__)
def test_every_regression_speaks_the_same_words(found):
    columns = ["params", "std_errors", "tstats", "pvalues", "lower", "upper"]
    assert list(found.to_frame().columns) == columns and isinstance(found.nobs, int) and found.rsquared <= 1
    assert (found.params.index == found.std_errors.index).all() and (found.params.index == found.pvalues.index).all()
    np.testing.assert_allclose(found.tstats, found.params / found.std_errors)
    for shown in (
        str(found),
        found.summary().text(),
        found.to_markdown(),
        found.to_latex(label="tab:x"),
        found._repr_html_(),
    ):
        assert str(found.params.index[-1]) in shown.replace("\\", "")
    assert r"\label{tab:x}" in found.to_latex(label="tab:x") and r"\toprule" in found.to_latex()
    assert len(repr(found).splitlines()) == 1 and f"{found.nobs:,}" in str(found)


def test_the_table_of_a_paper(tmp_path):
    latex = result().to_latex(tmp_path / "t.tex", label="tab:peers", caption="Who is a peer", parentheses="tstats")
    assert (tmp_path / "t.tex").read_text(encoding="utf-8") == latex
    for piece in (r"\caption{Who is a peer}", r"\label{tab:peers}", r"size & $-$0.500*** \\", r"& ($-$5.00) \\",
                  r"R\&D\_x & 0.000123* \\", r"Observations & 1,234 \\", r"R$^2$ & $-$0.250 \\",
                  "t statistics in parentheses"):  # fmt: skip
        assert piece in latex
    assert "-0" not in latex.replace("$-$0", "")


def test_columns_side_by_side_and_chosen_labels():
    other = Regression(params=pd.Series({"lev": 2.0}), std_errors=pd.Series({"lev": 1.0}), pvalues=pd.Series({"lev": 0.04}),
                       nobs=10, rsquared=0.5)  # fmt: skip
    table = regression_table({"(1)": result(), "(2)": other}, labels={"lev": "Leverage", "size": "Size"}, stars=(0.05,))
    assert [row[0] for row in table.rows] == ["Leverage", "", "Size", "", "R&D_x", "", "Observations", "R²"]
    assert table.rows[0] == ("Leverage", "", "2.000*") and table.rows[3] == ("", "(0.100)", "")
    assert table.footnotes[0] == "Standard errors in parentheses. * p < 0.05."
    assert "*" not in regression_table(result(), stars=()).text()


def test_no_p_value_no_star_and_no_interval():
    found = result(pvalues=[np.nan, np.nan])
    assert "*" not in regression_table(found, stars=(0.1,)).rows[0][1] and found.conf_int().isna().all(axis=None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"parentheses": "se"}, "parentheses"),
        ({"stars": (5,)}, "between 0 and 1"),
        ({"decimals": -1}, "decimals: expected an integer of at least 0, got -1"),
    ],
)
def test_bad_choices_are_named(given, message):
    with pytest.raises(InputError, match=message):
        regression_table(result(), **given)
    with pytest.raises(InputError, match="a regression"):
        regression_table({})


def test_intervals_are_those_of_t():
    from scipy.stats import t

    with pytest.raises(InputError, match="level: expected a number between 0 and 1, got 95"):
        result().conf_int(95)
    ends = result().conf_int(0.9)
    np.testing.assert_allclose(ends["upper"] - ends["lower"], 2 * t.ppf(0.95, 30) * np.array([0.1, 0.5]))
