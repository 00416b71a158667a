"""What a good error looks like: the right type, all the names, one traceback, three lines at most."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def raises_naming(call: Callable[[], object], kind: type[Exception], words: list[str]) -> None:
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.count("\n") <= 2
    cause = caught.value.__cause__ or (None if caught.value.__suppress_context__ else caught.value.__context__)
    assert cause is None, "a second traceback is shown"
