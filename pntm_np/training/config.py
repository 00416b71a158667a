"""The configuration of a run. Two runs with the same configuration give the same bits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeGuard

from autodiff import backend
from pntm_np import protocol
from pntm_np.models import MODELS, PAPER, STARTS, Architecture, build
from pntm_np.runtime.errors import USAGE, PntmError
from pntm_np.runtime.untrusted import Json
from pntm_np.scans import FORMS, default_form
from pntm_np.training.presets import PRESETS, preset_options
from tasks import Task, TaskError, check_name, check_symbols

LARGEST = {"steps": 10**9, "batch_size": 10**6, "max_length": 10**5, "samples": 10**7}
MOST_CELLS = 10**7
SOLVED = 0.99, 3  # solved: at least this exact match on the training lengths, at so many evaluations in a row
SINCE = {"blur": 0.0}  # options newer than the first results; files leave them out where they are off
Cells = int | tuple[int, int]  # memory size: fixed, or drawn between two bounds for every step


@dataclass(frozen=True)
class Config:
    task: str
    symbols: str  # of the task: a name alone does not say what tokens mean
    model: str = "pntm"
    sizes: dict[str, int] = field(default_factory=dict)
    preset: str = "paper"
    steps: int = protocol.STEPS
    batch_size: int = protocol.BATCH
    lr: float = protocol.LEARNING_RATE
    start: str = "uniform"  # distribution of the initial weights
    head_gain: float = 1.0  # factor on the initial shift weights of half of the heads
    restart_after: int = 0  # unit, in steps, of the milestones that training has to reach; 0: no milestones
    warm_up: int = 0  # first steps, over which the learning rate rises from 0
    cool_down: int = 0  # last steps, over which learning rate and noise fall to 0; they start early once solved
    clip: float = 0.0  # scale gradients down to this infinity norm; 0: never
    noise: float = 0.0  # standard deviation of noise on the logits of shifts and gates in half of every batch
    blur: float = 0.0  # share of every shift that is spread over all three, in half of every batch
    rounding: bool = False  # round shifts and gates in the other half, once most answers are right
    max_length: int = protocol.MAX_LENGTH
    memory_size: Cells = protocol.TRAINING_MEMORY
    learnt_memory_size: Cells | None = None  # memory size once the training lengths are learnt; None: unchanged
    seed: int = 0
    form: str = "chunked"
    backend: str = "cpu"
    checkpoint_every: int = protocol.CHECKPOINT_EVERY
    eval_every: int = protocol.EVAL_EVERY
    stop_when_solved: bool = False
    end_token: bool = False
    lengths: tuple[int, int] = (1, protocol.LONGEST)  # first and last length of the final evaluation
    samples: int = protocol.SAMPLES  # inputs of each of these lengths
    tau: float | str = PAPER.tau  # in that evaluation; "auto": thresholds as in training, or chosen on its lengths

    @classmethod
    def of(cls, task: Task, preset: str, **given: Any) -> Config:
        given = {name: value for name, value in given.items() if value is not None}
        longest, model = given.get("max_length", protocol.MAX_LENGTH), given.get("model", "pntm")
        _require(type(longest) is int, "max_length", longest, "an integer")  # defaults follow from it
        _require(isinstance(model, str) and model in MODELS, "model", model, f"one of {', '.join(MODELS)}")
        form = {"form": default_form(given.get("backend", "cpu"))}
        options = form | preset_options(preset, model, longest) | given
        if "cool_down" in options.keys() - given.keys() and type(options["steps"]) is int:
            options["cool_down"] = min(options["cool_down"], options["steps"])
        return cls(task.name, task.symbols, preset=preset, **options)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "max_length", "checkpoint_every", "eval_every", "samples"):
            value, largest = getattr(self, name), LARGEST.get(name, 10**9)
            _require(type(value) is int and 1 <= value <= largest, name, value, f"an integer from 1 to {largest:,}")
        _require(type(self.seed) is int and 0 <= self.seed < 2**63, "seed", self.seed, "an integer from 0 to 2^63 - 1")
        _require(_is_number(self.lr) and 0 < self.lr <= 10, "lr", self.lr, "a number above 0, at most 10")
        gain, cool = self.head_gain, self.cool_down
        _require(_is_number(gain) and 0 < gain <= 100, "head_gain", gain, "a number above 0, at most 100")
        for name in ("restart_after", "warm_up"):
            value = getattr(self, name)
            _require(type(value) is int and 0 <= value <= 10**9, name, value, "an integer from 0 to 1,000,000,000")
        _require(type(cool) is int and 0 <= cool <= self.steps, "cool_down", cool, "an integer from 0 to the steps")
        for name, most in (("clip", 1000), ("noise", 100), ("blur", 0.4)):
            value = getattr(self, name)
            _require(_is_number(value) and 0 <= value <= most, name, value, f"a number from 0 to {most}")
        usable = self.tau == "auto" or (_is_number(self.tau) and 0 <= self.tau <= 1)
        _require(usable, "tau", self.tau, "a number from 0 to 1, or auto")
        known = {"model": MODELS, "form": FORMS, "start": STARTS, "preset": PRESETS, "backend": backend.names()}
        for name, names in known.items():
            _require(getattr(self, name) in names, name, getattr(self, name), f"one of {', '.join(names)}")
        for name in ("rounding", "stop_when_solved", "end_token"):
            _require(type(getattr(self, name)) is bool, name, getattr(self, name), "true or false")
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
            architecture = self.architecture()
        except (TypeError, ValueError) as error:
            raise ConfigError("sizes", self.sizes, str(error)) from None
        self._check_memory(architecture)
        thresholds = architecture.thresholds
        nothing = f"{self.model} has no shifts and no gates"
        heads = self.head_gain == 1 or "tau" in thresholds
        _require(heads, "head_gain", self.head_gain, f"1: {self.model} has no heads that are moved by shifts alone")
        _require(not self.noise or architecture.takes_noise, "noise", self.noise, f"0: {self.model} takes none")
        _require(not self.blur or architecture.sharpens, "blur", self.blur, f"0: {self.model} could not undo it")
        _require(not self.rounding or bool(thresholds), "rounding", self.rounding, f"false: {nothing}")
        cuts = self.tau == PAPER.tau or "tau" in thresholds or (self.tau == "auto" and thresholds)
        _require(bool(cuts), "tau", self.tau, f"{PAPER.tau}: {self.model} has no shifts to cut off")

    def _check_memory(self, architecture: Architecture) -> None:
        for name in ("memory_size", "learnt_memory_size"):
            value = getattr(self, name)
            if isinstance(value, list):
                object.__setattr__(self, name, value := tuple(value))
            if value is None and name == "learnt_memory_size":
                continue
            _require(_is_cells(value), name, value, f"cells from 1 to {MOST_CELLS:,}, or two of them, the lower first")
            drawn = isinstance(value, tuple) or name == "learnt_memory_size"
            _require(architecture.has_memory or not drawn, name, value, f"none: {self.model} has no memory")

    def architecture(self) -> Architecture:
        return build(self.model, len(self.symbols) + 1 + self.end_token, **self.sizes)

    def most_cells(self, learnt: bool = False) -> int:
        """The largest memory size that is drawn, before or after the training lengths are learnt."""
        cells = self.learnt_memory_size if learnt and self.learnt_memory_size else self.memory_size
        return cells if isinstance(cells, int) else cells[1]

    def as_json(self) -> Json:
        given = {k: v for k, v in asdict(self).items() if k not in SINCE or v != SINCE[k]}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}

    @classmethod
    def from_json(cls, content: Any) -> Config:
        """The configuration in an untrusted file; raises ValueError if it is not one."""
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
        known = {f.name for f in fields(cls)}
        content = SINCE | content
        if missing := known - content.keys():
            raise ValueError(f"it lacks {sorted(missing)[0]!r}")
        if unknown := content.keys() - known:
            raise ValueError(f"it has an unknown key {sorted(unknown)[0]!r:.60}")
        return cls(**content)


def _is_cells(value: Any) -> bool:
    ends = value if isinstance(value, tuple) and len(value) == 2 else (value, value)
    return all(type(n) is int for n in ends) and 1 <= ends[0] <= ends[1] <= MOST_CELLS


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and -1e300 < value < 1e300


class ConfigError(PntmError, ValueError):
    """An option has an invalid value; ``name`` is the option's."""

    exit_code = USAGE

    def __init__(self, name: str, value: object, problem: str) -> None:
        super().__init__(f"{name} is {value!r:.60}; {problem}")
        self.name, self.value, self.problem = name, value, problem


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ConfigError(name, value, f"expected {expected}")
