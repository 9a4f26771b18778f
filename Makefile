# Every target sets itself up: a machine with Python >= 3.11 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUN := $(BIN)/python -m
# two workers share two cores: matrix libraries must not start threads of their own
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) pytest
SOURCES := pyproject.toml $(wildcard requirements/*.txt)

.PHONY: demo test test-slow test-spark test-peers test-oldest test-bare lint docs bench clean

demo: $(VENV)/.bare  ## the whole story on real data, then a report
	$(BIN)/calibrant demo

test: $(VENV)/.dev  ## everything that needs no cluster, no peer library and no long simulation
	$(PYTEST) -n 2 --dist loadfile -m "not slow and not spark and not peers"

test-slow: $(VENV)/.dev  ## coverage of intervals, size of tests, bias, long training
	$(PYTEST) -n 2 --dist worksteal -m slow

test-spark: $(VENV)/.spark  ## real pyspark on Java 17
	$(PYTEST) -m spark tests

test-peers: $(VENV)/.dev  ## against other libraries; installs them into an environment of their own
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet torch==2.13.0
	.venv-peers/bin/python -m pip install --quiet -e '.[plots,engines]' -r requirements/dev.txt -r requirements/bench.txt
	.venv-peers/bin/python -m pytest -m peers tests

test-oldest:  ## the oldest supported versions of the required packages
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet -e . pytest hypothesis pytest-xdist -c requirements/oldest.txt
	.venv-oldest/bin/python -m pytest -n 2 -m "not slow and not spark and not peers" tests/contracts tests/core tests/golden

test-bare:  ## a plain install evaluates every file type and writes the report
	bash tests/bare.sh

lint: $(VENV)/.dev  ## style, types, import contracts, dependencies
	$(BIN)/ruff check src tests docs examples
	$(RUN) mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

docs: $(VENV)/.docs  ## the documentation, offline, warnings are errors
	$(RUN) sphinx -W --keep-going -q -b html docs docs/_build/html

bench:  ## our speed beside other libraries, in one run, in an environment of its own
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet torch==2.13.0
	.venv-bench/bin/python -m pip install --quiet -e '.[fast,engines,plots]'
	while read -r peer; do case "$$peer" in ''|'#'*) ;; *) .venv-bench/bin/python -m pip install --quiet "$$peer" || echo "absent: $$peer";; esac; done < requirements/bench.txt
	.venv-bench/bin/calibrant bench -o docs/tables/bench.md

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip

$(VENV)/.bare: $(VENV)/bin/python pyproject.toml
	$(PIP) -e .
	touch $@

# torch comes first and pinned, so that nothing pulls another build
$(VENV)/.dev: $(VENV)/.bare $(SOURCES)
	$(PIP) torch==2.13.0
	$(PIP) -e '.[plots,torch,engines,onnx]' -r requirements/dev.txt
	touch $@

$(VENV)/.spark: $(VENV)/.dev
	$(PIP) -e '.[spark]'
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) -r requirements/docs.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-bench .venv-peers .venv-oldest docs/_build docs/gallery docs/generated
