# Everything happens in .venv, made on first use. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := dpcore transforms pipelines tests benchmarks

# Counts what pip collects: one moving line on a terminal, one line at the end elsewhere.
PROGRESS := awk -v tty="$$([ -t 2 ] && echo 1 || echo 0)" \
	'/^Collecting/ { n++; if (tty) printf "\r  %d packages collected", n > "/dev/stderr" } \
	 /^Installing collected/ { if (tty) printf "\r  %d packages collected, installing", n > "/dev/stderr" } \
	 /^(ERROR|WARNING: Retrying|error:)/ { print > "/dev/stderr" } \
	 END { if (tty) printf "\n" > "/dev/stderr" }'

.PHONY: help demo flights test lint bench clean
help:
	@echo "make demo     private releases from the real purchases of a CD shop, with a report (a minute)"
	@echo "make flights  private models of real flights, hour by hour, beside the same without noise"
	@echo "make test     lint, format, types and the whole test suite"
	@echo "make lint     lint, format and types only"
	@echo "make bench    the benchmarks, each beside its peer"
	@echo "make clean    removes .venv, caches and what the demo wrote"

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "weir needs Python 3.11 or 3.12: install it, or make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "weir: making a virtual environment in $(VENV)" >&2
	@$(PYTHON) -m venv $(VENV)

# One stamp for what the demo needs, one for the tests: an install runs again when the metadata change.
$(VENV)/.installed: setup.py pyproject.toml | $(BIN)/python
	@echo "weir: installing (a minute or two the first time)" >&2
	@start=$$SECONDS; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -e . \
		2> >(grep -v -i notice >&2 || true) | $(PROGRESS); \
		echo "weir: installed in $$((SECONDS - start)) s" >&2
	@touch $@

$(VENV)/.installed-test: setup.py pyproject.toml | $(BIN)/python
	@echo "weir: installing with what the tests need (a minute or two the first time)" >&2
	@start=$$SECONDS; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -e '.[test]' \
		2> >(grep -v -i notice >&2 || true) | $(PROGRESS); \
		echo "weir: installed in $$((SECONDS - start)) s" >&2
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	@$(BIN)/python -m pipelines.demo

flights: $(VENV)/.installed
	@$(BIN)/python -m pipelines.flights

lint: $(VENV)/.installed-test
	@$(BIN)/ruff check --quiet setup.py $(PACKAGES) && echo "ruff check: clean"
	@$(BIN)/ruff format --quiet --check setup.py $(PACKAGES) && echo "ruff format: clean"
	@$(BIN)/mypy --strict dpcore

test: lint
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests

bench: $(VENV)/.installed-test
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file"; done

clean:
	rm -rf examples/out examples/purchases.csv examples/flights-out examples/flights.csv
	rm -rf $(VENV) .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
