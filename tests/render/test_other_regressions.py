"""A paper's table with columns of linearmodels and statsmodels beside ours."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from linearmodels.panel import PanelOLS

from peerattn import LinearInMeansRegressor, regression_table
from peerattn.exceptions import InputError


def test_three_packages_in_one_table():
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([[f"F{k}" for k in range(20)], range(2001, 2007)], names=["firm", "period"])
    X = pd.DataFrame(rng.normal(size=(120, 2)), index=index, columns=["size", "lev"])
    y = X["size"] + rng.normal(size=120)
    ours = LinearInMeansRegressor(effects=("firm", "period")).fit(X, y).results_
    theirs = PanelOLS(y, X, entity_effects=True, time_effects=True).fit(cov_type="clustered", cluster_entity=True)
    plain = sm.OLS(y.to_numpy(), sm.add_constant(X.to_numpy())).fit(cov_type="HC1")
    table = regression_table({"Ours": ours, "PanelOLS": theirs, "OLS": plain})
    frame = table.to_frame().set_index("")
    assert frame.loc["size", "Ours"] == frame.loc["size", "PanelOLS"]
    assert f"{theirs.std_errors['size']:.3f}" in frame["PanelOLS"].str.cat()
    assert f"{plain.params[1]:.3f}" in frame["OLS"].str.cat()  # its regressor is called x1
    for name in ("firm", "period"):
        assert frame.loc[f"{name} effects"].tolist() == ["yes", "yes", ""]
    assert "PanelOLS: Covariance: Clustered." in table.text() and "OLS: Covariance: HC1." in table.text()
    assert "\\toprule" in table.to_latex()
    with pytest.raises(InputError) as refused:
        regression_table({"(1)": {"size": 1.0}})
    assert "results" in str(refused.value)
