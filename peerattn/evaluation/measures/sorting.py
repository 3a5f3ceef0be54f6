"""Firms sorted by prediction: is the outcome a return, how many portfolios, how many periods in a year."""

from __future__ import annotations

import numpy as np
import pandas as pd

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.measures.factors import periods_per_year
from peerattn.evaluation.measures.portfolios import QuantilePortfolios, Weighting, quantile_portfolios
from peerattn.exceptions import InputError, checked
from peerattn.panel.columns import named_like_return

#: Quantile groups by the number of firms that a typical period must hold for them.
_QUANTILES = ((100, 10), (25, 5), (9, 3))


def as_return(outcome: str, y: np.ndarray, said: bool | None) -> tuple[bool, list[str]]:
    """Return whether an outcome is a simple return in decimals, as was said or as it is named, and what to note.

    Raises
    ------
    InputError
        Where it is said to be one and falls below −1: nobody loses more than everything, so these are per cent or logarithms.
    """
    found, least = named_like_return(outcome) if said is None else said, float(np.nanmin(y, initial=0.0))
    if not found or least >= -1:
        return found, []
    why = f"{outcome} falls to {least:.4g}, below -1, so it is no simple return in decimals; divide per cent by 100."
    if said:
        raise InputError(f"is_return: {why}")
    return False, [f"Outcomes are not treated as returns: {why}"]


def usual_quantiles(comparison: Compared) -> int:
    """Return 10, 5, 3 or 2 portfolios: as many as a typical period holds firms for."""
    frame = comparison.predictions
    typical = frame[frame["outcome"].notna()].groupby("period").size().median()
    return next((n for firms, n in _QUANTILES if typical >= firms), 2)


@checked
def portfolios_of(
    comparison: Compared, model: str, *, n_quantiles: int | None = None, weighting: Weighting = "equal"
) -> QuantilePortfolios:
    """Return portfolios of firms sorted by a model's forecast; see :func:`quantile_portfolios`.

    By default there are as many as the periods hold firms for: 10, 5 or 3. Where the outcome is not a return
    (:attr:`is_return`) they are groups, and only their mean outcomes have a meaning. ``weighting="value"`` weighs firms by
    :attr:`market_value`; firms without one are left out.

    Raises
    ------
    InputError
        For an explanation, which nobody could have traded on; an unknown model; market values that are missing.
    """
    comparison.check_model(model)
    if comparison.task != "forecast":
        raise InputError(
            "portfolios: an explanation uses outcomes of the same period, so it cannot be traded on."
        )
    frame, weight = comparison.predictions, None
    if weighting == "value":
        if comparison.panel.market_value is None:
            raise InputError("weighting='value' needs market values: compare(..., market_value=COLUMN).")
        weight = comparison.panel.market_value.loc[
            pd.MultiIndex.from_frame(frame[["firm", "period"]])
        ].to_numpy()
        frame, weight = frame[~np.isnan(weight)], weight[~np.isnan(weight)]
    return quantile_portfolios(
        *(frame[name] for name in ("outcome", model, "firm", "period")),
        n_quantiles=n_quantiles or usual_quantiles(comparison),
        weight=weight,
        factors=comparison.panel.factors,
        outcome_horizon=0,  # they are dated as the outcomes are
        periods_per_year=periods_per_year(comparison.periods) or 1.0,
        horizon=comparison.horizon,
    )
