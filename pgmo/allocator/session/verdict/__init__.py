"""Verdict on a run: memory that pgmo took, compared with plain PyTorch's reservation."""
