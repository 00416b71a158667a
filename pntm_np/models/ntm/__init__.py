"""The NTM layer: its definition, and its loop compiled."""
