"""Settings of an evaluation: with the same model and task, the same settings give the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pntm_np.models import DEFAULT, Options
from pntm_np.protocol import EVALUATION_MEMORY, EVALUATION_SEED, LONGEST, MAX_LENGTH, SAMPLES

ROWS = 64  # decoded together on a CPU: their states stay in the cache, and they share the overhead of a step
DEVICE_ROWS = 4096


@dataclass(frozen=True)
class Settings:
    """The defaults are the paper's."""

    lengths: Sequence[int] = range(1, LONGEST + 1)
    samples: int = SAMPLES  # inputs of each length
    seed: int = EVALUATION_SEED
    memory_size: int = EVALUATION_MEMORY
    options: Options = DEFAULT  # form of the scans, and thresholds
    max_length: int = MAX_LENGTH  # longest training input; the score is the mean over longer ones
    device: str = "cpu"

    @property
    def rows(self) -> int:
        return ROWS if self.device == "cpu" else DEVICE_ROWS
