"""Ctrl-C and SIGTERM, as the commands handle them: ``with signals: ...`` and ask ``stop()`` now and then."""

from __future__ import annotations

from pntm_np.runtime.signals import Signals

signals = Signals()


def stop() -> bool:
    return bool(signals.received)
