"""Importer of PyTorch memory snapshots. It never executes code from a snapshot."""
