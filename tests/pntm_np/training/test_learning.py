"""Do the models learn? One batch by heart in the suite; a task from the command line in make test-long."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from pntm_np.models import MODELS
from pntm_np.runtime.randomness import PARAMETERS, generator
from pntm_np.runtime.workers import Workers
from pntm_np.training import Config
from pntm_np.training.learner import Learner
from pntm_np.training.run import Progress
from pntm_np.training.schedule import pace
from tasks import TASKS, batch
from tests.limits import LIMIT


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_one_batch_by_heart(name: str):
    """At the paper's size; the answers are shuffled, so that there is no rule to be found."""
    task = TASKS["cycle-navigation"]
    config = Config.of(task, "paper", model=name, max_length=6, lr=2e-3)
    rng = np.random.default_rng(1)
    data = batch(task, rng, 6, 8)
    answers = data.targets[:, 6:]
    data.targets[:, 6:] = rng.permuted(answers)
    data.tokens[:, 7:] = data.targets[:, 6:-1]
    with Workers(2) as workers:
        start = Progress.start(config, generator(PARAMETERS, 0))
        learner = Learner(config, start.params, start.moments, workers)
        like = pace(config, 1, start)
        first = learner.step(data, 1, like).loss
        for step in range(2, 400):
            report = learner.step(data, step, like)
            if report.loss < 0.02:
                break
        logits = learner.architecture.forward(learner.params, data.tokens, config.memory_size)
    assert first > 1 and report.loss < 0.02, (first, report)
    assert np.array_equal(np.argmax(logits, -1)[data.mask], data.targets[data.mask])


def run(command: str) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "cli", *command.split()]
    return subprocess.run(line, capture_output=True, text=True, timeout=5 * LIMIT)  # it learns, for minutes


@pytest.mark.long
@pytest.mark.parametrize(("name", "max_length", "steps"), (("pntm", 40, 1500), ("ntm", 10, 3000)))
def test_parity_check_from_the_command_line(name: str, max_length: int, steps: int, tmp_path):
    out = tmp_path / "run"
    command = f"train parity --model {name} --max-length {max_length} --steps {steps} --out {out} --no-stop-when-solved"
    command += f" --eval-every {steps} --lengths 1 --samples 1 --json"
    done = run(command)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if "loss" in row]
    assert np.median(losses[:3]) > 0.5 and max(losses[-10:]) < 1e-3, losses[-10:]
    # with the memory of training: NTM looks cells up by content, and is another machine with more of them
    command = f"eval {out} --lengths 1:{max_length} --samples 8 --memory-size {2 * max_length + 16} --json"
    done = run(command)
    assert done.returncode == 0 and json.loads(done.stdout)["exact_match"] > 0.98, done
