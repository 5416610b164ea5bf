"""Dry run of a step: finds its graphs and the memory of other code, and undoes all changes."""
