# make demo · make test · make lint · make bench: each creates .venv from the lock if it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := workflow tests examples

.PHONY: demo test lint format bench clean
demo: .venv/.installed
	$(BIN)/snakemake all --logger rich

test: .venv/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/unit --numprocesses auto
	$(BIN)/python -m pytest tests/workflow tests/browser tests/slurm --numprocesses 2 --dist loadfile --durations 15

lint: .venv/.installed
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/mypy
	$(BIN)/snakemake --lint

format: .venv/.installed
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/snakefmt Snakefile workflow/rules

bench: .venv/.installed
	$(BIN)/python -m pytest tests/benchmarks -s

.venv/.installed: envs/requirements.lock
	@echo "Installing the pinned environment into .venv: a minute or two, about 2 GB with torch."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement envs/requirements.lock
	touch $@

clean:
	rm -rf .venv
