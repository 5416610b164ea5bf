"""Model of PyTorch's caching allocator, without a GPU: settings and simulation."""
