"""Unified memory: for taking a profile of a model that does not fit, and for running one anyway."""
