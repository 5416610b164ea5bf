"""Importer of PyTorch memory snapshots, which never executes their content."""
