"""What all sequence models share: a seed, one way to train, fitted state as arrays, files without pickle."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from peerattn.exceptions import InputError
from peerattn.render import write_atomic
from peerattn.training import TrainingRecord, train

_FORMAT = "peerattn.sequence 1"


class SavedEstimator(BaseEstimator):
    """An estimator whose parameters and fitted state go into a safetensors file and come back.

    A subclass names its fitted attributes in ``_fitted``: numpy arrays, dictionaries of them, or what JSON holds.
    """

    _fitted: ClassVar[tuple[str, ...]] = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle: arrays as safetensors, the rest as JSON in its header.

        Parameters
        ----------
        path : path-like
            The file to write. Its folder must exist.

        Raises
        ------
        InputError
            When a constructor argument is an object that JSON cannot hold (a seed as a number can be).
        """
        from safetensors.numpy import save

        check_is_fitted(self)
        arrays: dict[str, np.ndarray] = {}
        specification = _pack(self, "", arrays)
        write_atomic(
            path, save(arrays, metadata={"format": _FORMAT, "specification": json.dumps(specification)})
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        A fitted model of this class. What ``fit`` reports of its steps (``record_``) is not kept.

        Raises
        ------
        InputError
            When the file is not one of ours, or holds another class.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(os.fspath(path), framework="np") as file:
                header = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"path: expected a file that save() wrote, got {str(path)!r}: {error}."
            ) from error
        if header.get("format") != _FORMAT:
            raise InputError(f"path: expected a file that save() wrote, got {str(path)!r} of another origin.")
        model = _unpack(json.loads(header["specification"]), "", arrays)
        if not isinstance(model, cls):
            raise InputError(
                f"path: expected a saved {cls.__name__}, got a {type(model).__name__}. "
                f"Use {type(model).__name__}.load."
            )
        return model

    def _restore(self) -> None:
        """Give fitted attributes back the types that JSON does not know."""

    def __sklearn_is_fitted__(self) -> bool:
        return all(hasattr(self, name) for name in self._fitted)


class SequenceEstimator(SavedEstimator):
    """A model with a torch module: built from the constructor's arguments, trained, kept as arrays.

    A subclass has the arguments ``random_state``, ``device`` and ``verbose``, gives :meth:`_build`, calls :meth:`_train`
    in ``fit`` and :meth:`_module` wherever it computes. ``_fitted`` names what ``_build`` needs, and ``"state_"``.

    Attributes
    ----------
    state_ : dict of str to ndarray
        The module's parameters.
    record_ : TrainingRecord
        Losses and steps of the last fit.
    """

    random_state: Any
    device: str
    verbose: bool
    state_: dict[str, np.ndarray]
    record_: TrainingRecord

    def _build(self, generator: torch.Generator) -> torch.nn.Module:
        """Return the module at its random start."""
        raise NotImplementedError

    def _generator(self) -> torch.Generator:
        """Return the generator of all of fit's random numbers, seeded by ``random_state``."""
        return torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31)))

    def _train(
        self,
        module: torch.nn.Module,
        loss: Callable[[Any], Tensor],
        batches: Iterable[Any],
        **options: Any,
    ) -> None:
        """Minimise ``loss(batch)`` in place by `peerattn.training.train`, which takes the options, and keep the state."""
        module.train()
        label = type(self).__name__ if self.verbose else None
        self.record_ = train(module, loss, batches, progress=label, **options)
        self._keep(module)

    def _keep(self, module: torch.nn.Module) -> None:
        self.state_ = {
            name: value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()
        }

    def _module(self) -> Any:
        """Return the fitted module, ready to compute: built anew, so that nothing live is kept."""
        check_is_fitted(self)
        with torch.device("meta"):
            module = self._build(torch.Generator("cpu"))
        state = {name: torch.tensor(value) for name, value in self.state_.items()}
        module.load_state_dict(state, assign=True)
        return module.to(self.device).eval()


