"""Hooks on PyTorch that report what the CUDA adapter cannot derive from allocations."""
