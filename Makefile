# make test   everything from nothing: environment, install, the suite
# make train  watch a machine learn parity-check, and do it at three times the length
# make lint   format and lint, as CI does; make types and make coverage are the other checks
PYTHON ?= python3
TASK ?= parity-check
SEED ?= 0

.PHONY: test coverage train test-long test-kill test-draws test-mutants mutation lint types format cuda-check bench-engine bench-scans gallery clean

# One process for each of two cores: more would each compile and train for themselves.
test: .venv/installed
	.venv/bin/python -m pytest -n 2 --dist loadfile

# The lines that the tests of these packages run, and those that they miss; less than 95 % of a package is an error. The
# tests take two to three times as long as without, so the others are left out. With them, for all of the sources:
# make coverage TESTS=tests && .venv/bin/coverage report
COVERED = autodiff tasks pntm_np/scans pntm_np/models
# What a model tells of itself, its need of RAM and what it shows of a step, is tested where that is used.
COVERING = $(COVERED:%=tests/%) tests/pntm_np/runtime/test_ram.py tests/pntm_np/experiments/trace/test_record.py
coverage: .venv/installed
	.venv/bin/coverage erase
	.venv/bin/coverage run -m pytest -n 2 --dist loadfile $(or $(TESTS),$(COVERING))
	.venv/bin/coverage combine --quiet
	@for package in $(COVERED); do \
		echo; .venv/bin/coverage report --include="$$package/*" --fail-under=95 || exit 1; \
	done

# A few minutes on a laptop. Another task or seed: make train TASK=reverse-string SEED=1
train: .venv/installed
	.venv/bin/pntm train $(TASK) --seed $(SEED) --resume

# Long sequences and large sizes, too slow for every change.
test-long: .venv/installed
	.venv/bin/python -m pytest -m long

lint: .venv/installed
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .

types: .venv/installed
	.venv/bin/mypy

format: .venv/installed
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

# Random cases of the recurrences, every form beside the loop; an hour on one core.
test-draws: .venv/installed
	.venv/bin/python -m tests.pntm_np.scans.draw 200000

# Runs that are killed at random moments, and whose system calls fail one by one (with strace, if there is one).
# Killed more often: make test-kill KILLS=200
test-kill: .venv/installed
	KILLS=$(or $(KILLS),50) .venv/bin/python -m pytest -m kill

# Bugs planted one at a time in a copy of the sources: do the tests notice? An hour or more. Some of them, by their area,
# their file or a word of their description: make test-mutants ONLY=scans
test-mutants: .venv/installed
	.venv/bin/python -m tests.mutants.plant $(ONLY)

# Small changes all over some modules, made by cosmic-ray; hours. One of them: make mutation MODULE=optimizer
mutation: .venv-mutation/installed
	.venv-mutation/bin/python -m tests.mutants.mutation $(MODULE)

# Every name and keyword that the sources use of CuPy, against the real one. It imports without a GPU.
cuda-check: .venv-cuda/installed
	.venv-cuda/bin/python -m pytest tests/cuda_check

# The cost of the tape, beside HIPS autograd and beside NumPy by hand.
bench-engine: .venv-bench/installed
	.venv-bench/bin/python benchmarks/engine.py

# One picture for each task, from the machines that are shipped.
gallery: .venv/installed
	mkdir -p results/gallery
	.venv/bin/pntm trace results/checkpoints/parity-check-pntm.safetensors aaabbababb -o results/gallery/parity-check.png
	.venv/bin/pntm trace results/checkpoints/cycle-navigation-pntm.safetensors siidissidi -o results/gallery/cycle-navigation.png
	.venv/bin/pntm trace results/checkpoints/reverse-string-pntm.safetensors aabbabbbab -o results/gallery/reverse-string.png
	.venv/bin/pntm trace results/checkpoints/duplicate-string-pntm.safetensors aabbabbb -o results/gallery/duplicate-string.png
	.venv/bin/pntm trace results/checkpoints/modular-arithmetic-pntm.safetensors 1+2-4*3 -o results/gallery/modular-arithmetic.png
	.venv/bin/pntm trace results/checkpoints/binary-addition-pntm.safetensors 01101+1011 -o results/gallery/binary-addition.png

# Every form of the recurrences, from 64 to 65,536 steps; takes some minutes.
bench-scans: .venv/installed
	.venv/bin/python benchmarks/scans.py

clean:
	rm -rf .venv .venv-cuda .venv-bench .venv-mutation build *.egg-info .coverage* .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Environments. Each is made once, and again when pyproject.toml changes.
PYTHON_CHECK = import sys; sys.exit(sys.version_info < (3, 11) and "pntm needs Python 3.11 or newer, and \
	$(PYTHON) is Python %d.%d. Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" % sys.version_info[:2])

.venv/installed: EXTRAS = .[test,fast]
.venv-cuda/installed: EXTRAS = .[test,cuda]
.venv-bench/installed: EXTRAS = . autograd
.venv-mutation/installed: EXTRAS = .[test,fast] cosmic-ray==8.7.0

.venv/installed .venv-cuda/installed .venv-bench/installed .venv-mutation/installed: pyproject.toml
	@$(PYTHON) -c '$(PYTHON_CHECK)'
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable $(EXTRAS)
	@touch $@
