"""The options of attention, and ``fit`` of the estimators that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, TypeVar

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from peerattn.exceptions import InputError
from peerattn.models.attention.base import MOST, PanelStack
from peerattn.models.by_period import ReadsFiles, check_not_with_files, of_all_processes
from peerattn.models.cross_section import Rows
from peerattn.panel.panel import Panel
from peerattn.processes import joined
from peerattn.training import find_device, one_thread
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike


class _Fits(ReadsFiles, Protocol):
    """A stack estimator, as far as ``fit`` needs it."""

    own: Any

    def _validate_params(self) -> None: ...
    def _gate_fit(
        self,
        X: PanelLike,
        y: OutcomesLike,
        sample_weight: OutcomesLike,
        reference: ReferenceLike,
        loss_weight: OutcomesLike,
        peer_weight: OutcomesLike,
    ) -> tuple[Panel, Rows]: ...
    def _learn(self, training: Rows, panel: Panel, device: str = "cpu") -> None: ...


Fits = TypeVar("Fits", bound=_Fits)


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionOptions:
    """Options and ``fit`` of the estimators with attention heads: regressor, classifier and stack."""

    attention: str | bool = "self"
    task: str = "forecast"
    similarity: str = "scaled_dot_product"
    prior: Any = None
    own: Any = "linear"
    n_layers: int = 1
    n_heads: int = 2
    d_head: int = 8
    scale: str | None = "standard"
    codes: Sequence[str] = ()
    loss: float | str = "auto"
    kappa: float | None = 1.0
    purge: int = 0
    firm: str = "firm"
    period: str = "period"
    random_state: Any = None
    _shares_periods: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, Any]] = PanelStack._parameter_constraints | {
        "attention": [StrOptions({"self", "cross"})],
        "similarity": [StrOptions({"scaled_dot_product", "symmetric", "dot_product", "additive", "gaussian"})],
        "own": [StrOptions({"linear", "none"}), HasMethods(["fit", "predict"])],
        "n_layers": [Interval(Integral, 1, MOST, closed="both")],
        "n_heads": [Interval(Integral, 0, MOST, closed="both")],
        "d_head": [Interval(Integral, 1, MOST, closed="both")],
        # a number is the quantile of a pinball loss
        "loss": [StrOptions({"auto", "squared_error", "huber"}), Interval(Real, 0, 1, closed="neither")],
    }

    @one_thread()
    def fit(
        self: Fits,
        X: PanelLike,
        y: OutcomesLike = None,
        sample_weight: OutcomesLike = None,
        *,
        reference: ReferenceLike = None,
        loss_weight: OutcomesLike = None,
        peer_weight: OutcomesLike = None,
        device: str = "cpu",
    ) -> Fits:
        """Fit on training rows.

        Parameters
        ----------
        X : DataFrame (n, p) indexed by (firm, period), or array-like; or StoredPanel, path, Dataset, iterator of frames
            Characteristics and codes; without firm and period ``X`` is one cross-section. Of a panel in files what
            :func:`~peerattn.panel.stored.scan_panel` selects is read (``training_rows``).
        y : Series or array-like (n,), or str (the column, of files)
            Outcome. In a panel a missing outcome is unknown: the row stays a peer and carries no loss.
        sample_weight : array-like (n,), optional
            Frequency weights: a weight of 2 equals the row twice; it never brings the own firm back into its pool.
        reference : Reference, frame, or pair (X_ref, y_ref), optional
            Raw, in the columns of ``X``. The firms that answer, for ``attention="cross"``; with ``"self"``, on a panel,
            firms that join the pool of their period.
        loss_weight : Series or array-like (n,), optional
            Weighs each row's loss (panels only).
        peer_weight : Series or array-like (n,), optional
            Positive numbers such as market values: log w_j is added to the scores of peer j (panels only).
        device : str, default "cpu"
            Where torch learns. Predictions are always computed on the CPU, in float64.

        Returns
        -------
        self

        Raises
        ------
        InputError
            For bad options (the message names both of a bad pair), input that cannot be used, or a missing reference.
        """
        self._validate_params()
        if joined():
            if not isinstance(self.own, str):
                raise InputError(
                    "own: an estimator is fitted by each process, which may differ. Fit in one process, outside data_parallel()."
                )
            X, y, sample_weight, loss_weight, peer_weight = of_all_processes(
                self, X, y, sample_weight, loss_weight, peer_weight
            )
        check_not_with_files(X, loss_weight=loss_weight, peer_weight=peer_weight)
        device = find_device(device)
        panel, training = self._gate_fit(X, y, sample_weight, reference, loss_weight, peer_weight)
        self._learn(training, panel, device)
        return self
