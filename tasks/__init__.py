"""The six problems that the machines learn; NumPy only, independent of ``autodiff`` and ``pntm_np``.

One file each; ``task`` says what a task is, ``batch`` makes samples to train on, ``registry`` knows all by name.
"""

from tasks.batch import Batch, batch
from tasks.registry import TASKS, check_name, check_symbols, check_task, find, full_name
from tasks.task import END, NOTHING, SEPARATOR, Task, TaskError

__all__ = [
    "END", "NOTHING", "SEPARATOR", "TASKS", "Batch", "Task", "TaskError", "batch", "check_name", "check_symbols",
    "check_task", "find", "full_name",
]  # fmt: skip
