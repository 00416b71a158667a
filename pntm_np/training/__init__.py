"""Training: a run is its configuration; it can be killed at any instant and resumed to the same bits."""

from pntm_np.training.config import Config, ConfigError
from pntm_np.training.loop import Diverged, train
from pntm_np.training.presets import PRESETS
from pntm_np.training.run import Run, RunError
