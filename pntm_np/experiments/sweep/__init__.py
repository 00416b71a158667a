"""Many runs: a grid of tasks, variants of models and seeds, each run a process in a directory of its own."""
