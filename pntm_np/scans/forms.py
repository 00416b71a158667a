"""Which forms there are, and which can be used where."""

from __future__ import annotations

from autodiff import Value, stop_gradient
from autodiff.backend import compiled, on_host
from pntm_np.runtime.errors import NOT_AVAILABLE, PntmError

FORMS = ("sequential", "paper", "chunked", "fused")


class FormUnavailable(PntmError, RuntimeError):
    """The form cannot be used here; the message says why."""

    exit_code = NOT_AVAILABLE


def default_form(device: str) -> str:
    """The fastest exact form there."""
    return "fused" if device == "cpu" and compiled() else "chunked"


def usable_forms(forms: tuple[str, ...], device: str) -> tuple[str, ...]:
    """Those that can run there."""
    return tuple(f for f in forms if f != "fused" or default_form(device) == "fused")


def check_form(caller: str, form: str, *arrays: Value) -> None:
    if form not in FORMS:
        raise ValueError(f"{caller}: form is {form!r}; expected one of {', '.join(FORMS)}")
    if form == "fused":
        require_fused(caller, all(on_host(stop_gradient(x)) for x in arrays))


def require_fused(caller: str, on_cpu: bool) -> None:
    """Whether the fused form can run, known before anything is made."""
    if not compiled():
        raise FormUnavailable(f"{caller}: form 'fused' needs Numba; install it with: pip install 'pntm[fast]'")
    if not on_cpu:
        raise FormUnavailable(f"{caller}: form 'fused' runs on the CPU; use 'chunked' for arrays on a device")
