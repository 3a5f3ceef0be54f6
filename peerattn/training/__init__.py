"""One training loop for every model: schedule, clipping, stopping, validation; one thread, several processes."""

from peerattn.processes import data_parallel
from peerattn.training.device import Precision, find_device, multiplied_in, precision_of
from peerattn.training.loop import TrainingRecord, train
from peerattn.training.schedules import SCHEDULES, Schedule, make_schedule
from peerattn.training.threads import one_thread

__all__ = [
    "Precision", "SCHEDULES", "Schedule", "TrainingRecord", "data_parallel", "find_device", "make_schedule",
    "multiplied_in", "one_thread", "precision_of", "train",
]  # fmt: skip
