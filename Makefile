# make demo · test · test-slow · lint · docs · site · bench: each creates .venv from the lock if it is missing or out of date.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := workflow tests benchmarks examples

.PHONY: demo test test-slow lint format docs site bench clean
demo: .venv/.installed
	@echo "Five papers at a small scale: some thousand networks, most of them tiny, in minutes on two cores, without a download of data."
	@if [ -t 1 ]; then $(BIN)/snakemake all --logger rich; else $(BIN)/snakemake all --quiet rules reason host; fi

# Where Python is told to keep no compiled modules, each of the tests' many processes compiles all of them again.
test: .venv/.installed
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadfile

test-slow: .venv/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --numprocesses 2 --dist loadfile --durations 15

lint: .venv/.installed
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakemake --lint

format: .venv/.installed
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/snakefmt Snakefile workflow/Snakefile workflow/rules

docs: .venv/.installed
	$(BIN)/python -m symlab.pipeline.docs

site: .venv/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/.installed
	$(BIN)/python benchmarks/run.py

.venv/.installed: envs/requirements.lock pyproject.toml
	@echo "Installing the pinned environment into .venv: some minutes, 2 GB with torch for CPUs, 6 GB with CUDA."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement envs/requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.venv/.installed-docs: .venv/.installed envs/docs.lock
	$(BIN)/python -m pip install --quiet --requirement envs/docs.lock --constraint envs/requirements.lock
	touch $@

clean:
	rm -rf .venv
