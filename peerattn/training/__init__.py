"""One training loop for every model: schedule, clipping, stopping, validation, progress; checkpoints, and one thread."""

from peerattn.training.checkpoint import Checkpoint
from peerattn.training.loop import TrainingRecord, train
from peerattn.training.schedule import SCHEDULES, Schedule, make_scheduler
from peerattn.training.threads import one_thread

__all__ = ["SCHEDULES", "Checkpoint", "Schedule", "TrainingRecord", "make_scheduler", "one_thread", "train"]
