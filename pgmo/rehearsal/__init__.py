"""A CUDA runtime without a GPU, on which the real CUDA build of PyTorch runs and takes memory."""
