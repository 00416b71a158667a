"""Evaluation of trained models: greedy decoding, and the share of answers that are right in every symbol."""

from pntm_np.evaluation.context import Context, Watcher
from pntm_np.evaluation.decode import decode
from pntm_np.evaluation.report import Evaluation, LengthScore
from pntm_np.evaluation.score import evaluate
from pntm_np.evaluation.settings import Settings
from pntm_np.evaluation.thresholds import Asked, choose_thresholds
