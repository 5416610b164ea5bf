"""`pgmo fit` on the CUDA build of PyTorch: what it says is what then happens."""
