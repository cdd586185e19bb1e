# Every target makes what it needs; a second call finds it made.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# What Dure itself needs, without the tools that tests and checks need: enough to run it.
RUNS := $(VENV)/.runs
TEST_WORKERS ?= 2
# Recorders need a GPU and write the data that the figures start from; they are run by hand. So are
# the shards that bench/kernel.py and bench/node.py make pages of.
FIGURES := $(filter-out bench/record_%.py bench/kernel.py bench/node.py,$(wildcard bench/*.py))
# These read public traces, which are not shipped: make bench DATA=FOLDER
DATA_FIGURES := bench/fleet.py bench/packing.py bench/risk.py
export PYTHON
# The tests start hundreds of programs: each would compile its sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help native demo test test-slow test-faults test-docker test-kube test-services test-fleet test-browser test-soak check bench docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

$(READY): pyproject.toml setup.py constraints.txt tools/set_up_venv
	@tools/set_up_venv $(VENV)
	@touch $@

$(RUNS): pyproject.toml setup.py constraints.txt tools/set_up_venv
	@tools/set_up_venv $(VENV) run
	@touch $@

native: $(READY) ## compile the C parts again where their sources changed
	@$(BIN)/python native/build.py

demo: $(if $(wildcard $(READY)),native,$(RUNS)) ## all three levels on emulated GPUs, with the dashboard (DEMO="--keep" leaves it up)
	$(BIN)/dure demo $(DEMO)

test: native ## run the fast tests
	$(BIN)/pytest -n $(TEST_WORKERS)

test-slow: native ## run the tests that take longer
	$(BIN)/pytest -n $(TEST_WORKERS) -m "slow and not docker and not gpu and not fleet"

test-faults: native ## kill, stop and confuse agents and tenants, on the emulator
	$(BIN)/pytest -m "faults and not slow and not docker"

test-docker: native ## queue, pause and thaw real containers, on the emulator; as root it installs Docker
	tools/ensure_docker
	$(BIN)/pytest -m "docker and not gpu"

test-kube: $(READY) ## run against a real Kubernetes, which the first call builds; as root it installs haproxy
	tools/build_kube > /dev/null || test -z "$$DURE_REQUIRE_KUBE"
	tools/get_gateway_crds > /dev/null || test -z "$$DURE_REQUIRE_KUBE"
	for other in helm kueue; do \
	    test "$$DURE_REQUIRE_KUBE" = 1 || tools/build_$$other > /dev/null \
	        || test "$$DURE_REQUIRE_KUBE" != all || exit 1; done
	$(BIN)/pytest -m "kube and not fleet" -rs

test-services: $(READY) ## run against real PostgreSQL, NATS, VictoriaMetrics and Prometheus; as root it installs them
	tools/ensure_services || test "$$DURE_REQUIRE_SERVICES" != 1
	$(BIN)/pytest -m "services and not fleet" -rs

test-fleet: $(READY) ## kill, stop and cut the parts of a whole fleet, again and again (SEED=N to replay, ONLY=NAME)
	tools/build_kube > /dev/null || test -z "$$DURE_REQUIRE_KUBE"
	tools/ensure_services || test "$$DURE_REQUIRE_SERVICES" != 1
	$(BIN)/pytest -m fleet -rs -s $(if $(SEED),--seed $(SEED)) $(if $(SUMMARY),--summary $(SUMMARY)) $(if $(ONLY),-k $(ONLY)) tests/e2e/fleet

test-browser: native ## drive every page of the dashboard in a real Chromium; as root it installs it
	tools/ensure_browser || test "$$DURE_REQUIRE_BROWSER" != 1
	$(BIN)/pytest -m browser -rs tests/web

test-soak: native ## ten minutes of tenants that come, go and are killed (DURE_SOAK_S=600)
	DURE_SOAK_S=$${DURE_SOAK_S:-600} $(BIN)/pytest -m slow -s --timeout=0 tests/faults/test_soak.py

check: $(READY) ## lint, format, types, import rules, purity of the deciders
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_purity.py

bench: $(READY) ## reproduce the published figures (DATA=FOLDER for those from public traces)
	@set -e; for script in $(filter-out $(DATA_FIGURES),$(FIGURES)); do \
		echo "== $$script"; $(BIN)/python "$$script"; done
ifdef DATA
	@set -e; for script in $(DATA_FIGURES); do \
		echo "== $$script"; $(BIN)/python "$$script" --data "$(DATA)"; done
else
	@echo "left out without DATA=FOLDER: $(DATA_FIGURES)"
endif

docs: $(READY) ## build the documentation into out/site, strictly: no broken link, no page left out
	$(BIN)/properdocs build --strict --quiet -f mkdocs.yml
	@echo "out/site/index.html"

clean: ## remove the virtual environment, caches and build output
	rm -rf $(VENV) build dist out src/*.egg-info src/dure/devices/lib .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find bench src tests tools -name __pycache__ -prune -exec rm -rf {} +
