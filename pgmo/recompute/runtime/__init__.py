"""Execution of a planned step instead of the model's own."""
