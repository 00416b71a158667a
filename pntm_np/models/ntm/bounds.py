"""Bounds that keep an NTM finite. They have their own file because kernels are recompiled when a file that they import
changes."""

NORM_FLOOR = 1e-8  # for |k| and |M_i| in the cosine similarity
LOG_FLOOR = 1e-12  # added to an address before its logarithm, so that exact zeros are safe
STEEPEST = 1e6  # for beta and gamma: they multiply numbers up to 28, whose rounding error exp then still tolerates
