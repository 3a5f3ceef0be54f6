"""Groups of candidates, in the order of the information that they use, and what candidates predict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.common import CodeShocks, PeriodMean
from peerattn.models.learners.protocol import Part, PeerPart
from peerattn.models.learners.training import Training
from peerattn.models.stacking.weights import Scope

NONLINEAR, HISTORY, COMMON, PEERS = GROUPS = ("nonlinear", "history", "common", "peers")
#: Fitted parts by the name of their candidate.
Parts = Mapping[str, Part]


@dataclass(frozen=True)
class Candidate:
    """One way to predict: its name, its group, and how it is fitted.

    ``make(training, earlier)`` gives the fitted part, or None: not on these data. ``earlier`` is the one of the origin before.
    With a ``control``, the same model without peers, a candidate is tested by what it predicts beyond it: one more model of the
    same kind makes an average better without any peer. One that is ``trained`` at length, without a control, is given up where it
    is futile. One that is not ``weighed`` is no part of the prediction: later groups are tested by what they predict beyond it.
    """

    name: str
    group: str
    make: Callable[[Training, Any], Part | None]
    control: "Candidate | None" = None
    trained: bool = False
    weighed: bool = True

    def fit(self, training: Training, earlier: Parts) -> Parts:
        """Return the fitted part by its name; nothing where there is none."""
        part = self.make(training, earlier.get(self.name))
        if part is None:
            return {}
        return {self.name: part}


def predictions(
    parts: Parts, prepared: Sequence[CrossSection], left: Sequence[CrossSection], dtype: torch.dtype = torch.float64
) -> dict[str, list[np.ndarray]]:
    """Return what each part predicts for each cross-section.

    ``left`` are the cross-sections with residuals of observed outcomes from own candidates, which common shocks use.
    """
    found = dict[str, list[np.ndarray]]()
    for name, part in parts.items():
        if isinstance(part, PeerPart):
            found[name] = part.predict(prepared, dtype)
        elif isinstance(part, CodeShocks | PeriodMean):
            found[name] = part.predict(left or prepared)
        else:
            found[name] = part.predict(prepared)
    return found


def difference(predicted: np.ndarray, base: np.ndarray, own: np.ndarray, group: str, scope: Scope) -> np.ndarray:
    """Return what a column adds to the base in one cross-section, (n_focal, K); zero without a prediction.

    That is ``P − B``, its mean, or what it has beside that; ``P − ols`` within periods of slopes that are added; and what is
    common to a period as it is.
    """
    if group == COMMON and scope == Scope.WHOLE:
        return np.nan_to_num(predicted)
    if scope == Scope.ADDED:
        base = own
    D = np.where(np.isfinite(predicted), predicted - base, 0.0)
    if scope == Scope.WHOLE or not len(D):
        return D
    mean = np.broadcast_to(D.mean(axis=0), D.shape)
    if scope == Scope.MEAN:
        return mean
    return D - mean
