"""Causes in programs of several ranks: DDP and FSDP."""
