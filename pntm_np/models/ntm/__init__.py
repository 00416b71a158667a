"""The NTM layer: its definition and its compiled loop."""
