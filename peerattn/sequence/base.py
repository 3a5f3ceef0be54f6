"""What all sequence models share: a seed, one way to train, fitted state as arrays, files without pickle."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, check_random_state, column_or_1d
from torch import Generator, Tensor

from peerattn import nn
from peerattn.exceptions import InputError, expect, reworded, reworded_values
from peerattn.nn.recording import recorded_weights
from peerattn.options import validate_options
from peerattn.seeds import check_seed
from peerattn.sequence.attention_map import AttentionMap, stacked
from peerattn.store.objects import load_estimator, save_estimator
from peerattn.training import Precision, find_device, train
from peerattn.training.prunable import PrunableHeads

#: A model's torch module.
Module = TypeVar("Module", bound=torch.nn.Module)

EXACT = 1e-9  # mean loss below which nothing is left to learn
#: Arguments of `peerattn.training.train` that a model's attributes give.
_OPTIONS = ("max_steps", "learning_rate", "weight_decay", "schedule", "average", "clip", "validate_every", "precision")
#: Arguments of constructors by their kind: an argument means the same in all models.
_COUNTS = (
    "average", "batch_size", "block_size", "d_head", "d_model", "horizon", "lookback", "max_steps", "min_count", "n_beams",
    "n_epochs", "n_heads", "patch", "window",
)  # fmt: skip
_FLAGS = ("compile", "copy", "directed", "early_stopping", "line", "lowercase", "normalise", "verbose")


def _interval(kind: type, least: float, most: float | None = None, closed: str = "left") -> list[Any]:
    return [Interval(kind, least, most, closed=closed)]


class SavedEstimator(BaseEstimator):
    """An estimator whose parameters and fitted state go into a safetensors file and come back.

    Fitted attributes, whose names end in an underscore, are numpy arrays, dictionaries of them, or what JSON holds. Where a
    subclass is a dataclass, its fields are the constructor's arguments.

    Examples
    --------
    >>> import tempfile
    >>> from peerattn.sequence import WordTokenizer
    >>> path = f"{tempfile.mkdtemp()}/words.safetensors"
    >>> WordTokenizer().fit(["a cat sat"]).save(path)
    >>> len(WordTokenizer.load(path).encode("a cat"))
    2
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **dict.fromkeys(_COUNTS, _interval(Integral, 1)),
        **dict.fromkeys(("n_merges", "position_shift", "shift"), _interval(Integral, 0)),
        **dict.fromkeys(("d_feedforward", "n_symbols"), [*_interval(Integral, 1), None]),
        **dict.fromkeys(("alpha", "length_penalty", "weight_decay"), _interval(Real, 0)),
        **dict.fromkeys(("label_smoothing", "symbol_dropout"), _interval(Real, 0, 1, "both")),
        **dict.fromkeys(("hidden", "validation_share"), _interval(Real, 0, 1, "right")),
        **dict.fromkeys(_FLAGS, ["boolean"]),
        "contamination": _interval(Real, 0, 0.5, "right"),
        "device": [str],
        "dropout": _interval(Real, 0, 1),
        "learning_rate": _interval(Real, 0, None, "neither"),
        "method": [StrOptions({"prediction", "reconstruction"})],
        "n_layers": _interval(Integral, 1, 1000, "both"),
        "n_positions": _interval(Integral, 2),
        "precision": [StrOptions(set(get_args(Precision)))],
        "positions": [StrOptions(set(get_args(nn.embedding.Positions)))],
        "split": [StrOptions({"words", "spaces"})],
    }

    def _validate_params(self) -> None:
        validate_options(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, atomically: safetensors and JSON, no pickle.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that :meth:`save` wrote; no code of the file is run.

        Raises
        ------
        InputError
            When the file is of another origin or class, damaged, or written by a newer version.
        """
        return load_estimator(path, cls)[0]

    def _held(self) -> dict[str, Any]:
        """Return what a file keeps: parameters, and the fitted attributes."""
        fitted = {k: v for k, v in vars(self).items() if k.endswith("_") and k != "record_"}
        return self.get_params(deep=False) | fitted


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceEstimator(PrunableHeads, SavedEstimator, Generic[Module]):
    """A model with a torch module: built from the constructor's arguments, trained, kept as arrays.

    A subclass gives ``_build``, ``_batches`` and, where it is no cross entropy, ``_loss``. Its ``fit`` checks what to
    learn from, sets what ``_build`` needs and returns ``_fit``; wherever it computes it calls ``_module``. Its attributes
    ``max_steps`` (or ``n_epochs``), ``learning_rate``, ``weight_decay``, ``schedule``, ``average``, ``clip``, ``validate_every``
    and ``precision`` are options of `peerattn.training.train`.

    Parameters
    ----------
    device : str, default "cpu"
        Of torch's devices, for training and for use; "auto": a GPU where torch finds one, else the CPU.
    precision : {"auto", "float32", "tf32", "bfloat16"}, default "auto"
        Of products of matrices in training, see `peerattn.training.train`: "auto" is bfloat16 on a GPU that has it, float32 on a
        CPU. A fitted model computes in the precision of its parameters.
    compile : bool, default False
        Whether training runs the module compiled by torch. The first steps take a minute or more, and a C++ compiler is needed.
        Options of a GPU are tested where there is one (``pytest -m gpu``); they were written without one at hand.
    random_state : int, RandomState or None, default None
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    state_ : dict of str to ndarray
        The module's parameters.
    record_ : TrainingRecord
        Losses and steps of the last fit.

    Examples
    --------
    >>> from peerattn.sequence import AttentionForecaster, SequenceEstimator
    >>> issubclass(AttentionForecaster, SequenceEstimator)
    True
    """

    device: str = "cpu"
    precision: str = "auto"
    compile: bool = False
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    def _fit(self, examples: Any) -> Self:
        """Build a module and learn from the examples."""
        generator = seeded(self.random_state)
        module = self._build(generator)
        with torch.no_grad():
            self._start(module, examples)
        self._learn(module.to(self._on), examples, generator)
        return self

    @property
    def _on(self) -> str:
        """The device, once it is found."""
        return find_device(self.device)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "state_")

    def _learn(self, module: Module, examples: Any, generator: Generator, **options: Any) -> None:
        """Minimise the loss in place by `peerattn.training.train`, which takes the options, and keep the state.

        Other options are the estimator's own attributes; of a model with ``n_epochs`` the examples are a tuple of columns.
        """
        own = {name: getattr(self, name) for name in _OPTIONS if hasattr(self, name)}
        if hasattr(self, "n_epochs"):
            own["max_steps"] = self.n_epochs * math.ceil(len(examples[0]) / self.batch_size)
        if self.verbose:
            own["progress"] = type(self).__name__
        options = own | options
        if "average" in options:
            options["average"] = min(options["average"], options["max_steps"])
        if self.compile:
            module.compile()
        batches = self._batches(examples, generator)
        self.record_ = train(module, lambda batch: self._loss(module.train(), batch), batches, **options)
        self._keep(module)

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that keeps ``pretrained`` fitted, as cross-validation needs it."""
        given = self.get_params(deep=False)
        copies = {name: clone(value, safe=False) for name, value in given.items() if name != "pretrained"}
        # a clone would forget the weights to start from
        return type(self)(**given | copies)

    def _build(self, generator: Generator) -> Module:
        """Return the module at its random start."""
        raise NotImplementedError

    def _start(self, module: Module, examples: Any) -> None:
        """Change the module before its first step."""

    def _batches(self, examples: Any, generator: Generator) -> Iterable[Any]:
        """Yield batches indefinitely."""
        raise NotImplementedError

    def _loss(self, module: Module, batch: Any) -> Tensor:
        """Return the loss that a step reduces: the mean cross entropy of predictions for a batch, whose last part is true."""
        smoothing = getattr(self, "label_smoothing", 0.0)
        return F.cross_entropy(module(*batch[:-1]), batch[-1], label_smoothing=smoothing)

    def _loss_sums(self, module: Module, X: object, y: object) -> Iterator[tuple[Tensor, int]]:
        """Yield sum and number of the losses of one batch after another."""
        raise InputError(f"model: {type(self).__name__} has no heads whose importance is measured.")

    def _mean_loss(self, X: object, y: object = None) -> float:
        with torch.inference_mode():
            sums = [(float(total), n) for total, n in self._loss_sums(self._module(), X, y)]
        return sum(total for total, _ in sums) / sum(n for _, n in sums)

    def _recorded(self, compute: Callable[[Module], object]) -> list[Tensor]:
        """Return the weights of every attention layer, in their order, while ``compute`` calls the fitted module."""
        self._check_attends()
        module = self._module()
        with torch.inference_mode(), recorded_weights(module) as layers:
            compute(module)
        return layers

    def _map(self, compute: Callable[[Module], object], names: Sequence[str], at: int | tuple[int, int] = 0) -> AttentionMap:
        """Return the weights of every layer between rows of these names, of the example ``at`` its place of the batch."""
        layers = stacked([layer[at] for layer in self._recorded(compute)])
        return AttentionMap(layers, tuple(names), tuple(names))

    def _keep(self, module: torch.nn.Module) -> None:
        self.state_ = {k: v.detach().cpu().numpy().copy() for k, v in module.state_dict().items()}

    def _module(self) -> Module:
        """Return the fitted module, ready to compute: built anew, so that nothing live is kept."""
        check_is_fitted(self)
        # without memory: the parameters are assigned, not copied
        with torch.device("meta"):
            module = self._build(Generator("cpu"))
        nn.load_pruned(module, {name: torch.tensor(value) for name, value in self.state_.items()})
        return module.to(self._on).eval()

    def _tensor(self, values: npt.ArrayLike) -> Tensor:
        return torch.tensor(values).to(self._on)

    def _in_parts(self, compute: Callable[[np.ndarray], Tensor], rows: np.ndarray, size: int = 256) -> np.ndarray:
        """Return what ``compute`` gives for the rows, in batches of ``size``, without gradients."""
        with torch.no_grad():
            parts = [compute(rows[k : k + size]).cpu().numpy() for k in range(0, len(rows), size)]
        return np.concatenate(parts)


@dataclass(eq=False, repr=False, kw_only=True)
class StackArguments:
    """The arguments of all models with a stack of transformer blocks: its sizes, and how it is trained."""

    n_layers: int = 4
    n_heads: int = 4
    d_model: int = 128
    dropout: float = 0.1
    batch_size: int = 64
    learning_rate: float = 1e-3

    def _stack(self, generator: Generator, **options: Any) -> nn.Encoder:
        """Return the stack at its random start."""
        options = {"dropout": self.dropout, **options}
        return nn.Encoder(self.n_layers, self.d_model, self.n_heads, generator=generator, **options)


class BesideLine:
    """What models share that start from a line in closed form, and add attention only where held-out data support it."""

    _answers: ClassVar[str]  # what the line alone gives
    line: bool
    loss_reduction_: float
    loss_reduction_error_: float

    @property
    def _line_alone(self) -> bool:
        return self.line and self.loss_reduction_ <= self.loss_reduction_error_

    def _check_attends(self) -> None:
        """Raise an InputError where attention adds nothing."""
        check_is_fitted(self)
        why = f"loss_reduction_={self.loss_reduction_:.3g} is within its standard error of {self.loss_reduction_error_:.2g}"
        remedy = "without attention. Make the model with line=False, or train it longer."
        if self._line_alone:
            raise InputError(f"line: {self._answers} are those of the linear model alone ({why}), {remedy}")


class Classifies(ClassifierMixin):
    """What classifiers of texts, images and nodes share: a class is its place in ``classes_``."""

    classes_: np.ndarray

    def predict(self, X: object) -> np.ndarray:
        """Return the most probable class of each text, image or node."""
        return self._likeliest(self.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of right classes, weighted where weights are given."""
        predicted = self.predict(X)
        with reworded("y, sample_weight: expected one class, or weight, for each prediction", kinds=(TypeError, ValueError)):
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def _likeliest(self, probabilities: np.ndarray) -> np.ndarray:
        return np.asarray(self.classes_[probabilities.argmax(1)])

    @staticmethod
    def _check_classes(y: object, n: int, what: str, name: str = "y") -> np.ndarray:
        """Return one class for each of n things, such as images, checked."""
        if y is None:
            raise InputError(f"{name}: this model requires y to be passed, but the target y is None.")
        with reworded_values():
            labels: np.ndarray = column_or_1d(y, warn=True)
        expect(len(labels) == n, name, f"one class per {what} ({n})", len(labels))
        return labels

    def _class_numbers(self, y: object, name: str = "y") -> Tensor:
        """Return the place of every class among those of ``fit``."""
        labels = np.asarray(y)
        known = self.classes_.tolist()
        for new in labels[~np.isin(labels, self.classes_)].tolist():
            raise InputError(f"{name}: expected classes of fit {known}, got {new!r}.")
        return torch.as_tensor(np.searchsorted(self.classes_, labels))


def loss_reduction_in_blocks(without: np.ndarray, losses: np.ndarray, n_blocks: int) -> tuple[float, float]:
    """Return by which share losses fell, and its standard error over blocks of neighbours (0 if there are not two)."""
    if without.mean() <= EXACT:
        return 0.0, 0.0
    # neighbouring losses are alike: blocks are the independent observations
    falls = [part.mean() for part in np.array_split((without - losses) / without.mean(), max(1, n_blocks))]
    error = 0.0
    if len(falls) > 1:
        error = float(np.std(falls, ddof=1) / np.sqrt(len(falls)))
    return 1 - float(losses.mean() / without.mean()), error


def seeded(random_state: int | np.random.RandomState | None) -> Generator:
    """Return the generator of a seed."""
    check_seed(random_state)
    return Generator().manual_seed(int(check_random_state(random_state).randint(2**31)))


def class_folds(y: np.ndarray, n_folds: int, order: np.ndarray) -> np.ndarray:
    """Deal the rows of each class to the folds, in this order: (n,). Each class continues where the preceding one ended.

    Examples
    --------
    >>> class_folds(np.array([0, 0, 1, 1]), 2, np.arange(4)).tolist()
    [0, 1, 0, 1]
    """
    # each class in turn, so that every fold has its share of each
    folds = np.empty(len(y), dtype=np.int64)
    folds[order[np.argsort(y[order], kind="stable")]] = np.arange(len(y)) % n_folds
    return folds
