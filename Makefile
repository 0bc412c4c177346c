# Everything from a clean machine with Python 3.11: each target makes the virtual environment and installs what it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
TEST_PROCESSES ?= 2
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Kernels are compiled by the numba of pip's build environment, and run by the one that is installed: the same, by these.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt

.PHONY: help demo test kills lint fuzz kernels wheel test-machines test-numba bench docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

demo: $(VENV)/.core  ## ellipsoids, a denser scan, a pose and odometry in a simulated town: a page and pictures in demo_output
	$(BIN)/poli demo --out demo_output

test: lint  ## lint, then every test, in two processes
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile

kills: $(VENV)/.dev  ## kill densify, odometry and train 200 times at random moments; nothing may be lost or left behind
	$(BIN)/python tests/kills.py --count 200

lint: $(VENV)/.dev  ## style, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

FUZZ ?= --cases 100000 --seed 1
fuzz: $(VENV)/.dev  ## damaged inputs for everything that is read: make fuzz FUZZ='--hours 8 --cases 100000000 --seed 2'
	$(BIN)/python -m tests.fuzz $(FUZZ)

kernels: $(VENV)/.core  ## compile the kernels again, after one has changed; until then numba compiles those at their first call
	$(BIN)/python -m poli.building

wheel: $(VENV)/.python constraints.txt  ## a wheel for this platform, to dist/: code for x86-64-v3 and v4, elsewhere for every CPU of the platform
	POLI_NATIVE_BUILD=wheel $(BIN)/python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir dist .

test-machines: $(VENV)/.dev  ## the numerical tests as other CPUs, BLAS libraries and numbers of threads would run them, and how far results differ
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m machines $(MACHINES)

test-numba: $(VENV)/.python  ## compiled code with the oldest and the newest numba that pyproject.toml allows, each in a new environment
	$(BIN)/python tests/try_numba.py

bench: $(VENV)/.bench  ## measure against rivals; tables and plots to docs/results
	$(BIN)/python -m benchmarks layer --out docs/results
	$(BIN)/python -m benchmarks pca --out docs/results
	$(BIN)/python -m benchmarks step --out docs/results
	$(BIN)/python -m benchmarks relaxation --out docs/results
	$(BIN)/python -m benchmarks geometry --out docs/results
	$(BIN)/python -m benchmarks runtime --out docs/results
	$(BIN)/python -m benchmarks engines --out docs/results
	$(BIN)/python -m benchmarks odometry --out docs/results

docs: $(VENV)/.docs  ## the documentation site, to site/; a dead link or a page that no menu has is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## remove the environment and everything made
	rm -rf $(VENV) demo_output runs results site build dist src/poli/native/compiled .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
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
