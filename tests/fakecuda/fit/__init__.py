"""Answers of `pgmo fit` with the CUDA build of PyTorch, compared with runs."""
