# `make help` lists the targets. Everything is installed into .venv; caches live under ~/.cache/holdfast.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# A distribution's Python is compiled by a profile; one that was compiled without takes a sixth more CPU.
PYTHON ?= $(shell /usr/bin/python3.11 -c 'import ensurepip, venv' 2> /dev/null && echo /usr/bin/python3.11 || echo python3)
SCENARIOS ?= tests/kind
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := core runtime operator cli tests bench images
# Each process of a test would compile all it imports: half a second of CPU, thousands of times a run.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml hatch_build.py $(shell find runtime -name "*.[ch]")
	@# An environment that works keeps its Python: one made over it by another would work for neither.
	$(BIN)/python -m pip --version &> /dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: setup
setup: $(STAMP)  ## install everything into .venv

.PHONY: run
run: $(STAMP)  ## run an example app on embedded Spark for 30 s, and check what it did
	rm -rf .holdfast/page-totals
	$(BIN)/holdfast run examples/page-totals/app.yaml --for 30s --no-ui --master 'local[*]'
	$(BIN)/python examples/page-totals/check.py .holdfast/page-totals

.PHONY: kafka
kafka: $(STAMP)  ## a Kafka broker and a schema registry to try apps with, until Ctrl-C (needs Java and Maven)
	$(BIN)/python -m tests.kafka.trial

# Many small files, which need not outlive a power cut: in memory where there is enough.
MEMORY = $(shell [ "$$(df --output=avail /dev/shm 2> /dev/null | tail -n 1)" -gt 4000000 ] 2> /dev/null && echo /dev/shm || echo "$${TMPDIR:-/tmp}")
TEST_ON_ALL_CORES = TMPDIR=$(MEMORY) $(BIN)/python -m pytest -q -n auto --dist worksteal --durations=20

.PHONY: test
test: $(STAMP)  ## pure tests and a smoke on each real component (needs Java, Maven and Go)
	$(TEST_ON_ALL_CORES) -m "not real or smoke"

.PHONY: test-pure
test-pure: $(STAMP)  ## pure tests alone
	$(TEST_ON_ALL_CORES) -m "not real"

# Tests mostly wait for other processes: a third worker uses what two leave of two cores.
.PHONY: test-real
test-real: $(STAMP)  ## all other tests on real processes, Spark, Kafka, S3 and the API server
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "real and not kind$(if $(SMOKE),, and not smoke)$(if $(SLOW), and not long)" --durations=40

.PHONY: images
images: $(STAMP)  ## build the container images (needs Docker, or root on Debian; a second call takes seconds)
	$(BIN)/python -m images.build

.PHONY: prepare
prepare: $(STAMP)  ## fetch, compile and build what tests and a kind cluster need, without making one
	$(BIN)/python -m tests.java_archive
	$(BIN)/python -m tests.registry.server
	$(BIN)/python -m tests.debian
	$(BIN)/python -m tests.cluster prepare

.PHONY: cluster
cluster: $(STAMP)  ## a kind cluster of three nodes for tests (needs root, Debian and Go; some minutes, once)
	$(BIN)/python -m tests.cluster up

.PHONY: cluster-down
cluster-down: $(STAMP)  ## delete that cluster
	$(BIN)/python -m tests.cluster down

.PHONY: e2e
e2e: cluster  ## whole apps on that cluster, through the faults that production brings
	$(BIN)/python -m pytest -s -m kind --durations=20 $(SCENARIOS)

.PHONY: check
check: $(STAMP)  ## format, lint, types, import contracts, generated files
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/python -m tests.typed_modules
	$(BIN)/lint-imports
	$(BIN)/python -m tests.class_names
	$(BIN)/python -m tests.vague_names
	$(BIN)/python -m tests.long_names
	$(BIN)/python -m holdfast_cli.generated --check

.PHONY: generate
generate: $(STAMP)  ## write the generated files anew: CRD and reference pages
	$(BIN)/python -m holdfast_cli.generated

.PHONY: format
format: $(STAMP)  ## format the code
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

.PHONY: bench
bench: $(STAMP)  ## benchmarks, each prints its table
	$(BIN)/python bench/start.py
	$(BIN)/python bench/planner.py
	$(BIN)/python bench/assignment.py
	$(BIN)/python bench/wide_plans.py
	$(BIN)/python bench/control.py
	$(BIN)/python bench/log.py
	$(BIN)/python bench/codecs.py
	$(BIN)/python -m bench.avro
	$(BIN)/python -m bench.protobuf
	$(BIN)/python -m bench.state
	$(BIN)/python bench/kafka_fetch.py
	$(BIN)/python bench/kafka
	$(BIN)/python bench/engine
	$(BIN)/python bench/nexmark
	$(BIN)/python -m bench.status_writes
	$(BIN)/python bench/operator
	$(BIN)/python bench/operator/hostile.py
	$(BIN)/python bench/troubles

.PHONY: bench-cluster
bench-cluster: $(STAMP)  ## benchmarks on the cluster of `make cluster` (an hour or two)
	$(BIN)/python bench/cluster

.PHONY: soak
soak: $(STAMP)  ## the random tests at full length
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest tests/damage
	HYPOTHESIS_PROFILE=soak HOLDFAST_LIVES=25 HOLDFAST_HOSTILE=10000 HOLDFAST_HOSTILE_APPS=200 $(BIN)/python -m pytest -m "not kafka and not kind" --ignore tests/damage
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -s tests/kafka/test_killed.py tests/kafka/test_killed_slots.py tests/kafka/test_runs_killed.py
	$(BIN)/python -m tests.simulation --lives 100000

.PHONY: soak-e2e
soak-e2e: cluster  ## random faults on the cluster for half an hour
	HOLDFAST_SOAK=1800 $(BIN)/python -m pytest -s -m kind tests/kind/test_soak.py

.PHONY: lock
lock: $(STAMP)  ## resolve dependencies anew into requirements.lock (names and hashes only)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --extra dev --extra kafka --extra runtime --extra operator --extra bench --extra traces \
	  --python-version 3.11 --universal -o requirements.lock pyproject.toml

.PHONY: clean
clean:  ## remove .venv and what tools left behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
