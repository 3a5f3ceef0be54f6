"""Nadaraya–Watson kernel regression: attention whose weights are a fixed kernel of characteristics and codes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.utils._param_validation import Interval, Options, StrOptions

from peerattn.exceptions import InputError
from peerattn.models.base import Encoded, PanelEstimator
from peerattn.models.cross_section import NO_IDENTITY, CrossSection, Rows
from peerattn.models.kernel.bandwidth import CRITERIA, Problem, choose_bandwidths, given_bandwidths, reference_bandwidths
from peerattn.models.kernel.local_regression import KERNELS, Bandwidths, KernelCode, LocalRegression, Points
from peerattn.models.mixins import PanelRegressorMixin
from peerattn.options import COLUMNS
from peerattn.panel.design import Design
from peerattn.panel.panel import Panel
from peerattn.scaling import centre_and_spread
from peerattn.types import OutcomesLike, PanelLike

PAIRS = 50_000_000  # focal rows × peers in one evaluation of a bandwidth criterion; more focal rows are thinned out
DENSE_CELLS = 4_000_000  # cells of a chunk where the kernel is held as an array


@dataclass(eq=False, repr=False, kw_only=True)
class NadarayaWatsonRegressor(PanelRegressorMixin, PanelEstimator):
    """Kernel-weighted mean (or line) of the other firms' outcomes.

    ``ŷ_i = Σ_j α_ij y_j``, ``α_ij = K(x_i, x_j) / Σ_k K(x_i, x_k)`` with a product kernel: for characteristics by default the
    Gaussian, ``exp(−½ ((x_ic − x_jc) / h_c)²)``, which makes it attention with queries and keys ``x / h``; for unordered codes
    Aitchison and Aitken's (``1 − λ`` for the same level, else ``λ / (c − 1)``); for ordered ones Wang and van Ryzin's
    (``1 − λ``, else ``½ (1 − λ) λ^|d|``).

    Parameters
    ----------
    bandwidth : str, float, array or dict, default "normal_reference"
        h, in the units of each characteristic, and λ of each code. ``"normal_reference"``: ``1.06 min(sd, IQR / 1.349)
        n^(−1/(4+p))``, n the size of the pool (training rows, or the median cross-section when ``outcomes=`` is passed), p the
        number of characteristics; ``λ = n^(−2/(4+p))``, at most half of its range. ``"cv_ls"``: least leave-one-firm-out
        squared error. ``"aic"``: least corrected AIC. A number: h of all characteristics. An array: h of each, and if it is
        longer λ of each code. A dict: by column. ``inf`` makes a characteristic irrelevant.
    kernel : {"gaussian", "epanechnikov", "uniform", "triangular", "biweight"}, default "gaussian"
        Kernel of the characteristics; all but the Gaussian are zero beyond one bandwidth. The uniform one is flat: it takes no
        criterion.
    degree : {0, 1}, default 0
        0: local mean (Nadaraya–Watson). 1: local line in the characteristics.
    neighbors : int, optional
        Adaptive bandwidth: at each focal firm h is multiplied by the distance, in bandwidths, to its k-th nearest peer.
    codes : sequence of str, default ()
        Columns that are unordered codes (besides those of dtype string or unordered category).
    ordered : sequence of str, default ()
        Columns that are ordered codes, of whole numbers or ordered categories (columns of that dtype are in any case).
    n_starts : int, default 2
        Starting points of the search for ``"cv_ls"`` and ``"aic"``.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.

    Attributes
    ----------
    bandwidth_, within_bandwidth_ : ndarray (p,)
        h over the training rows, the pool of ``predict(X)``, and within a cross-section, that of ``predict(X, outcomes=y)``.
    mixing_, within_mixing_ : ndarray (c,)
        λ, likewise.
    bandwidths_ : DataFrame
        One row a column of X: kernel, bandwidths, and whether it counts: "local", "irrelevant" (so wide that all firms are
        alike in it), or "linear" (so wide that one slope serves all, ``degree=1``).
    criterion_, within_criterion_ : float or None
        Least value of the criterion chosen by.

    Notes
    -----
    ``predict(X)`` attends to the training rows of all periods, the firm's own past among them; ``predict(X, outcomes=y)`` to the
    other firms of the same period. Missing characteristics are filled (median of the cross-section). A firm of unknown code is
    as unlike all others; an unknown ordered code takes the median level. Firms without any peer of positive kernel get the
    training mean. Prediction costs O(n² p) in chunks: memory does not grow with n². A criterion is minimised by L-BFGS in
    log-bandwidths over at most 50 million pairs of rows; beyond that focal rows are thinned out evenly, never the pool. AIC
    keeps the own row in the pool.

    References
    ----------
    Nadaraya, E. A. (1964), On estimating regression, Theory of Probability and Its Applications 9(1).
    Watson, G. S. (1964), Smooth regression analysis, Sankhyā A 26(4).
    Racine, J. and Li, Q. (2004), Nonparametric estimation of regression functions with both categorical and continuous
    data, Journal of Econometrics 119(1).
    Li, Q. and Racine, J. S. (2007), Nonparametric Econometrics, chapters 2 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [5.0]]), np.array([0.0, 1.0, 9.0])
    >>> NadarayaWatsonRegressor(bandwidth=1.0).fit(X, y).predict([[0.5]]).round(3)
    array([0.5])
    """

    bandwidth: str | float | Sequence[float] | Mapping[str, float] = "normal_reference"
    kernel: str = "gaussian"
    degree: int = 0
    neighbors: int | None = None
    codes: Sequence[str] = ()
    ordered: Sequence[str] = ()
    n_starts: int = 2
    firm: str = "firm"
    period: str = "period"

    _parameter_constraints = PanelEstimator._parameter_constraints | {
        "kernel": [StrOptions(set(KERNELS))],
        "degree": [Options(Integral, {0, 1})],
        "neighbors": [Interval(Integral, 1, None, closed="left"), None],
        "ordered": [*COLUMNS],
        "n_starts": [Interval(Integral, 1, 1_000, closed="both")],
    }
    _isolates_get = "the training mean"

    @property
    def _signed(self) -> bool:
        return self.degree == 1

    # ------------------------------------------------------------------ more than a prediction

    def marginal_effects(self, X: PanelLike, *, outcomes: OutcomesLike = None) -> pd.DataFrame | np.ndarray:
        """Return how each row's prediction moves with each of its own characteristics.

        ``∂ŷ_i / ∂x_ic`` by automatic differentiation, peers held fixed; for ``degree=1`` the slope of the local line. The
        arguments are those of :meth:`predict`.

        Returns
        -------
        DataFrame (n, p) where ``X`` is a frame, else ndarray; units of the outcome per unit of the characteristic.
        """
        panel, sections = self._gate_call(X, outcomes)
        effects = panel.restore(np.concatenate([self._effects(section) for section in sections]))
        if not isinstance(X, pd.DataFrame | Panel):
            return effects
        return pd.DataFrame(effects, index=panel.index, columns=list(self.design_.characteristics))

    # ------------------------------------------------------------------ rows

    def _code_columns(self) -> tuple[str, ...]:
        return (*self.codes, *self.ordered)

    def _encode(self, panel: Panel, weight: np.ndarray | None, *, fitting: bool) -> Encoded:
        if fitting:
            both = set(self.codes) & set(self.ordered)
            if both:
                named = ", ".join(map(repr, sorted(both)))
                raise InputError(f"codes and ordered both name {named}: a code is one or the other.")
            self.design_ = Design.fit(panel, weight=weight)
            orders: dict[Any, Any] = dict.fromkeys(self.ordered, ()) | dict(panel.level_orders)
            self.codes_ = {name: KernelCode.fit(panel.codes[name], orders.get(name), weight) for name in panel.codes}
        levels = [code.transform(panel.codes[name]) for name, code in self.codes_.items()]
        return self.design_.filled(panel), np.array(levels, dtype=np.int64).reshape(len(levels), len(panel)).T

    def _points(self, rows: Rows) -> Points:
        x = torch.from_numpy(rows.x - self.center_)
        line = x / torch.from_numpy(self.scale_) if self.degree else x[:, :0]
        weight = None if rows.weight is None else torch.from_numpy(rows.weight).log()
        return Points(x, torch.from_numpy(rows.codes), line, weight)

    # ------------------------------------------------------------------ learning

    def _learn(self, training: Rows, panel: Panel) -> None:
        rows = self._keep_known(training)
        n = float(rows.counts.sum())
        self.center_, self.scale_ = centre_and_spread(rows.x, weight=rows.counts)
        kernels = tuple(code.kernel for code in self.codes_.values())
        self.regression_ = LocalRegression(self.kernel, kernels, self.neighbors)
        sizes = [n, n]  # of the two pools
        if self.dated_:
            sizes[1] = self.median_cross_section_
        start = [reference_bandwidths(kernels, rows.x, size, rows.weight) for size in sizes]
        if isinstance(self.bandwidth, str) and self.bandwidth in CRITERIA:
            if self.kernel == "uniform":
                why = "a criterion is minimised along its slope, and that of a uniform kernel is zero"
                raise InputError(f'bandwidth, kernel: {why}; give bandwidth= as numbers, or kernel="epanechnikov".')
            if rows.weight is not None:
                raise InputError("sample_weight: a criterion takes rows that count alike; repeat rows, or give bandwidth=.")
            chosen, self.criterion_ = self._choose([rows], start[0])
            chosen_within = chosen
            self.within_criterion_ = self.criterion_
            if panel.dated:
                sections = [training.take(at).known() for _, at in panel.cross_sections()]
                chosen_within, self.within_criterion_ = self._choose(sections, start[1])
        else:
            chosen, chosen_within = (given_bandwidths(self.bandwidth, self._names, each) for each in start)
            self.criterion_ = self.within_criterion_ = None
        self.bandwidth_ = chosen.h.numpy()
        self.mixing_ = chosen.mixing.numpy()
        self.within_bandwidth_ = chosen_within.h.numpy()
        self.within_mixing_ = chosen_within.mixing.numpy()

    def _choose(self, sections: Sequence[Rows], start: Bandwidths) -> tuple[Bandwidths, float | None]:
        """Choose by a criterion: each row from the rows of other identity in its section."""
        step = max(1, -(-sum(len(rows) ** 2 for rows in sections) // PAIRS))
        problems = []
        for rows in filter(len, sections):
            at = torch.arange(0, len(rows), step)
            # all rows stay in the pool: thinning it out would change the best bandwidths
            identity = torch.from_numpy(rows.identity)
            problems.append(Problem(self._points(rows), torch.from_numpy(rows.outcomes - self.mean_), identity, at))
        options: dict[str, Any] = {"criterion": self.bandwidth, "n_starts": self.n_starts}
        return choose_bandwidths(self.regression_, problems, start, **options)

    @property
    def _names(self) -> list[str]:
        """The columns of the regression, characteristics first."""
        return [*map(str, self.design_.characteristics), *map(str, self.codes_)]

    @property
    def bandwidths_(self) -> pd.DataFrame:
        """Kernel, bandwidths and role of each column."""
        codes = self.regression_.code_kernels
        flat = {0: "irrelevant", 1: "linear"}[self.degree]
        unordered = np.array([kernel.places is None for kernel in codes], dtype=bool)
        named = np.where(unordered, "Aitchison-Aitken", "Wang-van Ryzin").tolist()
        most = np.where(unordered, [kernel.most for kernel in codes], np.inf)
        columns: dict[str, Any] = {"kernel": [self.kernel] * len(self.bandwidth_) + named}
        for prefix in ("", "within_"):
            h = getattr(self, f"{prefix}bandwidth_")
            mixing = getattr(self, f"{prefix}mixing_")
            columns[f"{prefix}bandwidth"] = np.r_[h, mixing]
            roles = np.where(np.isinf(h), flat, "local").tolist()
            columns[f"{prefix}role"] = roles + np.where(mixing >= most, "irrelevant", "local").tolist()
        return pd.DataFrame(columns, index=self._names)

    # ------------------------------------------------------------------ prediction

    def _ready(self, section: CrossSection) -> tuple[Points, Points, Bandwidths]:
        """Return focal rows, peers and bandwidths of a cross-section."""
        prefix = "within_" if section.within else ""
        h, mixing = (torch.tensor(getattr(self, f"{prefix}{name}_")) for name in ("bandwidth", "mixing"))
        return self._points(section.focal), self._points(section.peers), Bandwidths(h, mixing)

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        predicted = np.full(len(section.focal), self.mean_)
        isolated = np.ones(len(section.focal), dtype=bool)
        for rows, _, fitted, _ in self._fits(section):
            predicted[rows] = self.mean_ + fitted[:, 0].numpy()
            isolated[rows] = fitted[:, 1].numpy() < 0.5  # the weights sum to one, or are zero
        return predicted, isolated

    def _weights(self, section: CrossSection, rows: slice) -> np.ndarray:
        focal, peers, bandwidths = self._ready(section)
        return self.regression_.weights(focal.take(rows), peers, bandwidths, _mask(section, rows)).numpy()

    def _effects(self, section: CrossSection) -> np.ndarray:
        effects = np.zeros((len(section.focal), len(self.design_.characteristics)))
        if not effects.shape[1]:
            return effects
        for rows, points, fitted, slopes in self._fits(section, moving=self.degree == 0):
            if self.degree:
                effects[rows] = slopes[:, :, 0].numpy() / self.scale_
            elif fitted.requires_grad:  # not of the uniform kernel, which is flat wherever it has a slope
                effects[rows] = torch.autograd.grad(fitted[:, 0].sum(), points.x)[0].numpy()
        return effects

    def _fits(self, section: CrossSection, moving: bool = False) -> Iterator[Any]:
        """Yield slices of focal rows, their points (``moving``: to differentiate by), fitted outcomes and ones, and slopes."""
        if not len(section.peers):
            return
        focal, peers, bandwidths = self._ready(section)
        y = torch.from_numpy(section.peers.outcomes - self.mean_)
        values = torch.stack([y, torch.ones_like(y)], dim=1)
        for rows in section.chunks() if self.regression_.streams else section.chunks(DENSE_CELLS):
            points = focal.take(rows)
            points.x.requires_grad_(moving)
            yield rows, points, *self.regression_.fit(points, peers, bandwidths, values, _mask(section, rows))


def _mask(section: CrossSection, rows: slice) -> torch.Tensor | None:
    """Return which rows may be attended to; None = everybody, which the fast kernel likes."""
    if (section.focal.identity[rows] == NO_IDENTITY).all():
        return None
    return torch.from_numpy(section.admissible(rows))
