"""All tasks."""

from typing import Final

from trainer.config import TrainConfig
from trainer.tasks.classification import Classification
from trainer.tasks.segmentation import Segmentation
from trainer.tasks.task import Task

TASKS: Final[tuple[type[Task], ...]] = (Classification, Segmentation)


def make_task(config: TrainConfig, classes: int) -> Task:
    """Return the task of a configuration, for a data set with a number of classes."""
    return next(task for task in TASKS if task.name == config.task)(classes)
