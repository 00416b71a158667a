"""What a run is. Two runs with the same configuration give the same bits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from autodiff import backend
from pntm_np.evaluation.score import paper_cells
from pntm_np.evaluation.thresholds import TAU
from pntm_np.models import MODELS, Architecture, build
from pntm_np.scans import FORMS, default_form
from tasks import Task, TaskError, check_name, check_symbols

PRESETS: dict[str, dict[str, Any]] = {
    # everything as the paper
    "paper": {"steps": 500_000, "batch_size": 128, "eval_every": 5_000, "checkpoint_every": 1_000},
    # the same model and data, for minutes on a laptop
    "quick": {
        "steps": 20_000,
        "batch_size": 32,
        "eval_every": 250,
        "checkpoint_every": 250,
        "sharpen": 0.01,
        "tau": "auto",
        "stop_when_solved": True,
    },
}
LARGEST = {"steps": 10**9, "batch_size": 10**6, "max_length": 10**5, "memory_size": 10**7, "samples": 10**7}
SOLVED = 3  # evaluations in a row without a mistake: a machine that has just got there fails on longer inputs
QUIET, PATIENCE = 1e-8, 500  # the paper's early stop: the gradient's infinity norm stays below for so many steps


@dataclass(frozen=True)
class Config:
    task: str
    symbols: str  # the task's: a name alone does not say what tokens mean
    model: str = "pntm"
    sizes: dict[str, int] = field(default_factory=dict)
    preset: str = "paper"
    steps: int = 500_000
    batch_size: int = 128
    lr: float = 5e-4
    cool_down: int = 0  # the last steps, over which the learning rate falls to 0; they begin when it is solved
    clip: float = 0.0  # a gradient with a larger infinity norm is scaled down to it; 0: none is
    max_length: int = 40
    memory_size: int = 96
    seed: int = 0
    form: str = "chunked"
    backend: str = "cpu"
    checkpoint_every: int = 1_000
    eval_every: int = 5_000
    stop_when_solved: bool = False
    sharpen: float = 0.0  # weight of the mean entropy of the heads' shifts
    sharpen_gates: float = 0.0  # weight of the mean of z (1 - z) of minGRU's gates
    sharpen_rise: int = 0  # the first steps, over which both weights grow from 0
    train_tau: float = 0.0  # the shifts' threshold in training; it grows from 0 as the learning rate falls
    train_gate_tau: float = 0.0  # and the gates'
    end_token: bool = True
    lengths: tuple[int, int] = (1, 120)  # of the final evaluation
    samples: int = 128  # of each of these lengths
    tau: float | str = TAU  # of that evaluation; "auto" chooses it and the gates' on lengths of training

    @classmethod
    def of(cls, task: Task, preset: str, **given: Any) -> Config:
        """A preset with what the user gave; what only some models have is left out of a preset for the others."""
        chosen = PRESETS[preset] | {k: v for k, v in given.items() if v is not None}
        chosen.setdefault("max_length", 40)
        longest, model = chosen["max_length"], chosen.get("model", "pntm")
        _require(type(longest) is int, "max_length", longest, "an integer")  # others follow from it
        _require(isinstance(model, str), "model", model, f"one of {', '.join(MODELS)}")
        chosen.setdefault("memory_size", paper_cells(chosen["max_length"]))
        chosen.setdefault("lengths", (1, 3 * chosen["max_length"]))
        chosen.setdefault("form", default_form(chosen.get("backend", "cpu")))
        if model != "pntm":
            for name in {"sharpen", "tau"} - given.keys():
                chosen.pop(name, None)  # only P-NTM has shifts to sharpen, and to cut off
        return cls(task.name, task.symbols, preset=preset, **chosen)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "max_length", "memory_size", "checkpoint_every", "eval_every", "samples"):
            value, largest = getattr(self, name), LARGEST.get(name, 10**9)
            _require(type(value) is int and 1 <= value <= largest, name, value, f"an integer from 1 to {largest:,}")
        _require(type(self.seed) is int and 0 <= self.seed < 2**63, "seed", self.seed, "an integer from 0 to 2^63 - 1")
        _require(_is_number(self.lr) and 0 < self.lr <= 10, "lr", self.lr, "a number above 0, at most 10")
        cool = self.cool_down
        _require(type(cool) is int and 0 <= cool <= self.steps, "cool_down", cool, "an integer from 0 to the steps")
        rise = self.sharpen_rise
        _require(type(rise) is int and 0 <= rise <= 10**9, "sharpen_rise", rise, "an integer from 0 to 10^9")
        for name in ("clip", "sharpen", "sharpen_gates"):
            value = getattr(self, name)
            _require(_is_number(value) and 0 <= value <= 1000, name, value, "a number from 0 to 1000")
        for name, most in (("train_tau", 1), ("train_gate_tau", 0.5)):
            value = getattr(self, name)
            _require(_is_number(value) and 0 <= value <= most, name, value, f"a number from 0 to {most}")
        usable = self.tau == "auto" or (_is_number(self.tau) and 0 <= self.tau <= 1)
        _require(usable, "tau", self.tau, "a number from 0 to 1, or auto")
        _require(self.model in MODELS, "model", self.model, f"one of {', '.join(MODELS)}")
        _require(self.form in FORMS, "form", self.form, f"one of {', '.join(FORMS)}")
        _require(self.preset in PRESETS, "preset", self.preset, f"one of {', '.join(PRESETS)}")
        for name in ("stop_when_solved", "end_token"):
            _require(type(getattr(self, name)) is bool, name, getattr(self, name), "true or false")
        _require(self.backend in backend.names(), "backend", self.backend, f"one of {', '.join(backend.names())}")
        for name, check in (("task", check_name), ("symbols", check_symbols)):
            try:
                check(getattr(self, name))
            except TaskError as error:
                raise ConfigError(name, getattr(self, name), str(error)) from None
        _require(isinstance(self.sizes, dict), "sizes", self.sizes, "names and integers")
        lengths = self.lengths
        usable = isinstance(lengths, (tuple, list)) and len(lengths) == 2 and all(type(n) is int for n in lengths)
        _require(usable and 1 <= lengths[0] <= lengths[1] <= 10**6, "lengths", lengths, "two lengths, the lower first")
        object.__setattr__(self, "lengths", tuple(lengths))
        object.__setattr__(self, "sizes", dict(sorted(self.sizes.items())))
        try:
            measured = self.architecture().measured
        except (TypeError, ValueError) as error:
            raise ConfigError("sizes", self.sizes, str(error)) from None
        of_shifts, of_gates = ("sharpen", "train_tau"), ("sharpen_gates", "train_gate_tau")
        for names, measure in ((of_shifts, "shift_entropy"), (of_gates, "gate_uncertainty")):
            for name in names:
                has = not getattr(self, name) or measure in measured
                _require(has, name, getattr(self, name), f"0: {self.model} has nothing to sharpen or to cut off")
        cuts = self.tau == TAU or "shift_entropy" in measured or (self.tau == "auto" and measured)
        _require(cuts, "tau", self.tau, f"{TAU}: {self.model} has no shifts to cut off")

    def architecture(self) -> Architecture:
        return build(self.model, len(self.symbols) + 2, **self.sizes)

    def learning_rate(self, step: int, end: int = 0) -> float:
        """Of step number ``step``, counted from 1; ``end`` is the last one, if that is not ``steps``."""
        left = (end or self.steps) - step + 1
        return self.lr * min(1.0, left / self.cool_down) if self.cool_down else self.lr

    def sharpening(self, step: int) -> dict[str, float]:
        """The weights of what is measured beside the loss, at step number ``step``, counted from 1."""
        share = min(1.0, step / self.sharpen_rise) if self.sharpen_rise else 1.0
        weights = {"shift_entropy": self.sharpen, "gate_uncertainty": self.sharpen_gates}
        return {name: weight * share for name, weight in weights.items() if weight}

    def thresholds(self, step: int, end: int = 0) -> tuple[float, float]:
        """Of shifts and gates in training: a machine first learns, and then learns to do without what is cut off."""
        share = 1.0 - self.learning_rate(step, end) / self.lr if self.cool_down else 1.0
        return self.train_tau * share, self.train_gate_tau * share

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"lengths": list(self.lengths)}

    @classmethod
    def from_json(cls, content: Any) -> Config:
        """The configuration in a file that is not trusted: ValueError if it is none."""
        if not isinstance(content, dict):
            raise ValueError("it is not a configuration")
        known = {f.name for f in fields(cls)}
        content = {"tau": TAU, "cool_down": 0, "clip": 0.0, "sharpen_rise": 0} | content
        content = {"train_tau": 0.0, "train_gate_tau": 0.0} | content  # the first runs had no choice
        if missing := known - content.keys():
            raise ValueError(f"it lacks {sorted(missing)[0]!r}")
        if unknown := content.keys() - known:
            raise ValueError(f"it has an unknown key {sorted(unknown)[0]!r:.60}")
        return cls(**content)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and -1e300 < value < 1e300


class ConfigError(ValueError):
    """A value that makes no sense; ``name`` is the option's."""

    def __init__(self, name: str, value: Any, problem: str) -> None:
        super().__init__(f"{name} is {value!r:.60}; {problem}")
        self.name, self.value, self.problem = name, value, problem


def _require(holds: bool, name: str, value: Any, expected: str) -> None:
    if not holds:
        raise ConfigError(name, value, f"expected {expected}")
