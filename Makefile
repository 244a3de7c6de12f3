# Everything here is one command from a fresh clone. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh

# The newest Python 3.11+ on the PATH, unless one is named: make install PYTHON=/path/to/python3
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
MODEL ?= starter
ARGS ?=

.PHONY: help install dev serve test test-slow test-random test-families check bench completions docs pictures lock platforms clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: .venv/installed ## Make .venv and install mlxbun with the locked dependencies

serve: .venv/installed ## Serve the starter model (MODEL=... for another, ARGS=... for flags)
	@$(BIN)/mlxbun serve $(MODEL) $(ARGS)

dev: .venv/dev-installed ## install, and the tools of the workshop

test: .venv/dev-installed ## Unit tests, and behaviour on the starter (budget: 15 minutes, 2 cores)
	@$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile $(ARGS)

test-slow: .venv/dev-installed ## The long suites (budget: 45 minutes, 2 cores)
	@$(BIN)/python -m pytest -m slow --durations=10 $(ARGS)

test-random: .venv/dev-installed ## Property tests with new random examples each time
	@$(BIN)/python -m pytest --hypothesis-profile=random -n 2 --dist loadfile \
		$$(grep -rlE '^from hypothesis' tests --include='test_*.py') $(ARGS)

test-families: .venv/dev-installed ## Every family against mlx-lm's own loop; writes docs/families.md
	@$(BIN)/python -m tests.families.table $(ARGS)

check: .venv/dev-installed ## Lint, format, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: .venv/dev-installed ## Measure against mlx_lm.server in one run
	@$(BIN)/python -m benchmarks.serve $(ARGS)

completions: .venv/dev-installed ## Make the scripts for Tab, and their table of verbs, from the app
	@$(BIN)/python -m mlxbun_cli.completion.generate

docs: .venv/dev-installed ## Write docs/cli.md, and the pictures in it that are the same everywhere
	@$(BIN)/python -m scripts.docs

pictures: .venv/dev-installed ## The same, and the pictures that depend on this machine
	@$(BIN)/python -m scripts.docs --all

lock: .venv/dev-installed ## Resolve the dependencies again for every platform
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/lock.sh

platforms: .venv/dev-installed ## Check by dry runs that the lock installs on every platform
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/platforms.sh

clean: ## Remove .venv and what tools leave behind; models stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps lie inside .venv, so that removing it starts over. pip checks every hash; --no-deps
# because the lock is complete and leaves out what xgrammar asks for in vain (CONTRIBUTING.md).
.venv/installed: requirements/runtime.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "mlxbun needs Python 3.11 or newer: install it, or name one with PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { rm -rf .venv; echo "python3 -m venv failed: on Debian and Ubuntu run 'apt install python3-venv'"; exit 1; }
	@echo "Installing mlxbun into .venv ..."
	@$(PIP) --no-deps --require-hashes -r requirements/runtime.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.venv/dev-installed: .venv/installed requirements/dev.txt
	@echo "Installing the workshop's tools ..."
	@$(PIP) --no-deps --require-hashes -r requirements/dev.txt
	@touch $@
