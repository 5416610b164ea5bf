# `make help` lists the targets. Most targets create the virtual environment .venv if there is none.

PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin
READY  := $(VENV)/.ready
NATIVE := $(shell find csrc -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
# Many tests wait for child processes, so there is one worker more than processors. A worker may
# import torch, which takes much memory, so there are at most four. Tests of one file share builds,
# so they run in one worker. Notebooks, the files of tests/ and docstrings run in this order, because
# the file order of `loadfile` would start files with few long tests last.
WORKERS  := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARALLEL ?= --numprocesses $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# Waiting OpenMP threads sleep instead of spinning.
test test-all: export OMP_WAIT_POLICY = PASSIVE
# Notebooks that `make test` runs. It runs only the .py files of the other notebooks, which is faster.
QUICK_NOTEBOOKS = $(wildcard notebooks/0[45]_*.ipynb)
FUZZ_INPUTS ?= 1000000
KILLS ?= 1000
# C++ files outside of csrc that are formatted and linted.
ASIDE  := $(shell find tests bench packaging -name '*.cpp' -o -name '*.hpp' -o -name '*.h')

# pip also applies these constraints in the isolated environment that builds pgmo.
export PIP_CONSTRAINT := $(abspath constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all fuzz share-kills lint format stubs docs picture notebooks bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with all development tools

# The installation is editable: after a change of native code, this rule builds the module again.
# With --no-compile, pip does not compile 16,000 Python files, most of which are never imported.
$(READY): pyproject.toml setup.py constraints.txt $(NATIVE)
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet --no-compile --editable '.[dev,torch]'
	@touch $@

demo: $(READY)  ## train a ResNet without and with pgmo, on the CPU, and compare
	$(RUN)/python examples/resnet.py

test: lint  ## run the tests that need neither a GPU nor a CUDA build of PyTorch, without slow tests
	$(RUN)/python -m pytest $(PARALLEL) --doctest-modules --nbmake $(QUICK_NOTEBOOKS) tests pgmo -m "not slow"

test-all: lint  ## run all tests: also slow ones, sanitizers, the stub runtime, 100,000 corrupted files
	$(RUN)/python -m pytest $(PARALLEL) --doctest-modules --nbmake notebooks tests pgmo
	$(MAKE) sanitize share-kills
	$(MAKE) fuzz FUZZ_INPUTS=100000
	$(MAKE) test-fakecuda FAKECUDA_ARGUMENTS="-m ''"

fuzz: $(READY)  ## read a million corrupted files, which takes hours (FUZZ_INPUTS=)
	$(RUN)/python -m tests.fuzz --inputs $(FUZZ_INPUTS)

share-kills: $(READY)  ## kill clients and brokers of `pgmo share` a thousand times (KILLS=)
	PYTHONPATH=. $(RUN)/python -m tests.unit.share.kills --kills $(KILLS)

lint: $(READY)  ## check style and types
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports --no-cache
	$(RUN)/python -m tests.documentation.prose
	$(RUN)/clang-format --dry-run --Werror $(NATIVE) $(ASIDE)

format: $(READY)  ## format all code
	$(RUN)/ruff check --fix --quiet . || true
	$(RUN)/ruff format --quiet .
	$(RUN)/clang-format -i $(NATIVE) $(ASIDE)

stubs: $(READY)  ## write pgmo/_core.pyi from the native module
	$(RUN)/python tests/stubs.py --write

docs: $(READY)  ## build the documentation site in build/site
	$(RUN)/python -m sphinx -W --keep-going -b html docs build/site
	@echo "Wrote build/site/index.html"

notebooks: $(READY)  ## write notebooks/*.ipynb from the .py files beside them
	$(RUN)/jupytext --sync notebooks/*.py

picture: $(READY)  ## draw docs/plan.svg of examples/resnet.py
	$(RUN)/python examples/resnet.py --save build/resnet
	$(RUN)/python docs/picture.py build/resnet/resnet.pgmoprof build/resnet/resnet.pgmoplan

# `make bench BENCH_ARGUMENTS=--quick` runs each benchmark at a small size.
CPU_BENCHES = cpu_training engine packing planning real_programs recompute

bench: $(READY)  ## run the benchmarks of the CPU; results go to bench/results
	@for name in $(CPU_BENCHES); do \
	  echo "== $$name"; $(RUN)/python bench/$$name.py $(BENCH_ARGUMENTS) || exit 1; done

clean:  ## remove build results and caches; .venv stays
	rm -rf $(READY) build dist *.egg-info pgmo/_core*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis

include packaging/packaging.mk
include tests/native/native.mk
include tests/fakecuda/fakecuda.mk
include tests/gpu/gpu.mk
