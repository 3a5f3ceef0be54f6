"""The reference universe: the firms that answer in cross-attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from peerattn.exceptions import expect


@dataclass(frozen=True)
class Reference:
    """Firms that are looked to, and (for ``task="explain"``) their outcomes.

    Has no length on purpose: ``cross_validate(params={"reference": Reference(X_ref)})`` passes it whole, where it would slice a
    frame that happens to be as long as X.

    Parameters
    ----------
    X : DataFrame or array-like (n_reference, p)
        Raw characteristics with the columns of the focal firms; scaling happens inside the estimator. With firm and
        period labels, a focal firm looks to the reference rows of its own period; with firms only, to all of them.
    y : Series or array-like (n_reference,), optional
        Their outcomes; NaN = unknown.
    weight : Series or array-like (n_reference,), optional
        Their ``peer_weight`` (market value, say), where the model was fitted with one.
    """

    X: Any
    y: Any = None
    weight: Any = None

    @classmethod
    def of(cls, reference: Any) -> Reference:
        """Return ``reference`` as a Reference: it may be one already, a frame, or a pair (X_ref, y_ref)."""
        if isinstance(reference, cls):
            return reference
        if isinstance(reference, tuple):
            pair = "a frame or a pair (X_ref, y_ref)"
            expect(len(reference) == 2, "reference", pair, f"a tuple of {len(reference)}")
            return cls(*reference)
        return cls(reference)