def check_texts(texts: Any, name: str = "X") -> list[str]:
    """Return the texts as a list of strings, none empty.

    Parameters
    ----------
    texts : iterable of str
        A list, an array, a Series.
    name : str, default "X"
        Name of the argument the error speaks of.

    Raises
    ------
    InputError
        When it is one string, holds something else or an empty text, or nothing.

    Examples
    --------
    >>> check_texts(("one", "two"))
    ['one', 'two']
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"{name}: expected a list of texts, got {type(texts).__name__}. Put it into a list.")
    found = list(texts)
    for k, text in enumerate(found):
        if not isinstance(text, str):
            raise InputError(f"{name}: expected strings, got {type(text).__name__} at place {k}.")
        if not text.strip():
            raise InputError(f"{name}: expected texts with something in them, got an empty one at place {k}.")
    if not found:
        raise InputError(f"{name}: expected at least one text, got none.")
    return [str(text) for text in found]


def _pack(model: SavedEstimator, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Put the model's arrays into ``arrays`` under the prefix and return the rest, for JSON."""
    parameters = {
        name: _packed(value, f"{prefix}{name}", arrays)
        for name, value in model.get_params(deep=False).items()
    }
    fitted = {
        name: _packed(getattr(model, name), f"{prefix}{name}", arrays)
        for name in (*model._fitted, "feature_names_in_")
        if hasattr(model, name)
    }
    return {"class": type(model).__name__, "parameters": parameters, "fitted": fitted}


def _packed(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, SavedEstimator):
        return {"estimator": _pack(value, f"{name}/", arrays)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO":  # names: safetensors holds numbers only
        return {"names": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.ndarray):
        arrays[name] = np.ascontiguousarray(value)
        return {"array": name}
    if isinstance(value, Mapping) and value and all(isinstance(v, np.ndarray) for v in value.values()):
        return {"arrays": {key: _packed(v, f"{name}/{key}", arrays)["array"] for key, v in value.items()}}
    if isinstance(value, np.generic):
        value = value.item()
    try:
        json.dumps(value)
    except TypeError as error:
        raise InputError(
            f"{name}: expected a value that JSON can hold (numbers, strings, lists), got {type(value).__name__}. "
            "Set it to one before saving."
        ) from error
    return {"value": value}


def _unpack(specification: Mapping[str, Any], prefix: str, arrays: Mapping[str, np.ndarray]) -> Any:
    """Build the model that :func:`_pack` described. Only classes of this package are ever made."""
    home = importlib.import_module("peerattn.sequence")
    name = specification["class"]
    kind = getattr(home, name, None) if name in home.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, SavedEstimator)):
        raise InputError(f"path: holds the class {name!r}, which this version does not know.")

    def unpacked(packed: Mapping[str, Any], at: str) -> Any:
        if "estimator" in packed:
            return _unpack(packed["estimator"], f"{at}/", arrays)
        if "names" in packed:
            return np.array(packed["names"], dtype=packed["dtype"])
        if "array" in packed:
            return arrays[packed["array"]]
        if "arrays" in packed:
            return {key: arrays[where] for key, where in packed["arrays"].items()}
        return packed["value"]

    model = kind(**{key: unpacked(v, prefix + key) for key, v in specification["parameters"].items()})
    for key, packed in specification["fitted"].items():
        setattr(model, key, unpacked(packed, prefix + key))
    model._restore()
    return model


def pad(sequences: Sequence[Sequence[int]], filling: int) -> tuple[Tensor, Tensor]:
    """Return sequences side by side, filled up to the longest, and their lengths.

    Parameters
    ----------
    sequences : sequence of sequences of int
    filling : int
        Symbol that fills.

    Returns
    -------
    symbols : Tensor of int64, shape (batch, longest)
    lengths : Tensor of int64, shape (batch,)

    Examples
    --------
    >>> pad([[5, 6], [7]], 0)
    (tensor([[5, 6],
             [7, 0]]), tensor([2, 1]))
    """
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    symbols = torch.full((len(sequences), max(map(len, sequences), default=0)), filling)
    for row, sequence in enumerate(sequences):
        symbols[row, : len(sequence)] = torch.as_tensor(sequence)
    return symbols, lengths
