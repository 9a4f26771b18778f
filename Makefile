# Every target sets itself up: a machine with Python >= 3.11 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUN := $(BIN)/python -m
# two workers share two cores: matrix libraries must not start threads of their own
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) pytest
SOURCES := pyproject.toml papers/pyproject.toml benchmarks/pyproject.toml $(wildcard requirements/*.txt)
WORKERS ?= 2
QUICK := not slow and not spark and not peers and not lightning
# a lane leaves packages out on purpose: what it skips is listed, also in CI
LANE := CALIBRANT_SKIPS=list OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# the Python of `make test-py`
PY ?= 3.12

.PHONY: demo environment test coverage frozen test-slow test-spark test-peers test-lightning test-oldest test-plain test-py test-bare axe lint fuzz fuzz-night test-fuzz format changelog docs papers papers-book bench bench-growth bench-night nightly clean

demo: $(VENV)/.bare  ## the whole story on real data, then a report
	$(BIN)/calibrant demo

environment: $(VENV)/.dev  ## everything the tests and checks need, in .venv

test: $(VENV)/.dev  ## everything that needs no cluster, no peer library and no long simulation
	$(PYTEST) -n $(WORKERS) --dist loadfile -m "$(QUICK)" $(if $(COVERAGE),--cov --cov-report=)
	$(if $(COVERAGE),$(BIN)/python .ci/floors.py)

coverage:  ## the same tests, and how much of each subpackage they run
	$(MAKE) test COVERAGE=1

frozen: $(VENV)/.dev  ## what users see, beside the stored answers: prints what moved; ARGS='--write --why "reason"' stores it
	cd tests && OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 ../$(BIN)/python -m frozen $(ARGS)

test-slow: $(VENV)/.dev  ## coverage of intervals, size of tests, bias, long training
	$(PYTEST) -n $(WORKERS) --dist worksteal -m slow

test-spark: $(VENV)/.spark  ## real pyspark on Java 17
	$(PYTEST) -m spark $$(grep -rl --include='test_*.py' 'mark\.spark' tests)

test-peers: $(VENV)/.dev  ## against other libraries; installs them into an environment of their own
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet torch==2.13.0
	.venv-peers/bin/python -m pip install --quiet -e '.[plots,engines]' -e papers -e benchmarks -r requirements/dev.txt -r requirements/bench.txt
	$(LANE) .venv-peers/bin/python -m pytest -m peers tests papers benchmarks

test-lightning: $(VENV)/.dev  ## torchmetrics, Lightning and Hugging Face, in an environment of their own
	$(PYTHON) -m venv .venv-lightning
	.venv-lightning/bin/python -m pip install --quiet torch==2.13.0
	.venv-lightning/bin/python -m pip install --quiet -e '.[torchmetrics,lightning]' -r requirements/lightning.txt
	$(LANE) .venv-lightning/bin/python -m pytest -m lightning tests/training

test-oldest:  ## the oldest supported versions of the required packages and of the extras, without torch
	$$(.ci/python 3.11) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet -e '.[plots,engines,onnx]' -e papers -e benchmarks -r requirements/tests.txt -c requirements/oldest.txt
	$(LANE) .venv-oldest/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "$(QUICK)" src tests

test-plain:  ## the tests on an install without extras
	$(PYTHON) -m venv .venv-plain
	.venv-plain/bin/python -m pip install --quiet -e . -e papers -e benchmarks -r requirements/tests.txt
	$(LANE) .venv-plain/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "$(QUICK)" src tests

test-py:  ## the tests on another Python, without torch: make test-py PY=3.13
	$${PROGRAM:-$$(.ci/python $(PY))} -m venv .venv-py$(PY)
	.venv-py$(PY)/bin/python -m pip install --quiet -e '.[plots,engines,onnx]' -e papers -e benchmarks -r requirements/dev.txt
	$(LANE) .venv-py$(PY)/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "$(QUICK)" src tests

axe: .axe/node_modules/axe-core/axe.min.js  ## the accessibility checks of the browser tests, through npm

.axe/node_modules/axe-core/axe.min.js:
	npm install --silent --no-fund --no-audit --prefix .axe axe-core@4.10

test-bare:  ## a plain install evaluates every file type and writes the report
	bash tests/bare.sh

# seconds of `make fuzz`
SECONDS ?= 600
# workers side by side
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

fuzz: $(VENV)/.dev  ## inputs nobody would write, for SECONDS seconds; INPUTS=12000 SEED=0 runs the same ones everywhere
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python fuzz/run.py --jobs $(JOBS) \
	  $(if $(INPUTS),--inputs $(INPUTS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

fuzz-night:  ## two hours of it
	$(MAKE) fuzz SECONDS=7200

test-fuzz: fuzz-night

lint: $(VENV)/.dev  ## style, types, import contracts, dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/text.py
	$(RUN) mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src
	cd papers && ../$(BIN)/deptry src
	cd benchmarks && ../$(BIN)/deptry src

format: $(VENV)/.dev  ## rewrite the code in the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

changelog:  ## CHANGELOG.md from its fragments, and the index of the decisions
	$(PYTHON) changelog.d/build.py
	$(PYTHON) decisions/index.py

nightly:  ## what is too long for every change: all lanes, one after another
	.ci/nightly

docs: $(VENV)/.docs  ## the documentation, offline, warnings are errors
	$(RUN) sphinx -W --keep-going -q -b html docs docs/_build/html

papers: $(VENV)/.dev  ## every table and figure of the papers, quick; FULL=1 at full size (hours), SHARD=2/4 a part; goes on from what is finished in papers/results
	$(BIN)/calibrant reproduce all $(if $(FULL),,--quick) $(if $(SHARD),--shard $(SHARD)) --results papers -o out/papers
	cp out/papers/targets.md out/papers/papers.md docs/tables/

papers-book: $(VENV)/.dev  ## the two tables of the papers from what is finished in papers/results; runs nothing
	$(BIN)/calibrant reproduce all --report --results papers -o out/papers
	cp out/papers/targets.md out/papers/papers.md docs/tables/

bench: .venv-bench/.ready  ## our speed beside other libraries, in one run, in an environment of its own
	.venv-bench/bin/calibrant bench -o docs/tables/bench.md -o docs/tables/bench.json

bench-growth: .venv-bench/.ready  ## time per number for 10⁴ to 10⁸ rows and 2 to 10⁴ classes: table and plots
	.venv-bench/bin/calibrant bench --growth -o docs/tables/growth.md -o docs/tables/growth.json

bench-night: .venv-bench/.ready  ## fails where a race lost more than 20% against the stored ratios
	.venv-bench/bin/calibrant bench --compare docs/tables/bench.json

.venv-bench/.ready: $(SOURCES)
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet torch==2.13.0
	.venv-bench/bin/python -m pip install --quiet -e '.[engines,plots]' -e papers -e benchmarks
	while read -r peer; do case "$$peer" in ''|'#'*) ;; *) .venv-bench/bin/python -m pip install --quiet "$$peer" </dev/null || echo "absent: $$peer";; esac; done < requirements/bench.txt
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip

$(VENV)/.bare: $(VENV)/bin/python pyproject.toml
	$(PIP) -e .
	touch $@

# torch comes first and pinned, so that nothing pulls another build
$(VENV)/.dev: $(VENV)/.bare $(SOURCES)
	$(PIP) torch==2.13.0
	$(PIP) -e '.[plots,torch,engines,onnx]' -e papers -e benchmarks -r requirements/dev.txt
	touch $@

$(VENV)/.spark: $(VENV)/.dev
	$(PIP) -e '.[spark]'
	touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) -r requirements/docs.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-* .coverage .coverage.* docs/_build docs/gallery docs/generated
