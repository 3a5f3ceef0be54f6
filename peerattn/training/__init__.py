"""One training loop for every model: schedule, clipping, stopping, validation, progress."""

from peerattn.training.loop import TrainingRecord, train
from peerattn.training.schedule import SCHEDULES, Schedule, constant, cosine, inverse_sqrt, one_cycle

__all__ = [
    "SCHEDULES",
    "Schedule",
    "TrainingRecord",
    "constant",
    "cosine",
    "inverse_sqrt",
    "one_cycle",
    "train",
]
