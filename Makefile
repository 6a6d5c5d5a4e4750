# Two commands: `make demo` and `make test`. Both build their own virtual environment first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.installed

.PHONY: demo test lint bench benchmarks claims clean

demo: $(DONE)
	$(BIN)/dppca-odp demo --out demo-output

test: $(DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto

bench: $(DONE)
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python benchmarks/ledger.py

benchmarks: $(DONE)
	$(BIN)/python -m benchmarks

claims: $(DONE)
	$(BIN)/python -m benchmarks.claims

clean:
	rm -rf $(VENV) demo-output

$(DONE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[demo,test]"
	touch $(DONE)
