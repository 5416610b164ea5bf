"""Offloading of values to the host: transfer times, and first choices of a search."""
