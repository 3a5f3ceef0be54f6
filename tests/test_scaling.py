"""The standard deviation of a constant is 1, not its rounding."""

import numpy as np
import pytest

from peerattn.scaling import centre_and_spread


@pytest.mark.parametrize("value", [0.1, 1e9 / 3, 1e-9 / 3, 0.0])
def test_the_deviation_of_a_constant_is_not_its_rounding(value):
    constant = np.full((1000, 3, 2), value)
    for axis, weight in ((0, None), ((0, 1), None), (0, np.linspace(1, 2, 1000))):
        center, spread = centre_and_spread(constant, axis, weight=weight)
        assert (spread == 1.0).all()
        np.testing.assert_allclose(center, value, rtol=1e-12)
    varied = constant[:, 0] + value * 1e-6 * np.arange(2000.0).reshape(1000, 2)
    expected = varied.std(axis=0) if value else 1.0
    np.testing.assert_allclose(centre_and_spread(varied)[1], expected, rtol=1e-6)
