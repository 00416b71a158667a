"""What there is to report in a directory: finished runs, evaluations as ``pntm eval --json`` prints them, benches."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pntm_np.models import MODELS
from pntm_np.report import paper
from pntm_np.sealed import CheckpointError
from pntm_np.training.config import Config
from pntm_np.training.run import Run

SHARP = "+"  # of a group: trained with sharpening, or evaluated with thresholds that were chosen
NAMES = {
    "lstm": "LSTM",
    "mingru": "minGRU",
    "transformer": "Transformer",
    "transformer-nope": "Transformer, NoPE",
    "transformer-rope": "Transformer, RoPE",
    "transformer-alibi": "Transformer, ALiBi",
    "transformer-fire": "Transformer, FIRE",
    "ntm": "NTM",
    "pntm": "P-NTM",
    "pntm" + SHARP: "P-NTM, sharpened",
}
ORDER = list(NAMES)
SCORED = [41, 120]  # the lengths of the paper's score


class Trained(NamedTuple):
    """A finished run."""

    place: Path
    config: Config
    result: dict[str, Any]

    @property
    def group(self) -> str:
        c = self.config
        ours = c.model == "pntm" and (c.sharpen or c.sharpen_gates or c.tau == "auto")
        return c.model + (SHARP if ours else "")

    @property
    def score(self) -> float:
        return self.result["score"]

    @property
    def perfect(self) -> bool:
        return self.score == 1.0


class Far(NamedTuple):
    """An evaluation of a machine, of its own."""

    name: str
    found: dict[str, Any]


@dataclass
class Material:
    runs: list[Trained] = field(default_factory=list)
    evaluations: list[Far] = field(default_factory=list)
    benches: list[dict[str, Any]] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # and why

    @property
    def empty(self) -> bool:
        return not (self.runs or self.evaluations or self.benches)

    def of(self, group: str, task: str | None = None) -> list[Trained]:
        """Runs of an architecture; "transformer" is all four."""

        def belongs(run: Trained) -> bool:
            return run.group == group or (group == "transformer" and run.group.startswith("transformer-"))

        return [run for run in self.runs if belongs(run) and task in (None, run.config.task)]


def gather(directory: Path) -> Material:
    found = Material()
    for path in sorted(directory.rglob("*.json")):
        if path.name == "result.json":
            _add_run(path.parent, found)
        elif path.name == "config.json":
            if not (path.parent / "result.json").exists():
                found.unfinished.append(path.parent)
        else:
            _add_other(path, directory, found)
    tasks = list(paper.TASKS)
    found.runs = sorted(found.runs, key=lambda r: (ORDER.index(r.group), tasks.index(r.config.task), r.config.seed))
    return found


def _add_run(place: Path, found: Material) -> None:
    result = Run(place).read_result()
    run = Trained(place, Config.from_json(result["config"]), result)
    if run.config.task not in paper.TASKS or run.group not in ORDER or run.config.model not in MODELS:
        found.left_out.append(f"{place}: not one of the paper's tasks and models")
    elif result["score_lengths"] != SCORED or run.config.sizes:
        found.left_out.append(f"{place}: not the paper's lengths or sizes")
    else:
        found.runs.append(run)


def _add_other(path: Path, directory: Path, found: Material) -> None:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: not readable as JSON") from None
    if not isinstance(content, dict):
        return
    if {"task", "model", "by_length", "tau", "memory_size"} <= content.keys():
        found.evaluations.append(Far(path.relative_to(directory).with_suffix("").as_posix(), content))
    elif {"machine", "settings", "rows"} <= content.keys() and "warmup" in content["settings"]:
        rows = content["rows"]
        if rows and all("speedup_over_ntm" in row for row in rows):
            found.benches.append(content)


def budgets(runs: Iterable[Trained]) -> str:
    """How these runs were trained, in words."""
    found: dict[str, int] = {}
    for run in runs:
        c = run.config
        text = f"batches of {c.batch_size}, at most {c.steps:,} iterations"
        text += f", learning rate halved every {c.lr_half_life:,}" if c.lr_half_life else ""
        text += ", stopped when solved" if c.stop_when_solved else ""
        found[text] = found.get(text, 0) + 1
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{text} ({count} runs)" for text, count in sorted(found.items(), key=lambda item: -item[1]))


def deviation(scores: list[float]) -> float:
    return statistics.pstdev(scores) if scores else float("nan")
