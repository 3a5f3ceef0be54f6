"""One training loop for every model: schedule, clipping, stopping, validation, progress."""

from peerattn.training.loop import TrainingRecord, train
from peerattn.training.schedule import SCHEDULES, Schedule, make_scheduler

__all__ = ["SCHEDULES", "Schedule", "TrainingRecord", "make_scheduler", "train"]
