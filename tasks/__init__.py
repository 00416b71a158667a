"""The six problems that the machines learn; NumPy only, independent of ``autodiff`` and ``pntm_np``."""
