"""Unified memory, for profiling or running a model that does not fit on the card."""
