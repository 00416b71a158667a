"""The forms of a scan, and where each of them can run."""

from __future__ import annotations

from autodiff import Value, stop_gradient
from autodiff.backend import compiled, on_host
from pntm_np.runtime.errors import NOT_AVAILABLE, PntmError

FORMS = ("sequential", "paper", "chunked", "fused")


class FormUnavailable(PntmError, RuntimeError):
    """The form cannot be used here; the message says why."""

    exit_code = NOT_AVAILABLE


def default_form(device: str) -> str:
    """The fastest exact form on that device."""
    return "fused" if device == "cpu" and compiled() else "chunked"


def usable_forms(forms: tuple[str, ...], device: str) -> tuple[str, ...]:
    """Those of ``forms`` that can run on that device."""
    return tuple(f for f in forms if f != "fused" or default_form(device) == "fused")


def check_form(caller: str, form: str, *arrays: Value) -> None:
    if form not in FORMS:
        raise ValueError(f"{caller}: form is {form!r}; expected one of {', '.join(FORMS)}")
    if form == "fused":
        require_fused(caller, all(on_host(stop_gradient(x)) for x in arrays))


def require_fused(caller: str, on_cpu: bool) -> None:
    """Raise FormUnavailable if the fused form cannot run, before anything is computed."""
    if not compiled():
        raise FormUnavailable(f"{caller}: form 'fused' needs Numba; install it with: pip install 'pntm[fast]'")
    if not on_cpu:
        raise FormUnavailable(f"{caller}: form 'fused' runs on the CPU; use 'chunked' for arrays on a device")
