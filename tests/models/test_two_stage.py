"""Two-stage least squares where columns have levels far above their spread."""

import numpy as np
import pandas as pd
import pytest

from peerattn.models.two_stage import two_stage


def drawn(level=0.0, n=120):
    """An outcome, characteristics, the endogenous column and its instruments, all at one level."""
    rng = np.random.default_rng(0)
    groups = pd.DataFrame({"firm": np.arange(n) // 6, "period": np.arange(n) % 6})
    x, z, v, e = rng.normal(size=(4, n)) + groups["firm"].to_numpy() / 10
    w = z + 0.5 * v + e + rng.normal(size=n)
    X = pd.DataFrame({"intercept": 1.0, "x": x + level, "thrice": 3 * (x + level)})
    return 0.4 * w + x + e + level, X, w + level, pd.DataFrame({"z": z + level, "v": v + level}), groups


@pytest.mark.parametrize("effects", [[], ["firm"], ["firm", "period"]])
@pytest.mark.parametrize("instrumented", [True, False])
def test_the_level_of_columns_moves_the_intercept_alone(effects, instrumented):
    def fitted(level):
        y, X, w, Z, groups = drawn(level)
        columns = (w, Z) if instrumented else ()
        if effects:
            X = X.drop(columns="intercept")
        return two_stage(y, X, *columns, effects=groups[effects], clusters=groups[["firm"]])

    near, far = map(fitted, (0.0, 1e9))
    assert near.dropped == far.dropped == ("thrice",)
    slopes = near.params.drop("intercept", errors="ignore")
    np.testing.assert_allclose(far.params[slopes.index], slopes, rtol=1e-5)
    np.testing.assert_allclose(far.std_errors[slopes.index], near.std_errors[slopes.index], rtol=1e-5)
    assert far.rsquared == pytest.approx(near.rsquared, rel=1e-5)
    if not effects:
        assert far.params["intercept"] == pytest.approx(near.params["intercept"] + 1e9 * (1 - slopes.sum()), rel=1e-5)
    if instrumented:
        assert far.identification.ar_p == pytest.approx(near.identification.ar_p, rel=1e-4)
        assert far.identification.effective_f == pytest.approx(near.identification.effective_f, rel=1e-4)


@pytest.mark.parametrize("effects", [[], ["firm"]])
def test_columns_that_effects_absorb_are_named_as_such(effects):
    y, X, _, _, groups = drawn()
    X = X.drop(columns=["thrice", "intercept"] if effects else "intercept").assign(of_firm=groups["firm"])
    found = two_stage(y, X, effects=groups[effects], clusters=groups[["firm"]])
    wanted = {True: "Left out as combinations of others and of the absorbed effects: of_firm.",
              False: "Left out as combinations of others: thrice."}  # fmt: skip
    assert wanted[bool(effects)] in " ".join(str(found).split())
