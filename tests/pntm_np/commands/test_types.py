"""What may stand on the command line: the bounds themselves are among it."""

from __future__ import annotations

from typing import Any

import click
import pytest

from pntm_np.commands.types import CellRange, Cells, Count, LengthRange, Seeds, Setting, Shard, Size, Threshold, Value
from pntm_np.protocol import SEEDS

GOOD: list[tuple[Value, str, Any]] = [
    (Threshold(1), "1", 1.0),
    (Threshold(0.5), "0.5", 0.5),
    (Threshold(0.5), "0", 0.0),
    (Threshold(1), "auto", "auto"),
    (LengthRange(), "7", (7, 7)),
    (LengthRange(), "7:7", (7, 7)),
    (LengthRange(), "1:1000000", (1, 10**6)),
    (Count(1, 9), "1", 1),
    (Count(1, 9), "9", 9),
    (Cells(1, 9), "ample", "ample"),
    (Cells(1, 9), "9", 9),
    (CellRange(1, 9), "9", 9),
    (CellRange(1, 9), "1:9", (1, 9)),
    (CellRange(1, 9), "5:5", (5, 5)),
    (Seeds(), "3", SEEDS[:3]),
    (Seeds(), "3,", (3,)),
    (Seeds(), "0,5", (0, 5)),
    (Shard(), "1/1", (1, 1)),
    (Shard(), "3/16", (3, 16)),
    (Size(), "width=64", ("width", 64)),
    (Setting(), "steps=1000", ("steps", 1000)),
    (Setting(), "tau=auto", ("tau", "auto")),
    (Setting(), "sizes={width=64}", ("sizes", {"width": 64})),
]
BAD: list[tuple[Value, str]] = [
    (Threshold(0.5), "0.51"),
    (Threshold(1), "-0.01"),
    (LengthRange(), "2:1"),
    (LengthRange(), "0"),
    (LengthRange(), "1:1000001"),
    (Count(1, 9), "0"),
    (Count(1, 9), "10"),
    (CellRange(1, 9), "0:9"),
    (CellRange(1, 9), "1:10"),
    (CellRange(1, 9), "6:5"),
    (Seeds(), "11"),
    (Seeds(), "0"),
    (Shard(), "0/3"),
    (Shard(), "4/3"),
    (Setting(), "=3"),
]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD, ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_typed_and_what_it_means(kind: Value, text: str, value: Any):
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(("kind", "text"), BAD, ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_beyond_a_bound_is_refused(kind: Value, text: str):
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)
