# `make help` lists the targets. Each creates the virtual environment .venv if there is none.

PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin
READY  := $(VENV)/.ready
NATIVE := $(shell find csrc -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
# Many tests wait for processes of their own, so there is one worker more than processors. Each may
# hold torch, hence no more than four; the tests of one file share what they build.
WORKERS  := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARALLEL ?= --numprocesses $(WORKERS) --maxprocesses 4 --dist loadfile
# Threads that wait for work leave the processor to others.
test test-all: export OMP_WAIT_POLICY = PASSIVE
# Jupyter starts a process for each notebook. Of the others make test runs the scripts beside them.
QUICK_NOTEBOOKS = $(wildcard notebooks/0[45]_*.ipynb)
FUZZ_INPUTS ?= 1000000
KILLS ?= 1000
# Further C++ that is kept in style.
ASIDE  := $(shell find tests bench packaging -name '*.cpp' -o -name '*.hpp' -o -name '*.h')

# For the isolated environment of the build, too.
export PIP_CONSTRAINT := $(abspath constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all fuzz share-kills lint format stubs docs picture notebooks bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with everything that development needs

# Installed in place: a change of Python code needs nothing, one of native code a rebuild. Of sixteen
# thousand files of packages most are never imported: those that are get compiled then.
$(READY): pyproject.toml setup.py constraints.txt $(NATIVE)
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip
	$(RUN)/python -m pip install --quiet --no-compile --editable '.[dev,torch]'
	@touch $@

demo: $(READY)  ## train a ResNet without and with pgmo, on the CPU, and compare
	$(RUN)/python examples/resnet.py

test: lint  ## run the tests that need neither a GPU nor its PyTorch, but for the slow ones
	$(RUN)/python -m pytest $(PARALLEL) --doctest-modules --nbmake pgmo tests $(QUICK_NOTEBOOKS) -m "not slow"

test-all: lint  ## and what takes long: all mutants, full attacks, sanitizers, the stub, a million changed files
	$(RUN)/python -m pytest $(PARALLEL) --doctest-modules --nbmake pgmo tests notebooks
	$(MAKE) sanitize fuzz share-kills
	$(MAKE) test-fakecuda FAKECUDA_ARGUMENTS="-m ''"

fuzz: $(READY)  ## read a million files that were changed to harm (FUZZ_INPUTS=)
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

# `make bench BENCH_ARGUMENTS=--quick` shows in a minute that all of them work.
CPU_BENCHES = cpu_training engine packing planning real_programs recompute

bench: $(READY)  ## measure every claim that a CPU can; results go to bench/results
	@for name in $(CPU_BENCHES); do \
	  echo "== $$name"; $(RUN)/python bench/$$name.py $(BENCH_ARGUMENTS) || exit 1; done

clean:  ## remove what was built; the virtual environment stays
	rm -rf $(READY) build dist *.egg-info pgmo/_core*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis

include packaging/packaging.mk
include tests/native/native.mk
include tests/fakecuda/fakecuda.mk
include tests/gpu/gpu.mk
