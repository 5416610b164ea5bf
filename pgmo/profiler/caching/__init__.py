"""The parts of the model of PyTorch's caching allocator: `model.py` puts them together."""
