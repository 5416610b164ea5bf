"""PyTorch memory snapshots: what they hold, read without running anything in them."""
