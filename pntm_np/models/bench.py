"""The two models of the paper's efficiency experiment: mixers on vectors, plain composition, no norm, no residual."""

from __future__ import annotations

from pntm_np.models.mingru import MinGRU
from pntm_np.models.ntm.layer import NTM
from pntm_np.models.pntm import PNTM
from pntm_np.models.stack import Stack

WIDTH, CELLS, CELL = 128, 512, 16

BENCH_MODELS = {
    "bench-pntm": Stack(WIDTH, (MinGRU(3), PNTM(1, CELL)), ("mingru", "pntm")),
    "bench-ntm": Stack(WIDTH, (NTM(1, CELL, WIDTH),), ("ntm",)),
}
