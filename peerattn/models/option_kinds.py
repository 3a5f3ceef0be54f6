"""What an option may be, beside scikit-learn's own kinds."""

from numbers import Integral

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import StrOptions

from peerattn.exceptions import did_you_mean

COLUMN = (str, Integral, tuple)  # what may name a column
COLUMNS = (list, tuple, np.ndarray, pd.Index)  # a list of their names; text would be taken letter by letter


def hint(given: object, allowed: list[object]) -> str:
    """Return what may have been meant by an option: the nearest choices of text, or a list in place of one name."""
    if isinstance(given, str) and list in allowed:
        return f" Write [{given!r}]."
    return did_you_mean(given, [text for each in allowed if isinstance(each, StrOptions) for text in each.options])
