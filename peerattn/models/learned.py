"""What a fit keeps so that later calls can be checked: which rows were learned from, until when, and within what range."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from peerattn import exceptions
from peerattn.models.cross_section import check_same_kind
from peerattn.panel.effects import effect_parts
from peerattn.panel.gate import warn_of_lost_labels
from peerattn.panel.knowledge import Knowledge
from peerattn.panel.panel import Panel
from peerattn.panel.time_order import check_comparable
from peerattn.render import show_label
from peerattn.types import OutcomesLike

REACH = 3.0  # ranges of the training outcomes, beyond which an observed outcome counts as the bound
FEW = 30  # training outcomes below which their range is not informative


def rows_of(panel: Panel) -> tuple[np.ndarray, np.ndarray] | None:
    """Return numbers that identify the periods and the rows of a panel, each sorted; None where it is undated."""
    if not panel.dated:
        return None
    periods, rows = _hashes(panel)
    return np.unique(periods), np.sort(rows)


def _hashes(panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """Return a number for each row's period, and one for its firm and period."""
    numbers = {}
    for name, level, codes in zip(panel.labels.names, panel.labels.levels, panel.labels.codes, strict=True):
        numbers[name] = pd.util.hash_array(np.asarray(level.astype(str), dtype=object))[codes]
    # an odd factor loses no firm, and keeps firm 1 of period 2 apart from firm 2 of period 1
    return numbers["period"], numbers["firm"] * np.uint64(3) + numbers["period"]


def learned_from(panel: Panel, learned: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return which rows of a panel were among those of the fit, (n,)."""
    _, rows_learned = learned
    return np.isin(_hashes(panel)[1], rows_learned)


def warn_of_shared_periods(panel: Panel, learned: tuple[np.ndarray, np.ndarray] | None) -> None:
    """Warn of a fold of rows: none of the call was learned from, but others of their periods were."""
    if learned is None or not panel.dated:
        return
    shared = int(np.isin(_hashes(panel)[0], learned[0]).sum())
    if shared and not learned_from(panel, learned).any():
        found = f"{shared} of {len(panel)} rows are of periods whose other rows were learned from"
        why = "firms of one period share its shocks, so that a score of these predictions is too good."
        remedy = "To score forecasts pass cv=WalkForward(...); NewFirms where new firms of known periods are meant."
        exceptions.warn_user(exceptions.SharedPeriodWarning(f"{found}: {why} {remedy}"))


def warn_of_one_cross_section(panel: Panel, firm: str, period: str) -> None:
    """Warn of training rows without labels, which are taken for one cross-section."""
    if panel.firm is None:
        found = f"X carries neither {firm!r} nor {period!r}, so its {len(panel):,} rows are one cross-section"
        remedy = f"If X is a panel, set them as index, df.set_index([{firm!r}, {period!r}]), or name yours with firm= and "
        remedy += f"period=. If it is one cross-section, {firm!r} and a constant {period!r} give its firms their names."
        exceptions.warn_user(exceptions.LabelWarning(f"{found}, all periods in one. {remedy}"))


def warn_of_missing_labels(name: str, panel: Panel, y: OutcomesLike, firm: str, period: str) -> None:
    """Warn where rows without labels make a forecaster another model; where y alone has them, the gate has warned."""
    labelled = isinstance(y, pd.Series | pd.DataFrame) and y.index.nlevels == 2
    if panel.firm is None and not labelled:
        warn_of_lost_labels(f"{name} needs {firm!r} and {period!r}, of which X carries neither")


def warn_of_small_sections(panel: Panel, median: float) -> None:
    """Warn of periods with under half as many firms as the median cross-section of training."""
    sizes = {period: at.stop - at.start for period, at in panel.cross_sections()}
    small = [period for period, size in sizes.items() if size < median / 2]
    if small:
        found = f"{len(small)} period{'s' * (len(small) != 1)} of X (first: {show_label(small[0])}, {sizes[small[0]]} firms)"
        why = f"with under half of training's median of {median:g} firms: peers are sought among the rows of the call."
        remedy = "Pass the whole cross-section, or the other firms as reference= where the model takes it."
        exceptions.warn_user(exceptions.SmallCrossSectionWarning(f"{found} {why} {remedy}"))


def warn_of_isolates(panel: Panel, isolated: np.ndarray, term: str) -> None:
    """Warn of rows without an admissible peer; ``term`` is what their peer term is."""
    if isolated.any():
        where = f"row {isolated.argmax()}"
        if panel.firm is not None:
            where = " in ".join(show_label(labels[isolated][0]) for labels in (panel.firm, panel.period))
        found = f"{int(isolated.sum())} of {len(panel)} rows have no admissible peer (first: {where})"
        exceptions.warn_user(exceptions.IsolateWarning(f"{found}: their peer term is {term}.{exceptions.WHERE_ISOLATES}"))


def bounds_of(y: np.ndarray | None) -> tuple[float, float]:
    """Return the bounds of observed outcomes: the training outcomes' range and three times its length around it."""
    if y is None or np.isfinite(y).sum() < FEW:
        return -np.inf, np.inf
    known = y[np.isfinite(y)]
    reach = REACH * float(np.ptp(known))
    return float(known.min()) - reach, float(known.max()) + reach


def clipped(observed: np.ndarray, bounds: tuple[float, float], unit: tuple[float, float] = (0.0, 1.0)) -> np.ndarray:
    """Return observed outcomes within bounds, with a warning where some were beyond.

    ``unit`` are the centre and the scale that were taken out of the outcomes, not out of the bounds.
    """
    least, most = ((bound - unit[0]) / unit[1] for bound in bounds)
    beyond = int(((observed < least) | (observed > most)).sum())
    if beyond:
        low, high = bounds
        found = f"{beyond} observed outcomes of a period lie beyond {low:.4g} to {high:.4g}"
        bound = f"{REACH:g} times the range of the training outcomes around it, and count as that bound for their peers"
        exceptions.warn_user(exceptions.BoundedOutcomeWarning(f"{found}, {bound}."))
    return observed.clip(least, most)


def check_effect_labels(effects: Mapping[str, pd.Series], groups: pd.DataFrame, periods: pd.Index, learned_until: Any) -> None:
    """Raise where firms or periods of a call are of another type than those of fit: no effect would be found."""
    for name, parts in effect_parts(list(effects)).items():
        if name == "firm":
            check_same_kind(effects[name].index, pd.Index(groups[name]))
        elif "period" in parts and not pd.isna(learned_until):
            check_comparable(periods, pd.Index([learned_until]))


def known_from(panel: Panel) -> np.ndarray | None:
    """Return the place of the first period of a panel by which each outcome is known; None where outcomes have no dates."""
    return None if panel.known_at is None else Knowledge.of(panel).known


def last_known(panel: Panel) -> Any:
    """Return the last period of which an outcome is known, over all processes; NaN where rows are undated."""
    if not panel.dated or panel.outcomes is None:
        return float("nan")
    last = panel.period[np.isfinite(panel.outcomes)].max()
    return last.item() if isinstance(last, np.generic) else last
