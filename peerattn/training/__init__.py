"""One training loop for every model: schedule, clipping, stopping, validation; checkpoints, one thread, several processes."""

from peerattn.processes import data_parallel
from peerattn.training.checkpoint import Checkpoint
from peerattn.training.loop import TrainingRecord, train
from peerattn.training.schedule import SCHEDULES, Schedule, make_scheduler
from peerattn.training.threads import one_thread

__all__ = [
    "Checkpoint", "SCHEDULES", "Schedule", "TrainingRecord", "data_parallel", "make_scheduler", "one_thread", "train",
]  # fmt: skip
