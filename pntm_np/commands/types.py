"""Types of command-line values; the error for a bad value says what is expected."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

import autodiff
from autodiff import backend as devices
from tasks import Task, find, full_name

T = TypeVar("T")


class Value(click.ParamType):
    """A type of value; help texts show its ``name`` unchanged."""

    expected = ""  # follows the bad value in the message; if empty, the message is that of the error

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):  # a default, or already converted
            return value
        try:
            return self.parse(value)
        except ValueError as error:
            self.fail(f"{value!r:.60}{self.expected}" if self.expected else str(error), param, ctx)

    def parse(self, text: str) -> Any:
        """The value of ``text``; raises ValueError if it has none."""
        raise NotImplementedError


def kept(value: T, usable: bool) -> T:
    """``value`` if it is usable; raises ValueError otherwise."""
    if not usable:
        raise ValueError
    return value


class LengthRange(Value):
    name = "A:B"
    expected = " is not a range of lengths; expected A:B with 1 <= A <= B, such as 1:120"

    def parse(self, text: str) -> tuple[int, int]:
        first, colon, last = text.partition(":")
        a, b = int(first), int(last if colon else first)
        return kept((a, b), 1 <= a <= b <= 10**6)


class Count(Value):
    name, otherwise = "N", ""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        self.expected = f"; expected an integer from {least:,} to {most:,}{self.otherwise}"

    def parse(self, text: str) -> Any:
        return kept(int(text), self.least <= int(text) <= self.most)


class Cells(Count):
    """A memory size, or ``ample``: so many cells that no head can go round."""

    name, otherwise = "N|ample", ", or ample"

    def parse(self, text: str) -> int | str:
        return text if text == "ample" else super().parse(text)


class CellRange(Count):
    """A memory size, or two bounds between which it is drawn."""

    name, otherwise = "N|A:B", ", or A:B with A <= B, between which it is drawn"

    def parse(self, text: str) -> int | tuple[int, int]:
        if ":" not in text:
            return super().parse(text)
        with contextlib.suppress(ValueError):
            a, b = map(int, text.split(":"))
            if self.least <= a <= b <= self.most:
                return a, b
        self.fail(f"{text!r:.60}; expected N, or A:B with {self.least} <= A <= B <= {self.most:,}")


class Number(Value):
    name, expected = "X", "; expected a number"

    def parse(self, text: str) -> float:
        return float(text)


class Threshold(Value):
    """A number from 0 to ``largest``, or ``auto``."""

    name = "X|auto"

    def __init__(self, largest: float) -> None:
        self.largest, self.expected = largest, f"; expected a number from 0 to {largest:g}, or auto"

    def parse(self, text: str) -> float | str:
        return text if text == "auto" else kept(float(text), 0 <= float(text) <= self.largest)


class Named(Value):
    """One of several names, or an unambiguous prefix of one."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        self.name, self.kind, self.names = kind.upper(), kind, list(names)

    def parse(self, text: str) -> Any:
        return full_name(text, self.names, self.kind)


class Names(Named):
    def __init__(self, kind: str, names: Iterable[str]) -> None:
        super().__init__(kind, names)
        self.name = f"{self.name},.."

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(full_name(name.strip(), self.names, self.kind) for name in text.split(",")))


class TaskName(Value):
    name = "TASK"

    def parse(self, text: str) -> Task:
        return find(text)


class TaskNames(Value):
    name = "TASK,.."

    def parse(self, text: str) -> list[Task]:
        return [find(name.strip()) for name in text.split(",")]


class Device(Value):
    name = "cpu|cuda"

    def parse(self, text: str) -> str:
        try:
            devices.load(text)
        except autodiff.BackendUnavailable as error:
            raise autodiff.BackendUnavailable(f"--backend {text}: {error}") from None
        return text


class Place(click.Path):
    def __init__(self, exists: bool = False) -> None:
        super().__init__(exists=exists, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
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
    """A file to write, with one of ``endings``; those of pictures by default."""

    name = "FILE"

    def __init__(self, endings: tuple[str, ...] | None = None) -> None:
        self.endings = endings

    def parse(self, text: str) -> Path:
        from pntm_np.runtime.files import unusable
        from pntm_np.runtime.plotting import FORMATS

        endings, path, can_be_a_file = self.endings or FORMATS, Path(text), False
        with contextlib.suppress(OSError):  # a name that is too long
            can_be_a_file = "\0" not in text and not text.endswith("/") and not path.is_dir()
        if not can_be_a_file:
            self.fail(f"{text!r:.60} is not the name of a file; choose another name")
        if path.suffix.lower() not in endings:
            self.fail(f"{text!r:.60}; expected a file that ends in {', '.join(endings)}")
        if not path.parent.is_dir() or unusable(path.parent) or len(path.name.encode()) > 200:
            self.fail(f"{text!r:.60}: a file of that name cannot be written in {path.parent}")
        return path


class Size(Value):
    name, expected = "NAME=N", "; expected NAME=NUMBER, such as width=64"

    def parse(self, text: str) -> tuple[str, int]:
        size, _, number = text.partition("=")
        return size, int(number)


class Setting(Value):
    """NAME=VALUE for an option of a run, the value in TOML; a word needs no quotes."""

    name = "NAME=VALUE"

    def parse(self, text: str) -> tuple[str, Any]:
        option, equals, given = text.partition("=")
        if not equals or not option:
            self.fail(f"{text!r:.60}; expected NAME=VALUE, such as steps=1000")
        try:
            found = tomllib.loads(f"x = {given}")["x"]
        except tomllib.TOMLDecodeError:
            found = given.strip()
        except RecursionError:
            self.fail(f"{text!r:.60} is nested too deeply; expected a simpler value")
        return option.strip(), found


class Seeds(Value):
    """How many of our ten seeds to use, or a list of seeds."""

    name, expected = "N|A,B,..", "; expected how many of our ten seeds to use, or different seeds A,B,.."

    def parse(self, text: str) -> tuple[int, ...]:
        from pntm_np.experiments.sweep.grid import seeds_of

        numbers = [int(number) for number in text.rstrip(",").split(",")]
        return seeds_of(numbers if "," in text else numbers[0])


class Shard(Value):
    name, expected = "K/N", "; expected K/N with 1 <= K <= N, such as 3/16"

    def parse(self, text: str) -> tuple[int, int]:
        number, _, of = text.partition("/")
        k, n = int(number), int(of)
        return kept((k, n), 1 <= k <= n <= 10**6)


class Lengths(Value):
    """A:B for A, 2A, 4A, .. up to B, or a comma-separated list."""

    name = "A:B|A,B,.."
    expected = (
        " are not lengths; expected A:B with 1 <= A <= B <= 2^24 for A, 2A, .. up to B, or a list such as 64,1000"
    )

    def parse(self, text: str) -> tuple[int, ...]:
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            found = [first * 2**k for k in range(40) if first * 2**k <= last] if first > 0 else []
        else:
            found = sorted({int(part) for part in text.split(",")})
        return kept(tuple(found), bool(found) and 1 <= found[0] <= found[-1] <= 2**24)
