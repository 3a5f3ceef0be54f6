"""Learned peers: self- and cross-attention over the firms of a panel."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from peerattn.exceptions import InputError, check_names, reworded_values
from peerattn.models.attention.base import PanelStack
from peerattn.models.attention.options import AttentionOptions
from peerattn.models.by_period import training_panel
from peerattn.models.cross_section import CrossSection, Rows
from peerattn.models.learners.losses import Loss, cross_entropy, regression_loss
from peerattn.models.mixins import PanelClassifierMixin, PanelRegressorMixin
from peerattn.models.stacking.evidence import STEPS
from peerattn.panel.frames import as_pandas
from peerattn.panel.panel import Panel
from peerattn.panel.stored import is_stored
from peerattn.processes import gathered
from peerattn.training import one_thread
from peerattn.types import OutcomesLike, PanelLike, ReferenceLike


class AttentionRegressorMixin(PanelRegressorMixin):
    """Makes a regressor of an estimator with attention heads: ``predict_steps`` and the loss."""

    loss: float | str

    @one_thread()
    def predict_steps(
        self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None, peer_weight: OutcomesLike = None
    ) -> pd.DataFrame:
        """Predict the outcome of each row with the first group of information, with the first two, and so on to all.

        The models are nested: the column before the last is the same fitted model without its peers. The parameters are those
        of :meth:`predict`; files are read by :meth:`predict` only.

        Returns
        -------
        DataFrame
            In the order of ``X``'s rows, one column for each step; the last one equals :meth:`predict`. A group of which
            nothing was selected leaves the prediction as it is.

        Raises
        ------
        InputError
            For a panel in files.

        Examples
        --------
        >>> from peerattn import StackedPeerRegressor, simulate_panel
        >>> panel = simulate_panel(20, 12, 2, n_industries=2, random_state=0)
        >>> model = StackedPeerRegressor(random_state=0).fit(panel.X, panel.y)
        >>> steps = model.predict_steps(panel.X)
        >>> steps.columns.tolist()
        ['own characteristics (linear)', 'nonlinear own-firm models', 'firm history', 'common shocks', 'peers']
        >>> bool((steps["peers"] == model.predict(panel.X)).all())
        True
        """
        if is_stored(X):
            raise InputError("X: expected rows in memory, got a panel in files; predict_steps one period at a time.")
        panel, sections = self._gate_call(X, outcomes, reference, peer_weight)  # type: ignore[call-arg]

        def in_units(section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
            steps, isolated = self._steps(section)
            return steps[:, :, 0] * self.y_scale_ + self.y_center_, isolated

        table = pd.DataFrame(self._of_sections(panel, sections, in_units), columns=STEPS)
        if isinstance(X, pd.DataFrame):
            table.index = X.index
        return table

    def _loss(self) -> Loss:
        return regression_loss(self.loss)


class PeerAttentionRegressor(AttentionRegressorMixin, AttentionOptions, PanelStack):
    r"""Attention over the firms of a period: heads, beside a function of the own characteristics.

    .. math:: \hat y_i = \text{own}_i + c \sum_h \sum_{j \in \text{pool}(i)} \alpha^h_{ij} v^h_j, \qquad
              \alpha^h_{ij} = \operatorname{softmax}_{j \in \text{pool}(i) \cup \{0\}}
              \big( (x_i W^h_Q + b^h) (x_j W^h_K)' / \sqrt d \big)

    :math:`x_i W_Q + b` is the query of firm i (what it searches for), :math:`x_j W_K` the key of firm j (its profile) and
    :math:`v_j` its value (the information it gives): :math:`x_j W_V` in a forecast, its outcome net of its own part in a
    nowcast. The null peer 0 has a learned key and the value zero, so that a firm may attend to nobody. The pool of candidate
    peers is the firm's own period, the own firm left out; weights have a direction, :math:`\alpha_{ij} \ne \alpha_{ji}`. The
    weight :math:`c \in [0, 1]` is estimated on held-out later periods, given the own part: it is 0 where the score of the heads
    is below 2κ standard errors, so that heads without evidence leave the own part as it is. There is nothing else in the model;
    for the combination with nonlinear own-firm models, firm history and common shocks see
    :class:`~peerattn.models.StackedPeerRegressor`.

    Parameters
    ----------
    attention : {"self", "cross"}, default "self"
        "self": every firm of the cross-section attends to the others. "cross": firms attend to a separate reference universe
        (``fit(X, y, reference=...)``).
    task : {"forecast", "nowcast"}, default "forecast"
        What a peer's value is: a linear function of its characteristics (a forecast), or its outcome of the period (a nowcast:
        valuation by comparable firms, for example; then ``predict`` on a panel needs ``outcomes=``).
    similarity : {"scaled_dot_product", "symmetric", "dot_product", "additive", "gaussian"}, default "scaled_dot_product"
        Score of query q and key k: ``q'k / √d``; the same with ``W_Q = W_K``, the restricted model in which i scores j as j
        scores i; ``q'k``; ``a' tanh(q + k)`` (O(n² d) memory); ``−½ ‖q − k‖²``.
    prior : str, Prior, PeerNetwork, Comovement, "only", or a sequence of them, optional
        Relations that are added to the scores: firms of the same code (the column's name), a given network, or how firms moved
        together in the past; each adds ``λ_h g_ij``, with λ learned (``prior_strength_``). ``"only"``, or
        ``Prior(..., only=True)``: firms attend to related firms only. ``Prior(column, exclude=True)``: rows of one group (share
        classes of one company) are never peers.
    own : {"curves", "linear", "none"} or scikit-learn estimator, default "curves"
        The own part. "linear": least squares on the firm's own characteristics and, where there are codes, slopes on a learned
        vector of each code, weighed on held-out periods: the level of an industry is no peer. "curves": the same, and a ridge
        regression on a curve of each characteristic and on products of two, weighed in the same way. "none": the mean outcome of
        training (of classes, equal odds). An estimator receives characteristics, missing-indicators and one column for each level
        of a code, and needs ``kappa``. With curves, and with an estimator, heads are trained beside cross-fitted curves, so that
        they do not follow a function of the firm itself.
    n_layers : int, default 1
        With 2 a head is a chain i ← j ← k of two layers with scores of their own: it adds what peers have and what their peers
        have, :math:`A X v_1 + A B X v_2`. In a nowcast the characteristics of peers' peers are used in the scores.
    n_heads : int, default 2
        Number of heads, learned together. 0: no peers.
    d_head : int, default 8
        Width of query and key, the rank of the scores; at most the number of characteristics.
    scale : {"standard", "rank", None}, default "standard"
        "standard": the training rows' mean and standard deviation; "rank": ranks from −1 to 1 within each period of the call
        (on arrays, within the training distribution). Learned heads use values of at most 4 standard deviations.
    codes : sequence of str, default ()
        Columns that are codes; columns of dtype category or string are codes in any case. In heads each is used as a learned
        embedding, with a row for "unknown".
    loss : {"auto", "squared_error", "huber"} or float, default "auto"
        "auto" is the squared error (the cross entropy, for classes). Huber's threshold is 1.35 standard deviations of the
        outcome; a number between 0 and 1 is the quantile of a pinball loss.
    kappa : float or None, default 1.0
        Twice this many standard errors are what the score of the heads must exceed. None: the heads are used in full, with the
        weight (up to one) that predicts later periods best, and no test, as are codes and curves of the own part. With codes or a
        ``prior`` they give way to equal weights on the firms of one level, or on those that the prior relates, with values by
        least squares, unless they predict held-out periods clearly, or these reject the equal weights (squared error, one layer).
        In a forecast what they add to a period's mean has a weight of its own.
    purge : int, default 0
        Periods before each held-out block that are not learned from. With outcomes over h periods, h − 1.
    firm, period : str, default "firm", "period"
        Names of the index levels (or columns) with the labels.
    random_state : int, RandomState or None, default None
        Initial values and order of the periods.

    Attributes
    ----------
    evidence_ : DataFrame
        Row ``peers``: ``factor``, the weight c; ``t`` of its score; ``loss_reduction``, the relative fall of the held-out loss;
        the effective number of held-out ``periods``; tested or not, with the ``reason``.
    stability_ : DataFrame
        How alike the final network is to those fitted at the forward origins ("folds"), and those of two halves of the averaged
        seeds to each other ("seeds"): correlation of the weights, share of common top-5 peers. Networks report it where they are
        shown.
    heads_ : DataFrame
        Every head, with its importance (standard deviation of what it adds to predictions, its weight in ``evidence_`` included,
        in units of the outcome) and its share in the network.
    prior_strength_ : DataFrame
        λ of every head and prior.
    feature_names_ : list of str
        The inputs of the heads: characteristics, missing indicators, code dimensions.

    Notes
    -----
    Weights are predictive relevance, not causal peer effects (Manski 1993: common shocks and reflection). Missing
    characteristics take the median of their cross-section, with an indicator. Rows of unknown outcome are peers without loss.
    Twelve seeds are trained (fewer, at least four, where cross-sections are large); those that fit nearly as well as the best
    are averaged (Occam's window, Madigan and Raftery 1994). A step costs O(queries × firms × heads). With fewer than 50 rows of
    known outcome, or in a forecast fewer than three held-out periods (about eight in all), nothing is tested: least squares.
    Heads are tested by what they predict beyond curves, gradient boosting and within-period slopes of own characteristics: a
    function of the firm itself is no peer. Boosting and slopes are no part of the prediction, nor curves with ``own="linear"``.
    There is no such test with ``own="none"``.

    References
    ----------
    Chernozhukov et al. (2018), Double/debiased machine learning, Econometrics Journal 21: cross-fitted curves beside heads.
    Vaswani et al. (2017), Attention is all you need, NeurIPS.
    Harvey, Leybourne and Newbold (1998), Tests for forecast encompassing, JBES 16(2): the weight.
    Madigan and Raftery (1994), Model selection and accounting for model uncertainty in graphical models using Occam's window,
    Journal of the American Statistical Association 89.
    Manski (1993), Identification of endogenous social effects, Review of Economic Studies 60(3).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = pd.MultiIndex.from_product([range(20), range(2000, 2010)], names=["firm", "period"])
    >>> X = pd.DataFrame(rng.normal(size=(200, 2)), index=index, columns=["size", "leverage"])
    >>> y = X["size"] + 0.5 * rng.normal(size=200)
    >>> model = PeerAttentionRegressor(n_heads=1, random_state=0).fit(X, y)
    >>> float(model.evidence_.loc["peers", "factor"])  # no peers in these data
    0.0
    >>> model.predict(X).shape
    (200,)
    """


class PeerAttentionClassifier(PanelClassifierMixin, AttentionOptions, PanelStack):
    r"""Attention over a cross-section of firms, for a class: up or down, default, a rating.

    .. math:: P(y_i = c) = \operatorname{softmax}_c
              \Big( x_i \beta_c + \sum_h \sum_{j \in \text{pool}(i)} \alpha^h_{ij} v^h_{jc} \Big)

    The parameters and attributes are those of :class:`PeerAttentionRegressor`; the loss is the cross entropy, the own part is
    logistic regression, on characteristics and on curves of these. With ``task="nowcast"`` the information of a peer is its
    class.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)

    Notes
    -----
    In a panel a missing class (NaN, None) is unknown: the row is a peer and carries no loss.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> model = PeerAttentionClassifier(n_heads=1, random_state=0).fit(X, np.where(X[:, 0] > 0, "up", "down"))
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]]).tolist()
    ['up', 'down']
    """

    _parameter_constraints = AttentionOptions._parameter_constraints | {
        "own": [StrOptions({"linear", "curves", "none"}), HasMethods(["fit", "predict_proba"])],
        "loss": [StrOptions({"auto", "cross_entropy"})],
    }

    def fit(self, X: PanelLike, y: OutcomesLike = None, sample_weight: OutcomesLike = None, **options: Any) -> Self:
        """Fit on training rows; ``y`` holds classes. Everything else as in :meth:`PeerAttentionRegressor.fit`."""
        if is_stored(X):
            X = training_panel(self, X, y)
            y = None
        if y is None and isinstance(X, Panel):
            y = X.y
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        y = as_pandas(y)
        labels = _one_column(y)
        listed = labels[~pd.isna(labels)].tolist()
        if len({isinstance(each, str) for each in listed}) > 1:
            first = [next(each for each in listed if isinstance(each, str) is text) for text in (True, False)]
            raise InputError(f"y: classes must be all text or all numbers, got {first[0]!r} and {first[1]!r}. Convert them.")
        known = np.asarray(listed)  # numbers, where all are
        with reworded_values():
            check_classification_targets(known)
        self.classes_ = np.unique(np.concatenate(gathered(np.unique(known))))
        held = f"y holds {self.classes_.tolist()}"
        if len(self.classes_) < 2:
            raise InputError(f"Classifier can't train when only one class is present: {held}.")
        return super().fit(X, self._encode_outcomes(y), sample_weight, **options)

    @one_thread()
    def predict_proba(
        self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None, peer_weight: OutcomesLike = None
    ) -> np.ndarray:
        """Return the probability of every class, an ndarray (n, n_classes), its columns in the order of ``classes_``.

        Parameters are those of :meth:`PeerAttentionRegressor.predict`; ``outcomes`` are classes.
        """
        return self._predictions(X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)

    @property
    def _classes(self) -> tuple[Any, ...]:
        return tuple(self.classes_)

    def _attend(self, section: CrossSection) -> tuple[np.ndarray, np.ndarray]:
        outputs, isolated = self._outputs(section)
        return _softmax(outputs), isolated

    def predict(
        self, X: PanelLike, *, outcomes: OutcomesLike = None, reference: ReferenceLike = None, peer_weight: OutcomesLike = None
    ) -> np.ndarray:
        """Return the most probable class of each row; parameters as in :meth:`predict_proba`."""
        probability = self.predict_proba(X, outcomes=outcomes, reference=reference, peer_weight=peer_weight)
        return self.classes_[probability.argmax(axis=1)]

    def _encode_outcomes(self, outcomes: OutcomesLike) -> Any:
        """Return classes as their numbers, NaN where unknown; labels of rows are kept."""
        if outcomes is None:
            return None
        if isinstance(outcomes, Panel):
            return replace(outcomes, outcomes=self._encode_outcomes(outcomes.outcomes))
        given: Any = as_pandas(outcomes)
        labels = _one_column(given)
        known = ~pd.isna(labels)
        numbers = np.full(len(labels), np.nan)
        at = pd.Index(self.classes_).get_indexer(pd.Index(labels[known].tolist()))
        check_names("y", "class", labels[known][at < 0].tolist(), self.classes_.tolist())
        numbers[known] = at
        if isinstance(given, pd.Series | pd.DataFrame):
            return pd.Series(numbers, index=given.index)
        return numbers

    def _standardise_outcomes(self, training: Rows) -> Rows:
        self.y_center_ = 0.0
        self.y_scale_ = 1.0
        return training

    def _loss(self) -> Loss:
        return cross_entropy

    def _n_outputs(self) -> int:
        if len(self.classes_) == 2:  # one logit
            return 1
        return len(self.classes_)


def _one_column(y: OutcomesLike) -> np.ndarray:
    """Return y as a 1-d array of objects."""
    with reworded_values():
        return np.asarray(column_or_1d(np.asarray(y, dtype=object), warn=True))


def _softmax(outputs: np.ndarray) -> np.ndarray:
    """Return class probabilities from logits, (..., n_classes); one logit represents two classes."""
    if outputs.shape[-1] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=-1)
    return softmax(outputs, axis=-1)
