# make setup | demo | reproduce ENV=... | docs | test | test-fast | check | versions | lock | campaign | audit | sbom | bench | clean.
# Each works in a fresh clone with Python 3.10 to 3.14, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# cpu or cuda: which build of torch; what is installed stays unless the other is asked for (`make setup TORCH=cuda`).
TORCH ?= $(patsubst $(VENV)/.installed-%,%,$(firstword $(wildcard $(VENV)/.installed-*) $(VENV)/.installed-cpu))
STAMP := $(VENV)/.installed-$(TORCH)

# labmaze, which OGBench needs, has no wheels for Python 3.13 and newer.
OGBENCH := $(shell $(PYTHON) -c 'import sys; print("ogbench,walker," if sys.version_info < (3, 13) else "")')

.PHONY: setup demo reproduce docs browser test test-fast check versions lock campaign audit sbom bench clean

setup: $(STAMP)

# The versions of the lock file are constraints; its hashes are for `pip install --require-hashes -r requirements.lock`.
$(STAMP): pyproject.toml requirements.lock
	$(if $(filter-out $(STAMP),$(wildcard $(VENV)/.installed-*)),rm -rf $(VENV))
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=22.2'
	$(BIN)/python tools/install_torch.py $(TORCH)
	$(BIN)/python tools/constraints.py > $(VENV)/constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c $(VENV)/constraints.txt -e '.[train,$(OGBENCH)minari,hub,ray,robotics,web,docs,dev]'
	@$(if $(OGBENCH),,echo "NO ANTMAZE AND CUBE HERE: the extra 'ogbench' needs Python 3.12 or older; their tests are skipped" >&2)
	touch $@

demo: setup
	$(BIN)/vhd demo maze2d-large --n 100 --out out

# Data, training of every network, the benchmark and the report; goes on where it stopped.
ENV ?= maze2d-umaze
reproduce: setup
	$(BIN)/vhd reproduce $(ENV)

# The site, in site/index.html. No network is needed; a broken link fails.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html; for its search box, serve it: python -m http.server --directory site"

# One worker per core, up to four; a file of tests stays in one worker.
PARALLEL := --numprocesses auto --maxprocesses 4 --dist loadfile

test: setup browser
	$(BIN)/python -m pytest $(PARALLEL)

# For those who develop: without the tests marked slow, and without a browser.
test-fast: setup
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow"

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

# Every Python here, with the oldest versions allowed and with the newest: minutes each.
versions: setup
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/python tools/check_versions.py

# Versions that are locked stay where they still fit. Those of CUDA's packages are torch's own affair.
lock: setup
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/python -m uv pip compile --quiet pyproject.toml --all-extras --universal --python-version 3.10 \
		--no-annotate --no-header --generate-hashes --output-file requirements.lock
	awk '/^[^ ]/ { cuda = /^(nvidia|cuda|triton)/ } !cuda' requirements.lock > requirements.new && mv requirements.new requirements.lock

# Kills, signals, full disks and malformed input against the real commands: an hour or two, resumable; out/campaign/report.md.
campaign: setup
	$(BIN)/python tools/campaign

# Known vulnerabilities of the installed packages; needs the network.
audit: setup
	$(BIN)/pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --skip-editable

# Software bill of materials (CycloneDX) of the installed packages: out/sbom.cdx.json. Releases have one of their own.
sbom: setup
	$(BIN)/pip install --quiet --disable-pip-version-check cyclonedx-bom
	mkdir -p out
	$(BIN)/cyclonedx-py environment --output-reproducible --output-file out/sbom.cdx.json $(VENV)

bench: setup
	# It says by its exit code that a statistic is off; the rest is run all the same.
	-$(BIN)/python benchmarks/data_fidelity.py
	$(BIN)/python benchmarks/planner_speed.py
	$(BIN)/python benchmarks/execution_share.py --n 200

clean:
	rm -rf $(VENV) out site build dist *.egg-info src/*.egg-info
