"""Tagging: records module, operator and phase of each block's request."""
