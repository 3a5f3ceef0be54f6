"""Columns that were made of outcomes nobody knew when the row was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from peerattn.evaluation.leak_audit.firm_statistics import (
    firm_statistic,
    moving_average,
    periods_left,
    trend,
    window,
)
from peerattn.evaluation.leak_audit.functions_of_outcomes import (
    in_all_rows,
    in_decimals,
    in_groups,
    in_parts,
    in_some_rows,
    in_steps,
    of_others,
    on_a_line,
)
from peerattn.evaluation.leak_audit.group_statistics import encoding, group_statistic, near_group_mean
from peerattn.evaluation.leak_audit.marks_and_levels import levels, marks
from peerattn.evaluation.leak_audit.outcomes import Outcomes
from peerattn.evaluation.leak_audit.regressions_on_outcomes import fitted, made_up, together
from peerattn.evaluation.leak_audit.relations import FEWEST, closer

#: Each returns what outcome a column was made of, or an empty text.
RULES: tuple[Callable[[np.ndarray, Outcomes], str], ...] = (
    in_all_rows,
    in_groups,
    in_some_rows,
    in_parts,
    on_a_line,
    of_others,
    in_steps,
    in_decimals,
    group_statistic,
    near_group_mean,
    encoding,
    firm_statistic,
    periods_left,
    trend,
    moving_average,
    window,
    fitted,
    made_up,
)


def made_of_outcomes(
    numbers: pd.DataFrame,
    y: np.ndarray,
    firm: np.ndarray,
    when: np.ndarray,
    codes: pd.DataFrame | None = None,
) -> dict[str, str]:
    """Return the columns that were made of outcomes nobody knew when the row was, and how.

    Each column is held against the row's outcome, later ones, and means of outcomes with later ones in them: a function of one
    of them, in all rows or in a part, is no characteristic. What goes along with outcomes but is no function of them is not
    refuted: it may be a good characteristic. Where an outcome repeats itself, the firm's outcome before goes along with it as
    closely: a column is then refuted only if it leaves less than a fifth of the variance that this leaves.
    """
    codes = pd.DataFrame(index=numbers.index) if codes is None else codes
    columns = {str(name): column.to_numpy(dtype=float) for name, column in numbers.items()}
    of = Outcomes(y, firm, when, {str(name): pd.factorize(code)[0] for name, code in codes.items()}, columns)
    found = {name: why for name, x in columns.items() if (why := _rule(x, of) or marks(x, of))}
    found |= {name: why for name, code in of.codes.items() if (why := levels(code, of))}
    return found | together({name: x for name, x in columns.items() if name not in found}, of)


def _rule(x: np.ndarray, of: Outcomes) -> str:
    """Return what the first rule says that does not say it of the past outcome, too, unless x is closer to the outcome."""
    if np.isfinite(x).sum() < FEWEST:
        return ""
    said = ((rule, rule(x, of)) for rule in RULES)
    return next(
        (why for rule, why in said if why and (closer(x, of.past, of.y) or not rule(of.past, of))), ""
    )
