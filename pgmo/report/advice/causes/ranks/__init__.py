"""Causes in distributed programs: DDP and FSDP."""
