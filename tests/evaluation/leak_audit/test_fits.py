"""How many fits an audit takes is what its documentation states."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from peerattn.evaluation import WalkForward, audit
from peerattn.evaluation.leak_audit.subject import Subject
from peerattn.models import IndustryPeerRegressor


@pytest.mark.parametrize(
    ("model", "task", "one_fold", "two_folds"),
    [
        (Ridge(), "forecast", 5, 8),
        (IndustryPeerRegressor(), "forecast", 6, 10),
        (IndustryPeerRegressor(), "nowcast", 5, 8),
    ],
)
def test_the_number_of_fits_of_an_audit(monkeypatch, model, task, one_fold, two_folds):
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([range(20), range(2001, 2011)], names=["firm", "period"])
    X = pd.DataFrame({"size": rng.normal(size=200), "lev": rng.normal(size=200)}, index)
    y = (X["size"] + rng.normal(size=200)).rename("roa")
    fits = []
    fit = Subject.fit
    monkeypatch.setattr(Subject, "fit", lambda subject, rows: fits.append(len(rows)) or fit(subject, rows))
    for refit_every, expected in ((4, one_fold), (2, two_folds)):
        fits.clear()
        assert audit(model, X, y, WalkForward(4, refit_every), task=task, n_placebo=2).passed
        assert len(fits) == expected
