# Everything happens in .venv, made on first use. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
JOBS ?= 2
FUZZ_SECONDS ?= 60
VENV := .venv
BIN := $(VENV)/bin
COMMA := ,
PACKAGES := dpcore transforms pipelines weir examples tests benchmarks

# Installs Weir with extras, $(1). uv takes a sixth of pip's processor time; pip does it where uv has no wheel or reaches no index.
INSTALL = @echo "weir: installing $(1) (a minute the first time)" >&2; start=$$SECONDS; \
	index="$$($(BIN)/python -m pip config list 2> /dev/null | sed -n "s/^[^=]*[.]index-url='\(.*\)'$$/\1/p" | tail -n 1)"; \
	pip() { $(BIN)/python -m pip install --disable-pip-version-check --quiet "$$@"; }; \
	{ pip uv && UV_DEFAULT_INDEX="$$index" \
		$(BIN)/python -m uv pip install $$([ -t 2 ] || echo --quiet) --python $(BIN)/python -e '.[$(1)]'; } || pip -e '.[$(1)]'; \
	echo "weir: installed in $$((SECONDS - start)) s" >&2

# Where Python is told to keep no bytecode, each worker of the tests compiles all of them anew: half
# of what collecting them takes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo flights stack prism flink pubsub kafka buckets engines docs check test chaos fuzz lint bench vega clean
help:
	@echo "make demo     private releases from the real purchases of a CD shop, with a report (a minute)"
	@echo "make flights  private models of real flights, hour by hour, beside the same without noise"
	@echo "make stack    a live stream: Pub/Sub server, Flink cluster, job and feed, shown in the terminal"
	@echo "make prism    fetches Beam's runner for unbounded streams on one machine (needs Go; two minutes)"
	@echo "make flink    fetches Flink and assembles its job server (needs Java 17 and Maven; four minutes)"
	@echo "make pubsub   builds a Pub/Sub server for trying and testing (needs Go; a minute)"
	@echo "make kafka    fetches a Kafka broker for trying and testing (needs Java 17 and Maven; a minute)"
	@echo "make buckets  installs servers of Google Cloud Storage, S3 and Azure for testing (needs Go and npm; a minute)"
	@echo "make engines  all five, side by side"
	@echo "make check    lint, format, types, and every test that is not slow: a minute"
	@echo "make test     lint, format, types and the whole test suite"
	@echo "make chaos    every kill and outage of streams on Flink, and 20 kills of each sink: an hour"
	@echo "make fuzz     coverage-guided fuzzing of all that reads bytes, FUZZ_SECONDS for each target: an hour"
	@echo "make lint     lint, format and types only"
	@echo "make docs     the documentation as a site, into build/site"
	@echo "make bench    the benchmarks, each compared with its peer"
	@echo "make clean    removes .venv, caches and what the demo wrote"

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "weir needs Python 3.11, 3.12 or 3.13: install it, or make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "weir: making a virtual environment in $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)

# One stamp for what the demo needs, one for the tests: an install runs again when the metadata change.
NATIVE := $(wildcard dpcore/native/*.c dpcore/native/*.h)

$(VENV)/.installed: setup.py pyproject.toml $(NATIVE) | $(BIN)/python
	$(call INSTALL,png)
	@touch $@

$(VENV)/.installed-test: setup.py pyproject.toml $(NATIVE) | $(BIN)/python
	$(call INSTALL,test)
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(VENV)/.installed-test
	$(call INSTALL,test$(COMMA)bench)
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/python -m examples.shop.demo

flights: $(VENV)/.installed
	@$(BIN)/python -m examples.flights.example

# What streams run on, into the user's cache (WEIR_CACHE moves it). Fetched once; the tests that need
# one that is missing are skipped with the reason, but fail in continuous integration.
prism flink pubsub kafka buckets: $(VENV)/.installed
	@$(BIN)/python -m weir.pipelines.engines.install $@ > /dev/null && echo "$@: installed"

ENGINES = $(BIN)/python -m weir.pipelines.engines.install all > /dev/null && echo "prism, flink, pubsub, kafka, buckets: installed"
engines: $(VENV)/.installed
	@$(ENGINES)

# STACK holds options, like STACK="--seconds 60"; `python -m examples.stack.stack --help` lists them.
# What the page of a report runs, written again for another version of Vega-Lite (pipelines/vega.py).
vega: $(VENV)/.installed-test
	@$(BIN)/python -c "import vl_convert; from weir.pipelines.vega import VEGA_LITE; \
	print(vl_convert.javascript_bundle(vl_version=VEGA_LITE), end='')" > pipelines/report/vega.js

stack: $(VENV)/.installed-test
	@$(BIN)/python -m weir.pipelines.engines.install flink $(if $(findstring kafka,$(STACK)),kafka,pubsub) > /dev/null
	@$(BIN)/python -m examples.stack.stack $(STACK)

$(VENV)/.installed-docs: setup.py pyproject.toml | $(VENV)/.installed
	$(call INSTALL,docs)
	@touch $@

# The documentation as a site, reference included; a link that leads nowhere fails it.
docs: $(VENV)/.installed-docs
	@$(BIN)/python -m mkdocs build --quiet && echo "build/site/index.html: built"

LINT = $(BIN)/ruff check --quiet setup.py $(PACKAGES) && echo "ruff check: clean" && \
	$(BIN)/ruff format --quiet --check setup.py $(PACKAGES) && echo "ruff format: clean" && $(BIN)/mypy
lint: $(VENV)/.installed-test
	@$(LINT)

check: lint
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow" tests benchmarks

# Tests on real engines run a file in each lane, and with nothing else: they use both processors, and what comes late fails.
# Those that need a machine in time run alone, last. Continuous integration fetches the engines first, next to linters.
OTHERS = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations=10 tests benchmarks \
	--ignore=tests/runners --ignore=tests/buckets
# A lane whose process dies ends the run: the lane that would replace it waits for ever.
LANES = $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart=0 --durations=30 -m "not alone" tests/buckets tests/runners
ALONE = $(BIN)/python -m pytest -m alone tests/runners
test: $(VENV)/.installed-test
ifdef CI
	@$(ENGINES) & engines=$$!; { $(LINT); } || { kill $$engines; exit 1; }; wait $$engines
else
	@$(LINT)
endif
	@failed=0; $(OTHERS) || failed=1; $(LANES) || failed=1; $(ALONE) || failed=1; exit $$failed

# Whole sets of kills. What is not named test_* is collected only where it is named.
chaos: $(VENV)/.installed-test engines
	@$(BIN)/python -m pytest tests/runners/chaos_*.py

$(VENV)/.installed-fuzz: $(VENV)/.installed-test
	$(call INSTALL,test$(COMMA)fuzz)
	@touch $@

# FUZZ names targets, like FUZZ="csv.record ledger.file". New inputs are kept in tests/fuzz/corpus, which the tests replay.
fuzz: $(VENV)/.installed-fuzz
	@$(BIN)/python -m tests.fuzz $(FUZZ) --seconds $(FUZZ_SECONDS)

bench: $(VENV)/.installed-bench
	@$(BIN)/python -m benchmarks --run --short
	@$(BIN)/python -m benchmarks.dp_sqlp --scale 0.01

clean:
	rm -rf examples/shop/out* examples/shop/purchases.* examples/shop/*.png examples/flights/out examples/flights/flights.*
	rm -rf $(VENV) .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
