"""Costs of operators: time, memory in addition to their results, and the measurement of both."""
