"""Numbers that keep an NTM finite, for its loop and for its kernels: a file of its own, for kernels are compiled again
when a file that they import changes."""

NORM_FLOOR = 1e-8  # of |k| and |M_i| in the cosine
LOG_FLOOR = 1e-12  # added to an address before its logarithm: exact zeros are safe
STEEPEST = 1e6  # of beta and gamma: what they multiply, up to 28, then has an error that exp can take
