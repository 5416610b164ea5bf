"""Hooks on PyTorch that report to the CUDA adapter what no request shows."""
