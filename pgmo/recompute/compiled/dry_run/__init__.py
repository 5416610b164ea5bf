"""Dry run: a step whose changes are undone, to find its graphs and the memory of other code."""
