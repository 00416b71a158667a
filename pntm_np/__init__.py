"""The science: recurrences, layers, models, training and evaluation, built on ``autodiff`` and ``tasks``.

import pntm_np as pn
model = pn.load("model.safetensors")
logits = model.forward(tokens)  # (B, T) integers -> (B, T, V)
"""

import pntm_np.siblings  # before the others are imported

# isort: split
from pntm_np.models import MODELS, Options, Thresholds, build
from pntm_np.models.checkpoint import Model, load, save
from pntm_np.runtime.untrusted import CheckpointError

__all__ = ["MODELS", "CheckpointError", "Model", "Options", "Thresholds", "build", "load", "save"]
