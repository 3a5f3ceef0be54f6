"""Prediction intervals that hold for a firm of a new period: conformal, calibrated on blocks of periods."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from peerattn.evaluation.splits.periods import sorted_periods
from peerattn.exceptions import InputError, checked
from peerattn.render import Shown, Table


@dataclass(frozen=True, repr=False)
class ConformalIntervals(Shown):
    """Intervals of the predictions of all periods that have enough calibration periods before them.

    Attributes
    ----------
    frame : DataFrame
        One row for each such row: firm (where given), period, outcome, lower, upper, covered (NaN where the outcome is
        unknown).
    level : float
        Coverage asked for.
    margin : float
        What widens the predictions of the period after the last one, calibrated on all periods.
    by_period : DataFrame
        Coverage and mean width of each period, and the number of periods it was calibrated on.
    """

    _shown = "as_table"

    frame: pd.DataFrame
    level: float
    margin: float
    by_period: pd.DataFrame

    @property
    def coverage(self) -> float:
        """Share of known outcomes inside their interval, periods equal."""
        return float(self.by_period["coverage"].mean())

    @property
    def width(self) -> float:
        """Mean width, periods equal."""
        return float(self.by_period["width"].mean())

    def as_table(self) -> Table:
        """Return coverage and width by period as a table."""
        rows = [
            (str(period), row["coverage"], row["width"], int(row["calibrated_on"]))
            for period, row in zip(self.by_period.index, self.by_period.to_dict("records"))
        ]
        return Table(
            f"Conformal intervals at {self.level:.0%}",
            ("Period", "Coverage", "Width", "Calibrated on"),
            rows,
            alignment="lrrr",
            formats=("", ".3f", ".4g", ""),
            footnotes=[
                f"Coverage {self.coverage:.3f} over {len(rows)} periods, mean width {self.width:.4g}."
            ],
        )

    def __repr__(self) -> str:
        return (
            f"ConformalIntervals({self.level:.0%}: coverage {self.coverage:.3f} over {len(self.by_period)} periods, "
            f"width {self.width:.4g})"
        )


@checked
def conformal_intervals(
    outcome: Any,
    prediction: Any,
    period: Any,
    *,
    level: float = 0.95,
    horizon: int = 1,
    calibration_periods: int | None = None,
    firm: Any = None,
) -> ConformalIntervals:
    r"""Return prediction intervals for every period that has enough calibration periods before it.

    With F_k the distribution of the scores :math:`|y_{ik} - \hat y_{ik}|` over the firms of calibration period k, the
    margin of period t is the smallest q with

    .. math:: \frac{1}{K + 1} \sum_{k=1}^{K} F_k(q) \ge \text{level}

    over the K periods whose outcomes are known at t. Whole periods are the blocks: firms of one period share its shocks,
    and K periods are no more than K draws.

    Parameters
    ----------
    outcome : array-like of length n
        NaN = unknown.
    prediction : array-like of length n, or pair of such
        Out-of-sample predictions; or two, of a lower and an upper quantile (``loss="pinball"``): the score is then how far
        the outcome lies outside of them, and the margin may narrow them.
    period : array-like of length n
    level : float, default 0.95
    horizon : int, default 1
        Periods t − h and earlier calibrate t.
    calibration_periods : int, optional
        The last so many; by default all.
    firm : array-like of length n, optional
        Labels for the result.

    Returns
    -------
    ConformalIntervals

    Raises
    ------
    InputError
        Where fewer than ⌈level / (1 − level)⌉ periods calibrate (19 at 95 %): no finite interval has the level.

    Notes
    -----
    If periods are exchangeable the interval holds a firm drawn at random from a new period with probability of at least
    the level (over draws of all K + 1 periods): the pooled quantile with a (K + 1)-th period of infinite scores is no
    smaller than that with the new period's own. Markets are not exchangeable over time: look at the coverage that is
    reported. It says nothing about any one kind of firm.

    References
    ----------
    Dunn, R., Wasserman, L. and Ramdas, A. (2023), Distribution-free prediction sets for two-layer hierarchical models,
    Journal of the American Statistical Association 118(544), 2491–2502 (pooling CDFs). Romano, Y., Patterson, E. and
    Candès, E. (2019), Conformalized quantile regression, NeurIPS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, period = rng.normal(size=3000), np.repeat(np.arange(60), 50)
    >>> conformal_intervals(y, np.zeros(3000), period, level=0.9)
    ConformalIntervals(90%: coverage 0.929 over 51 periods, width 3.714)
    """
    lower, upper = prediction if isinstance(prediction, tuple) else (prediction, prediction)
    y, lower, upper = (np.asarray(values, dtype=float).reshape(-1) for values in (outcome, lower, upper))
    codes, periods = sorted_periods(period)
    needed = _check(y, lower, upper, codes, level, horizon, calibration_periods)
    score = np.maximum(lower - y, y - upper)
    known = np.isfinite(score)
    with_outcomes = np.unique(codes[known])
    margins: dict[int, tuple[float, int]] = {}
    for t in range(len(periods)):
        before = with_outcomes[with_outcomes <= t - horizon][-(calibration_periods or len(periods)) :]
        if len(before) >= needed:
            margins[t] = _margin(score, codes, known, before, level), len(before)
    if not any(t in margins for t in with_outcomes):
        raise InputError(
            f"{len(with_outcomes)} periods have outcomes; at level {level:g} an interval needs {needed} calibration periods "
            f"and at least one to test (horizon {horizon}). Test more periods, or lower the level."
        )
    rows = np.isin(codes, list(margins))
    width = np.array([margins[t][0] for t in codes[rows]])
    frame = pd.DataFrame({} if firm is None else {"firm": np.asarray(firm)[rows]}).assign(
        period=periods[codes[rows]], outcome=y[rows], lower=lower[rows] - width, upper=upper[rows] + width
    )
    inside = (frame["outcome"] >= frame["lower"]) & (frame["outcome"] <= frame["upper"])
    frame["covered"] = inside.astype(float).where(frame["outcome"].notna())
    scored = frame[frame["covered"].notna()]
    grouped = (
        scored.assign(width=scored["upper"] - scored["lower"]).groupby("period")[["covered", "width"]].mean()
    )
    counts = [margins[t][1] for t in with_outcomes if t in margins]
    by_period = grouped.rename(columns={"covered": "coverage"}).assign(calibrated_on=counts)
    latest = with_outcomes[-(calibration_periods or len(periods)) :]
    return ConformalIntervals(frame, level, _margin(score, codes, known, latest, level), by_period)


def _check(
    y: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    codes: np.ndarray,
    level: float,
    horizon: int,
    calibration_periods: int | None,
) -> int:
    """Return the number of calibration periods needed."""
    if not len(y) == len(lower) == len(upper) == len(codes):
        raise InputError(
            f"outcome, prediction and period must have one length, got {len(y)}, {len(lower)}, {len(upper)}, {len(codes)}."
        )
    if not (np.isfinite(lower) & np.isfinite(upper)).all():
        raise InputError("prediction must be finite in every row.")
    needed = math.ceil(level / (1 - level) - 1e-9)
    if calibration_periods is not None and calibration_periods < needed:
        raise InputError(
            f"calibration_periods={calibration_periods} are too few: at level {level:g} at least {needed} are needed."
        )
    return needed


def _margin(
    score: np.ndarray, codes: np.ndarray, known: np.ndarray, blocks: np.ndarray, level: float
) -> float:
    """Return the smallest score at which the blocks' mean distribution, times K / (K + 1), reaches the level."""
    rows = known & np.isin(codes, blocks)
    values, block = score[rows], codes[rows]
    weight = 1 / (np.bincount(block)[block] * (len(blocks) + 1))
    order = np.argsort(values)
    reached = np.cumsum(weight[order]) >= level - 1e-9
    return float(values[order][np.argmax(reached)]) if reached.any() else math.inf
