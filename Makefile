# `make help` lists what there is. The work itself is in scripts/.

PYTHON ?= python3
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help quickstart setup fmt check check-python check-guest check-pages test bench docs agent clean

help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

quickstart: ## From a fresh machine to a first sandbox: install, build, run the demo
	@$(PYTHON) scripts/quickstart.py

setup: ## Install everything needed to work on Crucible; build the guest agent and the pages
	@$(PYTHON) scripts/environment.py dev

agent: setup ## Build the guest agent, if its sources changed

fmt: setup ## Format all sources
	@$(BIN)/ruff check --quiet --fix-only --exit-zero .
	@$(BIN)/ruff format .
	@$(BIN)/python scripts/agent.py format
	@$(BIN)/python scripts/web.py format

check: check-python check-guest check-pages ## Check formatting, style, types, the rooms, the Go and the web sources; changes nothing

check-python: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(if $(CI),--cache-dir=/dev/null)
	NO_COLOR=1 $(BIN)/lint-imports

check-guest: setup
	$(BIN)/python scripts/agent.py check

check-pages: setup
	$(BIN)/python scripts/web.py check

test: setup ## Run all tests: Go, the pages, then Python, then those that boot machines
	$(BIN)/python scripts/agent.py test
	$(BIN)/python scripts/web.py test
	$(BIN)/pytest -m "not vm" -n 4 --dist loadfile --no-loadscope-reorder -p no:schemathesis
	$(BIN)/python scripts/machine_tests.py

bench: setup ## Measure, and compare with what one would use instead
	$(BIN)/python -m benchmarks

docs: setup ## Write the generated pages of docs/reference, and what of the SDK is generated
	$(BIN)/python docs/reference/generate.py
	$(BIN)/python scripts/python_sdk.py

clean: ## Remove what was built here; images and sandboxes stay
	rm -rf .venv .state build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf src/crucible/_guest src/crucible/server/static web/node_modules
	find src sdk tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
