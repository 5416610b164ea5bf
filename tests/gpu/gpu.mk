# What needs a GPU: the benchmarks of bench/gpu and the tests of tests/gpu, what is owed first.
#
#   make gpu-check RESULTS=dir    under nine minutes; without a GPU it says so and ends well
#
# Uses the system's Python as it is, with the torch that is installed there: no virtual environment,
# no network. Packages that are missing can come as wheels in PYTHONPATH.

GPU_PYTHON ?= python3
RESULTS    ?= bench/results/gpu

.PHONY: gpu-check
gpu-check:  ## build, test and measure on a GPU; results go to RESULTS
	$(GPU_PYTHON) tests/gpu/check.py --results $(RESULTS)
