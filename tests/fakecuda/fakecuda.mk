# Tests on the real CUDA build of PyTorch, without a GPU.
#
#   make test-fakecuda                          in the environment .venv-fakecuda: several gigabytes
#   make test-fakecuda FAKECUDA_PYTHON=PYTHON   with a Python that has pgmo's dependencies, pytest,
#                                               timm, diffusers and a CUDA build of torch
#   make test-fakecuda FAKECUDA_ARGUMENTS='-m slow'   the slow tests, which the other commands leave out

FAKECUDA_OUT    ?= build/fakecuda
FAKECUDA_VENV   ?= .venv-fakecuda
FAKECUDA_PYTHON ?= $(FAKECUDA_VENV)/bin/python
FAKECUDA_TORCH  ?= 2.11.0
# Each worker imports the CUDA build of torch, so there are at most four. Tests of one file share
# rehearsals, so they run in one worker. Files run in the order of their names, because the file order
# of `loadfile` would start the longest files last.
FAKECUDA_PARALLEL ?= --numprocesses logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# PyPI's wheels of torch for Linux are CUDA builds. Git ignores the environment. If the checkout
# contains a native module, which make setup builds, pgmo is not compiled again.
$(FAKECUDA_VENV)/bin/python:
	@echo "Installs the CUDA build of torch $(FAKECUDA_TORCH), CuPy, timm and diffusers in $(FAKECUDA_VENV): several gigabytes"
	$(PYTHON) -m venv $(FAKECUDA_VENV)
	@echo '*' > $(FAKECUDA_VENV)/.gitignore
	$(FAKECUDA_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(if $(wildcard pgmo/_core.*.so),PGMO_NATIVE=0) PIP_CONSTRAINT= $(FAKECUDA_VENV)/bin/python -m pip install --quiet --editable '.[dev]' \
	  torch==$(FAKECUDA_TORCH) 'cupy-cuda13x>=14' timm diffusers || { rm -rf $(FAKECUDA_VENV); exit 1; }

.PHONY: fakecuda
fakecuda: $(FAKECUDA_PYTHON)
	$(FAKECUDA_PYTHON) pgmo/rehearsal/build.py --out $(FAKECUDA_OUT)

# Digest of everything that these tests import, compile or read, except installed packages. The file
# tested.sha256 has the digest of the sources that have passed `make test-fakecuda`. If both digests are
# equal, .ci/run skips these tests. Only the usual tests, or all, in the usual environment are recorded.
STUB_TESTED = tests/fakecuda/tested.sha256
STUB_DIGEST = find pgmo csrc bench examples tests docs/guides pyproject.toml setup.py constraints.txt conftest.py \
  -type f ! -path '*/__pycache__/*' ! -path 'pgmo/_prebuilt/*' ! -path 'bench/results/*' ! -path 'bench/*.md' ! -name '*.so' ! -name '*.sha256' \
  | LC_ALL=C sort | xargs sha256sum | sha256sum
.PHONY: stub-digest is-tested-on-stub
stub-digest:
	@$(STUB_DIGEST)
is-tested-on-stub:
	@$(STUB_DIGEST) | cmp -s - $(STUB_TESTED)

.PHONY: test-fakecuda
test-fakecuda: fakecuda  ## run real training loops on the CUDA build of PyTorch, without a GPU
	@PYTHONPATH=. $(FAKECUDA_PYTHON) -c 'import pgmo._core' 2> /dev/null || \
	  $(FAKECUDA_PYTHON) tests/gpu/build_native.py
	@$(STUB_DIGEST) > $(FAKECUDA_OUT)/tested.sha256
	PYTHONPATH=. FAKECUDA_DEVICES=2 OMP_WAIT_POLICY=PASSIVE \
	  $(FAKECUDA_OUT)/run $(FAKECUDA_PYTHON) -m pytest $(FAKECUDA_PARALLEL) \
	  tests/fakecuda -m "not slow" $(FAKECUDA_ARGUMENTS)
	PYTHONPATH=. OMP_WAIT_POLICY=PASSIVE \
	  $(FAKECUDA_OUT)/run $(FAKECUDA_PYTHON) -m pytest $(FAKECUDA_PARALLEL) \
	  tests/gpu -m "not slow" $(FAKECUDA_ARGUMENTS)
	@$(if $(filter-out -m '',$(FAKECUDA_ARGUMENTS)),,\
	  $(if $(filter $(FAKECUDA_VENV)/bin/python,$(FAKECUDA_PYTHON)),cp $(FAKECUDA_OUT)/tested.sha256 $(STUB_TESTED)))

.PHONY: bench-fakecuda
bench-fakecuda: fakecuda  ## measure device memory on the CUDA build of PyTorch, without a GPU
	$(FAKECUDA_PYTHON) bench/fakecuda_memory.py --stub $(FAKECUDA_OUT)
	$(FAKECUDA_PYTHON) bench/fakecuda_recompute.py --stub $(FAKECUDA_OUT)
	$(FAKECUDA_PYTHON) bench/fakecuda_card.py --stub $(FAKECUDA_OUT)
	$(FAKECUDA_PYTHON) bench/sharing.py --stub $(FAKECUDA_OUT)
	$(FAKECUDA_PYTHON) bench/never_worse.py --stub $(FAKECUDA_OUT)
	$(FAKECUDA_PYTHON) bench/never_worse.py --stub $(FAKECUDA_OUT) --short
	$(FAKECUDA_PYTHON) bench/real_programs.py --on-stub --stub $(FAKECUDA_OUT)
	$(FAKECUDA_PYTHON) bench/fakecuda_memory.py --sekiyama --stub $(FAKECUDA_OUT)
	PYTHONPATH=. $(FAKECUDA_PYTHON) bench/fit.py
	PYTHONPATH=. $(FAKECUDA_PYTHON) bench/what_if.py

.PHONY: check-model
check-model: fakecuda  ## compare the model of PyTorch's allocator with the genuine one
	PYTHONPATH=. $(FAKECUDA_OUT)/run $(FAKECUDA_PYTHON) tests/fakecuda/check_model.py \
	  --programs 20 --record tests/unit/profiler/caching/recorded_reserved.json
