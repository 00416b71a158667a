"""What is built on training and evaluation: benchmarks, sweeps, reports, traces, the self-test."""
