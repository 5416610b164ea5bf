"""The parts of the model of PyTorch's caching allocator behind `profiler.caching_model`."""
