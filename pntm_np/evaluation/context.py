"""Workers, an observer, and when to stop: no result depends on any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pntm_np.evaluation.report import LengthScore, share
from pntm_np.runtime.progress import Progress
from pntm_np.runtime.workers import Workers

if TYPE_CHECKING:
    from pntm_np.evaluation.fit import Fit


class Watcher:
    """An observer of an evaluation; this one ignores everything."""

    def tried(self, threshold: str, value: float, found: Fit) -> None: ...
    def evaluated(self, score: LengthScore) -> None: ...


class Bar(Watcher):
    def __init__(self, shown: Progress) -> None:
        self.shown = shown

    def tried(self, threshold: str, value: float, found: Fit) -> None:
        exact = share(found.exact_match, 3)
        self.shown.advance(f"{threshold} {value:g}: exact match {exact}, loss {found.token_loss:.1e}")

    def evaluated(self, score: LengthScore) -> None:
        self.shown.advance(f"{score.length}: exact match {share(score.exact_match, 2)}")


class Context(NamedTuple):
    workers: Workers
    watcher: Any = Watcher()  # or that of a run, which has more methods
    stop: Callable[[], bool] = lambda: False

    def on(self, shown: Progress) -> Context:
        """The same context with a progress bar as observer."""
        return self._replace(watcher=Bar(shown))
