"""One file for each command: it parses the arguments, calls the library, and prints the result.

Commands handle Ctrl-C and SIGTERM with ``with signals: ...`` and check ``stop()`` from time to time.
"""

from pntm_np.runtime.signals import Signals

signals = Signals()


def stop() -> bool:
    return bool(signals.received)
