"""The six problems that the models learn. They need only NumPy, and neither ``autodiff`` nor ``pntm_np``.

Each has its own file. ``task`` defines what a task is, ``batch`` makes training samples, ``registry`` finds tasks.
"""

from tasks.batch import Batch, batch
from tasks.registry import TASKS, check_name, check_symbols, check_task, find, full_name
from tasks.task import END, NOTHING, SEPARATOR, Task, TaskError

__all__ = [
    "END", "NOTHING", "SEPARATOR", "TASKS", "Batch", "Task", "TaskError", "batch", "check_name", "check_symbols",
    "check_task", "find", "full_name",
]  # fmt: skip
