"""Training: a configuration determines a run, which can be killed at any moment and resumed to the same bits."""

from pntm_np.training.config import Config, ConfigError
from pntm_np.training.loop import Diverged, train
from pntm_np.training.presets import PRESETS
from pntm_np.training.run import Run, RunError
