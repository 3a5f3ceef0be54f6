"""Errors of valuations by model, with intervals over firms."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from peerattn.evaluation.compared import Compared
from peerattn.evaluation.measures.valuation import NEAR, named_like_log, percentage_errors
from peerattn.exceptions import check_count, expect, validate_arguments
from peerattn.models.industry import middle_of
from peerattn.seeds import check_seed


@validate_arguments
def pricing_errors(comparison: Compared, *, level: float = 0.95, n_draws: int = 999, random_state: Any = 0) -> pd.DataFrame:
    r"""Return what each model's valuations miss by, in per cent of the price, with intervals over firms.

    .. math:: e_{it} = \exp(\hat y_{it} - y_{it}) - 1, \qquad \text{median}\,|e_{it}|, \qquad
              \tfrac1N \#\{|e_{it}| \le 0.15\}

    Parameters
    ----------
    comparison : Compared
        Whose outcome is a natural log.
    level : float in (0, 1), default 0.95
    n_draws : int, default 999
        Bootstrap draws of firms; all rows of a firm are drawn together.
    random_state : int, RandomState or None, default 0

    Returns
    -------
    DataFrame
        Indexed by model, in decimals: ``median_ape``, ``within_15``, ``bias`` (median of e), each with ``_low`` and ``_high``;
        ``ape_reduction`` (median absolute error less than that of the baseline, positive = better) with its own, paired interval.

    Raises
    ------
    InputError
        Where the outcome is not named like a log (``log_...``, ``ln_...``).

    Notes
    -----
    Percentile intervals. Firms are drawn independently: shocks that the firms of a quarter share are not in them.

    References
    ----------
    Kaplan, S. N. and Ruback, R. S. (1995), The valuation of cash flow forecasts: an empirical analysis, Journal of Finance
    50(4), 1059–1093. Liu, J., Nissim, D. and Thomas, J. (2002), Equity valuation using multiples, Journal of Accounting
    Research 40(1), 135–172.
    """
    check_count(n_draws=n_draws)
    check_seed(random_state)
    expect(0 < level < 1, "level", "a number between 0 and 1", level)
    logs = named_like_log(comparison.outcome)
    expect(logs, "comparison", "an outcome in logs, named log_... or ln_...", repr(comparison.outcome))
    frame = comparison.known
    firm = pd.factorize(frame["firm"])[0]
    n = int(firm.max()) + 1
    # all rows of a firm are drawn together
    counts = check_random_state(random_state).multinomial(n, np.full(n, 1 / n), size=n_draws)[:, firm]
    counts = np.vstack([np.ones(len(firm)), counts])  # the sample itself first
    rows: dict[str, dict[str, float]] = {}
    drawn = {}
    tails = [(1 - level) / 2, (1 + level) / 2]
    for name in comparison.names:
        e = percentage_errors(frame["outcome"], frame[name])
        near = (counts @ (np.abs(e) <= NEAR)) / counts.sum(axis=1)
        size = _medians(np.abs(e), counts)
        drawn[name] = {"median_ape": size, "within_15": near, "bias": _medians(e, counts)}
    for name, of in drawn.items():
        of["ape_reduction"] = drawn[comparison.baseline]["median_ape"] - of["median_ape"]
        found = {key: (x[0], *np.quantile(x[1:], tails)) for key, x in of.items()}
        rows[name] = {key + end: v for key, vs in found.items() for end, v in zip(("", "_low", "_high"), vs)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def _medians(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the median of the values in each draw, (n_draws,); counts: how often each was drawn."""
    order = np.argsort(values, kind="stable")
    return np.mean([values[order][at] for at in middle_of(counts[:, order])], axis=0)
