"""Unified memory, to profile or run a model that does not fit on the card."""
