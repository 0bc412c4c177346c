# Needs only Python 3.11: each target creates the virtual environment and installs its requirements.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
TEST_PROCESSES ?= 2
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test kills lint fuzz wheel test-machines bench docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

demo: $(VENV)/.core  ## run the demo in a simulated town; writes a page and pictures to demo_output
	$(BIN)/poli warmup
	$(BIN)/poli demo --out demo_output

test: lint  ## lint, then run all tests in two processes
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile

kills: $(VENV)/.dev  ## kill densify, odometry and train 200 times at random; checks that nothing is lost or left behind
	$(BIN)/python tests/kills.py --count 200

lint: $(VENV)/.dev  ## check style, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

FUZZ ?= --cases 100000 --seed 1
fuzz: $(VENV)/.dev  ## fuzz all readers with damaged inputs: make fuzz FUZZ='--cases 1000000 --seed 2'
	$(BIN)/python -m tests.fuzz $(FUZZ)

wheel: $(VENV)/.python  ## build a wheel into dist/, for every platform
	$(BIN)/python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir dist .

test-machines: $(VENV)/.dev  ## run the numerical tests as on other CPUs, BLAS libraries and thread counts, and compare the results
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m machines $(MACHINES)

bench: $(VENV)/.bench  ## run the benchmarks that need no data; writes tables and plots to docs/results, then lists which are current
	for name in certificate layer relaxation step geometry runtime odometry; do \
		$(BIN)/python -m benchmarks $$name --out docs/results || exit 1; done
	$(BIN)/python -m benchmarks status

docs: $(VENV)/.docs  ## build the documentation site into site/; dead links and pages missing from the menu are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## remove the environment and all generated files
	rm -rf $(VENV) demo_output example_output fuzz_failures site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	touch $@ $(VENV)/.core

$(VENV)/.bench: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[bench]'
	touch $@ $(VENV)/.core

$(VENV)/.docs: $(VENV)/.python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[docs]'
	touch $@ $(VENV)/.core
