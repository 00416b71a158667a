"""Sweeps: a grid of tasks, variants of models, and seeds; each run is a process with its own directory."""
