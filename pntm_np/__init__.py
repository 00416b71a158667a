"""The science: recurrences, layers, models, training and evaluation, built on ``autodiff`` and ``tasks``."""
