"""Options of estimators: kinds that scikit-learn has not, and the check that names the nearest choices."""

from numbers import Integral

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

from peerattn.exceptions import InputError, did_you_mean

COLUMN = (str, Integral, tuple)  # what may name a column
COLUMNS = (list, tuple, np.ndarray, pd.Index)  # a list of their names; text would be taken letter by letter


def validate_options(estimator: BaseEstimator) -> None:
    """Raise an InputError for an option that violates ``_parameter_constraints``, with what may have been meant."""
    for name, allowed in estimator._parameter_constraints.items():
        given = getattr(estimator, name, None)
        numbers = [each for each in allowed if isinstance(each, Interval)]
        if numbers and isinstance(given, bool | np.bool_):  # to Python True is 1
            raise InputError(f"The {name!r} parameter of {type(estimator).__name__} must be {numbers[0]}. Got {given!r} instead.")
    try:
        BaseEstimator._validate_params(estimator)
    except InvalidParameterError as error:
        name = str(error).split("'")[1]
        meant = _what_may_be_meant(getattr(estimator, name), estimator._parameter_constraints[name])
        raise InputError(f"{error}{meant}") from None


def check_options(model: object) -> None:
    """Raise an InputError, before any fit, for an option that an estimator, or a step of a pipeline, does not take."""
    for part in (model, *dict(getattr(model, "steps", ())).values()):
        if isinstance(part, BaseEstimator) and hasattr(part, "_parameter_constraints"):
            validate_options(part)


def _what_may_be_meant(given: object, allowed: list[object]) -> str:
    """Return the nearest choices of text, or a list in place of one name."""
    if isinstance(given, str) and list in allowed:
        return f" Write [{given!r}]."
    return did_you_mean(given, [text for each in allowed if isinstance(each, StrOptions) for text in each.options])
