"""The kinds of values that stand on the command line: each says what would be right if one is wrong."""

from __future__ import annotations

import contextlib
import os
import tomllib
from pathlib import Path
from typing import Any

import click

import autodiff
from autodiff import backend as devices
from tasks import TaskError, find, full_name


class Value(click.ParamType):
    """A kind of value; help shows its name as it stands."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name


def whole(*texts: str) -> tuple[int, ...]:
    """The integers that are written there; zeros if one is none."""
    try:
        return tuple(int(text) for text in texts)
    except ValueError:
        return (0,) * len(texts)


class LengthRange(Value):
    name = "A:B"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, colon, last = value.partition(":")
        a, b = whole(first, last if colon else first)
        if not 1 <= a <= b <= 10**6:
            self.fail(f"{value!r:.60} is no range of lengths; expected A:B with 1 <= A <= B, such as 1:120", param, ctx)
        return a, b


class Count(Value):
    """A whole number between two bounds."""

    name, otherwise = "N", ""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            number = int(value)
            if self.least <= number <= self.most:
                return number
        except ValueError:
            pass
        self.fail(
            f"{value!r:.60}; expected an integer from {self.least:,} to {self.most:,}{self.otherwise}", param, ctx
        )


class Cells(Count):
    """A memory's size, or ample: so large that no head can go round it."""

    name, otherwise = "N|ample", ", or ample"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        return value if value == "ample" else super().convert(value, param, ctx)


class CellRange(Count):
    """A memory's size, or two bounds between which it is drawn."""

    name, otherwise = "N|A:B", ", or A:B with A <= B, between which it is drawn"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, tuple):
            return value
        first, colon, last = str(value).partition(":")
        if not colon:
            return Count.convert(self, value, param, ctx)
        a, b = whole(first, last)
        if not self.least <= a <= b <= self.most:
            self.fail(f"{value!r:.60}; expected N, or A:B with {self.least} <= A <= B <= {self.most:,}", param, ctx)
        return a, b


class Number(Value):
    name = "X"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r:.60}; expected a number", param, ctx)


class Threshold(Value):
    """A number up to ``largest``, or auto."""

    name = "X|auto"

    def __init__(self, largest: float) -> None:
        self.largest = largest

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        try:
            number = value if value == "auto" else float(value)
            if number == "auto" or 0 <= number <= self.largest:
                return number
        except ValueError:
            pass
        self.fail(f"{value!r:.60}; expected a number from 0 to {self.largest:g}, or auto", param, ctx)


class Named(Value):
    """One of several names, or an unambiguous beginning of one."""

    def __init__(self, kind: str, names: list[str]) -> None:
        self.name, self.kind, self.names = kind.upper(), kind, names

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        try:
            return full_name(value, self.names, self.kind)
        except TaskError as error:
            self.fail(str(error), param, ctx)


class TaskName(Value):
    name = "TASK"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return find(value)
        except TaskError as error:
            self.fail(str(error), param, ctx)


class Device(Value):
    name = "cpu|cuda"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        try:
            devices.load(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        except autodiff.BackendUnavailable as error:
            raise autodiff.BackendUnavailable(f"--backend {value}: {error}") from None
        return value


class Place(click.Path):
    """A path that the operating system can have."""

    def __init__(self, exists: bool = False) -> None:
        super().__init__(exists=exists, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            if "\0" in str(value) or value == "":
                raise ValueError
            os.path.lexists(value)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                os.lstat(value)
        except (OSError, ValueError):
            self.fail(f"{value!r:.60} is not a path", param, ctx)
        return super().convert(value, param, ctx)


class Picture(Value):
    """A file to be written, with one of these endings; those of pictures if none are given."""

    name = "FILE"

    def __init__(self, endings: tuple[str, ...] | None = None) -> None:
        self.endings = endings

    def convert(self, value: Any, param: Any, ctx: Any) -> Path:
        from pntm_np.runtime.files import unusable
        from pntm_np.runtime.plotting import FORMATS

        endings, path = self.endings or FORMATS, Path(value)
        if not self._can_be_a_file(value):
            self.fail(f"{value!r:.60} is not the name of a file", param, ctx)
        if path.suffix.lower() not in endings:
            self.fail(f"{value!r:.60}; expected a file that ends in {', '.join(endings)}", param, ctx)
        if not path.parent.is_dir() or unusable(path.parent) or len(path.name.encode()) > 200:
            self.fail(f"{value!r:.60}: a file of that name cannot be written in {path.parent}", param, ctx)
        return path

    @staticmethod
    def _can_be_a_file(value: str) -> bool:
        try:
            return "\0" not in value and not value.endswith("/") and not Path(value).is_dir()
        except OSError:  # a name that is too long
            return False


class Size(Value):
    """NAME=NUMBER of a model's sizes."""

    name = "NAME=N"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        size, _, number = value.partition("=")
        try:
            return size, int(number)
        except ValueError:
            self.fail(f"{value!r:.60}; expected NAME=NUMBER, such as width=64", param, ctx)


class Names(Named):
    """Several names, with commas between them."""

    def __init__(self, kind: str, names: list[str]) -> None:
        super().__init__(kind, names)
        self.name = f"{self.name},.."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        found = [super(Names, self).convert(name.strip(), param, ctx) for name in value.split(",")]
        return tuple(dict.fromkeys(found))


class TaskNames(Value):
    """Several tasks, with commas between them."""

    name = "TASK,.."

    def convert(self, value: Any, param: Any, ctx: Any) -> list[Any]:
        return [TaskName().convert(name.strip(), param, ctx) for name in value.split(",")]


class Seeds(Value):
    """How many of the paper's ten seeds, or a list of others."""

    name = "N|A,B,.."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        from pntm_np.experiments.sweep.grid import GridError, seeds_of

        try:
            numbers = [int(number) for number in value.rstrip(",").split(",")]
            return seeds_of(numbers if "," in value else numbers[0])
        except (ValueError, GridError):
            self.fail(f"{value!r:.60}; expected how many of the paper's ten, or A,B,.. all different", param, ctx)


class Setting(Value):
    """NAME=VALUE of the options of a run, the value as TOML has it; without quotes if it is a word."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        option, equals, text = value.partition("=")
        if not equals or not option:
            self.fail(f"{value!r:.60}; expected NAME=VALUE, such as steps=1000", param, ctx)
        try:
            found = tomllib.loads(f"x = {text}")["x"]
        except tomllib.TOMLDecodeError:
            found = text.strip()
        except RecursionError:
            self.fail(f"{value!r:.60}; it is nested too deeply", param, ctx)
        return option.strip(), found


class Shard(Value):
    name = "K/N"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        number, _, of = value.partition("/")
        k, n = whole(number, of)
        if not 1 <= k <= n <= 10**6:
            self.fail(f"{value!r:.60}; expected K/N with 1 <= K <= N, such as 3/16", param, ctx)
        return k, n


class Lengths(Value):
    """A:B for A, 2A, 4A, .. up to B, or a list."""

    name = "A:B|A,B,.."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            if ":" in value:
                first, last = (int(part) for part in value.split(":"))
                found = [first * 2**k for k in range(40) if first * 2**k <= last] if first > 0 else []
            else:
                found = sorted({int(part) for part in value.split(",")})
        except ValueError:
            found = []
        if not found or not 1 <= found[0] <= found[-1] <= 2**24:
            problem = "expected A:B with 1 <= A <= B <= 2^24 for A, 2A, .. up to B, or a list such as 64,1000"
            self.fail(f"{value!r:.60} are no lengths; {problem}", param, ctx)
        return tuple(found)
