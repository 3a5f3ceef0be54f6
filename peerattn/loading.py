"""Reading any fitted model back."""

from __future__ import annotations

import os
from typing import Any


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted model that ``save`` or ``peerattn fit`` wrote, whatever its class; no code of the file is run.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    fitted estimator

    Raises
    ------
    InputError
        When the file is missing, of another origin (a pickle, for example), cut off or damaged, written by another version of
        the format, or names a class that is no part of a saved model.

    Notes
    -----
    The file is safetensors with a JSON header and a seal, the SHA-256 of the file: a changed bit is found. The seal is no
    signature: whoever writes the file can seal it, and can choose the model's numbers, but no code.

    Examples
    --------
    >>> import tempfile
    >>> from peerattn import NadarayaWatsonRegressor
    >>> model = NadarayaWatsonRegressor(bandwidth=1.0).fit([[1.0], [2.0]], [1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/kernel.model")
    ...     load(f"{folder}/kernel.model")
    NadarayaWatsonRegressor(bandwidth=1.0)
    """
    from peerattn.state import read_state

    arrays, spec = read_state(path, "model")
    if "estimator" in spec:
        from peerattn import sequence  # all of its classes, so that each is known by its name

        return sequence.base.unpacked(spec, arrays)
    from peerattn.models.saving import decoded

    return decoded(spec.get("model"), arrays)
