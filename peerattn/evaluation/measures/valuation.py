"""Errors of a valuation: the log of a multiple back to money, in per cent of the price."""

import re
from typing import Any

import numpy as np

from peerattn.evaluation.measures.metrics import scored_rows
from peerattn.exceptions import validate_arguments
from peerattn.types import OutcomesLike

NEAR = 0.15  # Kaplan and Ruback's share of valuations within 15 per cent of the price
_LOG = re.compile(r"^(log|ln)_", re.IGNORECASE)


def named_like_log(outcome: str) -> bool:
    """Return whether an outcome is named like the log of an amount.

    >>> [named_like_log(name) for name in ("log_pb", "ln_q", "logistics", "login_share")]
    [True, True, False, False]
    """
    return bool(_LOG.search(outcome))


@validate_arguments
def percentage_errors(outcome: Any, prediction: OutcomesLike) -> np.ndarray:
    r"""Return the errors of predicted logs in per cent of the level: ``exp(ŷ − y) − 1``.

    Of a log multiple this is the implied price over the price, minus one: the fundamental cancels.

    Parameters
    ----------
    outcome, prediction : array-like of length n
        Natural logs; rows in which one is NaN are left out.

    Returns
    -------
    ndarray
        In decimals: 0.1 is a price overstated by 10 per cent.

    Examples
    --------
    >>> percentage_errors(np.log([100.0, 50.0]), np.log([110.0, 25.0])).round(3).tolist()
    [0.1, -0.5]
    """
    y, forecast = scored_rows(outcome, prediction)
    return np.asarray(np.expm1(np.clip(forecast - y, -700, 700)))


@validate_arguments
def median_ape(outcome: Any, prediction: OutcomesLike) -> float:
    """Return the median absolute percentage error of predicted logs, in decimals; see :func:`percentage_errors`.

    >>> round(median_ape(np.log([100.0, 50.0, 10.0]), np.log([110.0, 25.0, 10.0])), 6)
    0.1
    """
    return float(np.median(np.abs(percentage_errors(outcome, prediction))))


@validate_arguments
def share_near(outcome: Any, prediction: OutcomesLike) -> float:
    """Return the share of predictions within 15 per cent of the level; see :func:`percentage_errors`.

    >>> share_near(np.log([100.0, 50.0]), np.log([110.0, 25.0]))
    0.5
    """
    return float(np.mean(np.abs(percentage_errors(outcome, prediction)) <= NEAR))
