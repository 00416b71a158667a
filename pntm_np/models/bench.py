"""The two models of the paper's efficiency experiment: mixers applied one after the other, with no norm or residual."""

from __future__ import annotations

from pntm_np.models.mingru import MinGRU
from pntm_np.models.ntm.layer import NTM
from pntm_np.models.pntm import PNTM
from pntm_np.models.stack import Stack
from pntm_np.protocol import BENCH_CELL, BENCH_WIDTH

BENCH_MODELS = {
    "bench-pntm": Stack(BENCH_WIDTH, (MinGRU(3), PNTM(1, BENCH_CELL)), ("mingru", "pntm")),
    "bench-ntm": Stack(BENCH_WIDTH, (NTM(1, BENCH_CELL, BENCH_WIDTH),), ("ntm",)),
}
