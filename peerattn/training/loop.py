"""One training loop over an iterator of batches, for every model."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor, nn

from peerattn.exceptions import InputError, check_at_least, expect, validate_arguments
from peerattn.processes import all_sum, averaged, n_processes, process
from peerattn.render import progress_bar
from peerattn.training.adamw import AdamW
from peerattn.training.device import multiplied_in, precision_of
from peerattn.training.schedules import Schedule, make_schedule

Batch = TypeVar("Batch")
READ_EVERY = 20  # steps between readings of the losses on a device that works while Python goes on


@dataclass(frozen=True)
class TrainingRecord:
    """What happened during training.

    Attributes
    ----------
    losses : tuple of float
        Training loss of every step, before its update.
    validation : tuple of (int, float)
        Steps taken, and the validation loss then.
    best_step : int
        After how many steps the parameters were as they are now: the best validation, or the last step.

    Examples
    --------
    >>> import torch
    >>> from peerattn.training import train
    >>> layer = torch.nn.Linear(1, 1)
    >>> batches = ((torch.ones(2, 1), torch.ones(2, 1)) for _ in range(5))
    >>> record = train(layer, lambda b: (layer(b[0]) - b[1]).square().mean(), batches, max_steps=5, learning_rate=0.1)
    >>> type(record).__name__
    'TrainingRecord'
    """

    losses: tuple[float, ...] = field(repr=False)
    validation: tuple[tuple[int, float], ...] = field(repr=False)
    best_step: int

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return len(self.losses)

    def __str__(self) -> str:
        wording = f"{self.steps} steps, loss {self.losses[0]:.4g} to {self.losses[-1]:.4g}"
        best = dict(self.validation).get(self.best_step)
        if best is None:
            return wording
        return f"{wording}; best validation {best:.4g} after step {self.best_step}"


@validate_arguments
def train(
    parameters: nn.Module | Iterable[Tensor],
    loss: Callable[[Batch], Tensor],
    batches: Iterable[Batch],
    *,
    max_steps: int,
    learning_rate: float,
    schedule: str | Schedule = "one_cycle",
    weight_decay: float = 0.0,
    clip: float | None = 1.0,
    average: int | None = None,
    validate: Callable[[], float] | None = None,
    validate_every: int = 100,
    precision: str = "float32",
    read_every: int | None = None,
    progress: str | None = None,
) -> TrainingRecord:
    r"""Minimise a loss by AdamW, one batch a step, changing the parameters in place.

    .. math:: \theta_{t+1} = \theta_t - \eta\, c(t) \big(\hat m_t / (\sqrt{\hat v_t} + \epsilon)
              + \lambda \theta_t\big)

    Parameters
    ----------
    parameters : nn.Module or iterable of Tensor
        What to train: :math:`\theta`. Those that need no gradient are left alone.
    loss : callable
        ``loss(batch)``, a scalar tensor.
    batches : iterable
        Gives at least ``max_steps`` batches, of whatever ``loss`` takes. Any shuffling is its own.
    max_steps : int
        Number of steps.
    learning_rate : float
        Peak learning rate :math:`\eta`.
    schedule : {"one_cycle", "cosine", "inverse_sqrt", "constant"} or callable, default "one_cycle"
        :math:`c(t)`, a schedule of this name (see `make_schedule`) or a function of (step, max_steps).
    weight_decay : float, default 0
        :math:`\lambda`, on parameters with two or more dimensions. 0 is Adam.
    clip : float, default 1
        Largest norm of the whole gradient; None: any.
    average : int, default None
        At the end the parameters become their mean over the last ``average`` steps (checkpoint averaging); None: they stay
        as they are. Not with ``validate``.
    validate : callable, default None
        ``validate()``, a number to be made small, called without gradients every ``validate_every`` steps and
        after the last. The parameters of the smallest are restored at the end.
    validate_every : int, default 100
        Steps between validations.
    precision : {"float32", "auto", "tf32", "bfloat16"}, default "float32"
        In which the loss multiplies matrices. Parameters, gradients and steps stay as they are. "bfloat16": by torch's autocast,
        with TF32 for the rest; "auto": this on a GPU that has it, and float32 elsewhere.
    read_every : int, default None
        Steps after which losses and gradients are read from the device, which must finish its work for it. None: each step on
        a CPU, where reading is free, and among several processes; every 20 steps on other devices.
    progress : str, default None
        Label of a progress bar with the time left, on standard error. None: no bar.

    Returns
    -------
    TrainingRecord

    Raises
    ------
    InputError
        When loss, gradient or validation is not finite: parameters are then those before the first such step, however late it
        is read; when batches run out; when an argument is out of range.

    Notes
    -----
    Uses no random numbers and leaves torch's global generators alone. Among several processes
    (:func:`data_parallel`) the loss and its gradient are the means over them. Precisions of a GPU are
    tested where there is one (``pytest -m gpu``); they were written without one at hand.

    References
    ----------
    Loshchilov and Hutter (2019), Decoupled weight decay regularization, ICLR.

    Examples
    --------
    >>> from itertools import repeat
    >>> slope = torch.zeros(1, requires_grad=True)
    >>> x = torch.tensor([1.0, 2.0, 3.0])
    >>> record = train([slope], lambda y: (y - slope * x).square().mean(), repeat(2 * x),
    ...                max_steps=200, learning_rate=0.1)
    >>> round(slope.item(), 3)
    2.0
    >>> record
    TrainingRecord(best_step=200)
    """
    counts = {"max_steps": max_steps, "validate_every": validate_every, "average": average, "read_every": read_every}
    check_at_least(1, **{name: value for name, value in counts.items() if value is not None})
    expect(0 < learning_rate < math.inf, "learning_rate", "a positive number", learning_rate)
    expect(weight_decay >= 0, "weight_decay", "a number of at least 0", weight_decay)
    expect(clip is None or clip > 0, "clip", "a positive number or None", clip)
    if average is not None and validate is not None:
        raise InputError("average: goes without validation, which keeps one step's parameters. Leave out validate.")
    if isinstance(parameters, nn.Module):
        parameters = parameters.parameters()
    # rows of one tensor, in place of a list of tensors, are no leaves: a step would not reach them
    trained = [tensor for tensor in parameters if tensor.requires_grad and tensor.is_leaf]
    expect(bool(trained), "parameters", "at least one tensor with requires_grad=True", "none")
    device = trained[0].device
    precision = precision_of(precision, device)
    if read_every is None:
        read_every = READ_EVERY
        if device.type == "cpu" or n_processes() > 1:
            read_every = 1
    optimizer = AdamW(trained, weight_decay)
    rate_of = make_schedule(schedule, learning_rate, max_steps)
    log = _Log(device)
    kept = _Kept(trained)
    with progress_bar(None if process() else progress, max_steps) as advance:
        for done, batch in zip(range(1, max_steps + 1), batches):
            optimizer.zero_grad()
            with multiplied_in(precision, device):
                value = loss(batch)
            norm = _gradient(value, trained, clip)
            rate = rate_of(done - 1)
            # a step that is not finite is left out on the device itself, and so are all after it
            broken = log.add(value.detach().reshape(()), norm, rate)
            if done % read_every == 0 or done == max_steps:
                log.read()
            optimizer.step(rate, broken)
            advance(f"loss {log.losses[-1]:.4g}" if log.losses else "")
            if average is not None and max_steps - done < average:
                kept.mean()
            if validate is not None and (done % validate_every == 0 or done == max_steps):
                log.read()
                with torch.no_grad():
                    number = float(validate())
                _check_finite("validation loss", number, done, rate)
                kept.best(done, number)
    log.read()
    remedy = "Give an endless iterator, for example itertools.cycle(batches), or lower max_steps."
    expect(len(log.losses) == max_steps, "batches", f"at least max_steps={max_steps}", len(log.losses), remedy)
    kept.restore()
    # the last step has no loss after it that would show it
    norms = torch.stack([norm.double() for norm in torch._foreach_norm([x.detach() for x in trained])])
    _check_finite("parameters' norm", float(norms.max()), max_steps, rate)
    return TrainingRecord(tuple(log.losses), tuple(kept.history), kept.step or len(log.losses))


def _gradient(value: Tensor, trained: list[Tensor], clip: float | None) -> Tensor:
    """Set the gradients of a loss, the mean over processes, at most of norm ``clip``; return their norm."""
    value.backward()
    if n_processes() > 1:
        # a process whose rows do not reach a parameter still takes part in its mean
        own = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
        for each, mean in zip(trained, averaged(own), strict=True):
            each.grad = mean
    return nn.utils.clip_grad_norm_(trained, math.inf if clip is None else clip)


class _Log:
    """Losses and norms of gradients, on the device until they are read together."""

    def __init__(self, device: torch.device):
        self.losses: list[float] = []
        self.waiting: list[tuple[Tensor, Tensor, float]] = []
        self.broken = torch.zeros((), device=device)

    def add(self, loss: Tensor, norm: Tensor, rate: float) -> Tensor:
        """Keep what a step has found, and return 1 where this step or one before is not finite, else 0."""
        self.waiting.append((loss, norm, rate))
        finite = (loss.isfinite() & norm.isfinite()).to(self.broken)
        self.broken = torch.maximum(self.broken, 1 - finite)
        return self.broken

    def read(self) -> None:
        """Read what is waiting, one wait for all; raise an InputError for the first step that is not finite."""
        if not self.waiting:
            return
        losses, norms, rates = zip(*self.waiting, strict=True)
        # one transfer for all that is waiting
        both = torch.stack([torch.stack(losses).double(), torch.stack(norms).double()]).tolist()
        self.waiting = []
        for loss, norm, rate in zip(*both, rates, strict=True):
            mean = all_sum(loss) / n_processes()
            step = len(self.losses) + 1
            _check_finite("loss", mean, step, rate)
            _check_finite("gradient's norm", norm, step, rate)
            self.losses.append(mean)


def _check_finite(what: str, value: float, step: int, rate: float) -> None:
    if not math.isfinite(value):
        remedy = "Lower learning_rate, or look for missing or extreme values in the input."
        raise InputError(f"Training diverged at step {step}: the {what} is {value} (learning rate then {rate:.3g}). {remedy}")


class _Kept:
    """Parameters that are restored at the end: those of the smallest validation loss, or the mean of several steps."""

    def __init__(self, trained: list[Tensor]):
        self.trained = trained
        self.values = list[Tensor]()
        self.history: list[tuple[int, float]] = []
        self.count = 0
        self.loss = math.inf
        self.step = 0

    def best(self, step: int, loss: float) -> None:
        """Keep the parameters as they are where this validation loss is the smallest."""
        self.history.append((step, loss))
        if loss < self.loss:
            self.loss = loss
            self.step = step
            self.values = [x.detach().clone() for x in self.trained]

    def mean(self) -> None:
        """Keep the mean of the parameters as they are and as they were."""
        self.count += 1
        self.values = self.values or [x.detach().clone() for x in self.trained]
        torch._foreach_lerp_(self.values, [x.detach() for x in self.trained], 1 / self.count)

    @torch.no_grad()
    def restore(self) -> None:
        for tensor, value in zip(self.trained, self.values):
            tensor.copy_(value)
