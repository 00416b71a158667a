"""Does a machine do its task? Greedy decoding, and the share of answers that are right to the last symbol."""

from pntm_np.evaluation.decode import decode
from pntm_np.evaluation.score import Evaluation, LengthScore, evaluate
from pntm_np.evaluation.thresholds import choose_thresholds
from pntm_np.runtime.signals import Stopped
