"""All architectures that the paper compares, each of which runs on whole sequences and step by step."""

from pntm_np.models.architecture import Architecture
from pntm_np.models.attention.layer import Attention
from pntm_np.models.bench import BENCH_MODELS
from pntm_np.models.initial import STARTS, decide_heads
from pntm_np.models.lstm.layer import LSTM
from pntm_np.models.mingru import MinGRU
from pntm_np.models.mixer import Mixer
from pntm_np.models.ntm.layer import NTM
from pntm_np.models.options import DEFAULT, PAPER, Options, Thresholds
from pntm_np.models.pntm import PNTM
from pntm_np.models.registry import MODELS, build
from pntm_np.models.stack import Stack
from pntm_np.protocol import TRAINING_MEMORY
