# Benchmarks of bench/gpu and tests of tests/gpu, which need a GPU. Parts without a result run first.
#
#   make gpu-check RESULTS=dir    takes under nine minutes; without a GPU, prints a message and exits with 0
#
# Uses the system's Python with its torch, without a virtual environment or a network. Missing packages
# can be wheels in PYTHONPATH.

GPU_PYTHON ?= python3
RESULTS    ?= bench/results/gpu

.PHONY: gpu-check
gpu-check:  ## build, test and measure on a GPU; results go to RESULTS
	$(GPU_PYTHON) tests/gpu/check.py --results $(RESULTS)
