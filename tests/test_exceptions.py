"""Where warnings point."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

from peerattn import IndustryPeerRegressor, WalkForward
from peerattn.exceptions import (
    CodeWarning,
    InputError,
    IsolateWarning,
    PeerAttnWarning,
    check_one_of,
    validate_arguments,
    warn_user,
)
from peerattn.panel import PanelEncoder, check_panel

INDEX = pd.MultiIndex.from_product([["A", "B", "C"], [2001, 2002, 2003]], names=["firm", "period"])
X = pd.DataFrame({"size": np.arange(9.0)}, INDEX)


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_warning_names_the_line_of_the_user() -> None:
    y = pd.Series(np.arange(9.0), INDEX).where(INDEX.get_level_values("period") < 2003)
    model = IndustryPeerRegressor(scheme="plain").fit(X, y)
    with pytest.warns(IsolateWarning) as caught:
        here = line() + 1
        model.predict(X, outcomes=y)
    assert {(entry.filename, entry.lineno) for entry in caught} == {(__file__, here)}


def test_a_warning_from_deep_inside_names_the_line_of_the_user() -> None:
    with pytest.warns(PeerAttnWarning, match="test_periods=9") as caught:
        here = line() + 1
        next(WalkForward(9).split(X))
    assert (caught[0].filename, caught[0].lineno) == (__file__, here)


def test_a_decorator_of_contextlib_is_no_caller() -> None:
    """`reworded_values` and `one_thread` decorate public calls; the warning is still the user's line, not contextlib's."""
    coded = X.assign(sic=[100, 3711, 3721] * 3)
    with pytest.warns(CodeWarning) as caught:
        here = line() + 1
        check_panel(PanelEncoder(), coded, fitting=True)
    assert (caught[0].filename, caught[0].lineno) == (__file__, here)


def test_text_is_a_warning_of_the_user() -> None:
    with pytest.warns(UserWarning, match="plain") as caught:
        here = line() + 1
        warn_user("plain")
    assert caught[0].lineno == here


@pytest.mark.parametrize("value", [pd.Series(["a"]), np.array(["a", "b"]), ["a"], {"a": 1}])
def test_data_are_none_of_the_options(value) -> None:
    with pytest.raises(InputError, match="effects must be one of"):
        check_one_of(effects=(value, ["a", None]))


def test_an_unknown_option_that_is_passed_on_is_an_error_of_the_function_that_was_called() -> None:
    @validate_arguments
    def predicted(**given: int) -> int:
        return len(given) + (lambda *, known=0: known)(**given)

    assert predicted(known=1) == 2
    with pytest.raises(InputError, match="predicted: .*unexpected keyword argument 'unknown'"):
        predicted(unknown=1)
