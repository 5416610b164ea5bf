"""Hooks on PyTorch that report events to the CUDA adapter that allocations do not show."""
