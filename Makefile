# make setup | demo | test | check | bench | clean. Each works in a fresh clone with Python >= 3.10, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test check bench clean

setup: $(STAMP)

# The lock file is used as constraints: torch==2.13.0 is found as a CPU build where there is one,
# while an unpinned torch would pull gigabytes of CUDA.
$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev,walker,minari,web]'
	touch $@

demo: setup
	$(BIN)/vhd data get maze2d-umaze
	$(BIN)/vhd data info maze2d-umaze
	mkdir -p out
	$(BIN)/vhd data draw maze2d-umaze --out out/maze2d-umaze.png

test: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: setup
	# It says by its exit code that a statistic is off; the rest is run all the same.
	-$(BIN)/python benchmarks/data_fidelity.py
	$(BIN)/python benchmarks/planner_speed.py

clean:
	rm -rf $(VENV) out build dist *.egg-info src/*.egg-info
