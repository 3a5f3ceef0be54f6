"""Stages of a fit that a checkpoint keeps: objects of this package on disk, as saved models hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from peerattn.exceptions import InputError
from peerattn.models.cross_section import Rows
from peerattn.store.digest import code_version, hash_of
from peerattn.store.objects import decoded, encoded
from peerattn.training import Checkpoint

Made = TypeVar("Made")


def remembered(checkpoint: Checkpoint | None, make: Callable[[], Made]) -> Made:
    """Return what ``make`` gives: from the checkpoint's next stage where it is there, else made and kept."""
    if checkpoint is None:
        return make()
    with checkpoint.stage():
        found = checkpoint.load()
        if found is None:
            made = make()
            arrays = dict[str, np.ndarray]()
            tree = encoded(made, arrays, "checkpoint")
            checkpoint.finish(arrays, {"made": tree})
            return made
        stored: Made = decoded(found[1]["made"], found[0])
        return stored


def made_from(model: Any, rows: Rows, *others: Any) -> dict[str, str]:
    """Return digests, by name, of all that a fit depends on: options, training rows (and other data), and code.

    Raises
    ------
    InputError
        When an option cannot be hashed, a function without a name for example.
    """
    found = {"code or versions of packages": code_version()}
    for name, value in model.get_params(deep=False).items():
        if name != "verbose":
            try:
                found[name] = hash_of(value)
            except Exception as error:  # what cannot be hashed fails in as many ways as there are objects
                raise InputError(
                    f"checkpoint: {name} cannot be stored ({type(error).__name__}: {error}). Define its class at the top of a "
                    "module, or fit without checkpoint=."
                ) from error
    return found | {"data": hash_of([_content(value) for value in (rows, *others)])}


def _content(value: Any) -> Any:
    """Return arrays that are equal where the data are, whatever frame they came in."""
    if isinstance(value, Rows):
        return [_content(each) for each in vars(value).values()]
    if isinstance(value, pd.Index):
        return pd.util.hash_array(value.astype(str).to_numpy(dtype=object))
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value
