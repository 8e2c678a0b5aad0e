# Everything runs in .venv, made by the first Python of 3.11 to 3.14 that is found (or PYTHON=...) from constraints.txt.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test lint format coverage bench docs test-lowest again constraints clean
MAKEFLAGS += --no-print-directory

PYTHON ?=
BIN := .venv/bin
READY := .venv/.ready
LOWEST := .venv-lowest
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without compiled files each of the many processes that the tests start would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Sets $$python to an interpreter that can make a virtual environment.
FIND_PYTHON = for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 ""; do \
	$${python:-false} -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && break; done; \
	[ -n "$$python" ] || { echo "No Python 3.11 to 3.14 with venv found: give one as PYTHON=/path/to/python" >&2; exit 1; }

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

# All hashes are checked; then the project itself goes in without asking for anything more.
$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv (once; a minute or two)"
	@[ -x $(BIN)/python ] || { $(FIND_PYTHON); "$$python" -m venv .venv; }
	@$(BIN)/python -m pip install -qq --require-hashes --requirement constraints.txt
	@$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## an agent asks for approval, its process ends, another carries on
	@PATH="$(CURDIR)/$(BIN):$$PATH" graphs/desk/demo.sh

test: lint ## lint, types and all tests
	@$(BIN)/python -m pytest -q -n auto --dist worksteal

lint: $(READY) ## ruff and mypy
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary

format: $(READY) ## let ruff mend and format
	@$(BIN)/ruff check --quiet --fix
	@$(BIN)/ruff format --quiet

coverage: $(READY) ## all tests, with the lines that none of them runs
	@$(BIN)/python -m pytest -q -n auto --dist worksteal --cov --cov-report=term-missing:skip-covered

bench: $(READY) ## the benchmarks, as ratios against the neighbours
	@$(BIN)/python -m benchmarks

docs: $(READY) ## the documentation as a site in site/
	@$(BIN)/zensical build --clean --strict

test-lowest: $(READY) ## the fast tests with the oldest versions that pyproject.toml allows
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct --editable '.[dev]'
	@$(LOWEST)/bin/python -m pytest -q -n auto --dist worksteal -m "not slow"

# A test of kills, races or real kernels may fail for the machine's sake: it says so by passing alone. More than a few do not.
again: ## what failed last, if it is little, once more and by itself (BIN=.venv-lowest/bin: with the oldest versions)
	@$(BIN)/python -c 'import json; failed = json.load(open(".pytest_cache/v/cache/lastfailed")); print("Once more:", *failed, sep="\n  "); exit(not 0 < len(failed) <= 5)'
	@$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none

constraints: $(READY) ## pin the newest versions in constraints.txt
	@$(BIN)/uv pip compile pyproject.toml --quiet --extra dev --universal --upgrade --generate-hashes --python-version 3.11 \
		--no-header --no-annotate --no-emit-index-url --output-file constraints.txt

clean: ## remove what was built
	@rm -rf .venv $(LOWEST) build dist site .mypy_cache .ruff_cache .pytest_cache
