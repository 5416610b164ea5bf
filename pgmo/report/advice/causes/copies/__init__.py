"""Causes: additional copies of weights."""
