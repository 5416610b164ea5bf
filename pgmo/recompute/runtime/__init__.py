"""Execution of a planned step."""
