"""One file for each command: it parses, calls, and prints. Ctrl-C and SIGTERM are handled as all commands do:
``with signals: ...`` and ask ``stop()`` now and then."""

from pntm_np.runtime.signals import Signals

signals = Signals()


def stop() -> bool:
    return bool(signals.received)
