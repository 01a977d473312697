# make setup | demo | reproduce ENV=... | test | test-fast | check | bench | clean. Each works in a fresh clone with Python >= 3.10, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo reproduce browser test test-fast check bench clean

setup: $(STAMP)

# The lock file is used as constraints: torch==2.13.0 is found as a CPU build where there is one,
# while an unpinned torch would pull gigabytes of CUDA.
$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[dev,walker,minari,web]'
	touch $@

demo: setup
	$(BIN)/vhd demo maze2d-large --n 100 --out out

# Data, training of every network, the benchmark and the report; goes on where it stopped.
ENV ?= maze2d-umaze
reproduce: setup
	$(BIN)/vhd reproduce $(ENV)

test: setup browser
	$(BIN)/python -m pytest

# For those who develop: without the tests marked slow, and without a browser.
test-fast: setup
	$(BIN)/python -m pytest -m "not slow"

# The page is tested in a real browser: Debian's Chromium where apt-get works, otherwise Playwright's own.
# Without either, those tests are skipped and say so.
browser: setup
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 \
	|| $(BIN)/python -m playwright install chromium \
	|| echo "NO CHROMIUM HERE: the browser tests will be skipped (apt-get install chromium)" >&2

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: setup
	# It says by its exit code that a statistic is off; the rest is run all the same.
	-$(BIN)/python benchmarks/data_fidelity.py
	$(BIN)/python benchmarks/planner_speed.py
	$(BIN)/python benchmarks/execution_share.py --n 200

clean:
	rm -rf $(VENV) out build dist *.egg-info src/*.egg-info
