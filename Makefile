# Everything runs in a local environment, .venv, which these targets set up.
PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
LIBRARY := $(VENV)/.library
READY := $(VENV)/.ready

.PHONY: demo test test-quick lint types laws core reproduce reproduce-quick benchmarks benchmarks-codes benchmarks-solvers benchmarks-scale benchmarks-answers build docs clean

demo: $(LIBRARY)  ## robust PCA of a video, three solvers on digits; prints tables, draws pictures into demo-output/
	$(BIN)/vrmf demo --output demo-output

test: lint types laws  ## everything that must be right before a change is taken

test-quick: $(READY)  ## each part of the library once, in about a minute on two idle cores
	$(BIN)/python -m pytest -n 2 -m "not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

laws: $(READY)
	$(BIN)/python -m pytest -n 2

core:  ## the library with nothing but what it needs, in an environment of its own
	$(PYTHON) -m venv --clear build/core
	build/core/bin/python -m pip install --quiet .
	build/core/bin/python tests/core_alone.py

reproduce-quick: $(READY)  ## the paper's experiments and theory, small, in under ten minutes, without any download
	$(BIN)/python -m experiments --quick

reproduce: $(READY)  ## the same at the size of docs/reproduction.md, about two hours; images from VRMF_DATA or the internet
	$(BIN)/python -m pip install --quiet --editable ".[benchmarks]"
	$(BIN)/python -m experiments --synth-rows 10000

benchmarks: benchmarks-codes benchmarks-solvers benchmarks-scale benchmarks-answers  ## against peers; images from the folder VRMF_DATA or the internet

benchmarks-codes: $(READY)  ## about half an hour
	$(BIN)/python -m pip install --quiet --editable ".[benchmarks]"
	$(BIN)/python -m benchmarks.coding

benchmarks-solvers: $(READY)  ## about two hours
	$(BIN)/python -m pip install --quiet --editable ".[benchmarks]"
	$(BIN)/python -m benchmarks.solvers
	$(BIN)/python -m benchmarks.starts
	$(BIN)/python -m benchmarks.nmf_error

benchmarks-scale: $(READY)  ## about an hour, with a file of 8 GB in the folder for temporary files
	$(BIN)/python -m benchmarks.out_of_core
	$(BIN)/python -m benchmarks.clusters
	$(BIN)/python -m benchmarks.scale_model

benchmarks-answers: $(READY)  ## about two hours: what defaults leave to gain, how often they end in a poor minimum, what is recovered
	$(BIN)/python -m benchmarks.certificate
	$(BIN)/python -m benchmarks.nmf_error
	$(BIN)/python -m benchmarks.starts
	$(BIN)/python -m benchmarks.recovery
	$(BIN)/python -m benchmarks.suggest

docs: $(LIBRARY)  ## the site of the documentation, into build/docs; runs the examples, fails on warnings and broken links
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/vrmf warmup --quiet
	$(BIN)/python -m sphinx -W --keep-going -n -b html -d build/doctrees docs build/docs

build: $(READY)  ## a wheel and a source archive in dist/
	$(BIN)/python -m build

$(LIBRARY): pyproject.toml  # the library and what it needs, no tools
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'vrmf needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[all]"
	$(BIN)/python -c "open('$(LIBRARY)', 'w').close()"

$(READY): $(LIBRARY)  # the tools of developers as well
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -c "open('$(READY)', 'w').close()"

clean:
	rm -rf docs/api/generated docs/gallery docs/repository
	rm -rf $(VENV) build dist demo-output reproduction reproduction-quick .pytest_cache .mypy_cache .ruff_cache
